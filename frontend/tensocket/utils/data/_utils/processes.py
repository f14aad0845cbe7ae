"""Worker processes of a loader. Imported with the first loader that has any."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
import weakref
from multiprocessing.process import BaseProcess
from typing import Any, Final

from tensocket.errors import WorkerError
from tensocket.multiprocessing import get_context
from tensocket.multiprocessing.channel import Channel
from tensocket_operators import set_num_threads

from .worker import Answer, Failure, Request, Task, WorkerInfo, seed_process, set_worker_info, work

#: Seconds that a worker has to exit after a signal.
_LAST_PATIENCE: Final = 1.0
#: Seconds between two checks whether the parent is alive.
_LOOK: Final = 5.0
#: This process's ends of all connections to workers.
_ENDS: Final[weakref.WeakSet[Channel]] = weakref.WeakSet()


def _close_inherited() -> None:
    """Close inherited connections in a forked child, so that a worker's connection ends with its loader's process."""
    for channel in list(_ENDS):
        channel.forget()
    _ENDS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


class ProcessPool:
    """Worker processes, each with a connection of its own.

    Args:
        task: Their task.
        context: Start method, context, or None for the default.

    Attributes:
        patience: Seconds that workers have to exit on their own.
    """

    def __init__(self, task: Task, context: Any) -> None:
        if not hasattr(socket, "AF_UNIX"):
            raise WorkerError("DataLoader", f"num_workers={task.workers}",
                              "worker processes send memory through Unix sockets, which this system lacks",
                              "pass worker_method='thread'")
        self._owner = os.getpid()
        self.patience = 5.0
        self._processes: list[BaseProcess] = []
        self._channels: list[Channel] = []
        self._waiting = select.poll()
        self._by_descriptor: dict[int, int] = {}
        context = get_context(context) if context is None or isinstance(context, str) else context
        try:
            for worker in range(task.workers):
                self._start(task, context, worker)
        except BaseException:
            self.close()
            raise

    def _start(self, task: Task, context: Any, worker: int) -> None:
        mine, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        channel = Channel(mine)
        _ENDS.add(channel)
        self._channels.append(channel)
        self._by_descriptor[channel.fileno()] = worker
        self._waiting.register(mine, select.POLLIN)
        with its:  # only the worker holds its end, or the parent would not notice the worker's death
            process = context.Process(target=main, args=(task, worker, its), daemon=True)
            process.start()
        self._processes.append(process)

    @property
    def is_own(self) -> bool:
        """Whether this process started the workers."""
        return self._owner == os.getpid()

    def send(self, worker: int, request: Request | None) -> None:
        """Send a request without waiting for the worker, which has only a few requests at a time.

        Raises:
            WorkerError: The worker has died.
        """
        try:
            self._channels[worker].send(request)
        except OSError:
            raise self._death(worker) from None

    def is_ready(self, worker: int) -> bool:
        """Whether a request can be sent without waiting for the worker."""
        return self._channels[worker].ready(select.POLLOUT, 0)

    def receive(self, seconds: float | None) -> tuple[int, Answer] | None:
        """Return the next answer and the number of its worker, or None after ``seconds``.

        Raises:
            WorkerError: A worker has died.
        """
        found = self._waiting.poll(None if seconds is None else seconds * 1000)
        if not found:
            return None
        worker = self._by_descriptor[found[0][0]]
        try:
            return worker, self._channels[worker].receive()
        except EOFError:
            raise self._death(worker) from None

    def _death(self, worker: int) -> WorkerError:
        process = self._processes[worker]
        process.join(_LAST_PATIENCE)
        code = process.exitcode
        how = f"with exit code {code}"
        if code is not None and code < 0:
            how = f"by signal {signal.Signals(-code).name}"
        hint = "its own output may say more"
        if code == -signal.SIGKILL:
            hint = "the system kills processes when memory runs out: use fewer workers or smaller batches"
        return WorkerError("DataLoader", f"worker {worker} (pid {process.pid}) exited unexpectedly {how}",
                           "workers live until their loader ends them", hint)

    def close(self) -> None:
        """Stop all workers; kill those that do not exit in time."""
        if not self.is_own:
            return  # a forked child has inherited the loader, but it does not own the workers
        for channel in self._channels:
            channel.close()
        self._channels = []
        _end(self._processes, self.patience)
        self._processes = []


def _end(processes: list[BaseProcess], patience: float) -> None:
    for seconds, insist in ((patience, None), (_LAST_PATIENCE, BaseProcess.terminate), (None, BaseProcess.kill)):
        until = None if seconds is None else time.monotonic() + seconds
        for process in processes:
            if insist is not None and process.is_alive():
                insist(process)
        for process in processes:
            process.join(None if until is None else max(0.0, until - time.monotonic()))
    for process in processes:
        process.close()


# ---------------------------------------------------------------------------------------------------- in the worker


def main(task: Task, worker: int, connection: socket.socket) -> None:
    """Run the loop of a worker process."""
    # A keyboard interrupt reaches all processes; the parent reports it. A lost connection means that the parent has
    # finished or died.
    with contextlib.suppress(KeyboardInterrupt, EOFError, ConnectionError):
        set_num_threads(1)
        seed_process(task.base_seed, worker)
        set_worker_info(WorkerInfo(worker, task.workers, task.base_seed + worker, task.dataset))
        end = _WorkerEnd(Channel(connection), os.getppid())
        work(task, f"in DataLoader worker process {worker}", end.receive, end.send)


class _WorkerEnd:
    """A worker's side of its connection."""

    def __init__(self, channel: Channel, parent: int) -> None:
        self._channel = channel
        self._parent = parent

    def receive(self) -> Request | None:
        """Return the next request; None if the parent needs no more answers or has died."""
        if self._channel.ready(0, 0):
            return None
        while not self._channel.ready(select.POLLIN, _LOOK):
            if os.getppid() != self._parent:
                return None
        request: Request | None = self._channel.receive()
        return request

    def send(self, answer: Answer) -> None:
        """Send an answer; if it cannot be sent, send a failure that says so."""
        try:
            self._channel.send(answer)
        except OSError:
            raise
        except Exception as error:
            number, position, data = answer
            if isinstance(data, Failure):
                failure = data.without_objects()
            else:
                failure = Failure(error, "while sending a batch from a DataLoader worker process")
            self._send_failure((number, position, failure))

    def _send_failure(self, answer: Answer) -> None:
        try:
            self._channel.send(answer)
        except (TypeError, AttributeError, ValueError):
            number, position, failure = answer
            self._channel.send((number, position, failure.without_objects()))
