"""The element of a rank: rows short and long, strided, with ties and NaN, against NumPy's stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket as ts

SHAPES = [(1,), (5,), (31,), (33,), (3, 7), (33, 4), (4, 33), (3, 257, 2), (70000,)]


def _elements(shape: tuple[int, ...], dtype: str) -> Any:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shape) * 50).astype(dtype)
    if x.dtype.kind != "f":
        return x * (1 << 40) if dtype == "int64" else x
    x = np.round(x / 10)
    x.flat[::3], x.flat[::5], x.flat[1::7], x.flat[2::9] = np.nan, -0.0, np.inf, -np.inf
    return x


@pytest.mark.parametrize("device", ["cpu", "ref"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "int32", "int8", "uint8"])
@pytest.mark.parametrize("shape", SHAPES)
def test_ranks_are_those_of_a_stable_sort(shape: tuple[int, ...], dtype: str, device: str) -> None:
    x = _elements(shape, dtype)
    tensor = ts.tensor(x, device=device)
    for dim, size in enumerate(shape):
        order = np.argsort(x, dim, kind="stable")
        numbers = (x == x).sum(dim, keepdims=True)
        for rank in {1, size, (size + 2) // 3}:
            _compare(ts.kthvalue(tensor, rank, dim, True), x, np.take(order, [rank - 1], dim), dim)
        middle = np.where(numbers < size, numbers, (size - 1) // 2)
        _compare(ts.median(tensor, dim, True), x, np.take_along_axis(order, middle, dim), dim)
        middle = np.maximum(numbers - 1, 0) // 2
        _compare(ts.nanmedian(tensor, dim, True), x, np.take_along_axis(order, middle, dim), dim)


def _compare(found: Any, x: Any, places: Any, dim: int) -> None:
    assert np.array_equal(found.indices.cpu().numpy(), places)
    assert np.array_equal(found.values.cpu().numpy(), np.take_along_axis(x, places, dim), equal_nan=x.dtype.kind == "f")


@pytest.mark.parametrize("device", ["cpu", "ref"])
def test_a_transposed_operand_is_read_where_it_is(device: str) -> None:
    x = np.random.default_rng(1).standard_normal((50, 40, 3))
    tensor = ts.tensor(x, device=device).permute(2, 0, 1)
    assert np.array_equal(tensor.median(1).values.cpu().numpy(), np.sort(x, 0)[24].T)
