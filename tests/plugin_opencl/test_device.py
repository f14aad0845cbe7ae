"""Memory, copies, streams and events of an OpenCL device."""

from __future__ import annotations

import gc
from types import SimpleNamespace

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import bfloat16, float32, uint8
from tensocket_plugins.contract.errors import ArgumentError, KernelError, OutOfMemoryError
from tensocket_plugins.kit.allocator import LARGE


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int16", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (0,), (1,), (3, 5), (1000, 777)])
def test_what_is_copied_to_the_device_comes_back(upload, download, dtype, shape):
    data = np.random.default_rng(1).integers(0, 2 if dtype == "bool" else 100, shape).astype(dtype)
    back = download(upload(data))
    assert back.dtype == data.dtype
    np.testing.assert_array_equal(back, data)


def test_bfloat16_is_copied_as_bits(device, download):
    bits = np.arange(7, dtype=np.uint16)
    handle = device.empty((7,), bfloat16, device.default_stream)
    device.copy(handle, bits, device.default_stream)
    np.testing.assert_array_equal(download(handle), bits)


@pytest.mark.parametrize("size", [100, LARGE])
def test_host_source_may_be_read_only_and_change_after_the_copy(upload, device, download, size):
    data = np.arange(size, dtype=np.float32)
    view = data.view()
    view.flags.writeable = False
    handle = device.empty(view.shape, float32, device.default_stream)
    device.copy(handle, view, device.default_stream)
    data[:] = -1
    np.testing.assert_array_equal(download(handle), np.arange(size, dtype=np.float32))


def test_many_small_copies_are_all_kept_alive(upload, download):
    handles = [upload(np.full(1000, i, np.int32)) for i in range(300)]
    gc.collect()
    for i, handle in enumerate(handles):
        assert (download(handle) == i).all()


def test_views_are_copied_from_their_offset(upload, download, device):
    whole = upload(np.arange(20, dtype=np.int32))
    part = whole[5:9]
    np.testing.assert_array_equal(download(part), [5, 6, 7, 8])
    device.copy(whole[0:4], part, device.default_stream)
    device.copy(whole[18:20], np.array([-1, -2], np.int32), device.default_stream)
    np.testing.assert_array_equal(download(whole), [5, 6, 7, 8, *range(4, 18), -1, -2])


@pytest.mark.parametrize("shift", [-1, 0, 3])
def test_overlapping_copies_within_a_buffer(upload, download, device, shift):
    whole = upload(np.arange(50, dtype=np.int64))
    device.copy(whole[10 + shift:30 + shift], whole[10:30], device.default_stream)
    expected = np.arange(50)
    expected[10 + shift:30 + shift] = np.arange(10, 30)
    np.testing.assert_array_equal(download(whole), expected)


def test_memory_is_pooled(device):
    stream = device.default_stream
    before = device.allocator.stats()
    handle = device.empty((12345,), float32, stream)
    buffer = handle.storage.buffer
    del handle
    again = device.empty((12345,), float32, stream)
    assert again.storage.buffer is buffer
    assert device.allocator.stats().allocated - before.allocated >= 4 * 12345


def test_more_memory_than_the_device_has_is_refused_at_once(device):
    """PoCL would take any size, and fail when the memory is used."""
    for nbytes in (device.profile.limits.max_bytes + 1, 1 << 50):
        with pytest.raises(OutOfMemoryError, match=r"\[allocate\] .* on opencl:0 \(.* allocated, .* reserved, cap"):
            device.empty((nbytes,), uint8, device.default_stream)
    assert device.empty((10,), uint8, device.default_stream).size == 10


def test_streams_run_independently_and_wait_for_events(device, upload, download):
    first, second = device.create_stream(), device.create_stream()
    handle = upload(np.arange(LARGE, dtype=np.float32), first)
    event = device.create_event()
    assert event.query()  # never recorded
    first.record(event)
    second.wait(event)
    other = device.empty(handle.shape, float32, second)
    device.copy(other, handle, second)
    np.testing.assert_array_equal(download(other, second), np.arange(LARGE))
    event.synchronize()
    assert event.query()
    first.synchronize()
    assert first.query()
    device.synchronize()


def test_query_becomes_true_without_waiting(device, upload):
    stream = device.create_stream()
    assert stream.query()
    handle = upload(np.zeros(LARGE, np.float32), stream)
    target = device.empty(handle.shape, float32, stream)
    device.copy(target, handle, stream)
    while not stream.query():
        pass
    event = device.create_event()
    stream.record(event)
    while not event.query():
        pass


def test_elapsed_time(device, upload):
    stream = device.create_stream()
    start, end = device.create_event(timing=True), device.create_event(timing=True)
    stream.record(start)
    handle = upload(np.zeros(4 * LARGE, np.float32), stream)
    device.copy(device.empty(handle.shape, float32, stream), handle, stream)
    stream.record(end)
    stream.synchronize()
    assert 0 < start.elapsed_ms(end) < 10_000


def test_times_of_events_without_time_are_refused(device):
    plain, timed = device.create_event(), device.create_event(timing=True)
    device.default_stream.record(plain)
    device.default_stream.synchronize()
    with pytest.raises(ArgumentError, match=r"start event with timing=False, recorded=True, done=True — "
                       "both events were created with timing, recorded, and have happened"):
        plain.elapsed_ms(plain)
    with pytest.raises(ArgumentError, match=r"start event with timing=True, recorded=False"):
        timed.elapsed_ms(plain)
    device.default_stream.record(timed)
    device.default_stream.synchronize()
    with pytest.raises(ArgumentError, match=r"end event with timing=False"):
        timed.elapsed_ms(plain)
    with pytest.raises(ArgumentError, match="end=object — both events are of one device"):
        timed.elapsed_ms(object())


def test_events_of_other_devices(device):
    class Foreign:
        synchronized = False

        def synchronize(self):
            self.synchronized = True

    foreign = Foreign()
    device.default_stream.wait(foreign)
    assert foreign.synchronized
    with pytest.raises(ArgumentError, match=r"event=Foreign — a stream of opencl:0 records events of the same device"):
        device.default_stream.record(foreign)


def test_block_used_on_another_stream_is_not_reused_too_early(device, upload, download):
    home, other = device.create_stream(), device.create_stream()
    handle = upload(np.full(LARGE, 3, np.float32), home)
    home.synchronize()
    result = device.empty(handle.shape, float32, other)
    handle.storage.block.streams = {other}
    device.copy(result, handle, other)
    del handle
    upload(np.full(LARGE, 9, np.float32), home)
    assert (download(result, other) == 3).all()


def test_errors_of_opencl_become_errors_of_the_house(device, upload, download):
    source = "__kernel void one(__global int *a) { a[get_global_id(0)] = 1; }"
    kernel = device.compile_source(source, ["one"])["one"]
    handle = upload(np.zeros(4, np.int32))
    with pytest.raises(KernelError, match=r"\[launch\] .*WORK_GROUP_SIZE.* on opencl:0 — queued work must run"):
        device.launch(kernel, (1,), (1 << 20,), [handle.storage.buffer], device.default_stream)
    device.launch(kernel, (2,), (2,), [handle.storage.buffer], device.default_stream)
    assert (download(handle) == 1).all()


def test_work_that_did_not_end_is_named(device):
    from tensocket_opencl.streams import OpenCLStream, translated

    class Failure(Exception):
        code = -14  # CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST

    error = translated(Failure("failed"), "launch", "opencl:0")
    assert str(error).startswith("[launch] failed on opencl:0 — queued work must run to its end — see the driver's log")
    stream = OpenCLStream(device._context, device.name)
    stream.last = SimpleNamespace(command_execution_status=-5)
    with pytest.raises(KernelError, match=r"\[Stream.synchronize\] status -5 on opencl:0 — "
                                          "queued work must run to its end"):
        stream.synchronize()
    stream.synchronize()


def test_missing_memory_is_told_apart(device):
    from tensocket_opencl.streams import translated

    class Failure(Exception):
        code = -4  # CL_MEM_OBJECT_ALLOCATION_FAILURE

    error = translated(Failure("allocation failed"), "launch", "opencl:0")
    assert isinstance(error, OutOfMemoryError)
    assert str(error) == ("[launch] allocation failed on opencl:0 — the driver has no memory left for this work — "
                          "free tensors or use smaller batches")
