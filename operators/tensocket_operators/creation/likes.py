"""Tensors modelled on another tensor: on its shape, or only on its dtype and device."""

from __future__ import annotations

from typing import Any

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.formats import check_format, preserve_format
from tensocket_core.keys import WRAPPER
from tensocket_core.launch.fill import fill_array, filled, finish
from tensocket_core.launch.numbers import plain_number
from tensocket_core.strides import empty_preserved, empty_strided_array, format_strides
from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.contract.errors import ArgumentTypeError

from .base import lift_to_level_of, mark_uninitialized, options, shape_of, uninitialized
from .data import tensor
from .noted import noted
from .ranges import arange
from .record import dispatch_factory, is_intercepted
from .small import small_filled, small_like


def _like(input: Any, dtype: Any, device: Any) -> tuple[tuple[int, ...], DType, DeviceState]:
    if not hasattr(input, "_key"):
        raise ArgumentTypeError("like", f"a {type(input).__name__}", "a tensor is made like another tensor",
                                "pass a tensor")
    if dtype is None and device is None and not input._key & WRAPPER:
        return input._array.shape, input.dtype, input._device_state
    chosen, state = options("like", input.dtype if dtype is None else dtype, input.device if device is None else device)
    return input._array.shape, chosen, state


def _array_like(input: Any, dtype: DType, state: DeviceState, memory_format: Any) -> Any:
    """Return a new array with another tensor's order of dimensions in memory, or in a memory format."""
    format = check_format("like", memory_format)
    if format is None or format is preserve_format:
        return empty_preserved(state, input._array, dtype)
    shape = input._array.shape
    return empty_strided_array(state, shape, dtype, format_strides("like", shape, format))


@noted(like=True)
def empty_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
               memory_format: Any = None, **rest: Any) -> Any:
    """Return an uninitialised tensor of another's shape, strides, dtype and device."""
    if not (ACTIVE or dtype or device or requires_grad or memory_format or rest):
        small = small_like(input, None)
        if small is not None:
            return small
    if rest or ((ACTIVE or getattr(input, "_key", WRAPPER) & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(empty_like, input, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    _, chosen, state = _like(input, dtype, device)
    out = _array_like(input, chosen, state, memory_format)
    mark_uninitialized(out, chosen, state)
    return lift_to_level_of(input, finish(out, chosen, state, requires_grad))


def _filled_like(operator: str, input: Any, value: Any, dtype: Any, device: Any, requires_grad: bool,
                 memory_format: Any) -> Any:
    _, chosen, state = _like(input, dtype, device)
    out = _array_like(input, chosen, state, memory_format)
    fill_array(operator, state, out, value, chosen)
    return lift_to_level_of(input, finish(out, chosen, state, requires_grad))


@noted(like=True)
def zeros_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
               memory_format: Any = None, **rest: Any) -> Any:
    """Return zeros of another tensor's shape, strides, dtype and device."""
    if not (ACTIVE or dtype or device or requires_grad or memory_format or rest):
        small = small_like(input, 0)
        if small is not None:
            return small
    if rest or ((ACTIVE or getattr(input, "_key", WRAPPER) & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(zeros_like, input, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    return _filled_like("zeros_like", input, 0, dtype, device, requires_grad, memory_format)


@noted(like=True)
def ones_like(input: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              memory_format: Any = None, **rest: Any) -> Any:
    """Return ones of another tensor's shape, strides, dtype and device."""
    if not (ACTIVE or dtype or device or requires_grad or memory_format or rest):
        small = small_like(input, 1)
        if small is not None:
            return small
    if rest or ((ACTIVE or getattr(input, "_key", WRAPPER) & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(ones_like, input, rest=rest, dtype=dtype, device=device, requires_grad=requires_grad,
                    memory_format=memory_format)
    return _filled_like("ones_like", input, 1, dtype, device, requires_grad, memory_format)


@noted(like=True)
def full_like(input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              memory_format: Any = None, **rest: Any) -> Any:
    """Return a tensor of one value, with another tensor's shape, strides, dtype and device."""
    if rest or ((ACTIVE or getattr(input, "_key", WRAPPER) & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(full_like, input, fill_value, rest=rest, dtype=dtype, device=device,
                                requires_grad=requires_grad,
                    memory_format=memory_format)
    value = fill_value.item() if hasattr(fill_value, "_key") else fill_value
    return _filled_like("full_like", input, value, dtype, device, requires_grad, memory_format)


@noted(like=True)
def new_zeros(input: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              **rest: Any) -> Any:
    """Return zeros of this tensor's dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(new_zeros, input, *size, rest=rest, dtype=dtype, device=device,
                                requires_grad=requires_grad)
    if not (ACTIVE or requires_grad or dtype or device or input._key & WRAPPER):
        small = small_filled(size, input.dtype, input.device, 0)
        if small is not None:
            return small
    _, chosen, state = _like(input, dtype, device)
    return lift_to_level_of(input, filled("new_zeros", shape_of("new_zeros", size), 0, chosen, state, requires_grad))


@noted(like=True)
def new_ones(input: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
             **rest: Any) -> Any:
    """Return ones of this tensor's dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(new_ones, input, *size, rest=rest, dtype=dtype, device=device,
                                requires_grad=requires_grad)
    if not (ACTIVE or requires_grad or dtype or device or input._key & WRAPPER):
        small = small_filled(size, input.dtype, input.device, 1)
        if small is not None:
            return small
    _, chosen, state = _like(input, dtype, device)
    return lift_to_level_of(input, filled("new_ones", shape_of("new_ones", size), 1, chosen, state, requires_grad))


@noted(like=True)
def new_empty(input: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
              **rest: Any) -> Any:
    """Return an uninitialised tensor of this tensor's dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(new_empty, input, *size, rest=rest, dtype=dtype, device=device,
                                requires_grad=requires_grad)
    _, chosen, state = _like(input, dtype, device)
    array = uninitialized(shape_of("new_empty", size), chosen, state)
    return lift_to_level_of(input, finish(array, chosen, state, requires_grad))


@noted(like=True)
def new_full(input: Any, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
             requires_grad: bool = False, **rest: Any) -> Any:
    """Return a tensor of one value, with this tensor's dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(new_full, input, size, fill_value, rest=rest, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    _, chosen, state = _like(input, dtype, device)
    value = plain_number(fill_value)
    made = filled("new_full", shape_of("new_full", (size,)), value, chosen, state, requires_grad)
    return lift_to_level_of(input, made)


def new_tensor(input: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
               **rest: Any) -> Any:
    """Return a tensor with a copy of data, of this tensor's dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(new_tensor, input, data, rest=rest, dtype=dtype, device=device,
                                requires_grad=requires_grad)
    return tensor(
        data,
        dtype=input.dtype if dtype is None else dtype,
        device=input.device if device is None else device,
        requires_grad=requires_grad,
    )


def new_arange(input: Any, start: int, end: int, step: int) -> Any:
    """Return int64 positions on this tensor's device."""
    return arange(start, end, step, dtype=int64, device=input.device)
