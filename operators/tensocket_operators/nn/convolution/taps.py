"""Sparse maps along one dimension: the elements of one line that combine to each element of another.

Windows of convolutions and pooling, means over adaptive windows and the weights of interpolation are all such maps.
The host makes these small tables from sizes alone and caches copies on the devices that use them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.launch.copies import from_host
from tensocket_plugins.contract.dtypes import DType, int32
from tensocket_plugins.contract.launch_recorder import note_constant

#: Position of a missing element.
NONE: Final = -1


#: Positions, weights and slots of a map; None stands for weights of 1, and for no slots.
Tables = tuple[np.ndarray[Any, Any], np.ndarray[Any, Any] | None, np.ndarray[Any, Any] | None]


class Taps:
    """Sparse linear map along a line: ``out[o] = sum over t of weights[o, t] * in[positions[o, t]]``.

    The tables are made on first use. On tensors without data that never happens, so lines may be longer than memory.

    Args:
        size: Elements of the input line.
        outputs: Elements of the output line.
        make: Function that makes the tables.
        width: The largest number of taps of an output; None takes it from the tables.
        even: Stride, dilation and padding of evenly spaced windows; None for other maps.

    Attributes:
        positions: int32 [outputs, taps]; ``NONE`` where an output has fewer taps than others.
        slots: For a transposed map, the tap of the original that an entry stands for; int32, of the same shape.
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
        """Weights of the taps; None for weights of 1."""
        return self._tables[1]

    @property
    def slots(self) -> Any:
        """Taps of the original map; None if this map is not transposed."""
        return self._tables[2]

    @property
    def taps(self) -> int:
        """The largest number of taps of an output."""
        return int(self.positions.shape[1]) if self._width is None else self._width

    @cached_property
    def transposed(self) -> Taps:
        """The map of the gradients: for every input element, the outputs that it contributes to."""
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

    def on(self, state: DeviceState, part: str, dtype: DType = int32) -> Any:
        """Return a table (``positions``, ``slots`` or ``weights``) on a device; each is copied once."""
        key = (state.key, part, dtype.name)
        found = self._held.get(key)
        if found is None:
            values = np.ascontiguousarray(getattr(self, part), dtype.numpy)
            found = self._held[key] = from_host(state, values, dtype)
        note_constant(found)
        return found


def mapping(make: Callable[..., tuple[Any, Any]]) -> Callable[..., Taps]:
    """Turn ``make(size, outputs, ...) -> (positions, weights)`` into a cached function that returns maps."""

    @lru_cache(maxsize=256)
    def taps(size: int, outputs: int, *rest: Any) -> Taps:
        return Taps(size, outputs, lambda: (*make(size, outputs, *rest), None))

    taps.__doc__ = make.__doc__
    return taps
