"""The division of a kernel over a few threads, and the number of threads."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from tensocket_plugins.contract.errors import ArgumentError

if TYPE_CHECKING:
    from .workers import Workers


class Entry(Protocol):
    """A compiled kernel; Python calls it, native workers use its address."""

    address: int

    def __call__(self, args: bytes, begin: int, end: int, /) -> None:
        """Run the iterations from ``begin`` up to ``end``."""


Task = tuple[Entry, bytes, int, int, threading.Lock]
T = TypeVar("T")

_SETTINGS: Final = ("TENSOCKET_NUM_THREADS", "OMP_NUM_THREADS")


def default_threads() -> int:
    """Return the number of threads that the environment sets, else the number of cores that this process may use."""
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
    """A pool of threads, the caller included, over which a kernel's iterations are divided.

    Workers are threads of the operating system that run only machine code (``workers.py``), or threads of the
    interpreter if the process has no POSIX threads. They start at the first division, and again in a forked child.
    While one thread of the program uses the workers, other threads run their kernels alone and do not wait.

    Args:
        threads: The number of threads, the caller included; by default that of ``default_threads``.
        make_workers: Makes the native workers; returns None if the process cannot have them.
    """

    def __init__(self, threads: int | None = None, make_workers: Callable[[], Workers | None] | None = None) -> None:
        self.threads = default_threads() if threads is None else threads
        self._make_workers = make_workers
        self._lock = threading.Lock()
        self._workers: Workers | None = None
        self._waiting: list[Callable[[Workers], None]] = []
        self._run: Callable[[Entry, bytes, int, int], None] = self._first
        in_children(self, ThreadPool.forget_workers)

    @property
    def native(self) -> Workers | None:
        """The native workers, with their threads started; None if the process has none."""
        self._ready()
        return self._workers

    def when_started(self, use: Callable[[Workers], None]) -> None:
        """Call ``use`` with the native workers whenever they start."""
        with self._lock:
            self._waiting.append(use)
            if self._workers is not None:
                use(self._workers)

    def resize(self, threads: int) -> None:
        """Use ``threads`` threads, the caller included.

        Raises:
            ArgumentError: It is not a positive int.
        """
        if type(threads) is not int or threads < 1:
            raise ArgumentError("set_num_threads", f"{threads!r}", "the number of threads is a positive int",
                                "pass 1 or more")
        with self._lock:
            self.threads = threads
            self._run = self._first
            if self._workers is not None:
                self._workers.pause()

    def forget_workers(self) -> None:
        """Reset the pool in a forked child, which has none of the threads."""
        self._lock = threading.Lock()
        if self._workers is not None:
            self._workers.reset()
        self._run = self._first

    def run(self, entry: Entry, args: bytes, count: int, pieces: int) -> None:
        """Run ``entry`` over ``range(count)``, in at most ``pieces`` pieces of about equal size."""
        self._run(entry, args, count, pieces)

    def _first(self, entry: Entry, args: bytes, count: int, pieces: int) -> None:
        self._ready()
        self._run(entry, args, count, pieces)

    def _ready(self) -> None:
        """Start the workers unless they have started."""
        with self._lock:
            if self._run != self._first:
                return
            # Also for one thread: machine code for large arrays needs their code, even if it runs alone.
            if self._workers is None and self._make_workers is not None:
                self._workers, self._make_workers = self._make_workers(), None
            if self._workers is not None:
                self._workers.resize(self.threads)
                self._run = self._native
                for use in self._waiting:
                    use(self._workers)
            else:
                self._run = PythonWorkers(self.threads).run

    def _native(self, entry: Entry, args: bytes, count: int, pieces: int) -> None:
        workers: Any = self._workers
        workers.run(entry.address, args, count, pieces)


class PythonWorkers:
    """Threads of the interpreter, for processes without native workers; the caller is one of them."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._queues: list[SimpleQueue[Task | None]] = []
        self._busy = threading.Lock()

    def __del__(self) -> None:
        for queue in self._queues:
            queue.put(None)

    def run(self, entry: Entry, args: bytes, count: int, pieces: int) -> None:
        """Run ``entry`` over ``range(count)``, in at most ``pieces`` pieces of about equal size."""
        pieces = min(self.threads, count, pieces)
        if pieces < 2 or not self._busy.acquire(blocking=False):
            entry(args, 0, count)
            return
        try:
            self._divide(entry, args, count, pieces)
        finally:
            self._busy.release()

    def _divide(self, entry: Entry, args: bytes, count: int, pieces: int) -> None:
        size = -(-count // pieces)
        if size > 1024:
            # Pieces are whole cache lines, so that no two threads write to the same line.
            size = -(-size // 64) * 64
        waiting: list[threading.Lock] = []
        try:
            for worker, begin in enumerate(range(size, count, size)):
                done = threading.Lock()
                done.acquire()
                self._queue(worker).put((entry, args, begin, min(begin + size, count), done))
                waiting.append(done)
            entry(args, 0, min(size, count))
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
    """Wait for a worker, even after an interrupt, because the worker still uses the caller's memory."""
    try:
        done.acquire()
    except BaseException:
        _wait(done)
        raise


def in_children(owner: T, renew: Callable[[T], None]) -> None:
    """Call ``renew(owner)`` in every forked child, which inherits the locks of the parent's other threads but not the
    threads.
    """
    reference = weakref.ref(owner)

    def forked() -> None:
        living = reference()
        if living is not None:
            renew(living)

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=forked)
