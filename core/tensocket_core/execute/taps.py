"""Sparse maps along one dimension: which elements of a line an element of another line is made of.

Windows of convolutions and pooling, means over adaptive windows and the weights of interpolation are all such maps.
They are small tables, made on the host from sizes alone, and kept on the devices that asked for them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import DType, int32

from ..device import DeviceEntry
from .copying import from_host
from .kept import constant

#: What stands for no element.
NONE: Final = -1


class Taps:
    """``out[o] = sum over t of weights[o, t] * in[positions[o, t]]``.

    Attributes:
        size: Elements of the line that is read.
        positions: int32 [outputs, taps]; ``NONE`` where an output has fewer taps than others.
        slots: For a transposed map, which tap of the original an entry is; int32, of the same shape.
        weights: float64 of the same shape.
        even: Stride, dilation and padding of windows that lie evenly; None for other maps.
    """

    def __init__(self, size: int, positions: np.ndarray[Any, Any], weights: np.ndarray[Any, Any] | None = None,
                 slots: np.ndarray[Any, Any] | None = None, even: tuple[int, int, int] | None = None) -> None:
        self.size = size
        self.even = even
        self.positions = np.ascontiguousarray(positions, np.int32)
        self.weights = np.ones(positions.shape) if weights is None else weights
        self.slots = slots
        self._held: dict[Any, Any] = {}

    def __repr__(self) -> str:
        return f"Taps({self.size} -> {self.outputs}, {self.taps} taps)"

    @property
    def outputs(self) -> int:
        """Elements of the line that is made."""
        return int(self.positions.shape[0])

    @property
    def taps(self) -> int:
        """The largest number of elements that make one."""
        return int(self.positions.shape[1])

    @cached_property
    def transposed(self) -> Taps:
        """The map that takes gradients back: by every element that is read, the elements that it is part of."""
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
        result = Taps(self.outputs, positions, weights, slots)
        result.__dict__["transposed"] = self
        return result

    def on(self, entry: DeviceEntry, part: str, dtype: DType = int32) -> Any:
        """A table (``positions``, ``slots`` or ``weights``) on a device; copied once."""
        key = (entry.key, part, dtype.name)
        found = self._held.get(key)
        if found is None:
            values = np.ascontiguousarray(getattr(self, part), dtype.numpy)
            found = self._held[key] = from_host(entry, values, dtype)
        return constant(entry, found)
