"""Streams and events. A stream is a queue with one worker thread: work runs in order and the host does not wait."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from tensocket_plugins.contract import ArgumentError, Event, KernelError, Stream


class ToyEvent(Event):
    """A mark in a queue, with the time at which the worker passed it."""

    def __init__(self) -> None:
        self.passed: Future[float] | None = None

    def query(self) -> bool:
        """Whether the worker has passed the mark; true for an event that was never recorded."""
        return self.passed is None or self.passed.done()

    def synchronize(self) -> None:
        """Wait until the worker has passed the mark."""
        if self.passed is not None:
            self.passed.result()

    def elapsed_ms(self, end: Event) -> float:
        """Return the milliseconds from this mark to ``end``.

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
        """Queue ``work``; ``synchronize`` raises its errors."""
        self._last = self._worker.submit(self._run, work)

    def _run(self, work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:
            self._error = self._error or error

    def synchronize(self) -> None:
        """Wait for all work queued so far.

        Raises:
            KernelError: Some work has failed since the last call; the error's cause is the original one.
        """
        if self._last is not None:
            self._last.result()
        error, self._error = self._error, None
        if error is not None:
            raise KernelError("synchronize", f"queued work on toy raised {type(error).__name__}: {error}",
                              "kernels do not fail", "report it to the authors of tensocket-toy") from error

    def query(self) -> bool:
        """Whether all queued work is done."""
        return self._last is None or self._last.done()

    def wait(self, event: Event) -> None:
        """Make the worker, not the host, wait for ``event``."""
        self.submit(event.synchronize)

    def record(self, event: Event) -> None:
        """Queue the mark ``event``."""
        assert isinstance(event, ToyEvent), "the runtime passes events of this device"
        event.passed = self._worker.submit(time.perf_counter)

    def close(self) -> None:
        """End the worker."""
        self._worker.shutdown()
