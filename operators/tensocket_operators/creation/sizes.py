"""Tensors of given sizes: uninitialised, or with one value everywhere."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState, default_state, open_device
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.formats import check_format, preserve_format
from tensocket_core.geometry import as_strided
from tensocket_core.keys import DIM0, dtype_bit
from tensocket_core.launch.fill import fill_array, filled, finish
from tensocket_core.promotion import get_default_dtype, number_dtype
from tensocket_core.strides import empty_strided_array, format_strides
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError
from tensocket_plugins.contract.launch_recorder import RECORDERS, is_recording

from .base import mark_uninitialized, options, shape_of, uninitialized
from .record import dispatch_factory, is_intercepted

#: Largest number of elements at which NumPy is as fast as any other path to a new array.
_SMALL: Final = 4096
_new = object.__new__
_NO_FORM: Final = (None, 0)
#: Category of the dtype of a Python number, by type.
CATEGORY: Final[dict[type, int]] = {bool: 0, int: 1, float: 2, complex: 3}


def small_filled(size: tuple[Any, ...], dtype: Any, device: Any, value: int) -> Any:
    """Return a small tensor of one value on a host-resident device; None for any other call and for errors."""
    if RECORDERS and is_recording():  # a kernel fills it
        return None
    state = default_state() if device is None else open_device(device)
    chosen = get_default_dtype() if dtype is None else dtype
    try:
        form = state.factories[chosen]
    except KeyError:
        form = _factory_form(state, chosen)
    if form is _NO_FORM or not size:
        return None
    if len(size) == 1 and type(size[0]) is not int:
        size = size[0]
        if not isinstance(size, (tuple, list)):
            return None
    numpy_dtype, key = form
    try:
        if math.prod(size) > _SMALL:
            return None
        array = np.empty(size, numpy_dtype) if value else np.zeros(size, numpy_dtype)
    except (TypeError, ValueError, MemoryError):
        return None
    if value:
        array.fill(value)
    t = _new(Tensor)
    t._array = array
    t._key = key if array.shape else key | DIM0
    t._grad = t._grad_fn = t._version_counter = t._base = None
    return t


def _factory_form(state: DeviceState, dtype: Any) -> tuple[Any, int]:
    """Return NumPy's dtype and the key of new tensors; ``_NO_FORM`` for devices and dtypes outside NumPy."""
    form: tuple[Any, int] = _NO_FORM
    if isinstance(dtype, DType) and state.holds_data and state.runtime.profile.host_resident and dtype.native:
        if dtype.name in state.runtime.profile.dtypes:
            form = (dtype.numpy, state.key | dtype_bit(dtype))
        state.factories[dtype] = form
    return form


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
          **rest: Any) -> Any:
    """Return an uninitialised tensor."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(empty, *size, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    chosen, state = options("empty", dtype, device)
    shape = shape_of("empty", size)
    if memory_format is None:
        return finish(uninitialized(shape, chosen, state), chosen, state, requires_grad)
    format = check_format("empty", memory_format)
    if format is None or format is preserve_format:
        raise ArgumentError("empty", "preserve_format", "there is no tensor whose format could be kept",
                            "pass another format")
    out = empty_strided_array(state, shape, chosen, format_strides("empty", shape, format))
    mark_uninitialized(out, chosen, state)
    return finish(out, chosen, state, requires_grad)


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """Return a tensor of zeros."""
    if not (ACTIVE or requires_grad or rest):
        small = small_filled(size, dtype, device, 0)
        if small is not None:
            return small
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(zeros, *size, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    chosen, state = options("zeros", dtype, device)
    return filled("zeros", shape_of("zeros", size), 0, chosen, state, requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """Return a tensor of ones."""
    if not (ACTIVE or requires_grad or rest):
        small = small_filled(size, dtype, device, 1)
        if small is not None:
            return small
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(ones, *size, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    chosen, state = options("ones", dtype, device)
    return filled("ones", shape_of("ones", size), 1, chosen, state, requires_grad)


def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
         **rest: Any) -> Any:
    """Return a tensor of one value; its dtype is the value's unless given."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(full, size, fill_value, rest=rest, dtype=dtype, device=device,
                                requires_grad=requires_grad)
    value = fill_value.item() if hasattr(fill_value, "_key") or isinstance(fill_value, np.generic) else fill_value
    if type(value) not in CATEGORY:
        raise ArgumentTypeError("full", f"fill_value {value!r}", "the value is a Python number", "pass a number")
    if not isinstance(size, (tuple, list)):
        raise ArgumentTypeError("full", f"size {size!r}", "size is a tuple of integers", "pass for example (3,)")
    chosen, state = options("full", dtype, device, number_dtype(CATEGORY[type(value)]))
    return filled("full", shape_of("full", (size,)), value, chosen, state, requires_grad)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
        **rest: Any) -> Any:
    """Return a matrix with ones on the diagonal and zeros elsewhere: [n, m] (m defaults to n)."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(eye, n, m, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad)
    chosen, state = options("eye", dtype, device)
    rows, columns = shape_of("eye", (n, n if m is None else m))
    out, length = state.runtime.empty((rows, columns), chosen, state.stream), min(rows, columns)
    fill_array("eye", state, out, 0, chosen)
    if length:
        fill_array("eye", state, as_strided(out, (length,), (columns + 1,), 0), 1, chosen)
    return finish(out, chosen, state, requires_grad)
