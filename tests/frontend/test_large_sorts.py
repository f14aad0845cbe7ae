"""Order of arrays that are large enough for generated kernels, against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch


def _values(dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers with equals, both zeros, infinities and NaN, or of the dtype's whole range."""
    generator = np.random.default_rng(11)
    if np.dtype(dtype).kind == "f":
        array = (generator.standard_normal(shape) * 10).round(1).astype(dtype)
        for k, value in enumerate((np.nan, -0.0, 0.0, np.inf, -np.inf)):
            array.reshape(-1)[k::97] = value
        return array
    if dtype == "bool":
        return generator.integers(0, 2, shape) > 0
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def _order(array: np.ndarray, dim: int, descending: bool) -> np.ndarray:
    if not descending:
        return np.argsort(array, dim, kind="stable")
    backwards = np.argsort(np.flip(array, dim), dim, kind="stable")
    return np.flip(array.shape[dim] - 1 - backwards, dim)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bool", "int8", "uint8", "int16", "uint16", "int32",
                                   "uint32", "int64", "uint64"])
@pytest.mark.parametrize(("shape", "dim"), [((40000,), 0), ((3, 9001), 1), ((20, 300), 1), ((2, 90, 40), 1)])
def test_sort_is_stable(dtype: str, shape: tuple[int, ...], dim: int) -> None:
    array = _values(dtype, shape)
    for descending in (False, True):
        places = _order(array, dim, descending)
        values, indices = torch.tensor(array).sort(dim, descending)
        np.testing.assert_array_equal(indices.numpy(), places)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(array, places, dim))


@pytest.mark.parametrize(("low", "high"), [(0, 200), (-100, 100), (1000, 70000), (-3, 1 << 40), (5, 1 << 31)])
def test_sort_of_integers_of_a_small_range(low: int, high: int) -> None:
    array = np.random.default_rng(5).integers(low, high, 5000)
    np.testing.assert_array_equal(torch.tensor(array).argsort().numpy(), np.argsort(array, kind="stable"))
    np.testing.assert_array_equal(torch.tensor(array).argsort(descending=True).numpy(), _order(array, 0, True))
