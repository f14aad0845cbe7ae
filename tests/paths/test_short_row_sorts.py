"""Sorting many short rows, which processors do by the network of long rows of other devices."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
@pytest.mark.parametrize("length", [2, 3, 8, 17, 64, 65])
@pytest.mark.parametrize("descending", [False, True])
def test_rows_are_sorted_and_stable(dtype: type, length: int, descending: bool) -> None:
    values = np.random.default_rng(length).integers(0, 40, (700, length)).astype(dtype)
    if dtype is np.int64:
        values *= 1 << 40
    found = torch.from_numpy(values).sort(1, descending, stable=True)
    keys = values.astype(np.float64) * (-1 if descending else 1)
    np.testing.assert_array_equal(found.indices.numpy(), np.argsort(keys, 1, kind="stable"))
    np.testing.assert_array_equal(found.values.numpy(), np.take_along_axis(values, found.indices.numpy(), 1))


def test_columns_and_not_a_number() -> None:
    values = np.random.default_rng(1).standard_normal((5, 900)).astype(np.float32)
    values[2, ::7] = np.nan
    found = torch.from_numpy(values).sort(0)
    np.testing.assert_array_equal(found.values.numpy(), np.sort(values, 0))
    np.testing.assert_array_equal(found.indices.numpy(), np.argsort(values, 0, kind="stable"))
