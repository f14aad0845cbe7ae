"""Streams and events: the default stream is done when a call returns, all others have threads that work in order."""

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
    """A place in a queue that is waited for."""

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
        # What a queue's own thread did before is done.
        if not self.reached() and threading.get_ident() != self.queue.thread:
            self._reached.wait()


_Item = tuple[str, Callable[[], object]] | _Mark | None


class _Queue:
    """The state that a stream and its thread share; the thread does not keep the stream alive."""

    def __init__(self) -> None:
        self.renew()

    def renew(self) -> None:
        """Start anew, in a forked child, where what the parent queued is not done."""
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
        """Raise what failed since the last time."""
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
            # Nothing that the function held may live on while the thread waits.
            item = None
            queue.done += 1


def _run(queue: _Queue, operator: str, function: Callable[[], object]) -> None:
    if queue.error is not None:
        return
    try:
        with np.errstate(all="ignore"):  # what a program sets is of its own threads
            function()
    except OutOfMemoryError as error:
        # The allocator does not know for what it is asked.
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
    """A mark in a queue, and when it was reached."""

    __slots__ = ("mark", "recorded_ns", "timing")

    def __init__(self, *, timing: bool = False) -> None:
        self.timing = timing
        self.recorded_ns: int | None = None
        self.mark: _Mark | None = None

    def query(self) -> bool:
        """Whether the work before it is done; true on the default stream, where nothing is ever pending."""
        return self.mark is None or self.mark.reached()

    def synchronize(self) -> None:
        """Return when the work before it is done.

        Raises:
            TensocketError: Some of its stream's work failed.
        """
        if self.mark is not None:
            self.mark.wait()
            self.mark.queue.failed()

    def elapsed_ms(self, end: Event) -> float:
        """Milliseconds between the two records.

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
        """Return at once."""

    def query(self) -> bool:
        """Always true."""
        return True

    def wait(self, event: Event) -> None:
        """Return after ``event``, which on the default stream has always happened; any other event is waited for."""
        event.synchronize()

    def record(self, event: Event) -> None:
        """Note the time in ``event``.

        Raises:
            ArgumentError: It is another device's event.
        """
        event = _own(event)
        event.mark = None
        event.recorded_ns = time.perf_counter_ns()


class CpuQueue(HostQueue):
    """A stream with a thread, which starts with the first function and ends with the stream, when all is done."""

    def __init__(self) -> None:
        self._queue = _Queue()

    def renew(self) -> None:
        """Start anew, in a forked child; what the parent queued runs there."""
        self._queue.renew()

    def submit(self, operator: str, function: Callable[[], object]) -> None:
        """Queue a function; see ``HostQueue``."""
        self._queue.put((operator, function))

    def synchronize(self) -> None:
        """Return when all work is done.

        Raises:
            TensocketError: Some of it failed; the error names the operator.
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
        """Let what is queued from now on start after ``event``."""
        mark = event.mark if isinstance(event, CpuEvent) else None
        if isinstance(event, CpuEvent):
            # The event may be recorded anew before the queue is there; a failure is its own stream's to tell.
            if mark is not None and mark.queue is not self._queue:
                self.submit("wait_event", mark.wait)
        else:
            self.submit("wait_event", event.synchronize)

    def record(self, event: Event) -> None:
        """Put ``event`` behind what is queued.

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
            # Not put(): a finalizer may run while the lock is held.
            queue.items.put(None)


class Streams:
    """All streams of a device but the default one."""

    def __init__(self) -> None:
        self._known: Final[weakref.WeakSet[CpuQueue]] = weakref.WeakSet()
        in_children(self, Streams.renew)

    def renew(self) -> None:
        """Start anew, in a forked child, which has none of the threads."""
        for stream in self._known:
            stream.renew()

    def create(self) -> CpuQueue:
        """Return a new stream."""
        made = CpuQueue()
        self._known.add(made)
        return made

    def synchronize(self) -> None:
        """Return when all work on all streams is done.

        Raises:
            TensocketError: Some of it failed.
        """
        error: Any = None
        for stream in list(self._known):
            try:
                stream.synchronize()
            except TensocketError as found:
                error = error or found
        if error is not None:
            raise error
