"""Numbers and activations: what samples cannot show, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as f
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError, UndefinedDtype


def test_divisors_of_large_and_lowest_numbers(device):
    x = torch.tensor([12, -18, 0, 1134903170, 7], device=device)
    y = torch.tensor([18, 12, 0, 701408733, 0], device=device)
    assert f.gcd(x, y).tolist() == [6, 6, 0, 1, 7]
    assert f.lcm(x[:2], y[:2]).tolist() == [36, 36]


def test_frexp_of_subnormal_and_special_numbers(device):
    x = torch.tensor([1.0, 0.0, math.inf, -3.5, 1e-40, 2.0**-149], device=device)
    mantissa, exponent = f.frexp(x)
    assert exponent.dtype is torch.int32
    assert exponent.tolist() == [1, 0, 0, 2, -132, -148]
    expected = np.frexp(np.float32([1.0, 0.0, math.inf, -3.5, 1e-40, 2.0**-149]))[0]
    assert np.array_equal(mantissa.tolist(), expected)


def test_numbers_on_the_left():
    x = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    y = f.xlogy(2.0, x)
    assert np.allclose(y.tolist(), [2 * math.log(2), 2 * math.log(3)])
    y.sum().backward()
    assert np.allclose(x.grad.tolist(), [1.0, 2 / 3])
    assert f.float_power(2, torch.tensor([2, 3])).tolist() == [4.0, 8.0]
    assert f.rsub(torch.tensor([1, 2]), 3, alpha=2).tolist() == [1, -1]


def test_addr_ignores_the_input_at_beta_zero_and_has_bool_logic():
    one = torch.tensor([1.0, 2.0])
    assert f.addr(torch.tensor(math.nan), one, one, beta=0).tolist() == [[1.0, 2.0], [2.0, 4.0]]
    yes = torch.tensor([True, False])
    assert f.addr(torch.tensor([False, True]), yes, yes).tolist() == [[True, True], [False, True]]
    assert torch.ones(2, 2).addr_(one, one, beta=2, alpha=3).tolist() == [[5.0, 8.0], [8.0, 14.0]]


def test_forms_in_place():
    assert torch.tensor([math.nan, 1.0]).nan_to_num_(3.0).tolist() == [3.0, 1.0]
    assert torch.tensor([1.0, 3.0]).ldexp_(torch.tensor([2, 1])).tolist() == [4.0, 6.0]
    assert torch.tensor([-1.0, 0.0]).heaviside_(torch.tensor(0.5)).tolist() == [0.0, 0.5]
    assert torch.tensor([2.0], dtype=torch.float64).float_power_(3).tolist() == [8.0]
    assert torch.tensor([1.25, 155.0]).round_(decimals=-1).tolist() == [0.0, 160.0]


@pytest.mark.parametrize("value", [True, 3, -0.0, 0.1, 1e30, math.inf, math.nan, 1 << 40])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fill_makes_a_new_tensor(dtype, value, device):
    filled = [f.fill(torch.tensor(x, device=device), value) for x in (
        np.ones((2, 3), dtype), np.ones((), dtype), np.ones((0, 2), dtype), np.ones(70000, dtype))]
    wanted = np.asarray(value).astype(dtype)
    for x in filled:
        assert (x._host().dtype, x._host().tobytes()) == (wanted.dtype, np.full(x.shape, wanted).tobytes())


def test_fill_keeps_the_layout_and_the_operand(device):
    x = torch.ones(2, 3, device=device).t()
    filled = f.fill(x, 2)
    assert (filled.shape, filled.stride(), filled.tolist()) == ((3, 2), (1, 3), [[2.0, 2.0]] * 3)
    assert x.tolist() == [[1.0, 1.0]] * 3
    assert f.fill(torch.tensor([1, 2], device=device), 3).dtype is torch.int64
    with pytest.raises(ArgumentError, match="fill_"):
        f.fill(torch.ones(2, dtype=torch.int8, device=device), 1000)


@pytest.mark.parametrize("size", [0, 3, 40000])
def test_fill_with_a_number_keeps_layout_and_dtype(size, device):
    base = torch.zeros(4, size, device=device)
    for x in (base, base.t(), base[1:3], base.to(torch.int32)):
        for value in (True, 3, 2.5, math.inf, -math.inf):
            if math.isinf(value) and x.dtype is torch.int32:
                continue
            made = f.fill(x, value)
            expected = np.full(tuple(x.shape), value).astype(str(x.dtype).split(".")[-1])
            assert made.dtype is x.dtype
            assert made.tolist() == expected.tolist()
            assert made.stride() == x.clone().stride()
            assert x.sum().item() == 0
    assert f.fill(torch.zeros((), device=device), 2).item() == 2.0
    with pytest.raises(ArgumentError, match="fill"):
        f.fill(base, 1e300)


@pytest.mark.parametrize("value", [3, 2.5, True])
def test_fill_with_a_number_has_a_gradient_of_zeros(value, device):
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=device, requires_grad=True)
    y = torch.fill(x, value)
    assert y.requires_grad
    assert y.tolist() == [[value, value]] * 2
    (x * y).sum().backward()
    assert x.grad.tolist() == [[value, value]] * 2


def test_fill_gives_the_value_its_gradient():
    x, value = torch.ones(2, 3, requires_grad=True), torch.tensor(2.0, requires_grad=True)
    f.fill(x, value).sum().backward()
    assert value.grad.item() == 6.0
    assert x.grad is None or x.grad.tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("activation", [
    lambda x: f.mish(x), lambda x: f.softplus(x, 2.0), lambda x: f.elu(x, 2.0), lambda x: f.celu(x, 2.0),
    lambda x: f.hardswish(x), lambda x: f.logsigmoid(x),
])
def test_first_and_second_derivatives(activation):
    x = torch.tensor(-0.5, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(activation(x), x, create_graph=True)
    (curvature,) = torch.autograd.grad(slope, x)
    h = 1e-4
    low, mid, high = (activation(torch.tensor(-0.5 + k * h, dtype=torch.float64)).item() for k in (-1, 0, 1))
    assert math.isclose(slope.item(), (high - low) / (2 * h), rel_tol=1e-6)
    assert math.isclose(curvature.item(), (high - 2 * mid + low) / (h * h), rel_tol=1e-3)


one, two = torch.ones(1, device="ref"), torch.ones(2, device="ref")


@pytest.mark.parametrize(("call", "kind", "rule"), [
    (lambda: f.heaviside(one, one.to(torch.float64)), DtypeError, "both have one dtype"),
    (lambda: f.prelu(one, one.to(torch.float64)), DtypeError, "both have one dtype"),
    (lambda: f.frexp(torch.tensor([1])), UndefinedDtype, "frexp is defined for floating-point dtypes"),
    (lambda: f.float_power(1.0, 2.0), ArgumentTypeError, "an operand is a tensor"),
    (lambda: one.float_power_(2), DtypeError, "the result has dtype float64"),
    (lambda: f.addr(one, one.reshape(1, 1), one), ShapeError, "both vectors have one dimension"),
    (lambda: f.addr(one, one, one, beta=True), DtypeError, "a bool factor is for bool results"),
    (lambda: f.addr(*[torch.tensor([1])] * 3, alpha=0.5), DtypeError, "a factor of integers is an integer"),
    (lambda: f.fill(two, two), ShapeError, "the value is a number or a 0-dimensional tensor"),
    (lambda: f.celu(one, 0), ArgumentError, "input is divided by alpha"),
    (lambda: f.hardtanh(one, 2.0, 1.0), ArgumentError, "min_val is not above max_val"),
    (lambda: f.hardtanh(torch.tensor([1], dtype=torch.uint8), -1, 1), DtypeError,
     "limits of unsigned numbers are not negative"),
    (lambda: f.hardtanh(torch.tensor([True])), UndefinedDtype, "limited is not defined for bool dtypes"),
    (lambda: f.softshrink(one, -1.0), ArgumentError, "lambd is not negative"),
    (lambda: f.addr(one.char(), one.char(), one.char(), alpha=300), ArgumentError, "the dtype holds numbers up to 127"),
    (lambda: f.addr(one.half(), one.half(), one.half(), beta=1e6), ArgumentError, "the dtype holds numbers up to 6"),
    (lambda: f.prelu(two.reshape(1, 2), torch.ones(3)), ShapeError, "there is one weight, or one for each channel"),
    (lambda: f.prelu(one, one.reshape(1, 1)), ShapeError, "the weight has at most one dimension"),
    (lambda: f.rrelu(one, 0.5, 0.3), ArgumentError, "lower is not above upper"),
    (lambda: f.glu(torch.ones(3)), ShapeError, "the size is even"),
    (lambda: f.glu(torch.ones(())), ShapeError, "the input has two halves"),
])
def test_what_is_refused(call, kind, rule):
    with pytest.raises(kind, match=rule):
        call()


def test_the_slope_of_sinc_keeps_its_digits_around_0():
    points = [0.0, 2.2e-308, 1e-200, 1e-100, -1e-10, 1e-5, 1e-3, 0.02, -0.14, 0.149, 0.151, 0.3, 2.5]
    x = torch.tensor(points, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(f.sinc(x).sum(), x, create_graph=True)
    # The integral over t of d/dx cos(pi x t), which has no difference of near numbers; Gauss-Legendre is exact here.
    nodes, weights = np.polynomial.legendre.leggauss(40)
    times, weights = (nodes + 1) / 2, weights / 2
    turns = np.pi * np.outer(points, times)
    np.testing.assert_allclose(slope.tolist(), -(np.sin(turns) * np.pi * times) @ weights, rtol=1e-12, atol=0)
    slope.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), -(np.cos(turns) * (np.pi * times) ** 2) @ weights, rtol=1e-11)
