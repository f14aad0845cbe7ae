"""Contents of operands with which launches are recorded and compared: values of real programs, and rare ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from .recordings import Range, span

Array = Any
#: The number of kinds of contents.
KINDS: Final = 4
#: The share of elements that get the other number that a range allows.
_SHARE: Final = 0.25
#: The most different elements of an array; a larger one repeats them. A prime number: rows and tiles seldom keep step.
_PERIOD: Final = 8191


def operands_like(arrays: Sequence[Array | None], kind: int, ranges: Sequence[Range] = ()) -> list[Array | None]:
    """Return arrays of the same dtypes, shapes and strides in new memory.

    Args:
        arrays: Arrays, or None.
        kind: 0: floats from 0.5 to 1, integers 0 and 1. 1: numbers and zeros of both signs and of many magnitudes,
            integers of the whole range. 2: the largest and smallest numbers and infinities as well. 3: NaN instead.
        ranges: The integers that operands accept, apart from 0 and 1.
    """
    rng = np.random.default_rng(kind)
    limits: Mapping[int, Range] = {limit.operand: limit for limit in ranges}
    return [None if x is None else _like(x, kind, rng, limits.get(k)) for k, x in enumerate(arrays)]


def scaled_copies(arrays: Sequence[Array | None], factor: int) -> list[Array | None]:
    """Return copies of arrays in new memory of the same layout, with floats and complex numbers times a factor."""
    made = operands_like(arrays, 0)
    for x, copy in zip(arrays, made, strict=True):
        if x is not None and copy is not None:
            copy[...] = x * x.dtype.type(factor) if x.dtype.kind in "fc" else x
    return made


def _like(x: Array, kind: int, rng: np.random.Generator, limit: Range | None) -> Array:
    made = np.ndarray(x.shape, x.dtype, np.zeros(span(x), np.uint8), 0, x.strides)
    values = _values(min(x.size, _PERIOD), x.dtype, kind, rng, limit)
    made[...] = np.resize(values.astype(x.dtype), x.shape)
    return made


def _values(size: int, dtype: np.dtype[Any], kind: int, rng: np.random.Generator, limit: Range | None) -> Array:
    if kind == 0:
        return _tame(size, dtype, rng)
    if limit is not None:
        values = rng.integers(limit.low, max(limit.high, limit.low + 1), size)
        return np.where(rng.random(size) < _SHARE, limit.other, values)
    if dtype.kind == "f":
        return _floats(size, dtype, kind, rng)
    if dtype.kind == "c":
        parts = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
        return _floats(2 * size, parts, kind, rng).view(dtype)
    if dtype.kind == "b":
        return rng.random(size) < 0.5
    return _integers(size, dtype, kind, rng)


def _tame(size: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Array:
    """Return numbers from 0.5 to 1, or zeros and ones; uint16 may hold the bits of bfloat16."""
    values = rng.random(size)
    if dtype == np.uint16:
        return 0x3F00 + values * 256
    return values > 0.5 if dtype.kind in "biu" else values / 2 + 0.5


def _floats(size: int, dtype: np.dtype[Any], kind: int, rng: np.random.Generator) -> Array:
    """Return floats of both signs: magnitudes near 1 are frequent, some elements equal, and all special ones occur."""
    info = np.finfo(dtype)
    large = [float(info.max), float(info.min), -0.0, float(info.smallest_subnormal), np.inf, -np.inf, float(info.tiny)]
    special = [[], large, [np.nan, -np.inf, np.inf, -np.nan]][kind - 1] + [0.0, -0.0, 1.0, -1.0, 0.5, -2.0]
    flat = (rng.standard_normal(size) * 2.0 ** rng.integers(-6, 7, size)).astype(dtype)
    some = rng.permutation(size)[:max(size // 4, len(special))]
    flat[some] = np.resize(np.array(special, dtype), some.size)
    return flat


def _integers(size: int, dtype: np.dtype[Any], kind: int, rng: np.random.Generator) -> Array:
    """Return integers of the whole range, which may also be the bits of floats; about half of them are small."""
    info = np.iinfo(dtype)
    values = rng.integers(info.min, info.max, size, dtype, endpoint=True)
    if dtype == np.uint16 and kind == 1:  # bfloat16 of many magnitudes, but no infinities or NaN
        return (values & np.uint16(0x83FF)) | np.uint16(0x3C00)
    small = rng.integers(max(info.min, -3), 4, size).astype(dtype)
    return np.where(rng.random(size) < 0.5, small, values)
