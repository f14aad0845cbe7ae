"""Small tensors on devices in the host's memory: one NumPy call and one new tensor.

Every function returns None for calls that it does not serve, and for wrong ones: the factory's general path serves
those, and raises the errors.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from tensocket_core.device import BY_KEY, DeviceState, default_state, open_device
from tensocket_core.keys import DEVICE_MASK, DIM0, DTYPE_MASK, DTYPE_OF, OPTIONS, WRAPPER, dtype_bit
from tensocket_core.promotion import get_default_dtype
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.kit.host_kernels_quiet import quiet

from ..deterministic import SETTING

#: Largest number of elements at which NumPy is as fast as any other path to a new array.
SMALL: Final = 4096
#: Largest number of elements that NumPy fills faster than a kernel is called; their memory is the device's.
_MEDIUM: Final = 1 << 17
_new = object.__new__
_Array = np.ndarray
_NO_FORM: Final = (None, 0)
#: Bits of a tensor's key that a tensor of the same shape, dtype and device has.
_KEPT: Final = OPTIONS | DIM0
#: Numbers that every dtype of their kind holds, so that a fill needs no check: beyond them, the general path decides.
_MOST: Final = 1 << 31
_FLOATS: Final = {float}
_INTEGERS: Final = {int}


@quiet
def _array_of(data: Any, dtype: Any) -> Any:
    return np.array(data, dtype)


def _form(dtype: Any, device: Any) -> tuple[Any, int]:
    """Return NumPy's dtype and the key of new tensors; ``_NO_FORM`` for devices and dtypes outside NumPy."""
    state = default_state() if device is None else open_device(device)
    try:
        return state.factories[dtype]  # type: ignore[no-any-return]
    except KeyError:
        return _new_form(state, dtype)


def _new_form(state: DeviceState, dtype: Any) -> tuple[Any, int]:
    form: tuple[Any, int] = _NO_FORM
    if isinstance(dtype, DType) and state.holds_data and state.runtime.profile.host_resident and dtype.native:
        if dtype.name in state.runtime.profile.dtypes:
            form = (dtype.numpy, state.key | dtype_bit(dtype))
        state.factories[dtype] = form
    return form


def _leaf(array: Any, key: int) -> Any:
    t = _new(Tensor)
    t._array = array
    t._key = key if array.shape else key | DIM0
    t._grad = t._grad_fn = t._version_counter = t._base = None
    return t


def small_filled(size: Any, dtype: Any, device: Any, value: Any) -> Any:
    """Return a tensor of one value, a bool, int or float; with None, its elements are undefined.

    Args:
        size: The arguments of a factory: sizes, or one sequence of them.
        dtype: Dtype; None is the default one.
        device: Device; None is the default one.
        value: The value. It fits ``dtype``.
    """
    state = default_state() if device is None else open_device(device)
    chosen = get_default_dtype() if dtype is None else dtype
    try:
        numpy_dtype, key = state.factories[chosen]
    except KeyError:
        numpy_dtype, key = _new_form(state, chosen)
    if numpy_dtype is None or not size or RECORDERS:  # in a recorded run, kernels fill arrays
        return None
    if len(size) == 1 and type(size[0]) is not int:
        size = size[0]
        if not isinstance(size, (tuple, list)):
            return None
    try:
        if prod(size) > SMALL:
            array = _medium(state, size, chosen)
            if array is None:
                return None
        else:
            array = np.zeros(size, numpy_dtype) if value == 0 else np.empty(size, numpy_dtype)
    except (TypeError, ValueError):
        return None
    if value or (value == 0 and array.size > SMALL):
        array.fill(value)
    elif value is None and SETTING.filling:
        return None
    t = _new(Tensor)
    t._array = array
    t._key = key if array.shape else key | DIM0
    t._grad = t._grad_fn = t._version_counter = t._base = None
    return t


def _medium(state: DeviceState, size: Any, dtype: DType) -> Any:
    """Return an array of the device's memory whose elements are undefined; None for large ones, and for wrong sizes."""
    if not all(type(n) is int and n >= 0 for n in size) or prod(size) > _MEDIUM:
        return None
    return state.runtime.empty(tuple(size), dtype, state.stream)


def small_full(size: Any, value: Any, dtype: Any, device: Any) -> Any:
    """Return ``full`` for an int or float whose dtype is int64, or the default one."""
    kind = type(value)
    if not -_MOST < value < _MOST or not isinstance(size, (tuple, list)) or not (value or kind is int):  # not -0.0
        return None
    wanted = get_default_dtype() if kind is float else dtypes.int64
    return None if dtype is not None and dtype is not wanted else small_filled((size,), wanted, device, value)


def small_like(input: Any, value: int | None) -> Any:
    """Return a tensor of zeros, ones, or undefined elements (None), like a dense one in the host's memory."""
    try:
        key, array = input._key, input._array
    except AttributeError:
        return None
    if RECORDERS or key & WRAPPER or type(array) is not _Array or not array.flags.c_contiguous:
        return None
    if array.size > SMALL:
        return small_filled(array.shape, DTYPE_OF[key & DTYPE_MASK], BY_KEY[key & DEVICE_MASK].device, value)
    if value == 0:
        made = np.zeros(array.shape, array.dtype)
    elif value is None and not SETTING.filling:
        made = np.empty(array.shape, array.dtype)
    elif value is not None and DTYPE_OF[key & DTYPE_MASK].native:
        made = np.empty(array.shape, array.dtype)
        made.fill(value)
    else:
        return None
    t = _new(Tensor)
    t._array = made
    t._key = key & _KEPT
    t._grad = t._grad_fn = t._version_counter = t._base = None
    return t


def small_values(data: Any, dtype: Any, device: Any) -> Any:
    """Return ``tensor`` of a number, a list or rows of a list: all floats for a float dtype, or all ints for int64."""
    kind = type(data)
    if kind is list:
        kinds = set(map(type, data))
        if kinds == {list}:
            kinds = {type(x) for row in data for x in row}
    else:
        kinds = {kind}
    wanted: Any = None
    if kinds == _FLOATS:
        wanted = get_default_dtype() if dtype is None else dtype if dtype in (dtypes.float32, dtypes.float64) else None
    elif kinds == _INTEGERS and (dtype is None or dtype is dtypes.int64):
        wanted = dtypes.int64
    numpy_dtype, key = _NO_FORM if wanted is None or RECORDERS else _form(wanted, device)
    if numpy_dtype is None:
        return None
    try:
        return _leaf(_array_of(data, numpy_dtype), key)
    except (ValueError, OverflowError):  # rows of different lengths, integers beyond 64 bits
        return None


def small_range(first: Any, last: Any, step: Any, dtype: Any, device: Any) -> Any:
    """Return ``arange`` of ints for int64."""
    if not type(first) is type(last) is type(step) is int or (dtype is not None and dtype is not dtypes.int64):
        return None
    if not step or not -_MOST < first < _MOST or not 0 <= (last - first) // step < SMALL:
        return None
    numpy_dtype, key = _form(dtypes.int64, device)
    return None if numpy_dtype is None or RECORDERS else _leaf(np.arange(first, last, step, dtype=numpy_dtype), key)
