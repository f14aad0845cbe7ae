"""Sparse maps along one dimension: which elements of a line an element of another line is made of.

Windows of convolutions and pooling, means over adaptive windows and the weights of interpolation are all such maps.
They are small tables, made on the host from sizes alone, and kept on the devices that asked for them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceEntry
from tensocket_core.launch.copies import from_host
from tensocket_plugins.contract.dtypes import DType, int32
from tensocket_plugins.contract.launch_recorder import note_constant

#: Position that stands for no element.
NONE: Final = -1


#: Positions, weights and slots of a map; None for weights of 1, and for no slots.
Tables = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None, np.ndarray[Any, Any] | None]


class Taps:
    """``out[o] = sum over t of weights[o, t] * in[positions[o, t]]``.

    The tables are made when they are first needed, which on tensors without data is never: lines of these may be longer
    than memory.

    Args:
        size: Elements of the line that is read.
        outputs: Elements of the line that is made.
        make: Makes the tables.
        width: The largest number of elements that make one; None where the tables tell.
        even: Stride, dilation and padding of windows that lie evenly; None for other maps.

    Attributes:
        positions: int32 [outputs, taps]; ``NONE`` where an output has fewer taps than others.
        slots: For a transposed map, which tap of the original an entry is; int32, of the same shape.
        weights: float64 of the same shape.
    """

    def __init__(self, size: int, outputs: int, make: Callable[[], Tables], width: int | None = None,
                 even: tuple[int, int, int] | None = None) -> None:
        self.size = size
        self.outputs = outputs
        self.even = even
        self._width = width
        self._make = make
        self._held: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"Taps({self.size} -> {self.outputs})"

    @cached_property
    def _tables(self) -> Tables:
        positions, weights, slots = self._make()
        positions = np.ascontiguousarray(positions, np.int32)
        return positions, np.ones(positions.shape) if weights is None else weights, slots

    @property
    def positions(self) -> np.ndarray[Any, Any]:
        """Positions of the elements to read."""
        return self._tables[0]

    @property
    def weights(self) -> Any:
        """By what it is multiplied."""
        return self._tables[1]

    @property
    def slots(self) -> Any:
        """Which taps of the original these are; None of maps that are not transposed."""
        return self._tables[2]

    @property
    def taps(self) -> int:
        """The largest number of elements that make one."""
        return int(self.positions.shape[1]) if self._width is None else self._width

    @cached_property
    def transposed(self) -> Taps:
        """The map that takes gradients back: by every element that is read, the elements that it is part of."""
        result = Taps(self.outputs, self.size, self._back)
        result.__dict__["transposed"] = self
        return result

    def _back(self) -> Tables:
        output, slot = np.nonzero(self.positions >= 0)
        source = self.positions[output, slot]
        order = np.argsort(source, kind="stable")
        output, slot, source = output[order], slot[order], source[order]
        counts = np.bincount(source, minlength=self.size)
        place = np.arange(len(source)) - (np.cumsum(counts) - counts)[source]
        shape = (self.size, max(int(counts.max(initial=0)), 1))
        positions, slots, weights = np.full(shape, NONE, np.int32), np.zeros(shape, np.int32), np.zeros(shape)
        positions[source, place], slots[source, place] = output, slot
        weights[source, place] = self.weights[output, slot]
        return positions, weights, slots

    def on(self, entry: DeviceEntry, part: str, dtype: DType = int32) -> Any:
        """Return a table (``positions``, ``slots`` or ``weights``) on a device; copied once."""
        key = (entry.key, part, dtype.name)
        found = self._held.get(key)
        if found is None:
            values = np.ascontiguousarray(getattr(self, part), dtype.numpy)
            found = self._held[key] = from_host(entry, values, dtype)
        note_constant(found)
        return found


def mapping(make: Callable[..., tuple[Any, Any]]) -> Callable[..., Taps]:
    """Return a function ``make(size, outputs, ...) -> (positions, weights)`` as one that returns maps, the same for
    equal arguments.
    """

    @lru_cache(maxsize=256)
    def taps(size: int, outputs: int, *rest: Any) -> Taps:
        return Taps(size, outputs, lambda: (*make(size, outputs, *rest), None))

    taps.__doc__ = make.__doc__
    return taps
