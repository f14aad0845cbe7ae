"""The caching allocator: reuse, stream safety, exhaustion, threads and finalizers."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from tensocket_plugins.contract.arrays import Storage
from tensocket_plugins.contract.backend import Event, Stream
from tensocket_plugins.contract.errors import OutOfMemoryError, TensocketError
from tensocket_plugins.kit.allocator import LARGE, CachingAllocator, rounded_size, size_text


class FakeEvent(Event):
    def __init__(self) -> None:
        self.done = False

    def query(self) -> bool:
        return self.done

    def synchronize(self) -> None:
        self.done = True

    def elapsed_ms(self, end: Event) -> float:
        return 0.0


class FakeStream(Stream):
    def __init__(self) -> None:
        self.synchronized = 0

    def synchronize(self) -> None:
        self.synchronized += 1

    def query(self) -> bool:
        return True

    def wait(self, event: Event) -> None:
        pass

    def record(self, event: Event) -> None:
        pass


class Driver:
    """Raw memory of a fixed size; buffers are numbers."""

    def __init__(self, memory: int = 1 << 40) -> None:
        self.memory = memory
        self.live: dict[int, int] = {}
        self.count = 0
        self.events: list[FakeEvent] = []

    def allocate(self, nbytes: int) -> int:
        if sum(self.live.values()) + nbytes > self.memory:
            raise MemoryError
        self.count += 1
        self.live[self.count] = nbytes
        return self.count

    def free(self, buffer: Any) -> None:
        del self.live[buffer]

    def record(self, stream: Stream) -> Event:
        self.events.append(FakeEvent())
        return self.events[-1]

    def allocator(self, **options: Any) -> CachingAllocator:
        return CachingAllocator(self.allocate, self.free, device_name="fake:0", **options)


@pytest.fixture
def driver() -> Driver:
    return Driver()


@pytest.fixture
def stream() -> FakeStream:
    return FakeStream()


@pytest.mark.parametrize(("nbytes", "size"), [
    (0, 256), (1, 256), (256, 256), (257, 512), (1025, 1280), (1300, 1536), (LARGE, LARGE), (LARGE + 1, LARGE * 9 // 8),
    (3 * LARGE, 3 * LARGE),
])
def test_sizes_are_rounded_up(nbytes: int, size: int) -> None:
    assert rounded_size(nbytes, 256) == size


def test_rounding_is_enough_aligned_and_wastes_little() -> None:
    for nbytes in [*range(5000), *(3**k for k in range(8, 30))]:
        size = rounded_size(nbytes, 64)
        assert size >= nbytes
        assert size % 64 == 0
        assert size - nbytes <= max(64, nbytes // 4)
        assert rounded_size(size, 64) == size


@pytest.mark.parametrize(("nbytes", "text"), [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (1 << 30, "1.0 GiB"),
                                              (1 << 60, "1024.0 PiB")])
def test_sizes_are_printed_for_people(nbytes: int, text: str) -> None:
    assert size_text(nbytes) == text


def test_freed_block_is_reused_on_its_stream_only(driver: Driver, stream: FakeStream) -> None:
    allocator = driver.allocator()
    block = allocator.allocate(1000, stream)
    first = block.buffer
    allocator.free(block)
    assert allocator.allocate(900, FakeStream()).buffer != first
    again = allocator.allocate(1001, stream)
    assert again.buffer == first
    assert allocator.allocate(1000, stream).buffer not in (first, None)
    assert driver.count == 3


def test_blocks_of_the_same_size_are_distinct_while_in_use(driver: Driver, stream: FakeStream) -> None:
    allocator = driver.allocator()
    blocks = [allocator.allocate(100, stream) for _ in range(50)]
    assert len({block.buffer for block in blocks}) == 50


def test_large_block_serves_slightly_smaller_requests(driver: Driver, stream: FakeStream) -> None:
    allocator = driver.allocator()
    for size in (16 * LARGE, 10 * LARGE):
        allocator.free(allocator.allocate(size, stream))
    assert allocator.allocate(9 * LARGE, stream).nbytes == 10 * LARGE  # the best fit
    assert allocator.allocate(13 * LARGE, stream).nbytes == 16 * LARGE
    assert driver.count == 2
    allocator.free(allocator.allocate(16 * LARGE, stream))
    assert allocator.allocate(2 * LARGE, stream).nbytes == 2 * LARGE  # not out of sixteen


def test_block_used_on_another_stream_waits_for_its_event(driver: Driver, stream: FakeStream) -> None:
    allocator = driver.allocator(record_event=driver.record)
    block = allocator.allocate(100, stream)
    first = block.buffer
    block.streams = {FakeStream(), stream}
    allocator.free(block)
    other = allocator.allocate(100, stream)
    assert other.buffer != first
    (event,) = driver.events  # none for the block's own stream
    event.done = True
    assert allocator.allocate(100, stream).buffer == first


def test_without_events_the_other_stream_is_synchronised(driver: Driver, stream: FakeStream) -> None:
    allocator, other = driver.allocator(), FakeStream()
    block = allocator.allocate(100, stream)
    first = block.buffer
    block.streams = {other}
    allocator.free(block)
    assert other.synchronized == 0  # free never blocks
    assert allocator.allocate(100, stream).buffer == first
    assert other.synchronized == 1


def test_cache_is_emptied_and_the_request_repeated_before_giving_up(stream: FakeStream) -> None:
    driver = Driver(memory=10 * LARGE)
    allocator = driver.allocator(record_event=driver.record)
    blocks = [allocator.allocate(2 * LARGE, stream) for _ in range(4)]
    blocks[0].streams = {FakeStream()}
    while blocks:
        allocator.free(blocks.pop())
    big = allocator.allocate(10 * LARGE, FakeStream())
    assert big.nbytes == 10 * LARGE
    assert allocator.stats().reserved == 10 * LARGE


def test_exhaustion_says_how_much_there_is_and_leaves_the_allocator_working(stream: FakeStream) -> None:
    driver = Driver(memory=8 * LARGE)
    allocator = driver.allocator()
    kept = allocator.allocate(3 * LARGE, stream)
    allocator.free(allocator.allocate(2 * LARGE, stream))
    with pytest.raises(OutOfMemoryError) as caught:
        allocator.allocate(1 << 30, stream)
    assert str(caught.value) == (
        "[allocate] 1.0 GiB on fake:0 (3.0 MiB allocated, 3.0 MiB reserved, the driver's limit, largest cached block "
        "2.0 MiB) — there is not that much memory left, even after all cached blocks were returned — free tensors, "
        "use smaller batches, or call empty_cache() if another program needs the device")
    assert isinstance(caught.value, TensocketError)
    assert isinstance(caught.value, RuntimeError)
    assert allocator.allocate(5 * LARGE, stream).nbytes == 5 * LARGE
    allocator.free(kept)


def test_capacity_limits_what_is_reserved(driver: Driver, stream: FakeStream) -> None:
    allocator = driver.allocator(capacity=4 * LARGE)
    allocator.free(allocator.allocate(3 * LARGE, stream))
    block = allocator.allocate(4 * LARGE, stream)  # the cached block had to go
    with pytest.raises(OutOfMemoryError, match=r"cap 4\.0 MiB"):
        allocator.allocate(1, stream)
    allocator.free(block)
    assert allocator.allocate(1, stream).nbytes == 256


def test_only_declared_exceptions_mean_out_of_memory(stream: FakeStream) -> None:
    class DriverError(Exception):
        pass

    def fail(nbytes: int) -> None:
        raise DriverError

    other = CachingAllocator(fail, fail, device_name="fake:0")
    with pytest.raises(DriverError):
        other.allocate(1, stream)
    declared = CachingAllocator(fail, fail, device_name="fake:0", out_of_memory=(DriverError,))
    with pytest.raises(OutOfMemoryError):
        declared.allocate(1, stream)


def test_statistics_count_bytes_and_calls(driver: Driver, stream: FakeStream) -> None:
    allocator = driver.allocator()
    a, b = allocator.allocate(1000, stream), allocator.allocate(2 * LARGE, stream)
    allocator.free(b)
    assert allocator.stats().as_dict() == {
        "allocated": 1024, "reserved": 1024 + 2 * LARGE, "peak_allocated": 1024 + 2 * LARGE,
        "peak_reserved": 1024 + 2 * LARGE, "allocations": 2, "frees": 1,
    }
    allocator.empty_cache()
    assert driver.live == {a.buffer: 1024}
    allocator.reset_peak()
    stats = allocator.stats()
    assert (stats.peak_allocated, stats.peak_reserved, stats.reserved) == (1024, 1024, 1024)


def test_held_block_survives_emptying_the_cache(driver: Driver, stream: FakeStream) -> None:
    allocator = driver.allocator(record_event=driver.record)
    block = allocator.allocate(100, stream)
    block.streams = {FakeStream()}
    buffer = block.buffer
    allocator.free(block)
    allocator.empty_cache()
    assert buffer in driver.live
    driver.events[0].done = True
    allocator.empty_cache()
    assert not driver.live


def test_storage_gives_its_block_back(driver: Driver, stream: FakeStream) -> None:
    allocator = driver.allocator()
    storage = Storage(allocator.allocate(10, stream), allocator)
    assert allocator.stats().allocated == 256
    del storage
    assert allocator.stats().allocated == 0


def test_garbage_collection_inside_allocate_may_free_and_allocate(stream: FakeStream) -> None:
    """A finalizer that runs while the allocator holds its lock, as the collector's may."""
    pending: list[Callable[[], object]] = []

    class Collecting(Driver):
        def allocate(self, nbytes: int) -> int:
            while pending:
                pending.pop()()
            return super().allocate(nbytes)

    driver = Collecting()
    allocator = driver.allocator()
    dead = allocator.allocate(100, stream)
    pending += [lambda: allocator.free(dead), lambda: allocator.free(allocator.allocate(5000, stream))]
    allocator.allocate(3000, stream)
    stats = allocator.stats()
    assert (stats.allocations, stats.frees, stats.allocated) == (3, 2, 3072)


def test_cycles_that_own_storages_are_collected_during_allocation(driver: Driver, stream: FakeStream) -> None:
    class Node:
        storage: Storage
        me: Node

    allocator = driver.allocator()
    before = gc.get_threshold()
    gc.set_threshold(5)
    try:
        for _ in range(2000):
            node = Node()
            node.me, node.storage = node, Storage(allocator.allocate(100, stream), allocator)
    finally:
        gc.set_threshold(*before)
    del node
    gc.collect()
    assert allocator.stats().allocated == 0
    assert driver.count < 2000


def test_threads_never_share_a_block(driver: Driver) -> None:
    allocator, stream = driver.allocator(), FakeStream()
    owners: dict[int, int] = {}
    errors: list[str] = []

    def work(me: int) -> None:
        for i in range(2000):
            block = allocator.allocate(100 + 300 * (i % 3), stream)
            if owners.setdefault(block.buffer, me) != me:
                errors.append(f"buffer {block.buffer} has two owners")
            del owners[block.buffer]
            allocator.free(block)

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert allocator.stats().allocated == 0
