"""The pool of large blocks in Python, for processes in which machine code cannot manage NumPy's memory.

Views of an array can outlive it, and NumPy lets a view of a view refer to the array that owns the memory, skipping the
arrays between. A finalizer of an array would therefore run while views are alive. So a token that is not an array owns
the memory: every view refers, directly or through others, to the first array, and that one to the token.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.backend import MemoryStats

from ..threads.pool import in_children

ALIGNMENT: Final = 64


class _Raw:
    """A block of memory of the pool."""

    __slots__ = ("address", "memory", "nbytes")

    def __init__(self, nbytes: int) -> None:
        # NumPy requests large pages from the system if they help.
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
    """Return ``nbytes`` rounded up so that at most an eighth is wasted and similar sizes share blocks."""
    step = max(4096, 1 << max(0, nbytes.bit_length() - 4))
    return -(-nbytes // step) * step


class TokenPool:
    """A pool of large blocks in Python.

    Args:
        limit: The most bytes of pooled memory, in use and unused; None for no limit but the machine's.
        keep: The most unused bytes that the pool keeps.
    """

    def __init__(self, limit: int | None, keep: int) -> None:
        self.limit = limit
        self.keep = keep
        self.countdown = 0
        self.renew_lock()
        in_children(self, TokenPool.renew_lock)
        self._free: dict[int, list[_Raw]] = {}
        self._returned: deque[_Raw] = deque()
        self._allocated = self._reserved = self._peak_allocated = self._peak_reserved = 0
        self._allocations = self._frees = 0

    def renew_lock(self) -> None:
        """Replace the lock in a forked child: a thread that exists only in the parent may have held it."""
        self._lock = threading.RLock()

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any], nbytes: int) -> NDArray[Any]:
        """Return an uninitialised C-contiguous array.

        Raises:
            MemoryError: The memory does not suffice, even after unused blocks were released.
        """
        return np.ndarray(shape, dtype, self._take(nbytes))

    def stats(self) -> MemoryStats:
        """Return the bytes and counts of pooled memory."""
        with self._lock:
            self._collect()
            return MemoryStats(self._allocated, self._reserved, self._peak_allocated, self._peak_reserved,
                               self._allocations, self._frees)

    def reset_peak(self) -> None:
        """Reset peaks to the current numbers."""
        with self._lock:
            self._collect()
            self._peak_allocated, self._peak_reserved = self._allocated, self._reserved

    def trim(self) -> None:
        """Give unused blocks back to the system."""
        with self._lock:
            self._collect()
            self._release_unused()

    def _take(self, nbytes: int) -> _Owner:
        size = size_class(nbytes)
        with self._lock:
            self._collect()
            self._refuse()
            blocks = self._free.get(size)
            raw = blocks.pop() if blocks else self._new(size)
            self._allocations += 1
            self._allocated += size
            self._peak_allocated = max(self._peak_allocated, self._allocated)
        owner: _Owner = _Owner.from_address(raw.address)
        owner.piece, owner.returned = raw, self._returned
        return owner

    def _refuse(self) -> None:
        if self.countdown:
            self.countdown -= 1
            if not self.countdown:
                raise MemoryError

    def _new(self, size: int) -> _Raw:
        if self.limit is not None and self._reserved + size > self.limit:
            self._release_unused()
            if self._reserved + size > self.limit:
                raise MemoryError
        try:
            raw = _Raw(size)
        except MemoryError:
            self._release_unused()
            raw = _Raw(size)
        self._reserved += size
        self._peak_reserved = max(self._peak_reserved, self._reserved)
        return raw

    def _collect(self) -> None:
        """Return blocks whose last view is gone to the lists of free blocks."""
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
