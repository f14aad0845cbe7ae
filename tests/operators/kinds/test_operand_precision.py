"""Numbers and factors keep the precision of the result: on the left, as alpha, as limits, and with out=."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as f
from tensocket_plugins.contract.errors import UndefinedDtype


@pytest.mark.parametrize("count", [1, 3, 5000])
def test_numbers_on_the_left_have_the_digits_of_the_tensor(device, supports, count):
    if not supports("float64"):
        return
    values = np.linspace(0.5, 3, count)
    x = torch.tensor(values, device=device)
    assert f.pow(0.3, x).dtype is torch.float64
    assert np.allclose(f.pow(0.3, x).tolist(), 0.3 ** values, rtol=1e-14)
    assert np.allclose(f.remainder(0.3, x).tolist(), np.remainder(0.3, values), rtol=1e-14)
    assert np.allclose(f.xlogy(0.3, x).tolist(), 0.3 * np.log(values), rtol=1e-14, atol=1e-16)
    half = torch.tensor(2.0, dtype=torch.float16, device=device)
    assert f.pow(0.3, half).dtype is torch.float16


@pytest.mark.parametrize("count", [1, 3, 5000])
def test_alpha_is_a_factor_in_the_dtype_of_the_sum(device, supports, count):
    if not supports("float64"):
        return
    first, second = np.linspace(-1, 1, count), np.linspace(0, 3, count).astype(np.float32)
    a, b = torch.tensor(first, device=device), torch.tensor(second, device=device)
    wanted = first + 0.3 * second.astype(np.float64)
    assert np.allclose(f.add(a, b, alpha=0.3).tolist(), wanted, rtol=1e-14, atol=1e-15)
    assert np.allclose(a.clone().add_(b, alpha=0.3).tolist(), wanted, rtol=1e-14, atol=1e-15)
    assert np.allclose(f.sub(a, b, alpha=-0.3).tolist(), wanted, rtol=1e-14, atol=1e-15)
    assert np.allclose(f.rsub(b, a, alpha=-0.3).tolist(), wanted, rtol=1e-14, atol=1e-15)
    small, unsigned = torch.tensor([100], dtype=torch.int8), torch.tensor([0], dtype=torch.uint8)
    assert f.add(unsigned, small, alpha=2).tolist() == [200]


@pytest.mark.parametrize("count", [1, 3, 5000])
def test_sums_of_narrow_floats_with_alpha_are_rounded_once(device, supports, count):
    if not supports("float16"):
        return
    first, second = np.full(count, 1, np.float16), np.full(count, -3, np.float16)
    a, b = torch.tensor(first, device=device), torch.tensor(second, device=device)
    wanted = [float(np.float16(1 - 0.9))] * count
    for result in (f.add(a, b, alpha=0.3), a.clone().add_(b, alpha=0.3), f.sub(a, b, alpha=-0.3),
                   f.add(a, b, alpha=0.3, out=torch.empty_like(a))):
        assert result.dtype is torch.float16
        assert result.tolist() == wanted


def test_gradients_of_sums_with_alpha_have_the_dtypes_of_the_terms():
    a = torch.tensor([1.0, 2.0], dtype=torch.float16, requires_grad=True)
    b = torch.tensor([1.0, 2.0], dtype=torch.float32, requires_grad=True)
    f.add(a, b, alpha=3).sum().backward()
    assert (a.grad.dtype, a.grad.tolist()) == (torch.float16, [1, 1])
    assert (b.grad.dtype, b.grad.tolist()) == (torch.float32, [3, 3])


def test_out_is_written_with_every_keyword():
    x, out = torch.tensor([7.0, -7.0]), torch.zeros(2)
    for mode, wanted in (("floor", [3.0, -4.0]), ("trunc", [3.0, -3.0])):
        assert f.div(x, torch.tensor([2.0, 2.0]), rounding_mode=mode, out=out) is out
        assert out.tolist() == wanted
    assert f.round(torch.tensor([1.234, -5.678]), decimals=1, out=out) is out
    assert np.allclose(out.tolist(), [1.2, -5.7])
    assert f.add(x, x, alpha=2, out=out) is out
    assert out.tolist() == [21.0, -21.0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_hardshrink_keeps_nothing_that_was_rounded_to_its_limit(device, supports, dtype):
    if not supports(dtype.name):
        return
    x = torch.tensor([0.3, -0.3, 0.25, 0.5], device=device).to(dtype).requires_grad_()
    result = f.hardshrink(x, 0.3)
    assert result.tolist() == [0, 0, 0, 0.5]
    result.sum().backward()
    assert x.grad.tolist() == [0, 0, 0, 1]


def test_lgamma_of_large_negative_numbers_is_infinite():
    assert f.lgamma(torch.tensor([-3e38, -1e10, -20.0, -1.0])).tolist() == [math.inf] * 4


def test_exponentials_of_complex_numbers_have_parts_beyond_the_largest_size():
    z = np.array([complex(88.8, 2), complex(88.9, 2.5)], np.complex64)
    assert np.allclose(f.exp(torch.tensor(z)).tolist(), np.exp(z.astype(np.complex128)), rtol=1e-5)


def test_positive_refuses_bools():
    with pytest.raises(UndefinedDtype, match="positive is defined for numbers"):
        f.positive(torch.tensor([True]))


def test_losses_take_the_dtype_of_a_zero_dimensional_operand():
    one, several = torch.tensor(2.0, dtype=torch.float64), torch.tensor([1.0, 3.0])
    for loss in (f.mse_loss, f.l1_loss, f.smooth_l1_loss, f.huber_loss):
        assert loss(one, several, reduction="none").dtype is torch.float64


def test_trapezoids_of_narrow_integers_do_not_wrap():
    assert f.trapezoid(torch.tensor([100, 100, 100], dtype=torch.int8)).tolist() == 200
    assert f.cumulative_trapezoid(torch.tensor([100, 100, 100], dtype=torch.uint8)).tolist() == [100, 200]


def test_margins_that_are_nan_are_not_missed():
    rows = torch.tensor([[1.0, 2.0, math.nan], [0.5, 0.0, 0.0]])
    found = f.multi_margin_loss(rows, torch.tensor([0, 0]), reduction="none")
    assert np.allclose(found.tolist(), [2 / 3, 1 / 3])
    found = f.multilabel_margin_loss(rows, torch.tensor([[0, -1, -1], [0, -1, -1]]), reduction="none")
    assert np.allclose(found.tolist(), [2 / 3, 1 / 3])
    one = torch.tensor([1])
    assert f.margin_ranking_loss(one, one, one).dtype is torch.float32


@pytest.mark.parametrize("order", [1, 2])
def test_differences_are_as_precise_as_coordinates(order):
    values = np.random.default_rng(3).standard_normal(50).astype(np.float32)
    places = np.cumsum(np.random.default_rng(4).uniform(0.1, 1, 50))
    (slope,) = f.gradient(torch.tensor(values), spacing=[torch.tensor(places)], edge_order=order)
    assert slope.dtype is torch.float64
    assert np.allclose(slope.tolist(), np.gradient(values.astype(float), places, edge_order=order), rtol=1e-12, atol=0)
