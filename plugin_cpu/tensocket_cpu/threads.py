"""A few threads that run pieces of one kernel at a time. Compiled kernels release the interpreter lock."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Final, TypeVar

from tensocket_plugins.contract.errors import ArgumentError

#: ``function(args, begin, end)``: a compiled kernel's entry.
Entry = Callable[[bytes, int, int], None]
Task = tuple[Entry, bytes, int, int, threading.Lock]
T = TypeVar("T")

_SETTINGS: Final = ("TENSOCKET_NUM_THREADS", "OMP_NUM_THREADS")


def default_threads() -> int:
    """What the environment asks for, else the number of cores that this process may use."""
    for name in _SETTINGS:
        # OMP_NUM_THREADS may be a list, one entry per nesting level.
        value = os.environ.get(name, "").split(",")[0].strip()
        if value.isascii() and value.isdigit() and int(value) > 0:
            return int(value)
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        return os.cpu_count() or 1


def _work(tasks: SimpleQueue[Task | None]) -> None:
    while (task := tasks.get()) is not None:
        function, args, begin, end, done = task
        try:
            function(args, begin, end)
        finally:
            done.release()


class ThreadPool:
    """Divides a kernel's iterations over threads; the caller is one of them.

    Workers start with the first division and are started anew in a forked child. While one thread of the program uses
    the workers, others run their kernels alone, so that nobody waits.
    """

    def __init__(self, threads: int | None = None) -> None:
        self.threads = default_threads() if threads is None else threads
        self._queues: list[SimpleQueue[Task | None]] = []
        self._busy = threading.Lock()
        in_children(self, ThreadPool.forget_workers)

    def resize(self, threads: int) -> None:
        """Use ``threads`` threads, the caller included.

        Raises:
            ArgumentError: It is not a positive int.
        """
        if type(threads) is not int or threads < 1:
            raise ArgumentError("set_num_threads", f"{threads!r}", "the number of threads is a positive int",
                                "pass 1 or more")
        with self._busy:
            self.threads = threads
            while len(self._queues) > threads - 1:
                self._queues.pop().put(None)

    def forget_workers(self) -> None:
        """Start anew, in a forked child, which has none of the threads."""
        self._queues = []
        self._busy = threading.Lock()

    def run(self, function: Entry, args: bytes, count: int) -> None:
        """``function`` over ``range(count)``, in about equal pieces."""
        if self.threads == 1 or count < 2 or not self._busy.acquire(blocking=False):
            function(args, 0, count)
            return
        try:
            self._divide(function, args, count)
        finally:
            self._busy.release()

    def _divide(self, function: Entry, args: bytes, count: int) -> None:
        pieces = min(self.threads, count)
        size = -(-count // pieces)
        if size > 1024:
            # Pieces of whole cache lines, so that no two threads write to the same one.
            size = -(-size // 64) * 64
        waiting: list[threading.Lock] = []
        try:
            for worker, begin in enumerate(range(size, count, size)):
                done = threading.Lock()
                done.acquire()
                self._queue(worker).put((function, args, begin, min(begin + size, count), done))
                waiting.append(done)
            function(args, 0, min(size, count))
        finally:
            for done in waiting:
                _wait(done)

    def _queue(self, worker: int) -> SimpleQueue[Task | None]:
        if worker == len(self._queues):
            queue: SimpleQueue[Task | None] = SimpleQueue()
            threading.Thread(target=_work, args=(queue,), name=f"tensocket-cpu-{worker + 1}", daemon=True).start()
            self._queues.append(queue)
        return self._queues[worker]


def _wait(done: threading.Lock) -> None:
    """Wait for a worker even when interrupted, because it still uses the caller's memory."""
    try:
        done.acquire()
    except BaseException:
        _wait(done)
        raise


def in_children(owner: T, renew: Callable[[T], None]) -> None:
    """Call ``renew(owner)`` in every forked child, which has none of the parent's other threads, but their locks."""
    reference = weakref.ref(owner)

    def forked() -> None:
        living = reference()
        if living is not None:
            renew(living)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forked)
