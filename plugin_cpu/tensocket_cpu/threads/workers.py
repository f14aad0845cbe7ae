"""Threads of the operating system that run pieces of one kernel at a time, entirely in machine code.

Waking a Python thread takes about 40 microseconds, because it needs the interpreter's lock. These workers do not use
the interpreter: they poll one word of memory for 0.3 milliseconds, which is longer than most programs take to launch
the next kernel, and then sleep. A worker that polls starts within a microsecond; one that sleeps takes far longer,
above all on a virtual machine, whose cores halt. Workers that offer their core to others meanwhile (``sched_yield``)
would lose it for milliseconds to threads that don't, such as OpenMP's.

All of this is LLVM IR, because users have no C compiler; the disk cache holds its object code, as for every kernel. The
workers use the POSIX threads of the process. If these are missing, or the code does not work, the process has no native
workers.
"""

from __future__ import annotations

import atexit
import ctypes
import platform
import signal
import threading
import time
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.errors import KernelError

from ..code.immortal import immortal
from .worker_code import BYTES, FIELDS, FUNCTIONS, LINE, MOST_PIECES, NAMES, workers_text

if TYPE_CHECKING:
    from ..code.compiler import Compiler

#: The seconds that a worker, or a caller that has finished its own pieces, polls before it sleeps.
_PATIENCE: Final = 3e-4
#: The pieces per thread: enough that others take the share of threads that start late or are interrupted.
_SHARES: Final = 4


class Workers:
    """The native workers: their machine code, shared memory and threads.

    Args:
        compiler: Compiles the workers' code.

    Attributes:
        run: ``run(entry address, args, count, pieces)`` runs the entry over ``range(count)`` in at most ``pieces``
            pieces. It releases the interpreter's lock. While workers are busy, or without any, the caller runs all
            pieces.

    Raises:
        KernelError: LLVM cannot compile this, or the process has no POSIX threads.
        AttributeError: The process lacks a function of POSIX threads.
    """

    def __init__(self, compiler: Compiler) -> None:
        addresses, _ = compiler.compile_text("workers", workers_text(platform.machine()), NAMES)
        self._at = dict(zip(NAMES, addresses, strict=True))
        # A worker may still sleep in this memory when the interpreter ends.
        memory = immortal(ctypes.create_string_buffer(BYTES + LINE))
        self._pool = -(-ctypes.addressof(memory) // LINE) * LINE
        self._posix: Any = ctypes.CDLL(None)
        self._threads: list[int] = []
        self._lock = threading.Lock()
        self.run: Any = self._bind()
        self.reset()
        self._set("spins", self._spins())
        atexit.register(self.close)

    def _bind(self) -> Any:
        word, pointer = ctypes.c_int64, ctypes.c_void_p
        call = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, word, word)(self._at["run"])
        pool = self._pool

        def run(entry: int, args: bytes | int, count: int, pieces: int) -> None:
            call(pool, entry, args, count, pieces)

        self._take = ctypes.CFUNCTYPE(word, pointer)(self._at["take"])
        self._release = ctypes.CFUNCTYPE(None, pointer)(self._at["release"])
        self._stop = ctypes.CFUNCTYPE(None, pointer)(self._at["stop"])
        self._look = ctypes.CFUNCTYPE(word, pointer, word)(self._at["look"])
        return run

    @property
    def place(self) -> tuple[int, int]:
        """Addresses of the machine code of ``run`` and of its first argument."""
        return self._at["run"], self._pool

    def reset(self) -> None:
        """Reset to no workers and no task: at the start, and in a forked child, which has none of the threads."""
        spins = ctypes.c_int64.from_address(self._pool + FIELDS["spins"]).value
        ctypes.memset(self._pool, 0, BYTES)
        self._set("spins", spins)
        for place, name in enumerate(FUNCTIONS):
            address = ctypes.cast(getattr(self._posix, name), ctypes.c_void_p).value or 0
            ctypes.c_uint64.from_address(self._pool + FIELDS["functions"] + 8 * place).value = address
        self._posix.pthread_mutex_init(ctypes.c_void_p(self._pool + FIELDS["mutex"]), None)
        for condition in ("work", "rest"):
            self._posix.pthread_cond_init(ctypes.c_void_p(self._pool + FIELDS[condition]), None)
        self._threads = []
        self._lock = threading.Lock()

    def _set(self, field: str, value: int) -> None:
        ctypes.c_int64.from_address(self._pool + FIELDS[field]).value = value

    def _spins(self) -> int:
        """Return the number of polls that take ``_PATIENCE``."""
        times, best = 200, 1.0
        for _ in range(3):
            began = time.perf_counter()
            self._look(self._pool, times)
            best = min(best, time.perf_counter() - began)
        return max(100, min(100_000, int(_PATIENCE / max(best, 1e-7) * times)))

    def resize(self, threads: int) -> None:
        """Use ``threads`` threads from now on, the caller included.

        Raises:
            KernelError: The system cannot start more threads.
        """
        with self._lock:
            self._taken()
            try:
                self._join()
                for _ in range(threads - 1):
                    self._threads.append(self._start())
                self._set("most", min(_SHARES * threads, MOST_PIECES) if self._threads else 1)
            finally:
                self._release(self._pool)

    def pause(self) -> None:
        """Announce that no worker runs, until ``resize``: machine code then leaves it to its callers to start them."""
        self._set("most", 0)

    def close(self) -> None:
        """End all workers when the interpreter ends; later kernels run in the caller alone."""
        with self._lock:
            if self._threads and self._taken(seconds=1.0):
                self._join()
                self._set("most", 1)
                self._release(self._pool)

    def _taken(self, seconds: float = float("inf")) -> bool:
        until = time.monotonic() + seconds
        while not self._take(self._pool):
            if time.monotonic() > until:
                return False
            time.sleep(1e-4)
        return True

    def _join(self) -> None:
        if self._threads:
            self._stop(self._pool)
            for thread in self._threads:
                self._posix.pthread_join(ctypes.c_void_p(thread), None)
            self._threads = []
            self._set("stop", 0)

    def _start(self) -> int:
        made = ctypes.c_void_p()
        # Only threads that run Python may handle signals.
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            failed = self._posix.pthread_create(ctypes.byref(made), None, ctypes.c_void_p(self._at["worker"]),
                                                ctypes.c_void_p(self._pool))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        if failed:
            raise KernelError("set_num_threads", f"{len(self._threads) + 2} threads", f"the system answers {failed}",
                              "use fewer threads")
        return made.value or 0

    def works(self) -> bool:
        """Whether the pieces of a test task cover its range exactly once."""
        total, count = ctypes.c_int64(), 1000
        self.resize(2)
        self.run(self._at["probe"], ctypes.addressof(total), count, count)
        return total.value == count * (count - 1) // 2


def make_workers(compiler: Compiler) -> Workers | None:
    """Return native workers; None if the process has no POSIX threads or the workers fail their test."""
    try:
        workers = Workers(compiler)
        return workers if workers.works() else None
    except (AttributeError, KernelError, OSError, TypeError):  # TypeError: a system that does not dlopen itself
        return None
