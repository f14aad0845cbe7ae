"""Buffers and regions: which memory each tensor of a recorded run is.

A tensor is a region of a buffer; views are regions of the same buffer, and need no operation. Two regions conflict if
the bytes between their first and last element overlap.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import numpy as np

from tensocket_core.geometry import Shape, element_strides, expanded_strides, memory_of
from tensocket_plugins.contract.arrays import contiguous_strides
from tensocket_plugins.contract.dtypes import DType, uint8

Array = Any
#: ``input``: was there before the run. ``temporary``: made by an operation. ``constant``: follows from shapes alone.
Kind = Literal["input", "temporary", "constant"]


@dataclass(eq=False, slots=True)
class Buffer:
    """A block of memory.

    Attributes:
        number: Its number in the run.
        kind: Where it comes from.
        array: A handle of all of its memory; it keeps the memory alive.
        begin: Address of its first byte, or 0 for memory of a device.
        nbytes: Its size.
        device: State of the device that it is memory of; None while only its address is known.
        fill: The number that all elements are when it is made, if they are one and the same and of one dtype.
        filled: The dtype of these elements.
        changed: Whether the run wrote to it after an operation made it, so that ``array`` does not have what was made.
    """

    number: int
    kind: Kind
    array: Array
    begin: int
    nbytes: int
    device: Any = None
    fill: float | int | bool | None = None
    filled: DType | None = None
    changed: bool = False

    @property
    def everywhere(self) -> float | int | bool | None:
        """The number that all elements always have; None if they differ, or something writes to them."""
        return self.fill if self.kind == "constant" else None

    def __repr__(self) -> str:
        return f"{self.kind[0]}{self.number}"


@dataclass(frozen=True, slots=True)
class Region:
    """The memory of a tensor.

    Attributes:
        buffer: Its buffer.
        offset: Bytes from the buffer's first byte to the first element.
        shape: Sizes.
        strides: Strides in elements.
        dtype: Element type.
    """

    buffer: Buffer
    offset: int
    shape: Shape
    strides: Shape
    dtype: DType

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def dense(self) -> bool:
        """Whether elements are in row-major order without gaps."""
        return all(n == 1 or s == t for n, s, t in zip(self.shape, self.strides, contiguous_strides(self.shape),
                                                       strict=True))

    @property
    def distinct(self) -> bool:
        """Whether all elements surely lie at different places, unlike those of windows that overlap."""
        reach = 0
        for step, size in sorted((abs(s), n) for n, s in zip(self.shape, self.strides, strict=True) if n > 1):
            if step <= reach:
                return False
            reach += step * (size - 1)
        return True

    @property
    def span(self) -> tuple[int, int]:
        """First byte and end of the elements, relative to the buffer."""
        if 0 in self.shape:
            return self.offset, self.offset
        steps = [(n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)]
        low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
        size = self.dtype.itemsize
        return self.offset + low * size, self.offset + (high + 1) * size

    def overlaps(self, other: Region) -> bool:
        """Whether the bytes between first and last element overlap."""
        if self.buffer is not other.buffer:
            return False
        (a, b), (c, d) = self.span, other.span
        return a < d and c < b

    def overlaps_partially(self, other: Region) -> bool:
        """Whether the bytes overlap, but the regions are not the same elements at the same places."""
        same = self.offset == other.offset and self.shape == other.shape and self.dtype is other.dtype and all(
            n == 1 or s == t for n, s, t in zip(self.shape, self.strides, other.strides, strict=True))
        return not same and self.overlaps(other)

    def covers(self, other: Region) -> bool:
        """Whether all elements of another region are elements of this dense one."""
        (a, b), (c, d) = self.span, other.span
        return self.buffer is other.buffer and self.dense and a <= c and d <= b

    def expanded(self, shape: Shape) -> Shape:
        """Return the strides that broadcast the region to a shape."""
        return expanded_strides(self.shape, self.strides, shape)

    def array(self, memory: Array) -> Array:
        """Return the handle of this region in other memory of the buffer's layout."""
        if type(memory) is np.ndarray:
            size = self.dtype.itemsize
            if 0 in self.shape:
                return np.ndarray(self.shape, self.dtype.numpy)
            flat = np.ndarray((self.buffer.nbytes,), np.uint8, row_major(memory))
            return np.ndarray(self.shape, self.dtype.numpy, flat, self.offset, tuple([s * size for s in self.strides]))
        return type(memory)(memory.storage, self.dtype, self.shape, self.strides,
                            memory.offset * memory.dtype.itemsize // self.dtype.itemsize
                            + self.offset // self.dtype.itemsize)

    def __repr__(self) -> str:
        return f"{self.buffer}{list(self.shape)}" + ("" if self.dense else f"/{list(self.strides)}")


def row_major(memory: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array without gaps with its dimensions in the order of memory."""
    if memory.flags.c_contiguous:
        return memory
    return memory.transpose(sorted(range(memory.ndim), key=lambda k: -memory.strides[k]))


#: The space of host addresses; a device's storage is a space of its own.
_HOST: Final = 0
#: The space of an array, the address of its first element, and the first byte and size of its memory.
Extent = tuple[int, int, int, int]


def _extent(array: Array) -> Extent:
    """Return the space of an array, the address of its first element, and the first byte and size of its memory."""
    memory = memory_of(array)
    if type(memory) is not np.ndarray:
        return id(memory), array.offset * array.dtype.itemsize, 0, int(memory.nbytes)
    low = high = 0
    for n, s in zip(memory.shape, memory.strides, strict=True):
        low, high = (low + (n - 1) * s, high) if s < 0 else (low, high + max(n - 1, 0) * s)
    first = array.__array_interface__["data"][0]
    begin = low + (first if memory is array else memory.__array_interface__["data"][0])
    return _HOST, first, begin, high - low + memory.itemsize


def _whole(array: Array) -> Array:
    """Return the handle of all of a device's memory that an array lies in, from its first byte."""
    nbytes = int(array.storage.nbytes)
    dtype = uint8 if nbytes % array.dtype.itemsize else array.dtype
    return type(array)(array.storage, dtype, (nbytes // dtype.itemsize,), (1,), 0)


@dataclass(slots=True)
class Memory:
    """All buffers of a run, found by address."""

    buffers: list[Buffer] = field(default_factory=list)
    _starts: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _extents: dict[int, tuple[Array, Extent]] = field(default_factory=dict)

    def _extent_of(self, array: Array) -> Extent:
        """Return the extent of an array, which stays alive: its identity is a key."""
        known = self._extents.get(id(array))
        if known is None:
            known = self._extents[id(array)] = array, _extent(array)
        return known[1]

    def find(self, array: Array) -> Buffer | None:
        """Return the buffer that an array lies in."""
        space, address, _, _ = self._extent_of(array)
        starts = self._starts.get(space, ())
        at = bisect.bisect_right(starts, (address, 1 << 62)) - 1
        if at < 0:
            return None
        buffer = self.buffers[starts[at][1]]
        return buffer if address < buffer.begin + max(buffer.nbytes, 1) else None

    def release(self) -> None:
        """Let go of memory that operations made: graphs have their own."""
        self._extents.clear()
        for buffer in self.buffers:
            if buffer.kind == "temporary":
                buffer.array = None

    def add(self, array: Array, kind: Kind, device: Any = None) -> Buffer:
        """Add the whole memory of an array as a buffer."""
        space, _, begin, nbytes = self._extent_of(array)
        whole = memory_of(array) if space == _HOST else _whole(array)
        buffer = Buffer(len(self.buffers), kind, whole, begin, nbytes, device)
        self.buffers.append(buffer)
        bisect.insort(self._starts.setdefault(space, []), (begin, buffer.number))
        return buffer

    def region(self, array: Array, dtype: DType, kind: Kind = "input", device: Any = None) -> Region:
        """Return the region of an array; memory that is not known yet becomes a buffer.

        Several dtypes have one NumPy dtype, so that an array does not tell its own; nor does it tell its device.
        """
        buffer = self.find(array) or self.add(array, kind, device)
        buffer.device = buffer.device or device
        if dtype is not buffer.filled:
            buffer.fill = None  # its bytes are other numbers in this dtype
        offset = self._extent_of(array)[1] - buffer.begin
        return Region(buffer, offset, tuple(array.shape), element_strides(array), dtype)


def regions_of(values: Any) -> list[Region]:
    """Return the regions among arguments, in order."""
    if isinstance(values, Region):
        return [values]
    if isinstance(values, dict):
        return regions_of(list(values.values()))
    if isinstance(values, Sequence) and not isinstance(values, (str, bytes)):
        return [region for value in values for region in regions_of(value)]
    return []
