"""A caching allocator on top of a backend's two functions for raw memory.

The allocator caches freed blocks and reuses them for requests of about their size on the same stream: a stream runs
work in order, so the last user's queued work runs before the next user's. A block that other streams used waits for
events recorded on them.

``free`` may run at any moment, even while ``allocate`` holds the lock, because the garbage collector calls it. So it
only puts the block into a queue, which the next ``allocate`` (or any query) processes.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from ..contract.arrays import Block
from ..contract.backend import Allocator, Event, MemoryStats, Stream
from ..contract.errors import OutOfMemoryError

#: Requests above this are rounded more finely and served by best fit.
LARGE: Final = 1 << 20
#: A cached large block serves a request if that wastes at most one part in this many of it.
WASTE: Final = 4


def size_text(nbytes: int) -> str:
    """Return a number of bytes in readable form.

    >>> size_text(1536)
    '1.5 KiB'
    """
    if nbytes < 1024:
        return f"{nbytes} B"
    size, unit = nbytes / 1024, 0
    while size >= 1024 and unit < 4:
        size, unit = size / 1024, unit + 1
    return f"{size:.1f} {('KiB', 'MiB', 'GiB', 'TiB', 'PiB')[unit]}"


def rounded_size(nbytes: int, alignment: int) -> int:
    """Return the size of the block for a request: up to 1 MiB four sizes per power of two, above it eight.

    >>> [rounded_size(n, 256) for n in (0, 1, 257, 1100, 5 << 20)]
    [256, 256, 512, 1280, 5242880]
    """
    if nbytes <= alignment:
        return alignment
    step = max(alignment, 1 << max((nbytes - 1).bit_length() - (3 if nbytes <= LARGE else 4), 0))
    return -(-nbytes // step) * step


class _Pool:
    """Free blocks of one stream: small ones by exact size, large ones sorted by size."""

    def __init__(self) -> None:
        self.small: dict[int, list[Block]] = {}
        self.large: list[tuple[int, int, Block]] = []  # with id, so that a sort never compares blocks

    def put(self, block: Block) -> None:
        if block.nbytes > LARGE:
            insort(self.large, (block.nbytes, id(block), block))
        else:
            self.small.setdefault(block.nbytes, []).append(block)

    def take(self, size: int) -> Block | None:
        if size <= LARGE:
            blocks = self.small.get(size)
            return blocks.pop() if blocks else None
        at = bisect_left(self.large, (size,))
        if at < len(self.large) and self.large[at][0] - size <= self.large[at][0] // WASTE:
            return self.large.pop(at)[2]
        return None

    def blocks(self) -> list[Block]:
        return [block for blocks in self.small.values() for block in blocks] + [block for _, _, block in self.large]


class CachingAllocator(Allocator):
    """A pool of device memory that is safe across streams and threads.

    Args:
        raw_allocate: Allocates a number of bytes and returns an argument for kernels.
        raw_free: Returns such a buffer to the driver; work already queued may still use it.
        device_name: For messages, ``opencl:0``.
        alignment: Sizes are multiples of this, a power of two.
        capacity: Maximum bytes to reserve; None leaves the limit to the driver.
        record_event: Records an event after the work queued on a stream so far. Without it, a block that another
            stream used is reused only after that stream has been synchronised.
        out_of_memory: The exception that ``raw_allocate`` raises when no memory is left.
    """

    def __init__(self, raw_allocate: Callable[[int], Any], raw_free: Callable[[Any], None], *, device_name: str,
                 alignment: int = 256, capacity: int | None = None,
                 record_event: Callable[[Stream], Event] | None = None,
                 out_of_memory: tuple[type[BaseException], ...] = (MemoryError,)) -> None:
        self._raw_allocate = raw_allocate
        self._raw_free = raw_free
        self._device_name = device_name
        self._alignment = alignment
        self._capacity = capacity
        self._record_event = record_event
        self._out_of_memory = out_of_memory
        # Re-entrant, because the garbage collector may run a user's finalizer inside.
        self._lock = threading.RLock()
        self._freed: deque[Block] = deque()
        self._held: deque[tuple[Block, list[Event]]] = deque()
        self._pools: dict[Stream, _Pool] = {}
        self._allocated = self._reserved = self._peak_allocated = self._peak_reserved = 0
        self._allocations = self._frees = 0

    def allocate(self, nbytes: int, stream: Stream) -> Block:
        """Return a block of at least ``nbytes`` bytes for use on ``stream``; zero bytes are allowed.

        Raises:
            OutOfMemoryError: Neither the driver nor the cache has this much, even after emptying the cache.
        """
        size = rounded_size(nbytes, self._alignment)
        with self._lock:
            self._collect()
            pool = self._pools.get(stream)
            if pool is None:
                pool = self._pools[stream] = _Pool()
            block = pool.take(size) or self._reserve(size, nbytes, stream)
            self._allocations += 1
            self._allocated += block.nbytes
            if self._allocated > self._peak_allocated:
                self._peak_allocated = self._allocated
            return block

    def free(self, block: Block) -> None:
        """Take a block back. Never blocks and never raises; safe in finalizers."""
        self._freed.append(block)

    def stats(self) -> MemoryStats:
        """Return current numbers, in bytes of whole blocks."""
        with self._lock:
            self._collect()
            return MemoryStats(self._allocated, self._reserved, self._peak_allocated, self._peak_reserved,
                               self._allocations, self._frees)

    def reset_peak(self) -> None:
        """Restart the peak counters."""
        with self._lock:
            self._collect()
            self._peak_allocated, self._peak_reserved = self._allocated, self._reserved

    def empty_cache(self) -> None:
        """Return unused blocks to the driver; blocks that other streams still use stay."""
        with self._lock:
            self._collect()
            self._trim()

    def set_limit(self, nbytes: int | None) -> None:
        """Reserve at most ``nbytes`` bytes from now on; None leaves the limit to the driver."""
        with self._lock:
            self._capacity = nbytes

    # -------------------------------------------------------------------------------- below: the caller holds the lock

    def _collect(self) -> None:
        """Move freed blocks to their pools, and held ones whose other streams are done."""
        while self._freed:
            block = self._freed.popleft()
            self._frees += 1
            self._allocated -= block.nbytes
            if block.streams:
                self._hold(block)
            else:
                self._put(block)
        for _ in range(len(self._held)):
            block, events = self._held.popleft()
            if all(event.query() for event in events):
                self._put(block)
            else:
                self._held.append((block, events))

    def _hold(self, block: Block) -> None:
        others = [stream for stream in block.streams or () if stream is not block.stream]
        block.streams = None
        if self._record_event is not None:
            self._held.append((block, [self._record_event(stream) for stream in others]))
            return
        for stream in others:
            stream.synchronize()
        self._put(block)

    def _put(self, block: Block) -> None:
        pool = self._pools.get(block.stream)
        if pool is None:
            pool = self._pools[block.stream] = _Pool()
        pool.put(block)

    def _trim(self) -> None:
        pools = list(self._pools.values())
        self._pools.clear()
        for pool in pools:
            for block in pool.blocks():
                self._reserved -= block.nbytes
                self._raw_free(block.buffer)

    def _reserve(self, size: int, nbytes: int, stream: Stream) -> Block:
        """Return memory from the driver; if it has none, try again after returning the whole cache."""
        block = self._raw(size, stream)
        if block is None:
            largest = self._largest_cached()
            for _, events in self._held:
                for event in events:
                    event.synchronize()
            self._collect()
            self._trim()
            block = self._raw(size, stream)
            if block is None:
                raise self._exhausted(nbytes, largest)
        self._reserved += size
        self._peak_reserved = max(self._peak_reserved, self._reserved)
        return block

    def _raw(self, size: int, stream: Stream) -> Block | None:
        if self._capacity is not None and self._reserved + size > self._capacity:
            return None
        try:
            return Block(self._raw_allocate(size), size, stream)
        except self._out_of_memory:
            return None

    def _largest_cached(self) -> int:
        return max((block.nbytes for pool in self._pools.values() for block in pool.blocks()), default=0)

    def _exhausted(self, nbytes: int, largest: int) -> OutOfMemoryError:
        cap = "the driver's limit" if self._capacity is None else f"cap {size_text(self._capacity)}"
        return OutOfMemoryError(
            "allocate",
            f"{size_text(nbytes)} on {self._device_name} ({size_text(self._allocated)} allocated, "
            f"{size_text(self._reserved)} reserved, {cap}, largest cached block {size_text(largest)})",
            "there is not that much memory left, even after all cached blocks were returned",
            "free tensors, use smaller batches, or call empty_cache() if another program needs the device")
