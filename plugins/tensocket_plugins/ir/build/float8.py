"""float8 elements: conversion of their bits to float32 and back, written once for NumPy and the kernel IR.

``m`` is a formula namespace (``ExprMath`` or the kit's ``NumpyMath``); words are uint32. The formats are those of
Micikevicius et al., "FP8 Formats for Deep Learning" (2022): e4m3fn has a bias of 7, one NaN and no infinity; e5m2 has a
bias of 15 and is the upper half of a float16. Conversions round to nearest even. Values that are too large become 448
in e4m3fn (infinity too, as in PyTorch) and infinity in e5m2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType, float8_e4m3fn, float8_e5m2, float32, uint8, uint32


@dataclass(frozen=True, slots=True)
class Layout:
    """Bits of a float8 format.

    Attributes:
        fraction: Number of fraction bits.
        bias: Bias of the exponent.
        overflow: Word for values that are too large: infinity, or the largest number.
        infinite: Whether that word is infinity.
        nan: Word of NaN.
    """

    fraction: int
    bias: int
    overflow: int
    infinite: bool
    nan: int


LAYOUTS: Final[dict[DType, Layout]] = {
    float8_e4m3fn: Layout(fraction=3, bias=7, overflow=0x7E, infinite=False, nan=0x7F),
    float8_e5m2: Layout(fraction=2, bias=15, overflow=0x7C, infinite=True, nan=0x7F),
}


def decode(m: Any, bits: Any, dtype: DType) -> Any:
    """Return the float32 values of uint8 ``bits``; exact."""
    form = LAYOUTS[dtype]
    word = m.cast(bits, uint32)
    size = word & 0x7F
    shifted = (size << (23 - form.fraction)) + ((127 - form.bias) << 23)
    value = m.bitcast(shifted, float32)
    tiny = m.cast(size, float32) * 2.0 ** (1 - form.bias - form.fraction)
    value = m.where(size < (1 << form.fraction), tiny, value)
    if form.infinite:
        value = m.where(m.eq(size, form.overflow), float("inf"), value)
    value = m.where(size > form.overflow, float("nan"), value)
    return m.bitcast(m.bitcast(value, uint32) | ((word & 0x80) << 24), float32)


def encode(m: Any, values: Any, dtype: DType) -> Any:
    """Return the uint8 bits nearest to float32 ``values``."""
    form = LAYOUTS[dtype]
    word = m.bitcast(values, uint32)
    size = word & 0x7FFFFFFF
    cut = 23 - form.fraction
    rounded = ((size + ((size >> cut) & 1) + ((1 << (cut - 1)) - 1)) >> cut) - ((127 - form.bias) << form.fraction)
    # Below the smallest normal number, the spacing is constant.
    subnormal = size < ((128 - form.bias) << 23)
    tiny = m.abs(values) * 2.0 ** (form.bias + form.fraction - 1)
    tiny = m.cast(m.rint(m.where(subnormal, tiny, 0.0)), uint32)
    result = m.where(subnormal, tiny, rounded)
    result = m.where(result > form.overflow, form.overflow, result)
    result = m.where(size > (255 << 23), form.nan, result)
    return m.cast(result | ((word >> 24) & 0x80), uint8)
