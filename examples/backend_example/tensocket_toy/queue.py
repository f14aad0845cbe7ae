"""Streams and events. A stream is a queue with one worker thread: work runs in order and the host does not wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from tensocket_plugins.contract import ArgumentError, Event, KernelError, Stream


class ToyEvent(Event):
    """A mark in a queue: the moment at which the worker came past it."""

    def __init__(self) -> None:
        self.passed: Future[float] | None = None

    def query(self) -> bool:
        """Whether the worker came past the mark; also true of an event never recorded."""
        return self.passed is None or self.passed.done()

    def synchronize(self) -> None:
        """Wait until the worker came past the mark."""
        if self.passed is not None:
            self.passed.result()

    def elapsed_ms(self, end: Event) -> float:
        """Milliseconds from this mark to ``end``.

        Raises:
            ArgumentError: One of the two was never recorded.
        """
        if self.passed is None or not isinstance(end, ToyEvent) or end.passed is None:
            raise ArgumentError("elapsed_time", "an event that was not recorded", "both events are recorded",
                                "record both events before asking")
        return (end.passed.result() - self.passed.result()) * 1000.0


class ToyStream(Stream):
    """A queue of functions."""

    def __init__(self) -> None:
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="toy")
        self._last: Future[None] | None = None
        self._error: BaseException | None = None

    def submit(self, work: Callable[[], object]) -> None:
        """Queue ``work``; what it raises surfaces in ``synchronize``."""
        self._last = self._worker.submit(self._run, work)

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            self._error = self._error or error

    def synchronize(self) -> None:
        """Wait for everything queued so far.

        Raises:
            KernelError: Some of it failed since the last time; its cause is what was raised.
        """
        if self._last is not None:
            self._last.result()
        error, self._error = self._error, None
        if error is not None:
            raise KernelError("synchronize", f"queued work on toy raised {type(error).__name__}: {error}",
                              "kernels do not fail", "report it to the authors of tensocket-toy") from error

    def query(self) -> bool:
        """Whether everything queued is done."""
        return self._last is None or self._last.done()

    def wait(self, event: Event) -> None:
        """Let the worker, not the host, wait for ``event``."""
        self.submit(event.synchronize)

    def record(self, event: Event) -> None:
        """Queue the mark ``event``."""
        assert isinstance(event, ToyEvent), "the runtime passes events of this device"
        event.passed = self._worker.submit(time.perf_counter)

    def close(self) -> None:
        """End the worker."""
        self._worker.shutdown()
