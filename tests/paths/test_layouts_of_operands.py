"""Repeated, permuted and spread elements: kernels that are made for a layout compute what those of dense arrays do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

import tensocket as torch

F = torch.nn.functional
#: Views of a matrix, each with what NumPy makes of the same values.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "dense": lambda x: x, "transposed": lambda x: x.T, "spread": lambda x: x[:, ::3], "one row": lambda x: x[:1],
    "one column": lambda x: x[:, :1]}
SHAPES = ((700, 5), (700, 8), (40, 130), (3, 4000))


def values(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_and_its_gradient(shape: tuple[int, int], layout: str, dim: int) -> None:
    given = LAYOUTS[layout](values(*shape))
    x = LAYOUTS[layout](torch.tensor(values(*shape))).requires_grad_()
    exact = np.exp(given - given.max(dim, keepdims=True))
    exact /= exact.sum(dim, keepdims=True)
    found, logarithms = x.softmax(dim), x.log_softmax(dim)
    np.testing.assert_allclose(found.detach(), exact, rtol=1e-12)
    np.testing.assert_allclose(logarithms.detach(), np.log(exact), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(x.detach().logsumexp(dim), np.log(np.exp(given).sum(dim)), rtol=1e-12)
    rows = torch.tensor(values(*x.shape)[:1]).expand(x.shape)
    one = torch.ones((), dtype=torch.float64)
    for upstream in (one.expand(x.shape), rows, rows.flip(0), rows.t().contiguous().t()):
        g = upstream.numpy()
        (slope,) = torch.autograd.grad(logarithms, x, upstream, retain_graph=True)
        np.testing.assert_allclose(slope, g - exact * g.sum(dim, keepdims=True), atol=1e-11)
        (slope,) = torch.autograd.grad(found, x, upstream, retain_graph=True)
        np.testing.assert_allclose(slope, exact * (g - (g * exact).sum(dim, keepdims=True)), atol=1e-12)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1), (2, 0, 1)])
@pytest.mark.parametrize("dims", [(0, 1, 2), (0, 1), (1, 2), (0, 2)])
def test_reductions_of_permuted_arrays(order: tuple[int, ...], dims: tuple[int, ...]) -> None:
    given = values(40, 30, 7).transpose(order)
    x = torch.tensor(values(40, 30, 7)).permute(order)
    for y, expected in ((x, given), (x[:, None].expand(*given.shape[:1], 4, *given.shape[1:]).select(1, 2), given)):
        np.testing.assert_allclose(y.sum(dims), expected.sum(dims), rtol=1e-12, atol=1e-12)
        mean = expected.mean(dims, keepdims=True)
        np.testing.assert_allclose(y.mean(dims, keepdim=True), mean, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(y.var(dims), expected.var(dims, ddof=1), rtol=1e-12)
        np.testing.assert_array_equal(y.amax(dims), expected.max(dims))
    assert x.argmax().item() == given.argmax()
    repeated = torch.tensor(values(7)).expand(40, 30, 7).permute(order)
    np.testing.assert_allclose(repeated.sum(dims), repeated.numpy().copy().sum(dims), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("function", ["exp", "log1p", "tanh", "sin", "erf"])
def test_functions_of_spread_elements(function: str) -> None:
    reference = getattr(np, function, None) or getattr(special, function)
    given = np.abs(values(900, 10)).astype(np.float32)
    for view in (lambda x: x[:, ::2], lambda x: x[:, 1::3], lambda x: x[::5, ::9], lambda x: x.T[::2]):
        found, expected = getattr(view(torch.tensor(given)), function)(), reference(view(given).astype(np.float64))
        np.testing.assert_allclose(found, expected, rtol=3e-6, atol=1e-7)
        assert torch.equal(found, getattr(view(torch.tensor(given)).contiguous(), function)())


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic", "area"])
def test_resampling_takes_the_gradient_of_a_sum(mode: str) -> None:
    x = torch.tensor(values(3, 2, 5, 6)).requires_grad_()
    found = F.interpolate(x, scale_factor=2, mode=mode)
    (slope,) = torch.autograd.grad(found.sum(), x, retain_graph=True)
    (dense,) = torch.autograd.grad(found, x, torch.ones_like(found))
    np.testing.assert_allclose(slope, dense, rtol=1e-12)
    np.testing.assert_allclose(slope.sum(), found.numel(), rtol=1e-12)


def test_degrees_that_repeat_along_rows() -> None:
    """Bounds of a polynomial's loop are loaded behind a mask, so that they differ between the lanes of a vector."""
    given, degrees = values(3, 4, 20).astype(np.float32), np.random.default_rng(0).integers(-1, 6, (3, 4, 1))
    x, n = torch.tensor(given), torch.tensor(degrees.astype(np.float32))
    exact = np.where(degrees < 0, 0, special.eval_hermite(np.maximum(degrees, 0), given.astype(np.float64)))
    for found in (torch.special.hermite_polynomial_h(x, n), torch.special.hermite_polynomial_h(x, n.expand(3, 4, 20))):
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)
