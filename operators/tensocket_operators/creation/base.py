"""Shared parts of factories: checks of sizes, dtypes and values, new arrays, and leaves on them."""

from __future__ import annotations

import math
from typing import Any

from tensocket_core.device import DeviceState, default_state, open_device
from tensocket_core.dispatch.modes import STATE
from tensocket_core.dispatch.operator import check_dtype
from tensocket_core.launch.fill import fill_array
from tensocket_core.promotion import get_default_dtype
from tensocket_plugins.contract.dtypes import DType, as_dtype
from tensocket_plugins.contract.errors import ArgumentTypeError, ShapeError

from ..deterministic import SETTING


def shape_of(operator: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    """Return a shape given as ints or as one sequence.

    Raises:
        ShapeError: A size is negative, or there are more elements than any device can hold.
        ArgumentTypeError: A size is not an integer.
    """
    if len(size) == 1 and type(size[0]) is int and 0 <= size[0] < 1 << 62:
        return size
    if not size:
        raise ArgumentTypeError(operator, "no size", "a size is given", "pass () for a zero-dimensional tensor")
    if len(size) == 1 and isinstance(size[0], (tuple, list)):
        size = tuple(size[0])
    if len(size) <= 4 and not [n for n in size if type(n) is not int or not 0 < n < 1 << 15]:
        return size
    if not all(hasattr(n, "__index__") and n is not True and n is not False for n in size):
        raise ArgumentTypeError(operator, f"size {size!r}", "sizes are integers", "pass integers")
    shape = tuple(n.__index__() for n in size)
    if any(n < 0 for n in shape) or math.prod(n for n in shape if n) >= 1 << 62:
        raise ShapeError(operator, f"size {list(shape)}", "sizes are not negative and their product fits 62 bits",
                         "pass smaller, non-negative sizes")
    return shape


def lift_to_level_of(input: Any, tensor: Any) -> Any:
    """Return a new tensor at the transform level of ``input``: a transform over many examples gets a copy for each."""
    stack = STATE.transforms
    while input._level and stack[input._level - 1:input._level] != (input._transform,):
        input = input._value  # the transform has ended
    if not input._level:
        return tensor
    result = input._like(tensor._real if tensor._level else tensor)
    for transform in stack[input._level:]:
        result = transform.created(result)
    return result


def options(operator: str, dtype: Any, device: Any, default: DType | None = None) -> tuple[DType, DeviceState]:
    """Return the checked dtype and device of a factory call."""
    chosen = (default or get_default_dtype()) if dtype is None else as_dtype(dtype)
    if chosen is None:
        raise ArgumentTypeError(
            operator, f"dtype {dtype!r}", "dtype is a tensocket dtype", "pass for example tensocket.float32"
        )
    state = default_state() if device is None else open_device(device)
    check_dtype(operator, state, chosen)
    return chosen, state


def uninitialized(shape: tuple[int, ...], dtype: DType, state: DeviceState) -> Any:
    """Return a new array; if results must be reproducible, filled with a value that marks it as unwritten."""
    out = state.runtime.empty(shape, dtype, state.stream)
    mark_uninitialized(out, dtype, state)
    return out


def mark_uninitialized(out: Any, dtype: DType, state: DeviceState) -> None:
    """Fill a new array with a value that marks it as unwritten, if results must be reproducible."""
    if SETTING.filling:
        largest = (1 << (8 * dtype.itemsize - (dtype.kind == "int"))) - 1
        value = {"bool": True, "float": math.nan, "complex": complex(math.nan, 0)}.get(dtype.kind, largest)
        fill_array("empty", state, out, value, dtype)
