"""Tensors of given sizes: uninitialised, or with one value everywhere."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.formats import check_format, preserve_format
from tensocket_core.geometry import as_strided
from tensocket_core.launch.fill import fill_array, filled, finish
from tensocket_core.promotion import number_dtype
from tensocket_core.strides import empty_strided_array, format_strides
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from .base import mark_uninitialized, options, shape_of, uninitialized
from .noted import noted
from .record import dispatch_factory, is_intercepted
from .small import small_filled, small_full

#: Category of the dtype of a Python number, by type.
CATEGORY: Final[dict[type, int]] = {bool: 0, int: 1, float: 2, complex: 3}


@noted()
def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None,
          **rest: Any) -> Any:
    """Return an uninitialised tensor."""
    if not (ACTIVE or requires_grad or rest or memory_format):
        small = small_filled(size, dtype, device, None)
        if small is not None:
            return small
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


@noted()
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


@noted()
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


@noted()
def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
         **rest: Any) -> Any:
    """Return a tensor of one value; its dtype is the value's unless given."""
    if (type(fill_value) is float or type(fill_value) is int) and not (ACTIVE or requires_grad or rest):
        small = small_full(size, fill_value, dtype, device)
        if small is not None:
            return small
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


@noted()
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
