"""Dividing kernels over threads: same bits for any number, no waiting for each other, forked children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from tensocket_cpu.linear import blas
from tensocket_cpu.threads.pool import ThreadPool, default_threads
from tensocket_plugins.contract.dtypes import float32, float64, int32
from tensocket_plugins.contract.errors import ArgumentError
from tensocket_plugins.ir.nodes import (
    Buffer,
    Combine,
    Kernel,
    Load,
    LoopKind,
    Program,
    Reduce,
    Scalar,
    Store,
    Var,
    cast,
    const,
    loop,
)
from tensocket_plugins.ir.schedule import schedule
from tensocket_plugins.ir.strategies import Strategy

I, J, N, M = (Var(name, int32) for name in ("i", "j", "n", "m"))


@pytest.fixture
def threads(device):
    yield device.set_num_threads
    device.set_num_threads(default_threads())


def polynomial():
    x = Load("in0", I, float32)
    value = x
    for k in range(12):
        value = value * x + 0.1 * k
    return Program("polynomial", (Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int32)),
                   (Kernel("polynomial", (loop(I, N, [Store("out", I, value)], LoopKind.PARALLEL),)),))


def row_sums():
    left, right, acc = (Var(name, float64) for name in ("left", "right", "acc"))
    fold = Reduce((acc,), ((J, M),), (), (cast(Load("in0", I * M + J, float32), float64),), (const(0.0, float64),),
                  Combine((left,), (right,), (left + right,)))
    body = loop(I, N, [fold, Store("out", I, cast(acc, float32))], LoopKind.PARALLEL)
    return Program("sums", (Buffer("out", float32, True), Buffer("in0", float32), Scalar("n", int32),
                            Scalar("m", int32)), (Kernel("sums", (body,)),))


class Recorder:
    """Stands for a kernel; notes who ran what."""

    address = 0

    def __init__(self):
        self.pieces = []

    def __call__(self, args, begin, end):
        self.pieces.append((begin, end, threading.current_thread().name))


@pytest.mark.parametrize("count", [600_000, 600_001, 1_000_003])
def test_pointwise_bits_do_not_depend_on_the_number_of_threads(device, rng, threads, count):
    run = device.compile_ir(polynomial())
    x = rng.normal(size=count).astype(np.float32)
    results = []
    for number in (1, 2, 3, 7):
        threads(number)
        out = np.zeros(count, np.float32)
        run([out, x], [count], device.default_stream)
        results.append(out.tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("shape", [(5, 300_001), (2000, 500), (1, 1_500_000)])
def test_reduction_bits_do_not_depend_on_the_number_of_threads(device, rng, threads, strategy, shape):
    run = device.compile_ir(schedule(row_sums(), device.target, strategy))
    x = (rng.normal(size=shape) * 10.0 ** rng.integers(-5, 5, shape)).astype(np.float32)
    results = []
    for number in (1, 2, 5):
        threads(number)
        out = np.zeros(shape[0], np.float32)
        run([out, x], list(shape), device.default_stream)
        results.append(out.tobytes())
    assert len(set(results)) == 1


@pytest.mark.parametrize(("number", "count"), [(1, 100), (2, 100), (3, 100), (4, 3), (2, 1), (3, 0), (3, 10_000),
                                               (7, 100_000)])
def test_pieces_cover_everything_once(number, count):
    entry = Recorder()
    ThreadPool(number).run(entry, b"", count, count)
    pieces = sorted(piece[:2] for piece in entry.pieces)
    covered = [k for begin, end in pieces for k in range(begin, end)]
    assert covered == list(range(count))
    assert len(pieces) <= max(1, number)
    if count > number > 1:
        assert len({name for _, _, name in entry.pieces}) > 1


@pytest.mark.parametrize("pieces", [0, 1, 2, 3])
def test_no_more_pieces_than_asked_for(pieces):
    entry = Recorder()
    ThreadPool(4).run(entry, b"", 100, pieces)
    assert len(entry.pieces) == max(1, pieces)


def test_busy_workers_make_nobody_wait():
    pool, inner = ThreadPool(2), Recorder()

    def outer(args, begin, end):
        if begin == 0:
            pool.run(inner, b"", 100, 100)

    pool.run(outer, b"", 100, 100)
    assert [piece[:2] for piece in inner.pieces] == [(0, 100)]
    after = Recorder()
    pool.run(after, b"", 100, 100)
    assert len(after.pieces) == 2


def test_an_interrupted_caller_still_waits_for_the_workers():
    pool, finished, entered = ThreadPool(2), [], threading.Event()

    def entry(args, begin, end):
        if begin == 0:
            entered.wait(5)
            raise KeyboardInterrupt
        entered.set()
        threading.Event().wait(0.05)
        finished.append((begin, end))

    with pytest.raises(KeyboardInterrupt):
        pool.run(entry, b"", 10, 10)
    assert finished == [(5, 10)]
    after = Recorder()
    pool.run(after, b"", 10, 10)
    assert len(after.pieces) == 2


def test_several_user_threads_at_once(device, rng, threads):
    threads(3)
    run = device.compile_ir(polynomial())
    x = rng.normal(size=600_000).astype(np.float32)
    expected = np.zeros_like(x)
    run([expected, x], [x.size], device.default_stream)
    outs = [np.zeros_like(x) for _ in range(4)]


    def work(out):
        for _ in range(5):
            run([out, x], [x.size], None)

    workers = [threading.Thread(target=work, args=(out,)) for out in outs]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for out in outs:
        np.testing.assert_array_equal(out, expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_child_has_workers_of_its_own():
    code = """
import os, sys, threading
from tensocket_cpu.threads.pool import ThreadPool
pool = ThreadPool(3)
def names():
    seen = []
    barrier = threading.Barrier(3, timeout=20)
    def entry(args, begin, end):
        barrier.wait()
        seen.append(threading.current_thread().name)
    pool.run(entry, b"", 3, 3)
    return seen
assert len(set(names())) == 3
child = os.fork()
if child == 0:
    os._exit(0 if len(set(names())) == 3 else 1)
assert os.waitpid(child, 0)[1] == 0
assert len(set(names())) == 3
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(("settings", "expected"), [
    ({"TENSOCKET_NUM_THREADS": "3", "OMP_NUM_THREADS": "5"}, 3),
    ({"OMP_NUM_THREADS": "5"}, 5),
    ({"OMP_NUM_THREADS": "4,2"}, 4),
    ({"TENSOCKET_NUM_THREADS": "0", "OMP_NUM_THREADS": "many"}, None),
    ({}, None),
])
def test_default_number_of_threads(monkeypatch, settings, expected):
    for name in ("TENSOCKET_NUM_THREADS", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert default_threads() == (expected or cores)


@pytest.mark.parametrize("number", [0, -1, 1.5, True, "2", None])
def test_bad_numbers_of_threads(device, number):
    before = device.get_num_threads()
    with pytest.raises(ArgumentError, match=r"^\[set_num_threads\] .* — the number of threads is a positive int"):
        device.set_num_threads(number)
    assert device.get_num_threads() == before


def test_products_of_matrices_use_as_many_threads(threads, monkeypatch):
    told = []
    monkeypatch.setattr("tensocket_cpu.device.set_blas_threads", told.append)
    threads(3)
    assert told == [3]


def test_the_blas_lets_itself_be_told():
    if blas.numpy_library() is None:
        pytest.skip("NumPy's BLAS is another one")
    blas.set_blas_threads(1)
    a = np.ones((300, 300), np.float32)
    assert np.array_equal(a @ a, np.full((300, 300), 300, np.float32))
    blas.set_blas_threads(default_threads())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_does_not_wait_for_a_lock_of_another_thread(device):
    held, release = threading.Event(), threading.Event()

    def hold():
        with device.allocator._lock:
            held.set()
            release.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(60)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        device.empty((1 << 20,), float32, device.default_stream)
        os._exit(0)
    release.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
