"""The interpreter device: memory with a limit, copies, streams, and programs."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest

from tensocket_plugins.contract import CONTRACT_VERSION
from tensocket_plugins.contract.arrays import DeviceArray
from tensocket_plugins.contract.dtypes import BY_NAME, bfloat16, float32, float64, int32
from tensocket_plugins.contract.errors import ArgumentError, OutOfMemoryError
from tensocket_plugins.ir.nodes import Buffer, IRError, Kernel, Load, LoopKind, Program, Scalar, Store, Var, loop
from tensocket_plugins.kit import ref


@pytest.fixture
def device():
    return ref.RefBackend(memory=1000).open(0)


def test_descriptor_and_backend():
    descriptor = ref.tensocket_describe()
    backend = ref.tensocket_backend()
    assert descriptor.name == "ref"
    assert descriptor.contract[0] <= CONTRACT_VERSION < descriptor.contract[1]
    backend.probe()
    assert backend.device_count() == 2
    assert [backend.open(i).name for i in range(2)] == ["ref:0", "ref:1"]
    assert backend.device_info(1).memory == ref.MEMORY
    assert ref.RefBackend(memory=5).device_info(0).memory == 5


def test_memory_limit_from_the_environment(monkeypatch):
    monkeypatch.setenv(ref.MEMORY_VARIABLE, "4096")
    assert ref.RefBackend().device_info(0).memory == 4096


def test_statistics_count_bytes(device):
    stream = device.default_stream
    a = device.empty((10,), float64, stream)
    b = device.empty((3,), float32, stream)
    stats = device.allocator.stats()
    assert (stats.allocated, stats.reserved, stats.peak_allocated, stats.allocations, stats.frees) == (92, 92, 92, 2, 0)
    del a
    gc.collect()
    stats = device.allocator.stats()
    assert (stats.allocated, stats.peak_allocated, stats.frees) == (12, 92, 1)
    device.allocator.reset_peak()
    assert device.allocator.stats().peak_allocated == 12
    del b
    gc.collect()
    assert device.allocator.stats().allocated == 0


def test_zero_bytes_are_allowed(device):
    assert device.empty((0, 3), float32, device.default_stream).nbytes == 0


def test_out_of_memory_says_what_is_there_and_leaves_the_device_working(device):
    kept = device.empty((100,), float64, device.default_stream)
    with pytest.raises(OutOfMemoryError) as error:
        device.empty((26,), float64, device.default_stream)
    assert str(error.value) == (
        "[allocate] 208 bytes on ref:0 — 200 of 1000 bytes are free (800 allocated in 1 blocks, peak 800) — "
        "free tensors, or set TENSOCKET_REF_MEMORY to more bytes")
    assert type(pickle.loads(pickle.dumps(error.value))) is OutOfMemoryError
    assert device.empty((25,), float64, device.default_stream).size == 25
    assert kept.size == 100


def test_devices_have_memory_of_their_own():
    backend = ref.RefBackend(memory=1000)
    first, second = backend.open(0), backend.open(1)
    kept = first.empty((100,), float64, first.default_stream)
    assert second.allocator.stats().allocated == 0
    assert second.empty((125,), float64, second.default_stream).size == 125
    assert kept.size == 100


@pytest.mark.parametrize("name", sorted(ref.PROFILE.dtypes))
def test_round_trip_of_every_dtype(name):
    rng = np.random.default_rng(7)
    dtype = BY_NAME[name]
    backend = ref.RefBackend(memory=1000)
    first, second = backend.open(0), backend.open(1)
    host = (rng.integers(0, 2, (3, 4)) if name == "bool" else rng.integers(0, 100, (3, 4))).astype(dtype.numpy)
    there = first.empty((3, 4), dtype, first.default_stream)
    first.copy(there, host, first.default_stream)
    other = second.empty((3, 4), dtype, second.default_stream)
    second.copy(other, there, second.default_stream)
    back = np.zeros_like(host)
    second.copy(back, other, second.default_stream)
    assert np.array_equal(back, host)


def test_copy_of_a_part_and_of_one_number(device):
    stream = device.default_stream
    array = device.empty((6,), float32, stream)
    device.copy(array, np.arange(6, dtype=np.float32), stream)
    part, number = np.zeros(3, np.float32), np.zeros((), np.float32)
    device.copy(part, array[2:5], stream)
    device.copy(number, array[4], stream)
    assert part.tolist() == [2, 3, 4]
    assert number == 4


def test_fresh_memory_is_not_zero(device):
    fresh = np.zeros(4, np.uint32)
    device.copy(fresh, device.empty((4,), BY_NAME["uint32"], device.default_stream), device.default_stream)
    assert (fresh == 0xA5A5A5A5).all()


def test_streams_and_events(device):
    stream, start, end = device.create_stream(), device.create_event(timing=True), device.create_event(timing=True)
    assert stream is not device.default_stream
    stream.record(start)
    stream.wait(start)
    stream.record(end)
    assert stream.query()
    assert end.query()
    stream.synchronize()
    end.synchronize()
    device.synchronize()
    assert start.elapsed_ms(end) >= 0


def test_elapsed_time_needs_timed_and_recorded_events(device):
    timed, plain = device.create_event(timing=True), device.create_event()
    device.default_stream.record(plain)
    with pytest.raises(ArgumentError, match=r"\[elapsed_time\] an event without timing — both events take times"):
        timed.elapsed_ms(plain)
    with pytest.raises(ArgumentError, match=r"\[elapsed_time\] an event that was not recorded — "
                                            "both events are recorded"):
        timed.elapsed_ms(device.create_event(timing=True))


def doubled(dtype):
    i, n = Var("i", int32), Var("n", int32)
    store = Store("out", i, Load("x", i, dtype) * 2.0)
    params = (Buffer("x", dtype), Buffer("out", dtype, True), Scalar("n", int32))
    return Program("p", params, (Kernel("p", (loop(i, n, [store], LoopKind.PARALLEL),)),))


def test_programs_run_on_device_arrays(device):
    stream = device.default_stream
    x, out = (device.empty((5,), float32, stream) for _ in range(2))
    device.copy(x, np.arange(5, dtype=np.float32), stream)
    device.compile_ir(doubled(float32))([x, out], [5], stream)
    host = np.zeros(5, np.float32)
    device.copy(host, out, stream)
    assert host.tolist() == [0, 2, 4, 6, 8]
    assert isinstance(out, DeviceArray)
    with pytest.raises(IRError, match=r"load from x\[5\]"):
        device.compile_ir(doubled(float32))([x, out], [6], stream)


def test_programs_are_verified(device):
    with pytest.raises(IRError, match="mul of bfloat16: convert it to float32 first"):
        device.compile_ir(doubled(bfloat16))
