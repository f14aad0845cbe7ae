"""The pool of large blocks: reuse, lifetime through views, statistics, limits, threads and garbage collection."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest

from tensocket_cpu.memory import POOLED, HostAllocator, size_class
from tensocket_plugins.contract.dtypes import float32, uint8
from tensocket_plugins.contract.errors import OutOfMemoryError

LARGE = (POOLED // 4 + 100,)


def address(array):
    return array.ctypes.data


def test_a_block_is_reused_when_its_array_is_gone():
    pool = HostAllocator()
    first = pool.array(LARGE, float32)
    place = address(first)
    assert address(pool.array(LARGE, float32)) != place
    del first
    assert place in (address(a) for a in [pool.array(LARGE, float32) for _ in range(2)])


@pytest.mark.parametrize("view", [
    lambda a: a[5:], lambda a: a[5:][3:][::2], lambda a: a.reshape(-1, 4).T[1:], lambda a: a.view(np.uint8),
    lambda a: np.asarray(a[1:]), lambda a: np.lib.stride_tricks.as_strided(a, (3,), (8,)), lambda a: memoryview(a),
    lambda a: a[7:8].reshape(()),
])
def test_a_view_keeps_the_block_when_its_parent_is_gone(view):
    pool = HostAllocator()
    parent = pool.array((POOLED,), float32)
    parent[...] = 42.0
    place, kept = address(parent), view(parent)
    before = bytes(memoryview(kept).tobytes())
    del parent
    gc.collect()
    others = [pool.array((POOLED,), float32) for _ in range(3)]
    for other in others:
        other[...] = -1.0
    assert place not in [address(other) for other in others]
    assert memoryview(kept).tobytes() == before
    del kept
    assert address(pool.array((POOLED,), float32)) == place


def test_large_blocks_are_aligned_and_small_ones_are_numpys():
    pool = HostAllocator()
    for count in (POOLED, POOLED + 1, 1_000_003):
        array = pool.array((count,), uint8)
        assert address(array) % 64 == 0
        assert array.flags.c_contiguous
        assert array.flags.aligned
    small = pool.array((10,), float32)
    assert small.base is None


def test_whole_blocks_are_usable_and_do_not_overlap():
    pool = HostAllocator()
    arrays = [pool.array((POOLED + 4096 * k,), uint8) for k in range(20)]
    for k, array in enumerate(arrays):
        array[...] = k
    assert all((array == k).all() for k, array in enumerate(arrays))


@pytest.mark.parametrize("nbytes", [1, 4096, 65536, 65537, 1_000_000, 2**20, 2**20 + 1, 123_456_789, 2**34])
def test_size_classes_waste_little(nbytes):
    size = size_class(nbytes)
    assert nbytes <= size <= max(nbytes * 1.125 + 4096, 4096)
    assert size % 4096 == 0
    assert size_class(size) == size


def test_statistics():
    pool = HostAllocator()
    size = size_class(4 * LARGE[0])
    first, second = pool.array(LARGE, float32), pool.array(LARGE, float32)
    stats = pool.stats()
    assert (stats.allocated, stats.reserved, stats.allocations, stats.frees) == (2 * size, 2 * size, 2, 0)
    del first
    stats = pool.stats()
    assert (stats.allocated, stats.reserved, stats.peak_allocated, stats.frees) == (size, 2 * size, 2 * size, 1)
    pool.empty_cache()
    pool.reset_peak()
    stats = pool.stats()
    assert (stats.allocated, stats.reserved, stats.peak_allocated, stats.peak_reserved) == (size,) * 4
    del second
    pool.empty_cache()
    assert (pool.stats().allocated, pool.stats().reserved) == (0, 0)


def test_blocks():
    pool = HostAllocator()
    for nbytes in (0, 1, 100, 1 << 20):
        block = pool.allocate(nbytes, None)
        assert block.nbytes == nbytes
        assert block.buffer.nbytes == nbytes
        block.buffer[...] = 1
        pool.free(block)
    assert pool.stats().allocated == 0


def test_limit():
    pool = HostAllocator(limit=10 << 20)
    held = pool.array((8 << 20,), uint8)
    with pytest.raises(OutOfMemoryError, match=r"^\[empty\] 4194304 bytes on cpu; 8388608 bytes are in use, 8388608 "
                                               r"reserved, the peak was 8388608 — the limit is 10485760 bytes — use"):
        pool.array((4 << 20,), uint8)
    assert pool.array((1 << 20,), uint8).nbytes == 1 << 20
    del held
    assert pool.array((9 << 20,), uint8).nbytes == 9 << 20  # after giving back the unused blocks


def test_a_system_without_memory():
    pool = HostAllocator()
    with pytest.raises(OutOfMemoryError, match=r"^\[empty\] \d+ bytes on cpu; .* — the system has no more memory"):
        pool.array((1 << 45,), uint8)
    assert pool.array(LARGE, float32).shape == LARGE
    assert pool.stats().allocated == 0


def test_unused_blocks_are_kept_up_to_a_bound():
    pool = HostAllocator(keep=3 << 20)
    arrays = [pool.array((1 << 20,), uint8) for _ in range(10)]
    arrays.clear()
    assert pool.stats().reserved == 3 << 20


def test_many_threads():
    pool, errors = HostAllocator(), []

    def work(seed):
        rng = np.random.default_rng(seed)
        held = []
        for _ in range(300):
            array = pool.array((int(rng.integers(POOLED, 4 * POOLED)),), uint8)
            array[...] = seed
            held.append(array[10:])
            if len(held) > 5:
                gone = held.pop(int(rng.integers(5)))
                if not (gone == seed).all():
                    errors.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    stats = pool.stats()
    assert (stats.allocated, stats.allocations, stats.frees) == (0, 1200, 1200)


def test_garbage_collection_inside_the_pool():
    """Cycles that hold arrays are collected at any allocation, also while the pool's lock is held."""
    pool = HostAllocator()
    before = gc.get_threshold()
    gc.set_threshold(1)
    try:
        for _ in range(200):
            cycle = [pool.array(LARGE, float32)]
            cycle.append(cycle)
            del cycle
            pool.stats()
    finally:
        gc.set_threshold(*before)
    gc.collect()
    assert pool.stats().allocated == 0
