"""Values and gradients where formulas divide zeros, overflow or tie: norms at 0, ends of domains, singular matrices."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as F
from tensocket_operators.autograd import grad
from tensocket_operators.transforms import jvp
from tensocket_plugins.contract.errors import ArgumentError

NAN, INF = float("nan"), float("inf")


def leaf(values, dtype=tc.float64):
    return tc.tensor(values, dtype=dtype, requires_grad=True)


def gradient(function, *leaves):
    return [g.tolist() for g in grad(function(*leaves).sum(), leaves)]


def same(given, expected):
    np.testing.assert_array_equal(np.array(given), np.array(expected))


def test_lengths_with_p_0_count_infinite_differences():
    x = tc.tensor([[INF, 1.0], [2.0, 0.0]])
    assert F.cdist(x, tc.tensor([[0.0, 1.0], [2.0, 1.0]]), p=0.0).tolist() == [[1.0, 1.0], [2.0, 1.0]]
    assert F.pdist(x, p=0.0).tolist() == [2.0]
    assert F.normalize(tc.tensor([[INF, 1.0, 0.0]]), p=0.0, dim=-1).tolist() == [[INF, 0.5, 0.0]]
    assert gradient(lambda x: F.pdist(x, p=0.0), leaf([[1.0, 2.0], [3.0, 2.0]])) == [[[0.0, 0.0], [0.0, 0.0]]]


@pytest.mark.parametrize(("start", "end", "steps", "expected"), [
    (INF, 0.0, 4, [NAN, NAN, INF, NAN]), (0.0, INF, 4, [NAN, INF, NAN, NAN]), (INF, 0.0, 1, [INF]),
    (1.0, 3.0, 5, [1.0, 1.5, 2.0, 2.5, 3.0]), (1.0, 3.0, 0, [])])
def test_linspace_counts_from_the_nearer_end(start, end, steps, expected):
    same(tc.linspace(start, end, steps).tolist(), expected)


def test_the_slope_of_acosh_is_finite_beyond_minus_1():
    # 1 / sqrt(x * x - 1): a mask that multiplies it with 0 gives 0 where acosh is NaN.
    points = [-2.0, -1.0, 0.5, 1.0, 2.0, 1e200, INF, -INF]
    expected = [1 / math.sqrt(3), INF, NAN, INF, 1 / math.sqrt(3), 1e-200, 0.0, 0.0]
    np.testing.assert_allclose(gradient(tc.acosh, leaf(points))[0], expected, rtol=1e-14)
    x = leaf([-2.0, 2.0])
    assert gradient(lambda x: tc.where(x > 1, tc.acosh(x), 0.0), x)[0][0] == 0.0
    z = np.array([1.5 + 0.5j, -2.0 + 1.0j])
    found = grad(tc.acosh(w := tc.tensor(z, requires_grad=True)).real.sum(), w)[0]
    np.testing.assert_allclose(found.tolist(), np.conj(1 / (np.sqrt(z - 1) * np.sqrt(z + 1))), rtol=1e-12)


def test_the_slope_of_logit_at_both_zeros_is_plus_infinity():
    same(gradient(F.logit, leaf([0.0, -0.0, 0.5, 1.0, 2.0, -1.0])), [[INF, INF, 4.0, INF, NAN, NAN]])


def test_nextafter_and_copysign_pass_nothing_to_the_direction():
    x, y = leaf([1.0, 1.0, 2.0]), leaf([1.0, 2.0, 2.0])
    assert gradient(F.nextafter, x, y) == [[0.0, 1.0, 0.0], [0.0, 0.0, 0.0]]
    signs = leaf([1.0, -1.0, 3.0])
    assert grad((F.copysign(x, signs) * INF).sum(), signs)[0].tolist() == [0.0, 0.0, 0.0]


def test_quotients_of_huge_and_tiny_numbers_have_gradients():
    x, y = leaf([1e200, 1e-200]), leaf([1e200, 1e-200])
    np.testing.assert_allclose(gradient(lambda x, y: x / y, x, y)[1], [-1e-200, -1e200], rtol=1e-14)


def test_the_tangent_of_a_quotient_by_zero_is_infinite():
    def along(x, y, dx, dy):
        return jvp(lambda a, b: a / b, (tc.tensor(x), tc.tensor(y)), (tc.tensor(dx), tc.tensor(dy)))[1].item()

    assert along(1.0, 0.0, 1.0, 1.0) == -INF
    assert along(1.0, 4.0, 2.0, 8.0) == 0.0
    assert jvp(lambda b: 2 / b, (tc.tensor(4.0),), (tc.tensor(8.0),))[1].item() == -1.0
    assert jvp(lambda a: a / 4, (tc.tensor(4.0),), (tc.tensor(8.0),))[1].item() == 2.0


@pytest.mark.parametrize("function", [
    lambda x: x.norm(), lambda x: x.std(), lambda x: F.dist(x, tc.zeros(2)), lambda x: F.std_mean(x)[0]])
def test_tangents_of_lengths_of_nothing_are_0(function):
    assert jvp(function, (tc.zeros(2),), (tc.tensor([1.0, -2.0]),))[1].item() == 0.0


def test_gradients_of_short_vectors_in_half_precision_are_finite():
    x = leaf([2.0**-24, 0.0, 2.0**-23], dtype=tc.float16)
    given = np.array([1.0, 0.0, 2.0])
    np.testing.assert_allclose(gradient(lambda x: x.norm(), x)[0], given / 2.0, rtol=2e-3)  # the norm is rounded


def test_limits_that_are_nan_have_no_gradient():
    x, low, high = leaf([NAN, 1.0, 1.0, 3.0]), leaf([0.0, NAN, 0.0, 0.0]), leaf([2.0, 2.0, NAN, 2.0])
    assert gradient(F.clamp, x, low, high) == [[0.0] * 4, [0.0] * 4, [0.0, 0.0, 0.0, 1.0]]


def test_cov_refuses_weights_that_sum_to_zero():
    with pytest.raises(ArgumentError, match=r"\[cov\] weights that sum to zero — the sum of weights is what sums are "
                                            "divided by — pass a positive weight"):
        F.cov(tc.ones(3, 2), aweights=tc.zeros(2))


def test_gradients_of_determinants_of_a_batch_with_a_singular_matrix():
    matrices = [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 2.0]]]
    for function in (F.logdet, lambda x: F.linalg_slogdet(x)[1]):
        found = gradient(function, leaf(matrices))[0]
        same(found[1], [[1.0, 0.0], [0.0, 0.5]])
        assert not np.isfinite(found[0]).any()


def test_gradients_of_solutions_of_a_batch_with_a_singular_matrix():
    a, b = leaf([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 2.0]]]), leaf([[[1.0], [1.0]], [[1.0], [1.0]]])
    of_a, of_b = gradient(lambda a, b: F.linalg_solve_ex(a, b)[0], a, b)
    same(of_a[1], [[-1.0, -0.5], [-0.5, -0.25]])
    same(of_b[1], [[1.0], [0.5]])
    assert not np.isfinite(of_a[0]).any()
    assert not np.isfinite(of_b[0]).any()


@pytest.mark.parametrize(("index", "offsets", "expected"), [
    ([0, 1, 2, 3], [0, 2], [[1, 1], [0, 0], [1, 0], [0, 1]]),                 # bags of one size
    ([0, 1, 2, 3, 1, 1], [0, 1, 4], [[1, 1], [1, 2], [1, 0], [0, 0]]),
    ([0, 1, 3, 2], [0, 0, 2], [[1, 1], [0, 0], [0, 0], [1, 1]])])             # one is empty
def test_gradients_of_equal_largest_elements_of_a_bag_flow_to_the_first(index, offsets, expected):
    weight = leaf([[1.0, 2.0], [1.0, 2.0], [3.0, 1.0], [3.0, 2.0]])
    found = gradient(lambda w: F.embedding_bag(tc.tensor(index), w, tc.tensor(offsets), mode="max"), weight)
    assert found == [expected]


def test_largest_elements_of_bags_without_indices():
    weight = leaf([[1.0, 2.0]])
    empty = tc.zeros(0, dtype=tc.int64)
    assert gradient(lambda w: F.embedding_bag(empty, w, tc.tensor([0, 0]), mode="max"), weight) == [[[0.0, 0.0]]]


@pytest.mark.parametrize(("weight", "expected"), [(None, tc.bfloat16), (tc.bfloat16, tc.bfloat16),
                                                  (tc.float32, tc.float32)])
def test_statistics_of_native_normalisations(weight, expected):
    x = tc.tensor(np.arange(48.0).reshape(2, 4, 6), dtype=tc.bfloat16, requires_grad=True)
    given = None if weight is None else tc.ones(4, dtype=weight)
    batch = F.native_batch_norm(x, given, None, None, None, True, 0.1, 0.0)
    running = tc.zeros(4, dtype=expected), tc.ones(4, dtype=expected)
    known = F.native_batch_norm(x, given, None, *running, False, 0.1, 0.0)
    group = F.native_group_norm(x, given, None, 2, 4, 6, 2, 0.0)
    rows = F.native_layer_norm(x, [6], None if weight is None else tc.ones(6, dtype=weight), None, 0.0)
    for made in (batch, known, group, rows):
        assert [y.dtype for y in made] == [tc.bfloat16, expected, expected]
    assert [y.requires_grad for y in batch] == [True, False, False]
    values = np.arange(48.0).reshape(2, 4, 6)
    np.testing.assert_allclose(batch[2].tolist(), 1 / values.std((0, 2)), rtol=8e-3)
    np.testing.assert_allclose(rows[2].squeeze(-1).tolist(), 1 / values.std(2), rtol=8e-3)


@pytest.mark.parametrize("driver", ["gels", "gelsy", "gelsd", "gelss"])
def test_singular_values_of_least_squares_have_no_gradient(driver):
    a, b = leaf([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), leaf([[1.0], [2.0], [3.0]])
    solution, residuals, _, values = F.linalg_lstsq(a, b, driver=driver)
    assert (solution.requires_grad, residuals.requires_grad, values.requires_grad) == (True, True, False)


@pytest.mark.parametrize(("values", "expected"), [
    ([0.0, INF, 2.0], [INF, 0.0, NAN]), ([INF, 0.0, INF], [NAN, INF, NAN]), ([NAN, 0.0, 2.0], [0.0, NAN, NAN]),
    ([-INF, 0.0, 2.0], [0.0, -INF, NAN]), ([2.0, 0.0, 3.0], [0.0, 6.0, 0.0])])
def test_gradients_of_products_are_the_products_of_the_others(values, expected):
    same(gradient(lambda x: x.prod(), leaf(values)), [expected])
    rows = [values, [1.0, 2.0, 3.0]]
    same(gradient(lambda x: x.prod(1), leaf(rows)), [[expected, [6.0, 3.0, 2.0]]])


def test_several_zeros_leave_gradients_of_products_of_all_elements_0():
    same(gradient(lambda x: x.prod(), leaf([0.0, 0.0, INF])), [[0.0, 0.0, 0.0]])
    same(gradient(lambda x: x.prod(0), leaf([0.0, 0.0, INF])), [[NAN, NAN, 0.0]])


@pytest.mark.parametrize(("p", "values", "expected"), [
    (3.0, [1.0, INF, 2.0], [0.0, NAN, 0.0]), (1.5, [0.0, -INF, INF], [0.0, NAN, NAN]),
    (0.5, [1.0, INF, -2.0], [INF, NAN, -INF]), (3.0, [NAN, 0.0, 2.0], [NAN, NAN, NAN]),
    (3.0, [0.0, 0.0], [0.0, 0.0]), (0.5, [0.0, 0.0], [0.0, 0.0]), (-1.0, [1.0, INF, 1.0], [0.25, 0.0, 0.25])])
def test_gradients_of_norms_beside_infinite_elements(p, values, expected):
    same(gradient(lambda x: F.linalg_vector_norm(x, p), leaf(values)), [expected])


@pytest.mark.parametrize("dtype", [tc.float16, tc.float64])
def test_the_slope_of_hardsigmoid_at_nan_is_0(dtype):
    x = leaf([NAN, -3.0, 0.0, 3.0, INF], dtype)
    sixth = tc.tensor(1 / 6, dtype=dtype).item()
    same(gradient(F.hardsigmoid, x), [[0.0, 0.0, sixth, 0.0, 0.0]])
