"""Scans of arrays that are large enough for generated kernels, against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch

#: Flat, few long rows, many long and short rows, inner and outer dimensions.
SHAPES = [((40000,), 0), ((2, 9001), 1), ((20, 300), 1), ((90, 70), 1), ((300, 70), 0), ((20, 30, 40), 1),
          ((6, 9, 130), 2), ((20, 30, 40), 0)]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int32", "int64", "complex64"])
@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_running_sums(rng: np.random.Generator, dtype: str, shape: tuple[int, ...], dim: int) -> None:
    array = (rng.uniform(0.5, 1, shape) * (100 if "int" in dtype else 0.1)).astype(dtype)
    wide = array.astype("complex128" if dtype == "complex64" else "float64")
    result = torch.cumsum(torch.tensor(array), dim)
    expected = np.cumsum(wide, dim)
    tolerance = {"float64": 1e-13, "float16": 1e-3, "int32": 0, "int64": 0}.get(dtype, 2e-7)
    np.testing.assert_allclose(result.numpy().astype(expected.dtype), expected, tolerance)
    turned = torch.tensor(np.ascontiguousarray(array.T)).permute(*reversed(range(len(shape))))
    np.testing.assert_allclose(torch.cumsum(turned, dim).numpy(), result.numpy(), tolerance)


@pytest.mark.parametrize(("shape", "dim"), SHAPES)
def test_running_products_and_extremes(rng: np.random.Generator, shape: tuple[int, ...], dim: int) -> None:
    array = rng.uniform(0.9, 1.1, shape).astype(np.float32)
    x = torch.tensor(array)
    np.testing.assert_allclose(torch.cumprod(x, dim).numpy(), np.cumprod(array, dim, dtype=np.float64), 2e-7)
    for function, ufunc in ((torch.cummax, np.maximum), (torch.cummin, np.minimum)):
        values, places = function(x, dim)
        np.testing.assert_array_equal(values.numpy(), ufunc.accumulate(array, dim))
        np.testing.assert_array_equal(np.take_along_axis(array, places.numpy(), dim), values.numpy())


def test_running_extremes_of_equals_and_nan() -> None:
    x = torch.zeros(20000)
    x[12345] = float("nan")
    values, places = torch.cummax(x, 0)
    assert places.tolist() == [*range(12345), *[12345] * (20000 - 12345)]
    assert values.isnan().sum().item() == 20000 - 12345


def test_running_sums_of_positive_numbers_never_fall(rng: np.random.Generator) -> None:
    total = torch.tensor(rng.uniform(size=100000)).cumsum(0).numpy()
    assert (np.diff(total) >= 0).all()


def test_running_sums_do_not_depend_on_threads(rng: np.random.Generator) -> None:
    x, before = torch.tensor(rng.standard_normal(1 << 20)), torch.get_num_threads()
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        results.append(x.cumsum(0).numpy().tobytes())
    torch.set_num_threads(before)
    assert len(set(results)) == 1
