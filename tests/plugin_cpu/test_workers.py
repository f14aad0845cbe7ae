"""Native workers: every piece once, whoever calls; forked children, the end of the process, systems without them."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from tensocket_cpu.threads import workers as module
from tensocket_cpu.threads.pool import ThreadPool
from tensocket_cpu.threads.workers import Workers, make_workers
from tensocket_plugins.contract.errors import KernelError

ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)

#: The first lines of subprocesses' programs.
HEAD = """
import ctypes, os, sys, threading, time
from tensocket_cpu.device import CpuDevice
device = CpuDevice(0)
device.set_num_threads(3)
workers = device.pool.native
def works():
    total = ctypes.c_int64()
    workers.run(workers._at["probe"], ctypes.addressof(total), 1000, 1000)
    return total.value == 999 * 500
assert works()
"""


@pytest.fixture(scope="module")
def native(device):
    made = make_workers(device.compiler)
    if made is None:
        pytest.skip("the process has no POSIX threads")
    yield made
    made.close()


class Recorder:
    """A kernel in Python; notes what ran where."""

    def __init__(self, seconds=0.0):
        self.pieces, self.seconds = [], seconds
        self.entry = ENTRY(self._run)
        self.address = ctypes.cast(self.entry, ctypes.c_void_p).value

    def _run(self, args, begin, end):
        time.sleep(self.seconds)
        self.pieces.append((begin, end, threading.get_ident()))


def total_of(workers, count, pieces):
    total = ctypes.c_int64()
    workers.run(workers._at["probe"], ctypes.addressof(total), count, pieces)
    return total.value


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [1, 2, 5, 100, 8192, 100_003])
@pytest.mark.parametrize("pieces", [0, 1, 2, 3, 1000])
def test_pieces_cover_everything_once(native, threads, count, pieces):
    native.resize(threads)
    entry = Recorder()
    native.run(entry.address, 0, count, pieces)
    ranges = sorted(piece[:2] for piece in entry.pieces)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == count
    assert all(left[1] == right[0] and left[0] < left[1] for left, right in itertools.pairwise(ranges))
    assert len(ranges) <= max(1, min(pieces, count))
    if threads == 1 or pieces < 2:
        assert len(ranges) == 1
    if count > 1024 * 8 * threads:
        assert all(begin % 64 == 0 for begin, _ in ranges)


def test_several_threads_take_part_and_the_caller_is_one(native):
    native.resize(3)
    entry = Recorder(0.02)
    native.run(entry.address, 0, 12, 12)
    idents = {piece[2] for piece in entry.pieces}
    assert threading.get_ident() in idents
    assert len(idents) == 3


def test_thousands_of_tasks_in_a_row(native):
    native.resize(4)
    for count in range(1, 4000):
        assert total_of(native, count % 37 + 1, 8) == (count % 37 + 1) * (count % 37) // 2


def test_a_worker_that_sleeps_is_woken(native):
    native.resize(2)
    for _ in range(3):
        time.sleep(0.01)
        entry = Recorder(0.01)
        native.run(entry.address, 0, 4, 4)
        assert len({piece[2] for piece in entry.pieces}) == 2


def test_whoever_finds_the_workers_busy_runs_alone(native):
    native.resize(2)
    inner = Recorder()

    def run(args, begin, end):
        native.run(inner.address, 0, 100, 100)

    outer = ENTRY(run)
    native.run(ctypes.cast(outer, ctypes.c_void_p).value, 0, 2, 2)
    assert sorted(piece[:2] for piece in inner.pieces) == [(0, 100), (0, 100)]
    assert total_of(native, 100, 4) == 99 * 50


def test_many_callers_at_once(native):
    native.resize(3)
    wrong = []

    def call():
        for count in range(500):
            if total_of(native, count + 1, 8) != (count + 1) * count // 2:
                wrong.append(count)

    callers = [threading.Thread(target=call) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


def test_resizing_while_others_run(native):
    stop, wrong = threading.Event(), []

    def call():
        while not stop.is_set():
            if total_of(native, 1000, 8) != 999 * 500:
                wrong.append(1)

    callers = [threading.Thread(target=call) for _ in range(2)]
    for caller in callers:
        caller.start()
    for threads in (1, 4, 2, 3, 1, 2):
        native.resize(threads)
        time.sleep(0.002)
    stop.set()
    for caller in callers:
        caller.join()
    assert wrong == []


def test_closed_workers_leave_the_work_to_the_caller(device):
    workers = make_workers(device.compiler)
    workers.resize(3)
    workers.close()
    workers.close()
    entry = Recorder()
    workers.run(entry.address, 0, 100, 100)
    assert entry.pieces == [(0, 100, threading.get_ident())]


def test_the_number_of_threads_of_the_process(native):
    if not os.path.isdir("/proc/self/task"):
        pytest.skip("the system does not list threads")
    native.resize(1)
    before = len(os.listdir("/proc/self/task"))
    native.resize(4)
    assert len(os.listdir("/proc/self/task")) == before + 3
    native.resize(1)
    assert len(os.listdir("/proc/self/task")) == before


def test_a_device_uses_them(device, rng):
    if device.pool.native is None:
        pytest.skip("the process has no POSIX threads")
    assert isinstance(device.pool.native, Workers)
    x = rng.normal(size=1000)
    assert np.isfinite(x).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_workers_of_its_own():
    code = HEAD + """
running = threading.Thread(target=lambda: [works() for _ in range(20000)], daemon=True)
running.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        assert len(os.listdir("/proc/self/task")) == 1
        good = works() and device.pool.native is workers and len(workers._threads) == 2 and works()
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
assert works()
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("last", ["", "sys.exit(0)", "threading.Thread(target=lambda: [works() for _ in range(10**9)], "
                                  "daemon=True).start(); time.sleep(0.05)"])
def test_the_process_ends_while_workers_sleep_look_or_work(last):
    subprocess.run([sys.executable, "-c", HEAD + last], check=True, timeout=60)


def test_interrupts_reach_the_main_thread():
    code = HEAD + """
import signal
threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    time.sleep(30)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=25, capture_output=True, text=True)
    assert done.stdout == "interrupted\n"


class _Without:
    """A process that lacks a function."""

    def __init__(self, name, process):
        self._name, self._process = name, process

    def __getattr__(self, name):
        if name == self._name:
            raise AttributeError(name)
        return getattr(self._process, name)


@pytest.mark.parametrize("missing", ["pthread_create", "pthread_cond_wait"])
def test_a_process_without_posix_threads_uses_those_of_the_interpreter(device, monkeypatch, missing):
    process = ctypes.CDLL(None)
    monkeypatch.setattr(module.ctypes, "CDLL", lambda name: _Without(missing, process))
    pool = ThreadPool(3, lambda: make_workers(device.compiler))
    assert pool.native is None
    entry = Recorder()
    pool.run(lambda args, begin, end: entry._run(args, begin, end), b"", 9, 9)
    assert sorted(piece[:2] for piece in entry.pieces) == [(0, 3), (3, 6), (6, 9)]


def test_code_that_llvm_rejects_or_that_is_wrong_is_not_used(device, monkeypatch):
    def refuse(*args):
        raise KernelError("compile", "workers", "LLVM rejects", "report this")

    with monkeypatch.context() as patch:
        patch.setattr(device.compiler, "compile_text", refuse)
        assert make_workers(device.compiler) is None
    with monkeypatch.context() as patch:
        patch.setattr(Workers, "works", lambda self: False)
        assert make_workers(device.compiler) is None


def test_no_more_threads_is_an_error_of_the_library(native, monkeypatch):
    class Full:
        def pthread_create(self, *args):
            return 11

        def __getattr__(self, name):
            return getattr(ctypes.CDLL(None), name)

    native.resize(1)
    monkeypatch.setattr(native, "_posix", Full())
    with pytest.raises(KernelError, match=r"^\[set_num_threads\] 2 threads — the system answers 11"):
        native.resize(2)
    assert total_of(native, 100, 4) == 99 * 50
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) is not None
