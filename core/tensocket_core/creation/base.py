"""What every factory does: checks of sizes, dtypes and values, new arrays, and leaves on them."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import DType, as_dtype
from tensocket_plugins.contract.errors import ArgumentTypeError, ShapeError

from .. import tensors
from ..deterministic import SETTING
from ..device import DeviceEntry, default_entry, open_entry
from ..dispatch.keys import dtype_bit
from ..dispatch.modes import ACTIVE, STATE
from ..dispatch.operator import check_dtype
from ..execute.convert import to_dtype
from ..execute.generated import run_generated
from ..execute.numbers import as_number, check_range
from ..execute.primitive import primitive
from ..promotion import get_default_dtype


def shape_of(operator: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape given as ints or as one sequence.

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


def finish(array: Any, dtype: DType, entry: DeviceEntry, requires_grad: bool) -> Any:
    """A new leaf on a handle."""
    tensor = tensors.wrap(array, entry.key | dtype_bit(dtype))
    if ACTIVE:
        for transform in STATE.transforms:
            tensor = transform.created(tensor)
        if STATE.inference is not None:
            STATE.inference(tensor)
    if requires_grad:
        tensor.requires_grad = True
    return tensor


def made_from(input: Any, tensor: Any) -> Any:
    """A new tensor made after ``input``: of a transform that runs on many examples, with one copy for each."""
    stack = STATE.transforms
    while input._level and stack[input._level - 1:input._level] != (input._transform,):
        input = input._value  # of a transform that has ended
    if not input._level:
        return tensor
    result = input._like(tensor._real if tensor._level else tensor)
    for transform in stack[input._level:]:
        result = transform.created(result)
    return result


def options(operator: str, dtype: Any, device: Any, default: DType | None = None) -> tuple[DType, DeviceEntry]:
    """The dtype and device of a factory call, checked."""
    chosen = (default or get_default_dtype()) if dtype is None else as_dtype(dtype)
    if chosen is None:
        raise ArgumentTypeError(
            operator, f"dtype {dtype!r}", "dtype is a tensocket dtype", "pass for example tensocket.float32"
        )
    entry = default_entry() if device is None else open_entry(device)
    check_dtype(operator, entry, chosen)
    return chosen, entry


#: Elements from which a kernel fills an array in less time than NumPy.
MANY: Final = 1 << 14


def fill_array(operator: str, entry: DeviceEntry, out: Any, value: Any, dtype: DType) -> None:
    """Write one value everywhere."""
    check_range(operator, value, dtype)
    if 0 in out.shape:
        return
    runtime = entry.runtime
    if runtime.profile.host_resident and (runtime.target is None or out.size < MANY):
        out[...] = to_dtype(np.asarray(value), dtype)
    elif runtime.target is not None:
        run_generated(entry, ("fill", dtype), lambda x: x, [(value, dtype)],
                      out.shape, [(out, dtype)])
    else:
        primitive("fill", entry, "fill", dtype)([out], [], (as_number(value, dtype),), entry.stream)


def filled(
    operator: str, shape: tuple[int, ...], value: Any, dtype: DType, entry: DeviceEntry, requires_grad: bool = False
) -> Any:
    """A tensor with one value everywhere."""
    out = entry.runtime.empty(shape, dtype, entry.stream)
    fill_array(operator, entry, out, value, dtype)
    return finish(out, dtype, entry, requires_grad)


def uninitialized(shape: tuple[int, ...], dtype: DType, entry: DeviceEntry) -> Any:
    """A new array; while results must be reproducible, filled with what shows that nobody wrote it."""
    out = entry.runtime.empty(shape, dtype, entry.stream)
    mark_uninitialized(out, dtype, entry)
    return out


def mark_uninitialized(out: Any, dtype: DType, entry: DeviceEntry) -> None:
    """While results must be reproducible, fill a new array with what shows that nobody wrote it."""
    if SETTING.filling:
        largest = (1 << (8 * dtype.itemsize - (dtype.kind == "int"))) - 1
        value = {"bool": True, "float": math.nan, "complex": complex(math.nan, 0)}.get(dtype.kind, largest)
        fill_array("empty", entry, out, value, dtype)
