"""Conversion of host arrays between element types, including the bits of bfloat16 and float8."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensocket_plugins.contract.dtypes import DType, bfloat16, complex32
from tensocket_plugins.ir.build.float8 import LAYOUTS, decode, encode
from tensocket_plugins.kit.host_kernels_math import NUMPY_MATH


def float32_of_bfloat16(bits: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the values of bfloat16 bits as float32."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def bfloat16_bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the bits of the nearest bfloat16 values, with ties to even; NaN stays NaN."""
    with np.errstate(all="ignore"):  # out-of-range numbers become infinite
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return (
        np.where((bits & 0x7FFFFFFF) > 0x7F800000, (bits >> 16) | 0x40, rounded).astype(np.uint16).reshape(values.shape)
    )


def native_values(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Return stored elements of ``dtype`` as values of a NumPy type; a wider one for the types that NumPy lacks."""
    if dtype.native:
        return values
    if dtype is complex32:
        parts = np.ascontiguousarray(values)[..., None].view(np.float16).astype(np.float32)
        return parts.view(np.complex64)[..., 0]
    return float32_of_bfloat16(values) if dtype is bfloat16 else np.asarray(decode(NUMPY_MATH, values, dtype))


def to_dtype(values: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Convert NumPy values to the stored bits of ``dtype``. Never warns; out-of-range conversions are unspecified.

    Complex values lose their imaginary part, except on the way to bool.
    """
    if values.dtype == dtype.numpy and dtype.native:
        return values
    if values.dtype.kind == "c" and dtype.kind not in ("complex", "bool"):
        values = values.real
    if dtype is bfloat16:
        return bfloat16_bits(values)
    with np.errstate(all="ignore"):
        if dtype is complex32:
            wide = np.ascontiguousarray(values, np.complex64)[..., None].view(np.float32)
            return wide.astype(np.float16).view(np.uint32)[..., 0].reshape(values.shape)
        if dtype in LAYOUTS:
            return np.asarray(encode(NUMPY_MATH, np.asarray(values, np.float32), dtype))
        return values.astype(dtype.numpy)
