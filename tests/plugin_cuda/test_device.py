"""The CUDA device on a double of the driver: copies, launches, streams, memory and errors."""

from __future__ import annotations

import struct
import threading

import numpy as np
import pytest

pytest.importorskip("cuda.bindings")

from tensocket_cuda.device import argument_format
from tensocket_cuda.memory import PIECE
from tensocket_cuda.streams import CudaStream
from tensocket_plugins.contract.backend import Event
from tensocket_plugins.contract.dtypes import float32, int32, uint8
from tensocket_plugins.contract.errors import ArgumentError, KernelError, OutOfMemoryError
from tensocket_plugins.ir.nodes import Buffer, If, Kernel, Let, Load, LoopKind, Program, Scalar, Store, Var, loop


def scale_program():
    i, n, g, l = (Var(name, int32) for name in ("i", "n", "g", "l"))
    body = (Let(i, g * 64 + l), If(i < n, (Store("out", i, Load("a", i, float32) * Var("s", float32)),)))
    nest = loop(g, (n + 63) // 64, (loop(l, 64, body, LoopKind.LANE),), LoopKind.GROUP)
    params = (Buffer("out", float32, True), Buffer("a", float32), Scalar("s", float32), Scalar("n", int32))
    return Program("scale", params, (Kernel("scale", (nest,)),))


def upload(device, values):
    array = device.empty(values.shape, float32, device.default_stream)
    device.copy(array, values, device.default_stream)
    return array


# ------------------------------------------------------------------------------------------------------ copies


@pytest.mark.parametrize("nbytes", [1, 1000, PIECE, PIECE + 1, 3 * PIECE + 17])
def test_copies_there_and_back(device, nbytes, driver):
    values = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)
    array = device.empty((nbytes,), uint8, device.default_stream)
    source = values.copy()
    device.copy(array, source, device.default_stream)
    source[...] = 0
    back = np.zeros_like(values)
    device.copy(back, array, device.default_stream)
    np.testing.assert_array_equal(back, values)
    assert len(driver.named("htod")) == len(driver.named("dtoh")) == -(-nbytes // PIECE)
    assert len(driver.named("pagelocked_empty")) == 2  # once for all copies


def test_a_copy_to_the_host_waits(device, driver):
    array = upload(device, np.ones(4, np.float32))
    driver.calls.clear()
    device.copy(np.zeros(4, np.float32), array, device.default_stream)
    names = [record[0] for record in driver.calls]
    assert names.index("dtoh") < names.index("record") < len(names) - 1 - names[::-1].index("event synchronize")


def test_pinned_memory_is_not_overwritten_while_in_use(device, driver):
    upload(device, np.ones(4, np.float32))
    (event, _stream) = driver.named("record")[-1]
    driver.calls.clear()
    upload(device, np.ones(4, np.float32))
    names = [record[0] for record in driver.calls]
    assert driver.named("event synchronize")[0] == (event,)
    assert names.index("event synchronize") < names.index("htod")


def test_copies_within_the_device_use_offsets(device, driver):
    a = upload(device, np.arange(8, dtype=np.float32))
    b = upload(device, np.zeros(8, np.float32))
    device.copy(b[2:5], a[4:7], device.default_stream)
    back = np.empty(8, np.float32)
    device.copy(back, b, device.default_stream)
    np.testing.assert_array_equal(back, [0, 0, 4, 5, 6, 0, 0, 0])


def test_empty_copies_touch_nothing(device, driver):
    array = device.empty((0,), float32, device.default_stream)
    driver.calls.clear()
    device.copy(array, np.empty(0, np.float32), device.default_stream)
    device.copy(np.empty(0, np.float32), array, device.default_stream)
    assert driver.calls == []


def test_copies_run_on_cuda_streams_only(device):
    with pytest.raises(TypeError, match="runs on a CudaStream, not a str"):
        device.copy(upload(device, np.ones(1, np.float32)), np.ones(1, np.float32), "stream")


# ----------------------------------------------------------------------------------------------------- kernels


def test_a_launch_packs_what_the_kernel_takes(device, driver):
    run = device.compile_ir(scale_program())
    (code,) = driver.named("module")[0]
    assert code[:4] == b"\x7fELF"
    out, a = upload(device, np.zeros(100, np.float32)), upload(device, np.ones(100, np.float32))
    run([out, a[10:]], [0.25, 90], device.default_stream)
    ((name, grid, group, packed, shared, stream),) = driver.named("launch")
    assert (name, grid, group, shared, stream) == ("tensocket_scale", (2,), (64,), 0, device.default_stream.handle)
    assert packed == struct.pack("PqPqfi", out.storage.buffer, 0, a.storage.buffer, 10, 0.25, 90)


def test_argument_formats():
    types = (np.int64, np.int32, np.int16, np.int8, np.uint8, np.uint16, np.uint32, np.uint64, np.float32, np.float64)
    args = [4096, *(number(1) for number in types)]
    assert argument_format(args) == "PqihbBHIQfd"


def test_refused_launches_are_kernel_errors_and_the_device_goes_on(device, driver):
    run = device.compile_ir(scale_program())
    arrays = [upload(device, np.zeros(4, np.float32)) for _ in range(2)]
    driver.fail = driver.Error("cuLaunchKernel failed: invalid configuration")
    with pytest.raises(KernelError, match=r"\[cuda\] work on cuda:0 — the driver reports: cuLaunchKernel failed: inv"):
        run(arrays, [1.0, 4], device.default_stream)
    driver.fail = None
    run(arrays, [1.0, 4], device.default_stream)
    assert len(driver.named("launch")) == 2


def test_build_stats(device):
    device.compile_ir(scale_program())
    device.compile_ir(scale_program())
    stats = device.build_stats
    assert (stats.kernels, stats.cache_hits) == (2, 1)
    assert stats.seconds > 0


# ------------------------------------------------------------------------------------------ streams and events


def test_streams_and_events(device, driver):
    stream = device.create_stream()
    assert stream.pointer == stream.handle.handle
    start, end = device.create_event(timing=True), device.create_event(timing=True)
    assert start.query()
    assert driver.named("query") == []  # never recorded
    stream.record(start)
    stream.record(end)
    assert start.query()
    assert start.elapsed_ms(end) == 1.5
    device.default_stream.wait(end)
    assert driver.named("wait") == [(1, end.handle)]
    assert stream.query()
    stream.synchronize()
    assert ("stream synchronize", 2) in driver.calls
    assert [flags for (flags,) in driver.named("Event")] == [0, 0]
    device.create_event()
    assert driver.named("Event")[-1] == (driver.event_flags.DISABLE_TIMING,)


def test_events_and_streams_are_used_again_and_never_destroyed_by_finalizers(device, driver):
    for timing in (False, True):
        first = device.create_event(timing=timing).handle
        assert device.create_event(timing=timing).handle is first
        assert first.flags == (0 if timing else driver.event_flags.DISABLE_TIMING)
    used = device.create_event()
    device.default_stream.record(used)
    del used
    assert device.create_event().recorded is False
    pointer = device.create_stream().pointer
    assert device.create_stream().pointer == pointer


def test_waiting_for_an_unrecorded_event_is_nothing(device, driver):
    event = device.create_event()
    driver.calls.clear()
    device.default_stream.wait(event)
    event.synchronize()
    assert driver.calls == []


class ForeignEvent(Event):
    waited = False

    def query(self):
        return True

    def synchronize(self):
        self.waited = True

    def elapsed_ms(self, end):
        return 0.0


def test_events_of_other_devices(device):
    foreign = ForeignEvent()
    device.default_stream.wait(foreign)
    assert foreign.waited
    with pytest.raises(ArgumentError, match=r"\[Stream.record_event\] an event of another device than cuda:0 — "
                                            "a stream records events of its own device"):
        device.default_stream.record(foreign)
    with pytest.raises(ArgumentError, match=r"\[Event.elapsed_time\] an end event of another device than cuda:0 — "
                                            "both events are of one device"):
        device.create_event(timing=True).elapsed_ms(foreign)


def test_times_need_timing_and_a_record(device):
    plain, timed = device.create_event(), device.create_event(timing=True)
    device.default_stream.record(timed)
    with pytest.raises(ArgumentError, match="start event with timing=False, recorded=False — "
                                            "both events were created with timing and recorded"):
        plain.elapsed_ms(timed)
    with pytest.raises(ArgumentError, match="end event with timing=True, recorded=False"):
        timed.elapsed_ms(device.create_event(timing=True))


def test_errors_of_queued_work_surface_when_synchronising(device, driver):
    driver.fail = driver.Error("cuCtxSynchronize failed: an illegal memory access was encountered")
    with pytest.raises(KernelError, match="illegal memory access"):
        device.synchronize()
    with pytest.raises(KernelError, match="illegal memory access"):
        device.default_stream.synchronize()
    driver.fail = None


def test_threads_push_and_pop_in_balance(device, driver):
    errors = []

    def work():
        try:
            upload(device, np.ones(3, np.float32))
        except BaseException as error:
            errors.append(error)

    for _ in range(3):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert driver.depth == 0
    assert errors == []


# ------------------------------------------------------------------------------------------------------ memory


def test_memory_is_pooled(device, driver):
    address = upload(device, np.ones(100, np.float32)).storage.buffer
    assert upload(device, np.ones(100, np.float32)).storage.buffer == address
    assert len(driver.named("mem_alloc")) == 1


def test_out_of_memory(device, driver):
    driver.capacity = 1 << 20
    with pytest.raises(OutOfMemoryError, match="cuda:0"):
        device.empty((1 << 20,), float32, device.default_stream)
    assert device.empty((64,), float32, device.default_stream).size == 64


def test_memory_of_another_stream_waits_for_its_event(device, driver):
    array = upload(device, np.ones(100, np.float32))
    other = device.create_stream()
    array.storage.block.streams = {other}
    del array
    driver.calls.clear()
    device.empty((100,), float32, device.default_stream)
    (recorded,) = driver.named("record")
    assert recorded[1] is other.handle


def test_freeing_after_closing_does_nothing(device, driver):
    array = upload(device, np.ones(4, np.float32))
    device.close()
    assert driver.memory == {}
    del array
    device.allocator.empty_cache()
    device.close()
    assert driver.named("detach") == [()]
    assert isinstance(device.default_stream, CudaStream)


def test_uses_of_a_context_within_a_use_do_not_push_it_again(device, driver):
    other = type(device.current)(driver, device.current._context, "cuda:1")
    with device.current:
        assert driver.depth == 1
        with device.current:
            assert driver.depth == 1
            with other:
                assert driver.depth == 2
                with device.current:
                    assert driver.depth == 3
                assert driver.depth == 2
            assert driver.depth == 1
        assert driver.depth == 1
    assert driver.depth == 0


def test_a_context_that_cannot_be_pushed_is_not_popped(device, driver, monkeypatch):
    def refuse():
        raise driver.Error("no context")

    monkeypatch.setattr(device.current._context, "push", refuse)
    for _ in range(2):
        with pytest.raises(driver.Error, match="no context"), device.current:
            pass
    monkeypatch.undo()
    device.synchronize()
    assert driver.depth == 0


def test_code_for_which_the_driver_has_no_memory(device, driver, monkeypatch):
    def refuse(code):
        raise driver.MemoryError("cuModuleLoadDataEx failed: out of memory")

    monkeypatch.setattr(driver, "module_from_buffer", refuse)
    with pytest.raises(OutOfMemoryError) as caught:
        device.compile_source('extern "C" __global__ void f() {}', ["f"])
    assert str(caught.value) == (
        "[cuda] work on cuda:0 — the driver reports: cuModuleLoadDataEx failed: out of memory — delete tensors that "
        "are no longer needed, or use smaller ones")
    device.synchronize()
