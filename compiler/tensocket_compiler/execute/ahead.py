"""Kernels that a thread compiles ahead of the graph that needs them, while calls stay eager.

The thread compiles programs only: it touches neither tensors nor graphs, so that it needs no care about what the
program does meanwhile. When it is done, the function is captured again and finds all kernels.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from tensocket_plugins.contract.errors import TensocketError
from tensocket_plugins.contract.forks import by_thread

from ..capture.recorder import CannotRecord

#: Threads whose captures do not wait for kernels.
_PATIENT: Final[dict[int, None]] = by_thread({})
_RUNNING: Final[weakref.WeakSet[Compilation]] = weakref.WeakSet()
_ENDING: Final = threading.Event()


class Compilation:
    """Kernels that a thread compiles.

    Args:
        jobs: Compile one kernel each.
    """

    def __init__(self, jobs: Sequence[Callable[[], object]]) -> None:
        self._process = os.getpid()
        self._thread = threading.Thread(target=_run, args=(jobs,), name="tensocket-compile", daemon=True)
        _RUNNING.add(self)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        """Whether the thread runs; a forked child has no such thread, and compiles the rest itself."""
        return self._process == os.getpid() and self._thread.is_alive()

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self.is_running:
            self._thread.join()


def _run(jobs: Sequence[Callable[[], object]]) -> None:
    for job in jobs:
        if _ENDING.is_set():
            return
        with suppress(TensocketError):  # the capture that needs the kernel meets the same error, and reports it
            job()


class KernelsMissing(CannotRecord):
    """Raised by a capture that does not wait for kernels.

    Attributes:
        compilation: The thread that compiles them.
    """

    def __init__(self, compilation: Compilation) -> None:
        super().__init__("a thread compiles its kernels")
        self.compilation = compilation


@contextmanager
def without_waiting(chosen: bool) -> Iterator[None]:
    """Let captures of this thread in the block leave kernels to a thread, if this is chosen."""
    me = threading.get_ident()
    if chosen:
        _PATIENT[me] = None
    try:
        yield
    finally:
        _PATIENT.pop(me, None)


def compile_ahead(jobs: Sequence[Callable[[], object]]) -> None:
    """Leave jobs to a thread, if this thread's captures do not wait.

    Raises:
        KernelsMissing: They were left to a thread.
    """
    if jobs and threading.get_ident() in _PATIENT:
        raise KernelsMissing(Compilation(jobs))


@atexit.register
def _end() -> None:
    """Let threads end behind the kernel that they compile: LLVM must not run while the interpreter goes."""
    _ENDING.set()
    for one in list(_RUNNING):
        one.join()
