"""Shortcuts to generated kernels: arrays of one shape without gaps, for keys that settle everything but sizes.

The kernel is looked up once for a closure. What does not fit goes to the general closure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import DType

from .. import tensors
from ..device import DeviceEntry
from .generated import as_number
from .geometry import contiguous
from .usage import note_use

Closure = Callable[..., Any]
#: ``program()``: the compiled kernel for one array more than operands that are arrays, a size, and numbers.
Program = Callable[[], Callable[..., None]]
#: Elements up to which devices count with 32 bits.
_MOST: Final = 1 << 30


def unary(entry: DeviceEntry, program: Program, key: int, result: DType, least: int, general: Closure) -> Closure:
    """``kernel(out, x)`` for more than ``least`` elements."""
    kernel: Callable[..., None] | None = None
    runtime, on_host = entry.runtime, entry.runtime.profile.host_resident

    def dense_unary(a: Any) -> Any:
        nonlocal kernel
        x = a._array
        size = x.size
        if not (least < size < _MOST and (x.flags.c_contiguous if type(x) is np.ndarray else contiguous(x))):
            return general(a)
        run = kernel
        if run is None:
            run = kernel = program()
        stream = entry.stream
        out = runtime.empty(x.shape, result, stream)
        if not on_host:
            note_use((x, out), stream)
        run((out, x), (size,), stream)
        return tensors.wrap(out, key)

    return dense_unary


def binary(entry: DeviceEntry, program: Program, key: int, result: DType, least: int, general: Closure) -> Closure:
    """``kernel(out, x, y)`` for more than ``least`` elements."""
    kernel: Callable[..., None] | None = None
    runtime, on_host = entry.runtime, entry.runtime.profile.host_resident

    def dense_binary(a: Any, b: Any) -> Any:
        nonlocal kernel
        x, y = a._array, b._array
        size, shape = x.size, x.shape
        if not (least < size < _MOST and y.shape == shape and (
                x.flags.c_contiguous and y.flags.c_contiguous if type(x) is np.ndarray
                else contiguous(x) and contiguous(y))):
            return general(a, b)
        run = kernel
        if run is None:
            run = kernel = program()
        stream = entry.stream
        out = runtime.empty(shape, result, stream)
        if not on_host:
            note_use((x, y, out), stream)
        run((out, x, y), (size,), stream)
        return tensors.wrap(out, key)

    return dense_binary


def number(entry: DeviceEntry, program: Program, key: int, result: DType, least: int, general: Closure,
           kind: DType) -> Closure:
    """``kernel(out, x, number)`` for more than ``least`` elements; the number is passed as one of ``kind``."""
    kernel: Callable[..., None] | None = None
    runtime, on_host = entry.runtime, entry.runtime.profile.host_resident

    def dense_number(a: Any, b: Any) -> Any:
        nonlocal kernel
        x = a._array
        size = x.size
        if not (least < size < _MOST and (x.flags.c_contiguous if type(x) is np.ndarray else contiguous(x))):
            return general(a, b)
        run = kernel
        if run is None:
            run = kernel = program()
        stream = entry.stream
        out = runtime.empty(x.shape, result, stream)
        if not on_host:
            note_use((x, out), stream)
        run((out, x), (size, as_number(b, kind)), stream)
        return tensors.wrap(out, key)

    return dense_number


def inplace(entry: DeviceEntry, program: Program, numbers: DType | None, least: int, general: Closure,
            bump: Callable[[Any], None]) -> Closure:
    """``kernel(x, x, y)``, or ``kernel(x, x, number)`` for a number of dtype ``numbers``, for more than ``least``
    elements. Arrays that may share memory are left to the general closure.
    """
    kernel: Callable[..., None] | None = None
    on_host = entry.runtime.profile.host_resident

    def dense_inplace(target: Any, other: Any) -> Any:
        nonlocal kernel
        x = target._array
        size, counter = x.size, target._version_counter
        if not (least < size < _MOST and _writable(x) and (counter is None or type(counter) is list)):
            return general(target, other)
        run = kernel
        if run is None:
            run = kernel = program()
        stream = entry.stream
        if numbers is not None:
            if not on_host:
                note_use((x,), stream)
            run((x, x), (size, as_number(other, numbers)), stream)
        else:
            y = other._array
            if y.shape != x.shape or not (_apart(x, y) and contiguous(y)):
                return general(target, other)
            if not on_host:
                note_use((x, y), stream)
            run((x, x, y), (size,), stream)
        bump(target)
        return target

    return dense_inplace


def _writable(array: Any) -> bool:
    return bool(array.flags.carray) if type(array) is np.ndarray else contiguous(array)


def _apart(x: Any, y: Any) -> bool:
    """Whether two arrays are one, or have memory of different owners."""
    if x is y:
        return True
    if type(x) is np.ndarray:
        return (x if x.base is None else x.base) is not (y if y.base is None else y.base)
    return x.storage is not y.storage
