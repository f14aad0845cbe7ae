"""Streams other than the default: order, events, errors, memory, forks."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref

import numpy as np
import pytest

from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import KernelError, OutOfMemoryError, ShapeError
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, loop

I, N = Var("i", int64), Var("n", int64)


@pytest.fixture
def stream(device):
    made = device.create_stream()
    yield made
    made.synchronize()


@pytest.fixture
def gate():
    """Functions that wait for it stand still until it is set; set in the end whatever happens."""
    event = threading.Event()
    yield event
    event.set()


def test_functions_run_in_order_beside_the_caller(stream, gate):
    seen = []
    stream.submit("first", lambda: (gate.wait(), seen.append(1)))
    stream.submit("second", lambda: seen.append(threading.get_ident()))
    assert not stream.query()
    assert seen == []
    gate.set()
    stream.synchronize()
    assert stream.query()
    assert seen[0] == 1
    assert seen[1] != threading.get_ident()


def test_a_stream_without_work_has_no_thread(device):
    before = threading.active_count()
    stream = device.create_stream()
    assert stream.query()
    stream.synchronize()
    assert threading.active_count() == before


def test_the_thread_ends_with_the_stream_after_its_work(device, gate):
    stream, seen = device.create_stream(), []
    stream.submit("waiting", lambda: gate.wait(20))
    stream.submit("last", lambda: seen.append(threading.current_thread()))
    del stream
    gc.collect()
    gate.set()
    deadline = time.monotonic() + 10
    while (not seen or seen[0].is_alive()) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert not seen[0].is_alive()


def test_events_order_streams(device, stream, gate):
    other, event, seen = device.create_stream(), device.create_event(), []
    stream.submit("slow", lambda: (gate.wait(), seen.append("first")))
    stream.record(event)
    other.wait(event)
    other.submit("next", lambda: seen.append("second"))
    assert not event.query()
    assert not other.query()
    gate.set()
    other.synchronize()
    assert event.query()
    assert seen == ["first", "second"]


def test_the_default_stream_waits_at_once(device, stream, gate):
    event, seen = device.create_event(), []
    stream.submit("slow", lambda: (gate.wait(), seen.append(1)))
    stream.record(event)
    threading.Timer(0.02, gate.set).start()
    device.default_stream.wait(event)
    assert seen == [1]


def test_an_event_recorded_anew_is_the_later_one(device, stream, gate):
    event = device.create_event(timing=True)
    device.default_stream.record(event)
    first = event.recorded_ns
    stream.submit("slow", lambda: gate.wait(20))
    stream.record(event)
    assert not event.query()
    gate.set()
    event.synchronize()
    assert event.recorded_ns > first
    device.default_stream.record(event)
    assert event.query()


def test_events_measure_the_queue(device, stream):
    start, end = device.create_event(timing=True), device.create_event(timing=True)
    stream.record(start)
    stream.submit("sleep", lambda: time.sleep(0.02))
    stream.record(end)
    end.synchronize()
    assert 20 <= start.elapsed_ms(end) < 5000


def test_synchronizing_the_device_waits_for_all_streams(device, gate):
    streams, seen = [device.create_stream() for _ in range(3)], []
    for k, one in enumerate(streams):
        one.submit("slow", lambda k=k: (gate.wait(), seen.append(k)))
    threading.Timer(0.02, gate.set).start()
    device.synchronize()
    assert sorted(seen) == [0, 1, 2]


def test_a_failure_is_raised_by_synchronize_with_the_operator(stream):
    seen = []
    stream.submit("bad", lambda: 1 / 0)
    stream.submit("behind", lambda: seen.append(1))
    with pytest.raises(KernelError, match=r"^\[bad\] work queued on a stream of the CPU — it failed: "
                                          r"ZeroDivisionError: division by zero — what was queued behind it did not "
                                          r"run; repeat it") as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, ZeroDivisionError)
    assert seen == []
    stream.submit("again", lambda: seen.append(2))
    stream.synchronize()
    assert seen == [2]


def test_typed_errors_stay_as_they_are_and_events_raise_them(device, stream):
    def fail():
        raise ShapeError("op", "given", "rule", "advice")

    event = device.create_event()
    stream.submit("op", fail)
    stream.record(event)
    with pytest.raises(ShapeError, match=r"^\[op\] given — rule — advice$"):
        event.synchronize()
    stream.synchronize()
    stream.submit("op", fail)
    with pytest.raises(ShapeError):
        device.synchronize()


def test_memory_that_is_missing_is_reported_with_the_operator(device, stream):
    def allocate():
        device.allocator.refuse_after(1)
        device.empty((1 << 20,), int64, device.default_stream)

    stream.submit("cumsum", allocate)
    with pytest.raises(OutOfMemoryError, match=r"^\[cumsum\] 8388608 bytes on cpu; \d+ bytes are in use") as caught:
        stream.synchronize()
    assert isinstance(caught.value.__cause__, OutOfMemoryError)


def test_what_a_function_holds_lives_until_it_ran_and_no_longer(stream, gate):
    array = np.zeros(1000)
    alive = weakref.ref(array)
    stream.submit("waiting", lambda: gate.wait(20))
    stream.submit("use", lambda held=array: held.sum())
    del array
    assert alive() is not None
    gate.set()
    stream.synchronize()
    gc.collect()
    assert alive() is None


def test_programs_are_queued(device, stream, gate):
    store = Store("out", I, Load("in", I, int64) * 3)
    program = Program("p", (Buffer("out", int64, True), Buffer("in", int64), Scalar("n", int64)),
                      (Kernel("p", (loop(I, N, [store], LoopKind.PARALLEL),)),))
    run, out = device.compile_ir(program), np.zeros(9, int)
    stream.submit("waiting", lambda: gate.wait(20))
    run([out, np.arange(9)], [9], stream)
    assert not out.any()
    gate.set()
    stream.synchronize()
    assert out.tolist() == list(range(0, 27, 3))


def test_programs_of_several_kernels_are_queued(device, stream, gate):
    def kernel(name, source, target):
        return Kernel(name, (loop(I, N, [Store(target, I, Load(source, I, int64) + 1)], LoopKind.PARALLEL),))

    program = Program("two", (Buffer("out", int64, True), Buffer("in", int64), Scalar("n", int64)),
                      (kernel("a", "in", "out"), kernel("b", "in", "out")))
    run, out = device.compile_ir(program), np.zeros(9, int)
    stream.submit("waiting", lambda: gate.wait(20))
    run([out, np.arange(9)], [9], stream)
    assert not out.any()
    gate.set()
    stream.synchronize()
    assert out.tolist() == list(range(1, 10))


def test_copies_come_after_what_is_queued(device, stream):
    source, target = np.zeros(4, np.float32), np.zeros(4, np.float32)
    stream.submit("slow", lambda: (time.sleep(0.02), source.fill(5)))
    device.copy(target, source, stream)
    assert target.tolist() == [5.0] * 4


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_starts_anew(device, stream, gate):
    event, seen = device.create_event(), []
    stream.submit("waiting", lambda: gate.wait(20))
    stream.record(event)
    child = os.fork()
    if child == 0:
        ok = event.query() and stream.query()
        stream.submit("child", lambda: seen.append(1))
        stream.synchronize()
        os._exit(0 if ok and seen == [1] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_many_threads_on_many_streams(device):
    """Every thread counts in order on two streams that wait for each other; the device is synchronised meanwhile."""
    errors = []

    def work(seed):
        first, second, seen = device.create_stream(), device.create_stream(), []
        for k in range(60):
            event = device.create_event()
            one, other = (first, second) if k % 2 else (second, first)
            one.submit("count", lambda k=k: seen.append(k))
            one.record(event)
            other.wait(event)
            if k % 20 == seed:
                device.synchronize()
        second.synchronize()
        first.synchronize()
        if seen != list(range(60)):
            errors.append(seen)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
