"""Forks wait for locks that other threads hold, and children find them free."""

from __future__ import annotations

import gc
import os
import threading
import time
import weakref

import pytest

from tensocket_plugins.contract import forks
from tensocket_plugins.contract.forks import Rank, held_over_forks

pytestmark = [pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork"),
              pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")]


def child(work):
    """Whether ``work`` returns a true value in a forked child."""
    number = os.fork()
    if number == 0:
        ok = False
        try:
            ok = bool(work())
        finally:
            os._exit(0 if ok else 1)
    return os.waitpid(number, 0)[1] == 0


@pytest.fixture
def hold():
    """Start a thread that holds locks until the event that is returned is set."""
    events, threads = [], []

    def start(*locks):
        held, release = threading.Event(), threading.Event()

        def run():
            for lock in locks:
                lock.acquire()
            held.set()
            release.wait(60)
            for lock in reversed(locks):
                lock.release()

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        assert held.wait(60)
        events.append(release)
        return release

    yield start
    for event in events:
        event.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("make", [threading.Lock, threading.RLock])
def test_a_fork_waits_until_a_lock_is_free(hold, make):
    lock = held_over_forks(make(), Rank.PROGRAMS)
    release, seen = hold(lock), []
    threading.Timer(0.05, lambda: (seen.append(1), release.set())).start()
    assert child(lambda: seen == [1] and lock.acquire(timeout=5))
    assert lock.acquire(timeout=5)
    lock.release()


def test_locks_are_taken_by_rank_and_age(hold):
    """A thread that holds an outer lock and waits for an inner one, which another has, comes to its end."""
    inner, outer = held_over_forks(threading.Lock(), Rank.CODE), held_over_forks(threading.Lock(), Rank.ENTRIES)
    first, done = hold(inner), []

    def nested():
        with outer, inner:
            done.append(1)

    thread = threading.Thread(target=nested)
    thread.start()
    threading.Timer(0.05, first.set).start()
    start = time.monotonic()
    assert child(lambda: outer.acquire(timeout=5) and inner.acquire(timeout=5))
    assert time.monotonic() - start < forks._PATIENCE
    thread.join(60)
    assert done == [1]


def test_a_lock_that_is_never_released_does_not_stop_a_fork(hold, monkeypatch):
    kept, free = (held_over_forks(threading.Lock(), Rank.LEAVES) for _ in range(2))
    hold(kept)
    monkeypatch.setattr(forks, "_PATIENCE", 0.02)
    assert child(lambda: not kept.acquire(timeout=0) and free.acquire(timeout=0))
    assert free.acquire(timeout=0)


def test_threads_that_fork_at_once():
    lock, results = held_over_forks(threading.Lock(), Rank.LEAVES), []

    def work():
        for _ in range(5):
            results.append(child(lambda: lock.acquire(timeout=5)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [True] * 20
    assert not forks._TAKEN


def test_locks_are_not_kept_alive():
    lock = held_over_forks(threading.Lock(), Rank.LEAVES)
    assert lock in forks._LOCKS
    known = weakref.ref(lock)
    del lock
    gc.collect()
    assert known() is None


def test_a_child_forgets_what_other_threads_noted_of_themselves():
    noted, numbers = forks.by_thread(set()), forks.by_thread({})
    ready, stop = threading.Event(), threading.Event()

    def other():
        noted.add(threading.get_ident())
        numbers[threading.get_ident()] = 2
        ready.set()
        stop.wait()

    thread = threading.Thread(target=other)
    thread.start()
    ready.wait()
    me = threading.get_ident()
    noted.add(me)
    numbers[me] = 1
    try:
        child = os.fork()
        if not child:
            os._exit(0 if noted == {me} and numbers == {me: 1} else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(noted) == len(numbers) == 2
    finally:
        stop.set()
        thread.join()
        forks._BY_THREAD[-2:] = []
