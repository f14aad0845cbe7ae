"""Products, einsum, covariances and integrals against NumPy, with their errors."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_operators.differentiation.gradcheck import gradcheck, gradgradcheck
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DimensionError, DtypeError, ShapeError

pytestmark = pytest.mark.usefixtures("place")
RNG = np.random.default_rng(5)
A = RNG.normal(size=(3, 4))
B = RNG.normal(size=(4, 2))
BATCHES = RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 2))


def same(tensor, reference):
    np.testing.assert_allclose(np.array(tensor.detach().tolist()).reshape(np.shape(reference)), reference, 1e-10, 1e-12)


def t(array, grad=False):
    return tc.tensor(array, requires_grad=grad)


def test_sums_of_products():
    start = RNG.normal(size=(3, 2))
    same(f.addmm(t(start), t(A), t(B), beta=2, alpha=3), 2 * start + 3 * A @ B)
    same(f.addmv(t(start[:, 0].copy()), t(A), t(B[:, 0].copy()), beta=0.5), 0.5 * start[:, 0] + A @ B[:, 0])
    same(f.addr(t(A), t(A[:, 0].copy()), t(A[0].copy()), alpha=2), A + 2 * np.outer(A[:, 0], A[0]))
    left, right = BATCHES
    same(f.baddbmm(t(start), t(left), t(right), beta=-1), left @ right - start)
    same(f.addbmm(t(start), t(left), t(right)), (left @ right).sum(0) + start)
    nothing = t(np.full((3, 2), math.nan), grad=True)
    result = f.addmm(nothing, t(A), t(B), beta=0)
    same(result, A @ B)
    result.sum().backward()
    assert nothing.grad.tolist() == [[0.0, 0.0]] * 3
    x = t(start.copy())
    assert x.addmm_(t(A), t(B)).addbmm_(t(left), t(right)) is x
    same(x, start + A @ B + (left @ right).sum(0))
    y = t(A.copy())
    y.addr_(t(A[:, 0].copy()), t(A[0].copy()))
    same(y, A + np.outer(A[:, 0], A[0]))
    truth = f.addr(tc.tensor([[True, False]]), tc.tensor([True]), tc.tensor([False, True]))
    assert truth.tolist() == [[True, True]]


@pytest.mark.parametrize(("equation", "shapes"), [
    ("ij,jk->ik", [(3, 4), (4, 2)]), ("ij,jk", [(3, 4), (4, 2)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]),
    ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("...ij,...jk->...ik", [(2, 3, 4), (4, 2)]), ("i,j->ji", [(3,), (2,)]),
    ("ij,kj,lk,l->i", [(3, 4), (2, 4), (5, 2), (5,)]), ("iij,jk->ik", [(3, 3, 4), (4, 2)]), ("ij->ji", [(3, 4)]),
    ("b...,b...->b", [(2, 3, 4), (2, 3, 4)]), ("i...->...", [(3, 4)]), ("ij,ij->", [(3, 4), (3, 4)]),
    ("ab, bc -> a c", [(3, 4), (4, 2)]), ("zi,ai", [(2, 3), (4, 3)]),
])
def test_einsum(equation, shapes, place):
    arrays = [RNG.normal(size=s) for s in shapes]
    # NumPy does not sum over an ellipsis.
    plain = {"b...,b...->b": "bij,bij->b"}.get(equation, equation)
    same(f.einsum(equation, *map(t, arrays)), np.einsum(plain, *arrays))
    if place == "cpu":
        inputs = tuple(t(x, grad=True) for x in arrays)
        assert gradcheck(lambda *x: f.einsum(equation, *x), inputs)


def test_einsum_forms():
    same(f.einsum(t(A), [0, 1], t(B), [1, 2], [2, 0]), (A @ B).T)
    same(f.einsum(t(A), [..., 1], t(B), [1, 2]), A @ B)
    same(f.einsum("ij,jk", [t(A), t(B)]), A @ B)
    same(f.einsum("ij,jk->ik", t(A), t(B[:1])), A.sum(1, keepdims=True) @ B[:1])


def test_products_of_pairs_and_chains(place):
    same(f.inner(t(A), t(B.T.copy())), np.inner(A, B.T))
    same(f.inner(t(A), tc.tensor(2.0, dtype=tc.float64)), 2 * A)
    same(f.kron(t(A), t(B)), np.kron(A, B))
    same(f.kron(t(A[0].copy()), t(B)), np.kron(A[0], B))
    chain = [RNG.normal(size=s) for s in ((2, 5), (5, 3), (3, 4), (4, 1))]
    same(f.linalg_multi_dot([t(x) for x in chain]), np.linalg.multi_dot(chain))
    same(f.chain_matmul(*[t(x) for x in chain]), np.linalg.multi_dot(chain))
    vectors = [chain[0][0].copy(), chain[1], chain[2][:, 0].copy()]
    same(f.linalg_multi_dot([t(x) for x in vectors]), np.linalg.multi_dot(vectors))
    blocks = f.block_diag(t(A), tc.tensor(7.0), t(B[0].copy()))
    expected = np.zeros((5, 7))
    expected[:3, :4], expected[3, 4], expected[4, 5:] = A, 7, B[0]
    same(blocks, expected)
    if place == "cpu":
        assert gradgradcheck(f.kron, (t(A, grad=True), t(B, grad=True)))


@pytest.mark.parametrize("sizes", [((1, 5), (2, 5), (3, 5)), ((2, 0), (0, 3), (1, 1)), ((31, 2), (2, 40)),
                                   ((40, 3), (2, 40))])
@pytest.mark.parametrize("dtype", [np.float32, np.int16, np.bool_, np.complex64])
def test_block_diag_of_few_and_of_many_elements(sizes, dtype):
    blocks = [np.arange(m * n).reshape(m, n).astype(dtype) for m, n in sizes]
    expected = np.zeros((sum(m for m, _ in sizes), sum(n for _, n in sizes)), dtype)
    row = column = 0
    for block in blocks:
        rows, columns = block.shape
        expected[row:row + rows, column:column + columns] = block
        row, column = row + rows, column + columns
    found = f.block_diag(*[tc.tensor(x.T.copy()).T for x in blocks])
    np.testing.assert_array_equal(np.array(found.tolist(), dtype).reshape(expected.shape), expected)


def test_powers_of_vectors():
    x = np.array([2.0, -1.0, 3.0])
    same(f.vander(t(x)), np.vander(x))
    same(f.vander(t(x), 2, increasing=True), np.vander(x, 2, True))
    assert f.vander(tc.tensor([1, 2], dtype=tc.int32), 0).shape == (2, 0)
    assert f.linalg_vander(tc.tensor([1, 2], dtype=tc.int32)).dtype is tc.int64
    same(f.linalg_vander(t(np.stack([x, x])), N=4), np.stack([np.vander(x, 4, True)] * 2))


@pytest.mark.parametrize("correction", [0, 1])
def test_covariances(correction):
    counts, weights = np.array([1, 2, 1, 3]), np.array([0.5, 1.0, 2.0, 0.25])
    same(f.cov(t(A), correction=correction), np.cov(A, ddof=correction))
    got = f.cov(t(A), correction=correction, fweights=t(counts), aweights=t(weights))
    same(got, np.cov(A, ddof=correction, fweights=counts, aweights=weights))
    same(f.cov(t(A[0].copy())), np.cov(A[0]))
    same(f.corrcoef(t(A)), np.corrcoef(A))
    z = A[:2] + 1j * A[1:]
    same(f.cov(t(z)), np.cov(z))
    same(f.corrcoef(t(z)), np.corrcoef(z))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert f.cov(t(A[:, :1].copy())).isnan().all()
    assert "no degrees of freedom" in str(caught[0].message)


def test_integrals():
    x = np.sort(RNG.normal(size=4))
    same(f.trapezoid(t(A)), np.trapezoid(A))
    same(f.trapz(t(A), t(x)), np.trapezoid(A, x))
    same(f.trapezoid(t(A), dx=0.5, dim=0), np.trapezoid(A, dx=0.5, axis=0))
    same(f.trapezoid(t(A), t(A * 2)), np.trapezoid(A, A * 2))
    areas = (A[:, 1:] + A[:, :-1]) / 2 * np.diff(x)
    same(f.cumulative_trapezoid(t(A), t(x)), areas.cumsum(1))
    same(f.trapezoid(tc.tensor([1, 2, 3])), 4.0)
    assert f.trapezoid(tc.ones(3, 0)).tolist() == [0.0, 0.0, 0.0]


def test_bounded_slices():
    size = np.linalg.norm(A, axis=1, keepdims=True)
    same(f.renorm(t(A), 2, 0, 1.0), A * np.where(size > 1, 1 / (size + 1e-7), 1))
    x = t(A.copy())
    x.renorm_(1, 1, 0.5)
    size = np.abs(A).sum(0, keepdims=True)
    same(x, A * np.where(size > 0.5, 0.5 / (size + 1e-7), 1))


def test_factors_of_integers_are_cut_off(device):
    x = tc.full((2, 2), 2, dtype=tc.int32)
    assert f.addmm(x, x, x, beta=0.5, alpha=1.5).tolist() == [[8, 8], [8, 8]]


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: f.addmm(tc.ones(2, 2, dtype=tc.float64), tc.ones(2, 2), tc.ones(2, 2)), DtypeError,
     "all operands have one dtype"),
    (lambda: f.addmm(tc.ones(3, 2, 2), tc.ones(2, 2), tc.ones(2, 2)), ShapeError,
     "the input broadcasts to the product's shape"),
    (lambda: f.addmv(tc.ones(2), tc.ones(2), tc.ones(2)), ShapeError, "the factors have 2 and 1 dimensions"),
    (lambda: f.addbmm(tc.ones(2), tc.ones(2, 3, 4), tc.ones(3, 4, 2)), ShapeError,
     "both have the same number of matrices, which can be multiplied"),
    (lambda: f.inner(tc.ones(3), tc.ones(2)), ShapeError, "the last sizes of both are equal"),
    (lambda: f.linalg_multi_dot([tc.ones(3)]), ArgumentError, "a product has at least two factors"),
    (lambda: f.chain_matmul(), ArgumentError, "a product has at least one factor"),
    (lambda: f.chain_matmul(tc.ones(2, 3), tc.ones(2, 3)), ShapeError,
     "factors are matrices with as many columns as the next has rows"),
    (lambda: f.linalg_vander(tc.tensor(1.0)), ShapeError, "a number has no size for N"),
    (lambda: f.linalg_vander(tc.ones(2), N=1), ArgumentError, "N is greater than 1"),
    (lambda: f.vander(tc.ones(2, 2)), ShapeError, "x is a vector"),
    (lambda: f.vander(tc.ones(2), -1), ArgumentError, "N is not negative"),
    (lambda: f.cov(tc.ones(2, 2, 2)), ShapeError, "variables are rows of a matrix"),
    (lambda: f.corrcoef(tc.ones(2, 2, 2)), ShapeError, "variables are rows of a matrix"),
    (lambda: f.cov(tc.ones(2, 2).bool()), DtypeError, "observations are numbers"),
    (lambda: f.cov(tc.ones(2, 2), fweights=tc.ones(2)), DtypeError, "fweights are integers and aweights are floats"),
    (lambda: f.cov(tc.ones(2, 2), aweights=tc.ones(3)), ShapeError, "there is a weight for every observation"),
    (lambda: f.cov(tc.ones(2, 2), aweights=-tc.ones(2)), ArgumentError, "weights are not negative"),
    (lambda: f.trapezoid(tc.ones(2).bool()), DtypeError, "samples are numbers"),
    (lambda: f.trapezoid(tc.tensor(1.0)), DimensionError, "samples lie along a dimension"),
    (lambda: f.trapezoid(tc.ones(3), tc.ones(2)), ShapeError, "there is one x for every sample"),
    (lambda: f.trapezoid(tc.ones(3), tc.ones(3), dx=2), ArgumentError, "the spacing is that of x, or dx"),
    (lambda: f.renorm(tc.ones(3), 2, 0, 1), ShapeError, "slices have at least one dimension"),
    (lambda: f.renorm(tc.ones(3, 3), 0, 0, 1), ArgumentError, "p is positive and maxnorm not negative"),
    (lambda: f.einsum("i1", tc.ones(2, 2)), ArgumentError,
     "subscripts are letters, with at most one '...' for an operand"),
    (lambda: f.einsum(tc.ones(2, 2), [0, 60]), ArgumentError, r"subscripts are numbers from 0 to 51, or \.\.\."),
    (lambda: f.einsum("i"), ArgumentError, "an equation comes first, or every operand is followed by its subscripts"),
    (lambda: f.einsum("i,j", tc.ones(2)), ArgumentError, "there is one list of subscripts for every operand"),
    (lambda: f.einsum("i", tc.ones(2, 2)), ArgumentError,
     r"there is a subscript for every dimension, or one '\.\.\.' for the rest"),
    (lambda: f.einsum("i->j", tc.ones(2)), ArgumentError,
     "every subscript of the result appears there once, and in an operand"),
    (lambda: f.einsum("ij,jk", tc.ones(2, 3), tc.ones(2, 3)), ShapeError,
     "dimensions of one subscript have equal sizes, or 1"),
    (lambda: f.einsum("ii", tc.ones(2, 3)), ShapeError, "a repeated subscript of one operand has one size"),
])
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("equation", [
    "ij,jk->ki", "bij,bkj->bki", "abij,acij->abc", "ijk,kjl->li", "ij,ij->", "i,i->", "j,ij->i", "abc,cbd->da",
    "ab,cb->ac", "abc,ad->bcd", " i j , k j -> i k", "ij,jk->k", "aij,abj->ab"])
@pytest.mark.parametrize("empty", [False, True])
def test_einsum_of_two_operands_in_one_product(equation, empty):
    sizes = dict(zip("abcdijkl", (2, 3, 0 if empty else 4, 5, 0 if empty else 6, 3, 2, 4), strict=True))
    text = equation.replace(" ", "")
    first, second = text.partition("->")[0].split(",")
    rng = np.random.default_rng(5)
    x, y = (rng.normal(size=[sizes[label] for label in part]) for part in (first, second))
    got, expected = f.einsum(equation, t(x), t(y)), np.einsum(text, x, y)
    assert tuple(got.shape) == expected.shape
    same(got, expected)


#: Shapes of the three tensors, and the product of the last two in NumPy.
SCALED = {
    "addmm": ((2, 4), (2, 3), (3, 4), np.matmul), "addmv": ((2,), (2, 3), (3,), np.matmul),
    "addr": ((2, 3), (2,), (3,), np.outer), "baddbmm": ((5, 2, 4), (5, 2, 3), (5, 3, 4), np.matmul),
    "addbmm": ((2, 4), (5, 2, 3), (5, 3, 4), lambda a, b: np.matmul(a, b).sum(0)),
}


@pytest.mark.parametrize("name", list(SCALED))
def test_factors_may_stand_between_the_tensors(name: str) -> None:
    *shapes, product = SCALED[name]
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in shapes]
    x, a, b = map(tc.tensor, arrays)
    scaled = 2 * arrays[0] + product(arrays[1], arrays[2])
    both = 2 * arrays[0] + 3 * product(arrays[1], arrays[2])
    function, method, inplace = getattr(f, name), getattr(tc.Tensor, name), getattr(tc.Tensor, f"{name}_")
    for expected, call in (
        (scaled, lambda: function(2, x, a, b)), (both, lambda: function(2, x, 3, a, b)),
        (scaled, lambda: method(x, 2, a, b)), (both, lambda: method(x, 2, 3, a, b)),
        (scaled, lambda: inplace(x.clone(), 2, a, b)), (both, lambda: inplace(x.clone(), 2, 3, a, b)),
    ):
        with pytest.warns(UserWarning, match=f"This overload of {name}_? is deprecated"):
            result = call()
        np.testing.assert_allclose(result.tolist(), expected, rtol=1e-12)


@pytest.mark.parametrize("given", [(1, 2, 3, 4), (1, 2, 3, 4, 5)])
def test_factors_stand_before_the_last_two_tensors(given: tuple[int, ...]) -> None:
    x = tc.ones((2, 2))
    for values in (given, (x, *given[1:]), (x, x, x, *given[3:]), (x, x, *given[2:])):
        with pytest.raises(ArgumentTypeError, match="a call with more than three arguments by position is of the old "
                                                    "form with numbers before two tensors"):
            f.addmm(*values)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("step", [1, 2, 3])
def test_inner_products_of_vectors(dtype, step):
    random = np.random.default_rng(step)
    for size in (1, 5, 37, 1000, 20000):
        a, b = (random.standard_normal(size * step).astype(dtype) for _ in range(2))
        x, y = (tc.tensor(v)[::step] for v in (a, b))
        wanted = (a[::step].astype(np.float64) * b[::step]).sum()
        for run in (f.dot, f.vdot, f.inner, f.matmul):
            made = run(x, y)
            assert made.shape == ()
            assert abs(made.item() - wanted) <= 1e-5 * np.abs(a * b).sum()
