"""Choices between paths by a tensor's values, also when it stands for one example of a batch, or by its dtype."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from tensocket_core.dispatch.modes import STATE, untransformed
from tensocket_core.promotion import result_type
from tensocket_plugins.contract.dtypes import bool_
from tensocket_plugins.contract.launch_recorder import expect_zero, is_recording
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS, note_read, unobserved
from tensocket_plugins.ir.element_types import arithmetic_dtype

from . import minmax_kernel

#: Elements up to which NumPy reads them faster than a kernel can be called.
_SMALL: Final = 1 << 15


def any_true(mask: Any) -> bool:
    """Whether any element is true, in any example of a batch.

    True if any example needs the slower path, which is correct for all of them. It is also true of a tensor without
    data, so that the slower path infers shapes.
    """
    if not mask._device_state.holds_data:
        return True
    if STATE.transforms or mask._level:
        with untransformed():
            return bool((mask._real if mask._level else mask).any())
    found = mask.any()
    if is_recording() and mask._device_state.runtime.profile.host_resident:  # a replay repeats the test
        expect_zero(found._array)
        return bool(found._array)
    return bool(found)


def any_outside(values: Any, low: float, high: float) -> bool:
    """Whether any element is less than ``low`` or more than ``high``, or is NaN."""
    if not values._array.size:
        return False
    if is_recording():
        return any_true(~((values >= low) & (values <= high)))
    least, most = value_range(values)
    return not (least >= low and most <= high)


def value_range(values: Any) -> tuple[Any, Any]:
    """Return the smallest and the largest element as Python numbers, over all examples of a batch.

    Both are NaN if an element is.
    """
    note_read(values)
    return checked_range(values)


def checked_range(values: Any) -> tuple[Any, Any]:
    """Do the same for a caller that uses them for nothing but a check, which it declares with ``note_range``."""
    if not VALUE_OBSERVERS:
        return _range(values)
    with unobserved():
        return _range(values)


def _range(values: Any) -> tuple[Any, Any]:
    if STATE.transforms or values._level:
        with untransformed():
            real = values._real if values._level else values
            return real.amin().item(), real.amax().item()
    for axis, step in enumerate(values._array.strides):
        if step == 0 and values._array.shape[axis] > 1:  # expanded: one element stands for the whole dimension
            values = values.narrow(axis, 0, 1)
    if values._device_state.runtime.profile.host_resident and values._array.size <= _SMALL and values.dtype.native:
        array = values._host()
        return np.minimum.reduce(array, None).item(), np.maximum.reduce(array, None).item()
    state = values._device_state
    found = state.holds_data and minmax_kernel.both_extremes(state, values._array, values.dtype)
    return found or (values.amin().item(), values.amax().item())


def promoted_for_arithmetic(*tensors: Any) -> tuple[Any, ...]:
    """Return the dtype of a result and the tensors to compute it from, which are float32 instead of narrow floats.

    It serves composites whose intermediate values may leave the range of narrow floats; they round only the result,
    with ``.to(dtype)``.
    """
    dtype = result_type(tensors)
    work = arithmetic_dtype(dtype)
    return dtype, *(tensors if work is dtype else [x.to(work) for x in tensors])


def writable_copy(input: Any, *parts: Any) -> Any:
    """Return a copy of a tensor to write ``parts`` into; one copy per example if a part is batched."""
    result = input.clone()
    for part in parts:
        if part._level:
            result = result.where(part.new_zeros((), dtype=bool_), result)
    return result
