"""The memory of the reference interpreter: bounds-checked arrays, and local arrays that detect missing barriers.

``index``, ``value`` and ``mask`` are arrays that broadcast together; only positions where ``mask`` holds (all, if it is
None) are checked and accessed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ..contract.arrays import DeviceArray
from ..contract.dtypes import DType
from .nodes import Buffer, IRError, Local
from .scalar import Values

#: The fill byte of fresh memory, so that a read before a write is noticed: large numbers, never zero.
GARBAGE: Final = 0xA5

#: Group and lane of each iteration, for local memory.
Owner = tuple[Values, Values]


class Memory:
    """A flat array whose element 0 is at ``offset`` in ``flat``."""

    def __init__(self, name: str, flat: np.ndarray[Any, Any], offset: int = 0) -> None:
        self.name = name
        self.flat = flat
        self.offset = offset

    def load(self, index: Values, mask: Values | None, owner: Owner) -> Values:
        """Return the elements at ``index``; arbitrary values where masked off."""
        if mask is None or np.ndim(index) == 0:
            if mask is not None and not np.any(mask):
                return np.zeros((), self.flat.dtype)
            return self.flat[self._position("load from", index)]
        if not self.flat.size and not np.any(mask):
            return np.zeros((), self.flat.dtype)
        return self.flat[self._position("load from", np.where(mask, index, np.zeros_like(index)))]

    def store(self, index: Values, value: Values, mask: Values | None, owner: Owner) -> None:
        """Write ``value`` to ``index``."""
        index, value = self._active(index, value, mask)
        self.flat[self._position("store to", index)] = value

    def accumulate(self, function: Any, index: Values, value: Values, mask: Values | None, owner: Owner) -> None:
        """Combine ``value`` with the elements at ``index`` by a ufunc; repeated indices all count."""
        index, value = self._active(index, value, mask)
        function.at(self.flat, self._position("atomic on", index), value)

    def _active(self, index: Values, value: Values, mask: Values | None) -> tuple[Values, Values]:
        if mask is None:
            shape = np.broadcast_shapes(np.shape(index), np.shape(value))
            return np.broadcast_to(index, shape), np.broadcast_to(value, shape)
        index, value, mask = np.broadcast_arrays(index, value, mask)
        return index[mask], value[mask]

    def _position(self, action: str, index: Values) -> Values:
        position = np.asarray(index, np.intp) + self.offset
        if position.size and (position.min() < 0 or position.max() >= self.flat.size):
            wrong = position[(position < 0) | (position >= self.flat.size)].flat[0] - self.offset
            last = self.flat.size - self.offset - 1
            span = f"has elements {-self.offset} to {last}" if self.flat.size else "is empty"
            raise IRError(f"{action} {self.name}[{wrong}]: the array {span}")
        return position


class ReadOnlyMemory(Memory):
    """A parameter that the kernel must not write to."""

    def _active(self, index: Values, value: Values, mask: Values | None) -> tuple[Values, Values]:
        raise IRError(f"store to {self.name}: the buffer is not writable")


class LocalArray(Memory):
    """A local array: one set of elements per group. Between barriers, an element that a lane writes belongs to it.

    Args:
        local: The declaration.
        groups: Number of groups that run together.
    """

    def __init__(self, local: Local, groups: int) -> None:
        super().__init__(local.name, _garbage(local.dtype, groups * local.size))
        self.size = local.size
        self.writer = np.full(groups * local.size, -1, np.int64)
        self.reader = np.full(groups * local.size, -1, np.int64)

    def barrier(self) -> None:
        """Note that all lanes of all groups have reached a barrier."""
        self.writer.fill(-1)
        self.reader.fill(-1)

    def load(self, index: Values, mask: Values | None, owner: Owner) -> Values:
        """Return the elements of each iteration's own group.

        Raises:
            IRError: The index is out of range, or another lane wrote the element since the last barrier.
        """
        index, lane, position = self._own("load from", index, mask, owner)
        active = np.broadcast_to(np.True_ if mask is None else mask, position.shape)
        at, who = position[active], np.broadcast_to(lane, position.shape)[active]
        self._check((self.writer[at] != -1) & (self.writer[at] != who), index[active], "reads", "wrote")
        before = self.reader[at]
        self.reader[at] = who
        several = (self.reader[at] != who) | ((before != -1) & (before != who))
        self.reader[at[several]] = -2
        return self.flat[position]

    def store(self, index: Values, value: Values, mask: Values | None, owner: Owner) -> None:
        """Write elements of each iteration's own group.

        Raises:
            IRError: The index is out of range, or another lane read or wrote the element since the last barrier.
        """
        index, lane, position = self._own("store to", index, mask, owner)
        shape = np.broadcast_shapes(position.shape, np.shape(value), np.shape(mask) if mask is not None else ())
        active = np.broadcast_to(np.True_ if mask is None else mask, shape)
        at, who, where = (np.broadcast_to(v, shape)[active] for v in (position, lane, index))
        self._check((self.reader[at] != -1) & (self.reader[at] != who), where, "writes", "read")
        before = self.writer[at]
        self.writer[at] = who
        self._check(((before != -1) & (before != who)) | (self.writer[at] != who), where, "writes", "wrote")
        self.flat[at] = np.broadcast_to(value, shape)[active]

    def accumulate(self, function: Any, index: Values, value: Values, mask: Values | None, owner: Owner) -> None:
        """Combine ``value`` into elements of each iteration's own group."""
        index, _, position = self._own("atomic on", index, mask, owner)
        at, value = self._active(position, value, mask)
        function.at(self.flat, at, value)

    def _own(self, action: str, index: Values, mask: Values | None, owner: Owner) -> tuple[Values, Values, Values]:
        """Return index (0 where masked off), lane and position among all groups' elements, of one shape."""
        group, lane = owner
        index, group, lane = np.broadcast_arrays(np.asarray(index, np.int64), group, lane)
        if mask is not None:
            shape = np.broadcast_shapes(index.shape, np.shape(mask))
            index = np.where(mask, index, 0)
            group, lane = np.broadcast_to(group, shape), np.broadcast_to(lane, shape)
        wrong = index[(index < 0) | (index >= self.size)]
        if wrong.size:
            raise IRError(f"{action} {self.name}[{wrong[0]}]: the array has elements 0 to {self.size - 1}")
        return index, lane, group * self.size + index

    def _check(self, race: Values, index: Values, now: str, before: str) -> None:
        if race.any():
            raise IRError(f"race on {self.name}[{index[race][0]}]: one lane {now} what another {before} "
                          "since the last barrier")


def _garbage(dtype: DType, size: int) -> np.ndarray[Any, Any]:
    if dtype.kind == "bool":
        return np.ones(size, np.bool_)
    return np.full(size * dtype.itemsize, GARBAGE, np.uint8).view(dtype.numpy)


def temporary(name: str, dtype: DType, size: int) -> Memory:
    """Return fresh global memory of ``size`` elements, filled with garbage."""
    if size < 0:
        raise IRError(f"temporary {name} has {size} elements")
    return Memory(name, _garbage(dtype, size))


def open_array(buffer: Buffer, handle: np.ndarray[Any, Any] | DeviceArray) -> Memory:
    """Return the elements of an array handle, as the argument of a buffer parameter.

    Raises:
        IRError: The handle's dtype is not the parameter's.
    """
    if isinstance(handle, DeviceArray):
        flat, offset = _device_span(buffer, handle)
    else:
        flat, offset = _host_span(buffer, handle)
    return (Memory if buffer.writable else ReadOnlyMemory)(buffer.name, flat, offset)


def _reach(shape: tuple[int, ...], strides: tuple[int, ...]) -> tuple[int, int]:
    """Return the lowest and highest element, counted from the first; the highest is lower if there are no elements."""
    if 0 in shape:
        return 0, -1
    steps = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)


def _device_span(buffer: Buffer, handle: DeviceArray) -> tuple[np.ndarray[Any, Any], int]:
    # A program that only moves elements may take any dtype as unsigned integers of the same size.
    moved = buffer.dtype.kind == "uint" and buffer.dtype.itemsize == handle.dtype.itemsize
    if handle.dtype is not buffer.dtype and not moved:
        raise IRError(f"buffer {buffer.name} is {buffer.dtype.name}, given {handle.dtype.name}")
    low, high = _reach(handle.shape, handle.strides)
    item = handle.dtype.itemsize
    data = handle.storage.buffer[(handle.offset + low) * item : (handle.offset + high + 1) * item]
    return data.view(buffer.dtype.numpy), -low


def _host_span(buffer: Buffer, handle: np.ndarray[Any, Any]) -> tuple[np.ndarray[Any, Any], int]:
    if handle.dtype != buffer.dtype.numpy:
        raise IRError(f"buffer {buffer.name} is {buffer.dtype.name}, given {handle.dtype}")
    item = handle.itemsize
    low, high = _reach(handle.shape, tuple(s // item for s in handle.strides))
    corner = handle[tuple(slice(-1, None) if s < 0 else slice(0, 1) for s in handle.strides)]
    return np.lib.stride_tricks.as_strided(corner, (high - low + 1,), (item,), writeable=handle.flags.writeable), -low
