"""The pool of large blocks: reuse, lifetime through views, statistics, limits, threads and garbage collection."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from tensocket_cpu.memory import arena
from tensocket_cpu.memory.allocator import POOLED, HostAllocator, size_class
from tensocket_plugins.contract.dtypes import float32, uint8
from tensocket_plugins.contract.errors import ArgumentError, OutOfMemoryError
from tensocket_plugins.kit import host_memory

LARGE = (POOLED // 4 + 100,)


@pytest.fixture(params=["machine code", "python"])
def make(request, device):
    """``make(limit, keep)``: a pool of either kind."""
    def create(limit=None, keep=None):
        return HostAllocator(limit, keep, (lambda: device.compiler) if request.param == "machine code" else None)

    return create


@pytest.fixture
def pool(make):
    return make()


def address(array):
    return array.ctypes.data


def test_a_block_is_reused_when_its_array_is_gone(pool):
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
def test_a_view_keeps_the_block_when_its_parent_is_gone(pool, view):
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


def test_large_blocks_are_aligned_and_small_ones_are_numpys(pool):
    for count in (POOLED, POOLED + 1, 1_000_003):
        array = pool.array((count,), uint8)
        assert address(array) % 64 == 0
        assert array.flags.c_contiguous
        assert array.flags.aligned
    small = pool.array((10,), float32)
    assert small.base is None


def test_whole_blocks_are_usable_and_do_not_overlap(pool):
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


def test_statistics(pool):
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


def test_blocks(pool):
    for nbytes in (0, 1, 100, 1 << 20):
        block = pool.allocate(nbytes, None)
        assert block.nbytes == nbytes
        assert block.buffer.nbytes == nbytes
        block.buffer[...] = 1
        pool.free(block)
    assert pool.stats().allocated == 0


def test_limit(make):
    pool = make(limit=10 << 20)
    held = pool.array((8 << 20,), uint8)
    with pytest.raises(OutOfMemoryError, match=r"^\[empty\] 4194304 bytes on cpu; 8388608 bytes are in use, 8388608 "
                                               r"reserved, the peak was 8388608 — the limit is 10485760 bytes — use"):
        pool.array((4 << 20,), uint8)
    assert pool.array((1 << 20,), uint8).nbytes == 1 << 20
    del held
    assert pool.array((9 << 20,), uint8).nbytes == 9 << 20  # after giving back the unused blocks


def test_a_system_without_memory(pool):
    with pytest.raises(OutOfMemoryError, match=r"^\[empty\] \d+ bytes on cpu; .* — the system has no more memory"):
        pool.array((1 << 45,), uint8)
    assert pool.array(LARGE, float32).shape == LARGE
    assert pool.stats().allocated == 0


def test_unused_blocks_are_kept_up_to_a_bound(make):
    pool = make(keep=3 << 20)
    arrays = [pool.array((1 << 20,), uint8) for _ in range(10)]
    arrays.clear()
    assert pool.stats().reserved == 3 << 20


def test_many_threads(pool):
    errors = []

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


def test_garbage_collection_inside_the_pool(pool):
    """Cycles that hold arrays are collected at any allocation, also while the pool's lock is held."""
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


# ------------------------------------------------------------------------------------------------ NumPy's own arrays


@pytest.fixture
def serving(device, monkeypatch):
    """A pool that host kernels take NumPy's memory from."""
    monkeypatch.setattr(host_memory, "_INSTALLED", [])
    pool = HostAllocator(compiler=lambda: device.compiler, serves_kernels=True)
    pool.array(LARGE, float32)
    if pool._arena is None:
        pytest.skip("this NumPy takes memory from nobody else")
    return pool


def test_temporaries_of_host_kernels_come_from_the_pool(serving):
    x = np.arange(1 << 18, dtype=np.float64)
    before = serving.stats().allocations
    result = host_memory.call_pooled("op", lambda: np.sqrt(x * 2) + 1)
    assert serving.stats().allocations - before >= 2
    assert serving.stats().allocated == size_class(x.nbytes)
    assert address(result) % 64 == 0
    np.testing.assert_allclose(result, [(2 * k) ** 0.5 + 1 for k in range(1 << 18)])
    del result
    assert serving.stats().allocated == 0
    outside = serving.stats().allocations
    np.sqrt(x)
    assert serving.stats().allocations == outside


def test_zeros_growing_and_small_arrays_of_host_kernels(serving):
    def kernel():
        dirty = np.full(1 << 17, 7.0)
        del dirty
        grown, small = np.zeros(1 << 17), np.arange(9)
        clean = not grown.any()
        grown[...] = np.arange(1 << 17)
        grown.resize(1 << 18, refcheck=False)
        small.resize(20, refcheck=False)
        return clean, grown, small

    clean, grown, small = host_memory.call_pooled("op", kernel)
    assert clean
    assert grown[: 1 << 17].tolist() == list(range(1 << 17))
    assert small.tolist() == [*range(9), *[0] * 11]


def test_a_host_kernel_without_memory_names_the_operator(serving):
    serving.set_limit(serving.stats().reserved)
    with pytest.raises(OutOfMemoryError, match=r"^\[fft\] an array on cpu; 0 bytes are in use, .* — the limit is"):
        host_memory.call_pooled("fft", lambda: np.ones(1 << 22))
    serving.set_limit(None)
    assert host_memory.call_pooled("fft", lambda: np.ones(1 << 20)).sum() == 1 << 20


def test_the_handler_is_on_in_host_kernels_only(serving):
    name = np._core._multiarray_umath.get_handler_name
    assert host_memory.pooled("op")(name)() == "tensocket"
    assert name() == "default_allocator"
    with pytest.raises(ZeroDivisionError):
        host_memory.call_pooled("op", lambda: 1 / 0)
    assert name() == "default_allocator"


def test_a_numpy_with_another_table_of_functions_keeps_to_python(device, monkeypatch):
    monkeypatch.setattr(arena, "_SET_HANDLER", 305)  # PyDataMem_GetHandler
    assert arena.make_arena(device.compiler, None, 1 << 30, POOLED) is None
    pool = HostAllocator(compiler=lambda: device.compiler)
    assert pool.array(LARGE, float32).base is not None
    assert pool.stats().allocations == 1


def test_reused_blocks_have_no_page_faults(pool):
    resource = pytest.importorskip("resource")

    def faults():
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

    def use():
        for count in (1 << 20, 1 << 21, 3 << 20):
            pool.array((count,), float32)[...] = 1

    use()
    use()
    before = faults()
    for _ in range(5):
        use()
    assert faults() - before < 50  # fresh memory has 30 000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_allocates(pool):
    kept = pool.array(LARGE, float32)
    child = os.fork()
    if child == 0:
        arrays = [pool.array((POOLED * k,), uint8) for k in range(1, 20)]
        arrays.clear()
        os._exit(0 if pool.stats().allocated == size_class(kept.nbytes) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_arrays_may_outlive_everything():
    code = """
import sys
import numpy as np
import tensocket_cpu.device as d
from tensocket_plugins.contract.dtypes import float32
device = d.CpuDevice()
kept = [device.allocator.array((1 << 20,), float32) for _ in range(3)]
np.kept = kept[1:]            # goes with NumPy's module
sys.kept = kept[0][5:]
class Late:
    def __del__(self, array=kept[2]):
        array[...] = 1
sys.late = Late()
del device
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_the_limit_of_the_environment(monkeypatch):
    monkeypatch.setenv("TENSOCKET_CPU_MEMORY_LIMIT", str(1 << 20))
    with pytest.raises(OutOfMemoryError, match="the limit is 1048576 bytes"):
        HostAllocator().array((1 << 21,), uint8)
    monkeypatch.setenv("TENSOCKET_CPU_MEMORY_LIMIT", "much")
    with pytest.raises(ArgumentError, match=r"^\[TENSOCKET_CPU_MEMORY_LIMIT\] 'much' — the limit is a number of bytes"):
        HostAllocator()


def test_the_limit_can_change(pool):
    pool.set_limit(1 << 20)
    with pytest.raises(OutOfMemoryError):
        pool.array((1 << 21,), uint8)
    pool.set_limit(None)
    assert pool.array((1 << 21,), uint8).nbytes == 1 << 21


def test_one_allocation_can_be_refused(pool):
    pool.refuse_after(2)
    first = pool.array(LARGE, float32)
    with pytest.raises(OutOfMemoryError):
        pool.array(LARGE, float32)
    assert pool.array(LARGE, float32).shape == first.shape
