"""Reductions over the rows of matrices: with few columns, of which a vector takes several rows, and with many."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch

COLUMNS = (1, 2, 3, 7, 8, 31, 64, 65, 127, 128, 129)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("rows", [700, 5001, 40003])
def test_sums_and_extremes_of_columns(rows: int, columns: int) -> None:
    values = np.random.default_rng(columns).standard_normal((rows, columns)).astype(np.float32)
    x, wide = torch.from_numpy(values), values.astype(np.float64)
    bound = np.abs(wide).sum(0) * 2e-6
    assert (np.abs(x.sum(0).numpy() - wide.sum(0)) <= bound).all()
    np.testing.assert_allclose(x.mean(0).numpy(), wide.mean(0), atol=2e-6)
    np.testing.assert_allclose(x.var(0).numpy(), wide.var(0, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(x.norm(dim=0).numpy(), np.linalg.norm(wide, axis=0), rtol=1e-6)
    np.testing.assert_array_equal(x.amax(0).numpy(), values.max(0))
    np.testing.assert_array_equal(x.argmin(0).numpy(), values.argmin(0))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("columns", [511, 513, 1023, 1025, 2111, 4096, 9001])
def test_wide_rows(columns: int, threads: int) -> None:
    values = np.random.default_rng(columns).standard_normal((77, columns)).astype(np.float32)
    x, wide, before = torch.from_numpy(values), values.astype(np.float64), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        np.testing.assert_allclose(x.sum(0).numpy(), wide.sum(0), atol=2e-5)
        np.testing.assert_allclose(x.double().sum(0).numpy(), wide.sum(0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(x.prod(0).numpy(), wide.prod(0), rtol=1e-5)
        np.testing.assert_allclose(x.var(0).numpy(), wide.var(0, ddof=1), rtol=1e-5)
        np.testing.assert_array_equal(x.amax(0).numpy(), values.max(0))
        np.testing.assert_array_equal(x.argmin(0).numpy(), values.argmin(0))
        shifted = np.exp(wide - wide.max(0))
        np.testing.assert_allclose(x.softmax(0).numpy(), shifted / shifted.sum(0), rtol=1e-5)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("columns", COLUMNS)
def test_integers_bools_and_first_of_equals(columns: int) -> None:
    values = np.random.default_rng(columns).integers(-9, 9, (9001, columns))
    x = torch.from_numpy(values)
    np.testing.assert_array_equal(x.sum(0).numpy(), values.sum(0))
    np.testing.assert_array_equal((x == 9).any(0).numpy(), (values == 9).any(0))
    np.testing.assert_array_equal((x > -9).all(0).numpy(), (values > -9).all(0))
    np.testing.assert_array_equal(x.argmax(0).numpy(), values.argmax(0))


def test_not_a_number_in_the_last_rows() -> None:
    values = np.zeros((4099, 3), np.float32)
    values[4098, 1] = np.nan
    np.testing.assert_array_equal(torch.from_numpy(values).amax(0).numpy(), [0, np.nan, 0])
    np.testing.assert_array_equal(torch.from_numpy(values).argmax(0).numpy(), [0, 4098, 0])


@pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int16, np.int32])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_narrow_integers_are_summed_as_they_are_read(dtype: type, dim: int | None) -> None:
    values = np.random.default_rng(3).integers(0, 2 if dtype is np.bool_ else 120, (300, 411)).astype(dtype)
    x = torch.from_numpy(values)
    assert x.sum(dim).dtype is torch.int64
    np.testing.assert_array_equal(x.sum(dim).numpy(), values.sum(dim, dtype=np.int64))
    np.testing.assert_array_equal(x.sum(dim, dtype=torch.float64).numpy(), values.sum(dim, dtype=np.float64))
    np.testing.assert_array_equal(x.any(dim).numpy() != 0, values.any(dim))


def test_truth_of_floats() -> None:
    values = np.zeros((200, 200), np.float32)
    values[3, 5], values[:, 7] = np.nan, -0.0
    x = torch.from_numpy(values)
    np.testing.assert_array_equal(x.any(1).numpy(), values.any(1))
    np.testing.assert_array_equal((x + 1).all(0).numpy(), (values + 1).all(0))


@pytest.mark.parametrize("shape", [(50001, 1), (1, 50001), (300, 1, 200), (70001, 1), (30001, 2), (20001, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_few_elements_of_many_rows(shape: tuple[int, ...], dtype: type) -> None:
    values = (np.random.default_rng(len(shape)).standard_normal(shape) * 9).astype(dtype)
    x, wide, axis = torch.from_numpy(values), values.astype(np.float64), int(np.argmin(shape))
    for keep in (False, True):
        np.testing.assert_allclose(x.sum(axis, keep).numpy(), wide.sum(axis, keepdims=keep), rtol=1e-6, atol=1e-5)
        np.testing.assert_allclose(x.prod(axis, keep).numpy(), wide.prod(axis, keepdims=keep), rtol=1e-6)
        np.testing.assert_array_equal(x.amax(axis, keep).numpy(), values.max(axis, keepdims=keep))
        np.testing.assert_array_equal(x.argmin(axis, keep).numpy(), values.argmin(axis, keepdims=keep))
        np.testing.assert_array_equal(x.bool().all(axis, keep).numpy(), values.astype(bool).all(axis, keepdims=keep))
        if dtype is not np.int64:
            np.testing.assert_allclose(x.mean(axis, keep).numpy(), wide.mean(axis, keepdims=keep), rtol=1e-6,
                                       atol=1e-6)


def test_one_element_of_each_row_keeps_what_it_is() -> None:
    values = np.resize(np.array([np.inf, -np.inf, np.nan, 3e38, 1e-45], np.float32), (50001, 1))
    x = torch.from_numpy(values)
    for result in (x.sum(-1), x.mean(-1), x.prod(-1), x.amax(-1), x.amin(-1)):
        np.testing.assert_array_equal(result.numpy(), values[:, 0])


def test_recorded_sums_of_one_element_per_row() -> None:
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((20001, 1)).astype(np.float32))
    for _ in range(300):
        made = torch.nansum(x, -1) + torch.norm(x, dim=-1)
    np.testing.assert_allclose(made.numpy(), x.numpy()[:, 0] + np.abs(x.numpy()[:, 0]), rtol=1e-6)
