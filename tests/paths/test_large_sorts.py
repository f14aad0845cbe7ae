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


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bool", "int8", "uint32", "int64"])
@pytest.mark.parametrize(("shape", "dim"), [((30000,), 0), ((3, 5001), 1), ((40, 300), 1), ((2, 300, 10), 1)])
@pytest.mark.parametrize("layout", ["as drawn", "equal", "sorted", "reversed"])
def test_the_first_few_are_those_of_a_stable_sort(dtype: str, shape: tuple[int, ...], dim: int, layout: str) -> None:
    array = _values(dtype, shape)
    if layout == "equal":
        array = np.full_like(array, array.reshape(-1)[9])
    elif layout != "as drawn":
        array = np.sort(array, dim)
    x = torch.tensor(array).flip(dim) if layout == "reversed" else torch.tensor(array)
    given = np.flip(array, dim) if layout == "reversed" else array
    for count, largest in ((1, True), (7, False), (100, True)):
        places = _order(given, dim, largest)[(slice(None),) * dim + (slice(count),)]
        values, indices = x.topk(count, dim, largest)
        np.testing.assert_array_equal(indices.numpy(), places)
        np.testing.assert_array_equal(values.numpy(), np.take_along_axis(given, places, dim))


def test_more_equals_of_a_period_than_there_is_room_for() -> None:
    array = np.where(np.arange(20000) % 64 < 4, np.arange(20000), 0).astype(np.float32)
    values, indices = torch.tensor(array).topk(16)
    np.testing.assert_array_equal(indices.numpy(), _order(array, 0, True)[:16])
    np.testing.assert_array_equal(values.numpy(), array[indices.numpy()])


def test_large_permutations_are_the_order_of_their_keys() -> None:
    torch.manual_seed(3)
    here = torch.randperm(30000)
    torch.manual_seed(3)
    assert torch.equal(here, torch.randperm(30000, device="ref").to("cpu"))
    assert torch.equal(here.sort().values, torch.arange(30000))


def test_distinct_elements_of_large_arrays() -> None:
    array = np.random.default_rng(9).integers(-5000, 5000, (100, 300))
    values, inverse, counts = torch.tensor(array).unique(return_inverse=True, return_counts=True)
    expected = np.unique(array, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values.numpy(), expected[0])
    np.testing.assert_array_equal(inverse.numpy(), expected[1].reshape(array.shape))
    np.testing.assert_array_equal(counts.numpy(), expected[2])
    rows = array[:, :3].repeat(2, 0) % 5
    chosen = torch.tensor(np.tile(rows, (60, 1))).unique(dim=0)
    np.testing.assert_array_equal(chosen.numpy(), np.unique(rows, axis=0))
