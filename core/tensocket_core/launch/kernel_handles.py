"""Handles that kernels receive for arrays: complex numbers as pairs of floats, elements that only move as words."""

from __future__ import annotations

from typing import Any

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.element_types import COMPONENT

from ..geometry import on_memory


def parts_handle(array: Any, part: DType) -> Any:
    """Return a view of an array of elements twice as long as ``part``: dtype ``part``, with a last dimension of 2."""
    if isinstance(array, DeviceArray):
        return DeviceArray(
            array.storage, part, (*array.shape, 2), (*(2 * s for s in array.strides), 1), 2 * array.offset
        )
    return on_memory(array, part.numpy, (*array.shape, 2), (*array.strides, part.itemsize))


def kernel_handle(array: Any, dtype: DType) -> Any:
    """Return the handle that a kernel receives which computes with an array's elements of ``dtype``."""
    part = COMPONENT.get(dtype)
    return array if part is None else parts_handle(array, part)


def moved_handle(array: Any, dtype: DType) -> Any:
    """Return the handle that a kernel receives which only moves an array's elements of ``dtype``."""
    return parts_handle(array, dtypes.uint64) if dtype is dtypes.complex128 else array
