"""Handles on the same memory with another element type."""

from __future__ import annotations

from typing import Any

import numpy as np

from tensocket_core.geometry import element_strides, memory_of, memory_offset
from tensocket_plugins.contract.arrays import DeviceArray, contiguous_strides
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ShapeError


def retyped(array: Any, source: DType, dtype: DType) -> Any:
    """Return a handle on the same memory whose elements have dtype ``dtype``.

    A narrower dtype makes the last dimension longer, a wider one shorter.

    Raises:
        ShapeError: The last dimension is not contiguous, or a size, stride or offset is not a multiple of the ratio.
    """
    shape = array.shape
    # NumPy stores no strides for arrays without elements.
    strides = contiguous_strides(shape) if 0 in shape else element_strides(array)
    offset = memory_offset(array)
    old, new = source.itemsize, dtype.itemsize
    if old != new:
        _check(shape, strides, offset, source, dtype)
    if old > new:
        ratio = old // new
        shape, strides = (*shape[:-1], shape[-1] * ratio), (*(s * ratio for s in strides[:-1]), 1)
        offset *= ratio
    elif old < new:
        ratio = new // old
        shape, strides = (*shape[:-1], shape[-1] // ratio), (*(s // ratio for s in strides[:-1]), 1)
        offset //= ratio
    if type(array) is not np.ndarray:
        return DeviceArray(array.storage, dtype, shape, strides, offset)
    memory = memory_of(array)
    flat = memory if memory.flags.c_contiguous else memory.T
    return np.ndarray(shape, dtype.numpy, flat, offset * new, tuple(s * new for s in strides))


def _check(shape: tuple[int, ...], strides: tuple[int, ...], offset: int, source: DType, dtype: DType) -> None:
    given = f"shape {list(shape)}, strides {list(strides)}, {source.name} as {dtype.name}"
    if not shape:
        raise ShapeError("view", given, "a dtype of another size needs a dimension", "unsqueeze the tensor first")
    ratio = dtype.itemsize // source.itemsize
    if (strides[-1] != 1 and shape[-1] != 1) or (ratio > 1 and strides[-1] != 1):
        raise ShapeError("view", given, "the last dimension is contiguous for a dtype of another size",
                         "call contiguous() first")
    if ratio > 1 and any(n % ratio for n in (shape[-1], offset, *strides[:-1])):
        raise ShapeError("view", given, f"size, strides and offset are multiples of {ratio}",
                         "choose a dtype of the same size")
