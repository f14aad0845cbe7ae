"""Start of several processes with one function; the first failure ends all of them."""

from __future__ import annotations

import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from multiprocessing import connection, get_context
from typing import Any

from tensocket.errors import TensocketError

#: Seconds that processes have to exit after another one has failed.
_PATIENCE = 30.0


class ProcessException(TensocketError, RuntimeError):
    """A process that failed.

    Attributes:
        msg: Description of the failure.
        error_index: Number of the process, from 0.
        pid: Its process id.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        Exception.__init__(self, msg)
        self.msg = msg
        self.error_index = error_index
        self.error_pid = self.pid = error_pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """A process that ended by an exception; the text contains its traceback."""


class ProcessExitedException(ProcessException):
    """A process that ended by a signal, or with an exit code.

    Attributes:
        exit_code: Its exit code; minus the signal's number for a signal.
        signal_name: The signal; None for an exit code.
    """

    def __init__(self, msg: str, error_index: int, error_pid: int, exit_code: int,
                 signal_name: str | None = None) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code = exit_code
        self.signal_name = signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], index: int, args: tuple[Any, ...], report: Any) -> None:
    """Run the function of a started process."""
    try:
        fn(index, *args)
    except KeyboardInterrupt:
        pass  # the parent gets the interrupt, too
    except Exception:
        report.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that were started together.

    Attributes:
        processes: The processes.
    """

    def __init__(self, processes: list[Any], reports: list[Any]) -> None:
        self.processes = processes
        self._reports = reports
        self._running = {process.sentinel: index for index, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Return the process ids."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process ends. After a failure, end all others.

        Args:
            timeout: Seconds to wait; without limit if not given.
            grace_period: Seconds that the others have to exit on their own after a failure.

        Returns:
            Whether all processes have ended without a failure.

        Raises:
            ProcessRaisedException: One ended by an exception.
            ProcessExitedException: One ended by a signal or with an exit code.
        """
        if not self._running:
            return True
        for sentinel in connection.wait(list(self._running), timeout):
            index = self._running.pop(sentinel)
            self.processes[index].join()
            if self.processes[index].exitcode != 0:
                self._end(grace_period)
                self._raise(index)
        return not self._running

    def _end(self, grace_period: float | None) -> None:
        for patience, insist in ((grace_period, None), (_PATIENCE, "terminate"), (None, "kill")):
            if insist is None and patience is None:
                continue
            until = None if patience is None else time.monotonic() + patience
            for process in self.processes:
                if insist is not None and process.is_alive():
                    getattr(process, insist)()
            for process in self.processes:
                process.join(None if until is None else max(0.0, until - time.monotonic()))

    def _raise(self, index: int) -> None:
        pid, code = self.processes[index].pid, self.processes[index].exitcode
        try:
            text = self._reports[index].recv()
        except EOFError:  # it died before it could report
            name = signal.Signals(-code).name if code < 0 else None
            how = f"exit code {code}" if name is None else f"signal {name}"
            raise ProcessExitedException(f"process {index} terminated with {how}", error_index=index, error_pid=pid,
                                         exit_code=code, signal_name=name) from None
        text = f"\n\n-- Process {index} terminated with the following error:\n{text}"
        raise ProcessRaisedException(text, error_index=index, error_pid=pid)


#: The context of processes that ``spawn`` started.
SpawnContext = ProcessContext


def start_processes(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
                    daemon: bool = False, start_method: str = "spawn") -> ProcessContext | None:
    """Call ``fn(index, *args)`` in ``nprocs`` processes.

    Args:
        fn: A function at the top level of a module, so that other processes can import it.
        args: Further arguments.
        nprocs: Number of processes.
        join: Whether to wait for all of them.
        daemon: Whether they end with this process and cannot have children.
        start_method: ``"spawn"``, ``"fork"`` or ``"forkserver"``.

    Returns:
        None after waiting, else the processes.

    Raises:
        ProcessRaisedException: One ended by an exception.
        ProcessExitedException: One ended by a signal or with an exit code.
    """
    methods = get_context(start_method)
    processes, reports = [], []
    for index in range(nprocs):
        mine, its = methods.Pipe(duplex=False)
        process = methods.Process(target=_run, args=(fn, index, args, its), daemon=daemon)  # type: ignore[attr-defined]  # all contexts have it
        process.start()
        its.close()
        processes.append(process)
        reports.append(mine)
    started = ProcessContext(processes, reports)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
          start_method: str = "spawn") -> ProcessContext | None:
    """Call ``start_processes`` with ``start_method="spawn"``, the only method that works on all systems."""
    if start_method != "spawn":
        warnings.warn(f"spawn starts processes by 'spawn'; for start_method={start_method!r} use start_processes",
                      FutureWarning, stacklevel=2)
    return start_processes(fn, args, nprocs, join, daemon, start_method="spawn")
