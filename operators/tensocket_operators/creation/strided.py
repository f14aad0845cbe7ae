"""Factories of tensors with a memory layout that the caller chooses."""

from __future__ import annotations

from typing import Any

from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.keys import WRAPPER
from tensocket_core.launch.fill import finish
from tensocket_core.promotion import get_default_dtype
from tensocket_core.strides import empty_strided_array, ordered_strides
from tensocket_plugins.contract.errors import ShapeError

from .base import lift_to_level_of, mark_uninitialized, options, shape_of
from .noted import noted
from .record import dispatch_factory, is_intercepted
from .sizes import full


@noted()
def empty_strided(size: Any, stride: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
                  **rest: Any) -> Any:
    """Return an uninitialised tensor of a shape with the given strides, in elements.

    Raises:
        ShapeError: A size or a stride is negative, or there are not as many strides as sizes.
    """
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(empty_strided, size, stride, rest=rest, dtype=dtype, device=device,
                                requires_grad=requires_grad)
    chosen, state = options("empty_strided", dtype, device)
    shape, strides = shape_of("empty_strided", (size,)), tuple(stride)
    if len(shape) != len(strides) or any(s < 0 for s in strides):
        raise ShapeError("empty_strided", f"size {list(shape)}, stride {list(strides)}",
                         "every size has a stride, which is not negative", "pass as many strides as sizes")
    out = empty_strided_array(state, shape, chosen, strides)
    mark_uninitialized(out, chosen, state)
    return finish(out, chosen, state, requires_grad)


@noted(like=True)
def new_empty_strided(input: Any, size: Any, stride: Any, *, dtype: Any = None, device: Any = None,
                      requires_grad: bool = False, **rest: Any) -> Any:
    """Return an uninitialised tensor of a shape with the given strides, of this tensor's dtype and device."""
    if rest or ((ACTIVE or input._key & WRAPPER) and is_intercepted(input)):
        return dispatch_factory(new_empty_strided, input, size, stride, rest=rest, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    return lift_to_level_of(input, empty_strided(size, stride, dtype=input.dtype if dtype is None else dtype,
                                          device=input.device if device is None else device,
                                          requires_grad=requires_grad))


@noted()
def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, device: Any = None,
                   requires_grad: bool = False, **rest: Any) -> Any:
    """Return an uninitialised tensor whose dimensions are in the given order in memory, the slowest first.

    Raises:
        ShapeError: The order does not list every dimension once.
    """
    shape, order = shape_of("empty_permuted", (size,)), tuple(physical_layout)
    if sorted(order) != list(range(len(shape))):
        raise ShapeError("empty_permuted", f"layout {list(order)} for size {list(shape)}",
                         "the layout lists every dimension once", "list all dims")
    return empty_strided(shape, ordered_strides(shape, order), dtype=dtype, device=device, requires_grad=requires_grad,
                         **rest)


@noted()
def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """Return a 0-dimensional tensor of the default dtype with one value."""
    return full((), s, dtype=get_default_dtype() if dtype is None else dtype, device=device,
                requires_grad=requires_grad, **rest)
