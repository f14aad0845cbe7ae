"""The smallest and the largest element, and what is decided by them: ranges of histograms, and checks of losses."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators import functions as F
from tensocket_operators.reductions.value_checks import value_range
from tensocket_plugins.contract.errors import ArgumentError

#: Large arrays take long on the interpreter.
needs_cpu = pytest.mark.skipif(not torch.is_available("cpu"), reason="the CPU backend is not installed")
#: More elements than NumPy looks at.
MANY = 40_000


@pytest.mark.parametrize("size", [7, MANY])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int64"])
def test_extremes_are_elements(dtype: str, size: int, device: str) -> None:
    values = np.random.default_rng(0).integers(-96, 97, size) / (16 if "float" in dtype else 1)
    values = np.abs(values) if dtype == "uint8" else values
    try:
        x = torch.tensor(values.tolist(), dtype=getattr(torch, dtype), device=device)
    except torch.errors.UnsupportedDtype:
        pytest.skip("the device lacks the dtype")
    assert value_range(x) == (values.min(), values.max())
    assert value_range(x[1::2]) == (values[1::2].min(), values[1::2].max())


@needs_cpu
@pytest.mark.parametrize("size", [7, MANY])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_extremes_of_infinities_and_nan(dtype: str, size: int) -> None:
    x = torch.zeros(size, dtype=getattr(torch, dtype), device="cpu")
    x[3] = math.inf
    assert value_range(x) == (0.0, math.inf)
    x[4] = math.nan
    assert all(math.isnan(value) for value in value_range(x))


@pytest.mark.parametrize("seed", range(20))
def test_histograms_range_over_fractions(seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=50).astype(np.float32).astype(np.float64)
    expected, edges = np.histogram(values, 7)
    assert F.histc(torch.tensor(values), 7).tolist() == expected.tolist()
    found = F.histogram(torch.tensor(values), 7)
    assert found.hist.tolist() == expected.tolist()
    np.testing.assert_allclose(found.bin_edges.tolist(), edges, rtol=1e-12, atol=1e-14)
    points = values.reshape(25, 2)
    expected, _ = np.histogramdd(points, (3, 4))
    assert F.histogramdd(torch.tensor(points), [3, 4]).hist.tolist() == expected.tolist()


def test_a_range_of_infinite_or_undefined_elements_is_refused() -> None:
    for value in (math.inf, math.nan):
        for function in (F.histc, F.histogram):
            with pytest.raises(ArgumentError, match="the range is finite"):
                function(torch.tensor([0.5, value]), 2)


@needs_cpu
@pytest.mark.parametrize("value", [-0.25, 1.25, 1 + 2.0 ** -23, math.inf, math.nan])
@pytest.mark.parametrize("size", [3, MANY])
def test_cross_entropy_of_what_is_no_probability_is_refused(value: float, size: int) -> None:
    x = torch.full((size,), 0.5, device="cpu")
    x[1] = value
    with pytest.raises(ArgumentError, match="inputs and targets are probabilities"):
        F.binary_cross_entropy(x, torch.ones(size, device="cpu"))


def test_variances_between_zero_and_minus_one_are_refused() -> None:
    one = torch.tensor([1.0])
    for variance in (torch.tensor([-0.001]), -0.5):
        with pytest.raises(ArgumentError, match="variances are not negative"):
            F.gaussian_nll_loss(one, one, variance)


def test_infinite_and_tiny_variances() -> None:
    zero, two = torch.tensor([0.0]), torch.tensor([2.0])
    assert F.gaussian_nll_loss(zero, two, torch.tensor([math.inf])).item() == math.inf
    variance = torch.tensor([1e-9], requires_grad=True)
    loss = F.gaussian_nll_loss(zero, zero, variance, eps=1e-3)
    assert loss.item() == pytest.approx(0.5 * math.log(1e-3))
    loss.backward()
    assert variance.grad.item() == pytest.approx(0.5 / 1e-3)
