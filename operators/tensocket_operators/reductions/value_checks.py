"""Choices of ways to compute: by what a tensor holds, also where it stands for one example of a batch, or by dtype."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core.dispatch.modes import STATE, untransformed
from tensocket_core.promotion import result_type
from tensocket_plugins.contract.dtypes import bool_
from tensocket_plugins.ir.build.math import arithmetic_dtype

from .minmax_kernel import both_extremes

#: Elements up to which NumPy looks at them sooner than a kernel is called.
_SMALL: Final = 1 << 15


def true_somewhere(mask: Any) -> bool:
    """Whether an element is true, in any example of a batch: for a way that is right for all, and needed by these.

    Without data it is true, so that this way infers shapes.
    """
    if not mask._entry.holds_data:
        return True
    if STATE.transforms or mask._level:
        with untransformed():
            return bool((mask._real if mask._level else mask).any())
    return bool(mask.any())


def extremes(values: Any) -> tuple[Any, Any]:
    """Return the smallest and the largest element as Python numbers, of all examples where a tensor stands for one.

    Both are NaN where an element is.
    """
    if STATE.transforms or values._level:
        with untransformed():
            real = values._real if values._level else values
            return real.amin().item(), real.amax().item()
    for axis, step in enumerate(values._array.strides):
        if step == 0 and values._array.shape[axis] > 1:  # expanded: one element stands for all of the dimension
            values = values.narrow(axis, 0, 1)
    if values._entry.runtime.profile.host_resident and values._array.size <= _SMALL and values.dtype.native:
        array = values._host()
        return array.min().item(), array.max().item()
    found = values._entry.holds_data and both_extremes(values._entry, values._array, values.dtype)
    return found or (values.amin().item(), values.amax().item())


def widened(*tensors: Any) -> tuple[Any, ...]:
    """Return the dtype of a result, and tensors to compute it with: in float32 instead of narrow floats.

    For composites whose values in between may be larger or smaller than narrow floats can be: only the result is
    rounded, with ``.to(dtype)``.
    """
    dtype = result_type(tensors)
    work = arithmetic_dtype(dtype)
    return dtype, *(tensors if work is dtype else [x.to(work) for x in tensors])


def room_for(input: Any, *parts: Any) -> Any:
    """Return a copy of a tensor that ``parts`` are written into; one for each example if a part has many."""
    result = input.clone()
    for part in parts:
        if part._level:
            result = result.where(part.new_zeros((), dtype=bool_), result)
    return result
