"""Gradients at the edges: what is overwritten, powers of zero, extremes among NaN, operands that no gradient needs."""

from __future__ import annotations

import gc
import sys

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_operators import functions as F
from tensocket_operators.autograd import Function, grad

NAN, INF = float("nan"), float("inf")


def leaf(*values, dtype=tc.float64):
    return tc.tensor(list(values), dtype=dtype, requires_grad=True)


@pytest.mark.parametrize("change", [
    lambda y: y.eq_(2.0), lambda y: y.ne_(2.0), lambda y: y.lt_(2.0), lambda y: y.ge_(2.0), lambda y: y.logical_not_(),
    lambda y: y.logical_and_(tc.ones(2, dtype=tc.float64)), lambda y: y.copy_(tc.ones(2, dtype=tc.float64)),
    lambda y: y.uniform_(), lambda y: y.normal_(), lambda y: y.bernoulli_(), lambda y: y.exponential_(),
    lambda y: y.random_(3), lambda y: y.geometric_(0.5), lambda y: y.cauchy_(), lambda y: y.log_normal_(),
], ids=["eq", "ne", "lt", "ge", "logical_not", "logical_and", "copy", "uniform", "normal", "bernoulli", "exponential",
        "random", "geometric", "cauchy", "log_normal"])
def test_what_is_overwritten_has_a_gradient_of_zero(change):
    x = leaf(1.0, 2.0)
    y = x * 2
    change(y)
    (y * 3).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_comparisons_with_an_operand_that_has_a_gradient_leave_it_without():
    x, z = leaf(1.0, 2.0), leaf(1.0, 3.0)
    y = x * 2
    y.gt_(z)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]
    assert z.grad is None


def test_exponents_of_zero():
    # d/db 0 ** b = 0 ** b * log 0: minus infinity where the power is infinite, and 0 where it is constant.
    expected = [-INF, 0.0, 0.0, -INF]
    b = leaf(-1.0, 0.0, 2.0, -3.0)
    assert grad((0.0**b).sum(), b)[0].tolist() == expected
    base = tc.zeros(4, dtype=tc.float64)
    assert grad((base**b).sum(), b)[0].tolist() == expected
    assert grad((tc.tensor(0.0, dtype=tc.float64) ** b).sum(), b)[0].tolist() == expected


def test_complex_exponents_of_negative_numbers():
    values = np.array([1 + 2j, 0.5j])
    base = np.array([-2.0, 3.0])
    z = tc.tensor(values, requires_grad=True)
    power = tc.tensor(base) ** z
    given = np.array(grad(power.real.sum(), z)[0].tolist())
    # The gradient of a real function is the conjugate of its derivative, here of Re(base ** z).
    expected = np.conj(base.astype(complex) ** values * np.log(base.astype(complex)))
    np.testing.assert_allclose(given, expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_nan_share_their_gradient_among_all_nan(name):
    x = leaf(NAN, NAN, NAN)
    assert grad(getattr(x, name)(), x)[0].tolist() == pytest.approx([1 / 3] * 3)
    x = leaf(1.0, NAN, 2.0, NAN)
    assert grad(getattr(x, name)(), x)[0].tolist() == [0.0, 0.5, 0.0, 0.5]
    x = leaf(4.0, 1.0, 4.0, 1.0)
    wins = [0.5, 0.0, 0.5, 0.0] if name == "max" else [0.0, 0.5, 0.0, 0.5]
    assert grad(getattr(x, name)(), x)[0].tolist() == wins


@pytest.mark.parametrize("name", ["maximum", "minimum"])
def test_no_operand_loses_against_nan(name):
    x, y = leaf(NAN, NAN, 1.0, 2.0), leaf(NAN, 1.0, NAN, 2.0)
    gradients = grad(getattr(F, name)(x, y).sum(), [x, y])
    assert [g.tolist() for g in gradients] == [[1.0, 1.0, 1.0, 0.5]] * 2


@pytest.mark.parametrize("run", [lambda x, y: x.remainder(y), lambda x, y: x.fmod(y), lambda x, y: x % y],
                         ids=["remainder", "fmod", "%"])
def test_divisors_that_no_gradient_needs_may_change(run):
    x, y = leaf(5.0, -5.0), tc.tensor([3.0, 3.0], dtype=tc.float64)
    z = run(x, y)
    y.add_(1)
    z.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("write", [
    lambda x, w: x.copy_(w), lambda x, w: x.__setitem__(..., w), lambda x, w: x.__setitem__(0, w),
], ids=["copy_", "[...]", "[0]"])
@pytest.mark.parametrize("dtype", [tc.int64, tc.bool_])
def test_tensors_of_integers_stay_without_gradient_whatever_is_written(write, dtype):
    x = tc.zeros(3, dtype=dtype)
    write(x, tc.tensor(2.0, requires_grad=True))
    assert not x.requires_grad
    assert x.grad_fn is None
    assert x[0].item() == dtype.numpy.type(2)


class Nested(Function):
    """The identity, whose backward runs a backward through itself, some levels deep."""

    deepest = 0

    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx, given):
        Nested.deepest = max(Nested.deepest, ctx.depth)
        if ctx.depth < 400:
            with tc.enable_grad():
                y = tc.ones(1, requires_grad=True)
                Nested.apply(y, ctx.depth + 1).sum().backward()
                assert y.grad.tolist() == [1.0]
        return given, None


@pytest.fixture
def modes_of_before():
    """Blocks of modes that frames of an error hold end with the error, without the garbage collector."""
    gc.collect()
    gc.disable()
    before = len(ACTIVE)
    try:
        yield
        assert len(ACTIVE) == before
    finally:
        gc.enable()


@pytest.mark.usefixtures("modes_of_before")
def test_backward_within_backward_may_be_deeper_than_the_stack():
    x = tc.ones(1, requires_grad=True)
    limit = sys.getrecursionlimit()
    Nested.apply(x, 0).sum().backward()
    assert Nested.deepest == 400
    assert x.grad.tolist() == [1.0]
    assert sys.getrecursionlimit() == limit


class Refusing(Function):
    """As ``Nested``; the innermost backward raises, and finds the modes of the outermost one."""

    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx, given):
        assert not tc.is_grad_enabled()
        if ctx.depth == 200:
            raise ZeroDivisionError("innermost")
        with tc.enable_grad():
            result = Refusing.apply(tc.ones(1, requires_grad=True), ctx.depth + 1).sum()
        result.backward()


@pytest.mark.usefixtures("modes_of_before")
def test_errors_of_deep_passes_reach_the_caller():
    with pytest.raises(ZeroDivisionError, match="innermost"):
        Refusing.apply(tc.ones(1, requires_grad=True), 0).sum().backward()


@pytest.mark.parametrize("dtype", [tc.float64, tc.complex128, tc.float16], ids=str)
def test_elements_that_share_memory_share_the_gradient_of_a_view_of_theirs(dtype):
    x = tc.ones(4, dtype=dtype, requires_grad=True)
    shared = (x * 1).as_strided((3, 2), (1, 1), 0)
    part = shared.as_strided((2,), (1,), 1)
    (part * tc.tensor([3, 5], dtype=dtype)).sum().abs().backward()
    assert x.grad.tolist() == [0, 3, 5, 0]


#: Shape, strides and place of a view of 3 x 4 elements at 5 in memory of 30, whose rows are 6 apart.
VIEWS_OF_PART = {
    "inside": ((2, 3), (6, 1), 6), "the same": ((3, 4), (6, 1), 5), "transposed": ((4, 3), (1, 6), 5),
    "before it": ((2, 2), (3, 1), 0), "beyond it": ((5,), (5,), 9), "overlapping": ((3, 3), (1, 1), 5),
    "no elements": ((0, 2), (2, 1), 5), "one element": ((), (), 12), "repeated": ((2, 3), (0, 1), 5)}


@pytest.mark.parametrize("grown", [1, 4000], ids=["few", "many"])
@pytest.mark.usefixtures("place")
@pytest.mark.parametrize("name", VIEWS_OF_PART)
def test_gradient_of_any_geometry(name, grown, host):
    """Gradients arrive at the elements of the base that the view has; the batch dimension makes them many."""
    shape, strides, offset = VIEWS_OF_PART[name]
    shape, strides = (grown, *shape), (30, *strides)
    memory = tc.tensor(np.arange(30.0 * grown))
    base = memory.as_strided((grown, 3, 4), (30, 6, 1), 5).requires_grad_()
    weights = np.random.default_rng(0).standard_normal(shape)
    found = base.as_strided(shape, strides, offset)
    found.backward(tc.tensor(weights))
    steps = [np.arange(size) * stride for size, stride in zip(shape, strides, strict=True)]
    places = offset + sum(np.ix_(*steps))
    wanted = np.zeros(30 * grown + 40)
    np.add.at(wanted, places.reshape(-1), weights.reshape(-1))
    wanted = wanted[:30 * grown].reshape(grown, 30)[:, 5:]
    wanted = np.stack([wanted[:, k:k + 4] for k in (0, 6, 12)], 1)
    np.testing.assert_allclose(host(base.grad), wanted, rtol=1e-12)
