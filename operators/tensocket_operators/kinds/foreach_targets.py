"""Memory of checked arrays: optimizers pass the same parameters and states in every step, and new gradients."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, Final

import numpy as np

from tensocket_core.geometry import owner_of

Column = Sequence[Any]
_shape_of: Final = attrgetter("shape")
_dense: Final = attrgetter("flags.c_contiguous")
#: Most sets of targets that a function remembers.
_MOST: Final = 64


class CheckedTargets:
    """Sets of target arrays of the host that were found to have one shape in each row, no gaps, and no shared memory.

    Arrays are known by weak references: a handle of the host keeps its memory, sizes and strides as long as it lives.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        #: By the identity of the first array: references to all targets, their shapes, and the owners of their memory.
        self._known: dict[int, tuple[list[Any], list[Any], set[int]]] = {}

    def admits(self, arrays: Sequence[Column], writes: Sequence[int]) -> bool:
        """Whether the targets are a known set, and the other arrays are dense and share no memory with any.

        Args:
            arrays: A column of arrays for each list.
            writes: Positions of the targets.
        """
        known = self._known.get(id(arrays[writes[0]][0]))
        if known is None:
            return False
        references, shapes, owners = known
        targets = [x for k in writes for x in arrays[k]]
        if len(targets) != len(references) or [r() is x for r, x in zip(references, targets, strict=True)].count(False):
            return False
        taken = owners
        for k, column in enumerate(arrays):
            if k in writes:
                continue
            own = set(map(owner_id, column))
            if (list(map(_shape_of, column)) != shapes or not all(map(_dense, column)) or len(own) != len(column)
                    or not taken.isdisjoint(own)):
                return False
            taken = taken | own
        return True

    def note(self, arrays: Sequence[Column], writes: Sequence[int]) -> None:
        """Remember the targets of a call whose arrays were checked."""
        columns = [arrays[k] for k in writes]
        targets = [x for column in columns for x in column]
        owners = set(map(owner_id, targets))
        if type(targets[0]) is not np.ndarray or len(owners) != len(targets):
            return
        while len(self._known) >= _MOST:
            self._known.pop(next(iter(self._known)), None)
        self._known[id(targets[0])] = (list(map(weakref.ref, targets)), list(map(_shape_of, columns[0])), owners)


def owner_id(array: Any) -> int:
    """Return a number that identifies the owner of an array's memory."""
    if type(array) is np.ndarray and array.base is None:
        return id(array)
    return id(owner_of(array))
