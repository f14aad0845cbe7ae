"""Choices between two ways of computing by what a tensor holds, also where it stands for one example of a batch."""

from __future__ import annotations

from typing import Any, Final

from tensocket_plugins.contract.dtypes import bool_

from ..dispatch.modes import STATE, untransformed
from ..execute.extremes import both_extremes

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


def extremes(index: Any) -> tuple[int, int]:
    """The smallest and the largest element, of all examples where a tensor stands for one."""
    if STATE.transforms or index._level:
        with untransformed():
            real = index._real if index._level else index
            return int(real.amin().item()), int(real.amax().item())
    if index._entry.runtime.profile.host_resident and index._array.size <= _SMALL:
        array = index._host()
        return int(array.min()), int(array.max())
    found = index._entry.holds_data and both_extremes(index._entry, index._array, index.dtype)
    return found or (index.amin().item(), index.amax().item())


def room_for(input: Any, *parts: Any) -> Any:
    """A copy of a tensor that ``parts`` are written into; one for each example if a part has many."""
    result = input.clone()
    for part in parts:
        if part._level:
            result = result.where(part.new_zeros((), dtype=bool_), result)
    return result
