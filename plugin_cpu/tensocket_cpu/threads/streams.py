"""Streams and events: on the default stream, work is done when a call returns; every other stream has a thread."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.backend import Event, HostQueue, Stream
from tensocket_plugins.contract.errors import ArgumentError, KernelError, OutOfMemoryError, TensocketError

from .pool import in_children


class _Mark:
    """A position in a queue, to wait for."""

    __slots__ = ("_process", "_reached", "event", "queue")

    def __init__(self, queue: _Queue, event: CpuEvent | None = None) -> None:
        self.queue = queue
        self.event = event
        self._reached = threading.Event()
        self._process = os.getpid()

    def reach(self) -> None:
        if self.event is not None and self.event.mark is self:
            self.event.recorded_ns = time.perf_counter_ns()
        self.event = None
        self._reached.set()

    def reached(self) -> bool:
        # A forked child has no thread that could reach it.
        return self._reached.is_set() or self._process != os.getpid()

    def wait(self) -> None:
        # For a queue's own thread, everything before the mark is done.
        if not self.reached() and threading.get_ident() != self.queue.thread:
            self._reached.wait()


_Item = tuple[str, Callable[[], object]] | _Mark | None


class _Queue:
    """The state that a stream and its thread share; the thread does not keep the stream alive."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Reset the queue in a forked child, which does not do the work that the parent queued."""
        self.lock = threading.Lock()
        self.items: SimpleQueue[_Item] = SimpleQueue()
        self.thread = 0
        self.error: BaseException | None = None
        self.last: _Mark | None = None
        self.queued = self.done = 0

    def put(self, item: _Item) -> None:
        with self.lock:
            if not self.thread:
                worker = threading.Thread(target=_work, args=(self,), name="tensocket-cpu-stream", daemon=True)
                worker.start()
                self.thread = worker.ident or 0
            self.queued += 1
            self.items.put(item)

    def failed(self) -> None:
        """Raise the error of work that failed since the last call, if any."""
        error, self.error = self.error, None
        if error is not None:
            raise error


def _work(queue: _Queue) -> None:
    items = queue.items
    while (item := items.get()) is not None:
        if isinstance(item, _Mark):
            queue.done += 1
            item.reach()
        else:
            _run(queue, *item)
            # Release everything that the function holds before the thread waits.
            item = None
            queue.done += 1


def _run(queue: _Queue, operator: str, function: Callable[[], object]) -> None:
    if queue.error is not None:
        return
    try:
        with np.errstate(all="ignore"):  # a program's settings apply to its own threads
            function()
    except OutOfMemoryError as error:
        # The allocator does not know the operator.
        queue.error = OutOfMemoryError(operator, error.given, error.rule, error.advice)
        queue.error.__cause__ = error
    except TensocketError as error:
        queue.error = error
    except BaseException as error:
        queue.error = KernelError(operator, "work queued on a stream of the CPU",
                                  f"it failed: {type(error).__name__}: {error}",
                                  "what was queued behind it did not run; repeat it")
        queue.error.__cause__ = error


class CpuEvent(Event):
    """A mark in a queue, and the time at which it was reached."""

    __slots__ = ("mark", "recorded_ns", "timing")

    def __init__(self, *, timing: bool = False) -> None:
        self.timing = timing
        self.recorded_ns: int | None = None
        self.mark: _Mark | None = None

    def query(self) -> bool:
        """Whether the work before the event is done; always true on the default stream, where nothing is pending."""
        return self.mark is None or self.mark.reached()

    def synchronize(self) -> None:
        """Wait until the work before the event is done.

        Raises:
            TensocketError: Some work of its stream failed.
        """
        if self.mark is not None:
            self.mark.wait()
            self.mark.queue.failed()

    def elapsed_ms(self, end: Event) -> float:
        """Return the milliseconds between the two records.

        Raises:
            ArgumentError: ``end`` is another device's event, or one of the two has no time.
        """
        if not isinstance(end, CpuEvent):
            raise ArgumentError("Event.elapsed_time", f"end={type(end).__name__}", "both events are of one device",
                                "create both on the CPU")
        for name, event in (("start", self), ("end", end)):
            if not event.timing or event.recorded_ns is None:
                raise ArgumentError("Event.elapsed_time", f"{name} event with timing={event.timing}, "
                                    f"recorded={event.recorded_ns is not None}",
                                    "both events were created with timing and recorded",
                                    "create them with enable_timing=True and call record()")
        return ((end.recorded_ns or 0) - (self.recorded_ns or 0)) / 1e6


def _own(event: Event) -> CpuEvent:
    """Return an event of this device.

    Raises:
        ArgumentError: It is another device's event.
    """
    if not isinstance(event, CpuEvent):
        raise ArgumentError("Stream.record_event", f"event={type(event).__name__}", "a CPU stream records CPU "
                            "events", "create the event on the CPU")
    return event


class CpuStream(Stream):
    """The default stream, which is always idle."""

    __slots__ = ()

    def synchronize(self) -> None:
        """Return at once: nothing is ever pending."""

    def query(self) -> bool:
        """Return true: nothing is ever pending."""
        return True

    def wait(self, event: Event) -> None:
        """Wait for ``event``; one that was recorded on the default stream has always happened."""
        event.synchronize()

    def record(self, event: Event) -> None:
        """Record the current time in ``event``.

        Raises:
            ArgumentError: It is another device's event.
        """
        event = _own(event)
        event.mark = None
        event.recorded_ns = time.perf_counter_ns()


class CpuQueue(HostQueue):
    """A stream with a thread, which starts with the first function and ends, after all work, with the stream."""

    def __init__(self) -> None:
        self._queue = _Queue()

    def renew(self) -> None:
        """Reset the stream in a forked child; the work that the parent queued runs in the parent."""
        self._queue.renew()

    def submit(self, operator: str, function: Callable[[], object]) -> None:
        """Queue a function; see ``HostQueue``."""
        self._queue.put((operator, function))

    def synchronize(self) -> None:
        """Wait until all work is done.

        Raises:
            TensocketError: Some work failed; the error names the operator.
        """
        queue = self._queue
        if queue.done != queue.queued:
            mark = _Mark(queue)
            queue.put(mark)
            mark.wait()
        if threading.get_ident() != queue.thread:
            queue.failed()

    def query(self) -> bool:
        """Whether all work is done."""
        return self._queue.done == self._queue.queued

    def wait(self, event: Event) -> None:
        """Make work that is queued from now on start after ``event``."""
        mark = event.mark if isinstance(event, CpuEvent) else None
        if isinstance(event, CpuEvent):
            # Wait for the mark: the event may be recorded again before the queue gets there. The mark's own stream
            # reports failures.
            if mark is not None and mark.queue is not self._queue:
                self.submit("wait_event", mark.wait)
        else:
            self.submit("wait_event", event.synchronize)

    def record(self, event: Event) -> None:
        """Record ``event`` after the queued work.

        Raises:
            ArgumentError: It is another device's event.
        """
        event = _own(event)
        event.recorded_ns = None
        event.mark = _Mark(self._queue, event)
        self._queue.put(event.mark)

    def __del__(self) -> None:
        queue = getattr(self, "_queue", None)
        if queue is not None and queue.thread:
            # Not put(), which takes the lock: a finalizer may run while the lock is held.
            queue.items.put(None)


class Streams:
    """All streams of a device but the default one."""

    def __init__(self) -> None:
        self._known: Final[weakref.WeakSet[CpuQueue]] = weakref.WeakSet()
        in_children(self, Streams.renew)

    def renew(self) -> None:
        """Reset all streams in a forked child, which has none of the threads."""
        for stream in self._known:
            stream.renew()

    def create(self) -> CpuQueue:
        """Return a new stream."""
        made = CpuQueue()
        self._known.add(made)
        return made

    def synchronize(self) -> None:
        """Wait until all work on all streams is done.

        Raises:
            TensocketError: Some work failed.
        """
        error: Any = None
        for stream in list(self._known):
            try:
                stream.synchronize()
            except TensocketError as found:
                error = error or found
        if error is not None:
            raise error
