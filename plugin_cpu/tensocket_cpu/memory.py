"""Host memory: large blocks are kept for reuse, which saves the page faults of fresh ones; small ones are NumPy's.

Views of an array can outlive it, and NumPy lets a view of a view refer to the array that owns the memory, skipping the
arrays between. A finalizer of an array would therefore run while views are alive. So the memory is owned by a token
that is not an array: every view refers, directly or through others, to the first array, and that one to the token.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.arrays import Block
from tensocket_plugins.contract.backend import Allocator, MemoryStats, Stream
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import OutOfMemoryError

from .threads import in_children

ALIGNMENT: Final = 64
#: Bytes from which a block is pooled.
POOLED: Final = 1 << 16


class _Raw:
    """A block of memory that the pool owns."""

    __slots__ = ("address", "memory", "nbytes")

    def __init__(self, nbytes: int) -> None:
        # NumPy asks the system for large pages where that helps.
        self.memory: NDArray[np.uint8] = np.empty(nbytes + ALIGNMENT, np.uint8)
        start = int(self.memory.__array_interface__["data"][0])
        self.address = -(-start // ALIGNMENT) * ALIGNMENT
        self.nbytes = nbytes


class _Owner(ctypes.c_char * (1 << 46)):  # type: ignore[misc]  # ctypes makes array types at run time
    """The token. Its length only has to exceed every array's: ctypes keeps types forever, so there is one for all."""

    piece: _Raw
    returned: deque[_Raw]

    def __del__(self) -> None:
        # May run at any time, also within the pool's own code: append is atomic and takes no lock.
        returned = getattr(self, "returned", None)
        if returned is not None:
            returned.append(self.piece)


def size_class(nbytes: int) -> int:
    """``nbytes`` rounded up so that at most an eighth is wasted and similar sizes share blocks."""
    step = max(4096, 1 << max(0, nbytes.bit_length() - 4))
    return -(-nbytes // step) * step


def _physical_memory() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 4 << 30


class HostAllocator(Allocator):
    """A pool of large blocks.

    Args:
        limit: Most bytes of pooled memory, in use and kept; None for no limit but the machine's.
        keep: Most bytes that are kept unused; a quarter of the physical memory by default.
    """

    def __init__(self, limit: int | None = None, keep: int | None = None) -> None:
        self.limit = limit
        self.keep = _physical_memory() // 4 if keep is None else keep
        self.renew_lock()
        in_children(self, HostAllocator.renew_lock)
        self._free: dict[int, list[_Raw]] = {}
        self._returned: deque[_Raw] = deque()
        self._allocated = self._reserved = self._peak_allocated = self._peak_reserved = 0
        self._allocations = self._frees = 0

    def renew_lock(self) -> None:
        """Forget who holds the lock, in a forked child: it may have been a thread that stayed in the parent."""
        self._lock = threading.RLock()

    def array(self, shape: tuple[int, ...], dtype: DType) -> NDArray[Any]:
        """An uninitialised C-contiguous array; a large one comes from the pool.

        Raises:
            OutOfMemoryError: There is no memory, also after unused blocks were released.
        """
        nbytes = math.prod(shape) * dtype.itemsize
        if nbytes < POOLED:
            return np.empty(shape, dtype.numpy)
        return np.ndarray(shape, dtype.numpy, self._take(nbytes))

    def allocate(self, nbytes: int, stream: Stream) -> Block:
        """A block whose ``buffer`` is a flat uint8 array."""
        owner = self._take(nbytes)
        return Block(np.ndarray((nbytes,), np.uint8, owner), nbytes, stream)

    def free(self, block: Block) -> None:
        """Take a block back; arrays that still use its buffer keep it."""
        block.buffer = None

    def stats(self) -> MemoryStats:
        """Bytes and counts of pooled memory."""
        with self._lock:
            self._collect()
            return MemoryStats(self._allocated, self._reserved, self._peak_allocated, self._peak_reserved,
                               self._allocations, self._frees)

    def reset_peak(self) -> None:
        """Peaks start at the current numbers."""
        with self._lock:
            self._collect()
            self._peak_allocated, self._peak_reserved = self._allocated, self._reserved

    def empty_cache(self) -> None:
        """Give unused blocks back to the system."""
        with self._lock:
            self._collect()
            self._release_unused()

    def _take(self, nbytes: int) -> _Owner:
        size = size_class(nbytes)
        with self._lock:
            self._collect()
            blocks = self._free.get(size)
            raw = blocks.pop() if blocks else self._new(size, nbytes)
            self._allocations += 1
            self._allocated += size
            self._peak_allocated = max(self._peak_allocated, self._allocated)
        owner: _Owner = _Owner.from_address(raw.address)
        owner.piece, owner.returned = raw, self._returned
        return owner

    def _new(self, size: int, nbytes: int) -> _Raw:
        if self.limit is not None and self._reserved + size > self.limit:
            self._release_unused()
            if self._reserved + size > self.limit:
                raise self._exhausted(nbytes, f"the limit is {self.limit} bytes")
        try:
            raw = _Raw(size)
        except MemoryError:
            self._release_unused()
            try:
                raw = _Raw(size)
            except MemoryError:
                raise self._exhausted(nbytes, "the system has no more memory") from None
        self._reserved += size
        self._peak_reserved = max(self._peak_reserved, self._reserved)
        return raw

    def _collect(self) -> None:
        """Put blocks whose last view is gone where they can be taken again."""
        while self._returned:
            raw = self._returned.popleft()
            self._frees += 1
            self._allocated -= raw.nbytes
            if self._reserved - self._allocated > self.keep:
                self._reserved -= raw.nbytes
            else:
                self._free.setdefault(raw.nbytes, []).append(raw)

    def _release_unused(self) -> None:
        self._reserved -= sum(size * len(blocks) for size, blocks in self._free.items())
        self._free.clear()

    def _exhausted(self, nbytes: int, reason: str) -> OutOfMemoryError:
        return OutOfMemoryError(
            "empty", f"{nbytes} bytes on cpu; {self._allocated} bytes are in use, {self._reserved} reserved, the peak "
            f"was {self._peak_allocated}", reason, "use smaller tensors, or delete some first")
