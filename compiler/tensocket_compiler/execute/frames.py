"""Frames: the memory of one call of a graph, and the handles of regions in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tensocket_core.geometry import as_strided
from tensocket_core.strides import empty_strided_array
from tensocket_plugins.contract.arrays import contiguous_strides
from tensocket_plugins.contract.dtypes import uint8

from ..memory.regions import Array, Buffer, Region


class Frame:
    """The memory of one call.

    Attributes:
        memory: A handle for each buffer, by number; None until something makes it.
        handles: Handles of regions, by number, as far as they are known.
        aliases: Further arrays that are regions, with the number, by identity; for recordings.
    """

    __slots__ = ("_view", "aliases", "handles", "memory")

    def __init__(self, memory: list[Any], handles: list[Any], view: Callable[[int, list[Any]], Array]) -> None:
        self.memory = memory
        self.handles = handles
        self.aliases: dict[int, tuple[Array, int]] = {}
        self._view = view

    def handle(self, number: int) -> Array:
        """Return the handle of a region."""
        found = self.handles[number]
        if found is None:
            found = self.handles[number] = self._view(number, self.memory)
        return found


class Layout:
    """The places of all buffers and regions of a graph.

    Memory of arguments, of results and of operators that make their results is there only during a call; all other
    memory stays, and its regions have one handle.

    Args:
        buffers: The buffers, by number.
        homes: The region that the handle of a changing buffer is, by the buffer's number.
        staying: A handle for each other buffer, of all of its bytes.
    """

    def __init__(self, buffers: Sequence[Buffer], homes: Mapping[int, Region], staying: Mapping[int, Array]) -> None:
        self._homes = dict(homes)
        self._memory: list[Any] = [staying.get(buffer.number) for buffer in buffers]
        self._numbers: dict[Region, int] = {}
        self._regions: list[Region] = []
        self._handles: list[Any] = []
        self._by_buffer: dict[int, list[int]] = {}

    def number(self, region: Region) -> int:
        """Return the number of a region."""
        known = self._numbers.get(region)
        if known is None:
            known = self._numbers[region] = len(self._regions)
            self._regions.append(region)
            self._handles.append(None)
            self._by_buffer.setdefault(region.buffer.number, []).append(known)
            if self._memory[region.buffer.number] is not None:
                self._handles[known] = self._view(known, self._memory)
        return known

    def region(self, number: int) -> Region:
        """Return a region by its number."""
        return self._regions[number]

    def regions_like(self, region: Region) -> Sequence[int]:
        """Return the numbers of all regions of a region's buffer."""
        return self._by_buffer.get(region.buffer.number, ())

    def reader(self, numbers: Sequence[int]) -> Callable[[Frame], list[Array]]:
        """Return a function from the memory of a call to the handles of some regions, in order."""
        # Most regions are what the memory of a call holds, so that no frame has to look them up.
        held = [number if self._homes.get(region.buffer.number) != region else ~region.buffer.number
                for number in numbers for region in (self._regions[number],)]
        if all(x < 0 for x in held):
            places = [~x for x in held]

            def read(frame: Frame) -> list[Array]:
                memory = frame.memory
                return [memory[k] for k in places]

            return read

        def read_or_view(frame: Frame) -> list[Array]:
            memory = frame.memory
            return [frame.handle(k) if k >= 0 else memory[~k] for k in held]

        return read_or_view

    def keep(self, frame: Frame, region: Region, array: Array) -> None:
        """Let an array be a region in the memory of a call, in place of what was there."""
        number, home = region.buffer.number, self._homes.get(region.buffer.number, region)
        frame.memory[number] = array if home == region else moved(home, region, array)
        for k in self.regions_like(region):
            frame.handles[k] = None
        frame.handles[self.number(region)] = array

    def changes(self, region: Region) -> bool:
        """Whether the memory of a region is another one in each call."""
        return self._memory[region.buffer.number] is None

    def frame(self) -> Frame:
        """Return the memory of a new call."""
        return Frame(self._memory.copy(), self._handles.copy(), self._view)

    def settle(self, region: Region, array: Array) -> None:
        """Let a buffer stay that changed so far; ``array`` is the handle of its home."""
        number = region.buffer.number
        self._memory[number] = array
        for k in self.regions_like(region):
            self._handles[k] = self._view(k, self._memory)

    def _view(self, number: int, memory: list[Any]) -> Array:
        region = self._regions[number]
        held, home = memory[region.buffer.number], self._homes.get(region.buffer.number)
        if home is None:
            return region.array(held)
        if home == region:
            return held
        return moved(region, home, held)


def moved(region: Region, home: Region, held: Array) -> Array:
    """Return the handle of a region, from that of another region of its buffer."""
    offset = region.offset - home.offset
    if region.dtype is home.dtype:
        return as_strided(held, region.shape, region.strides, offset // home.dtype.itemsize)
    return Region(region.buffer, offset, region.shape, region.strides, region.dtype).array(held)


def allocator(region: Region) -> Callable[[], Array]:
    """Return a function that allocates an array with the layout of a region."""
    state, shape, dtype = region.buffer.device, region.shape, region.dtype
    empty = state.runtime.empty
    if region.strides == contiguous_strides(shape):
        return lambda: empty(shape, dtype, state.stream)
    return lambda: empty_strided_array(state, shape, dtype, region.strides)


def make_writable(array: Array) -> None:
    """Let NumPy write to an array that was made while launches were recorded."""
    if type(array) is np.ndarray and not array.flags.writeable:
        make_writable(array.base)
        array.flags.writeable = True


def arena(state: Any, nbytes: int) -> Array:
    """Allocate a block of bytes."""
    return state.runtime.empty((nbytes,), uint8, state.stream)


def block(arena: Array, offset: int, nbytes: int) -> Array:
    """Return a part of an arena."""
    if type(arena) is np.ndarray:
        return arena[offset: offset + nbytes]
    return as_strided(arena, (nbytes,), (1,), offset)
