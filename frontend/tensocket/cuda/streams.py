"""Streams and events of the devices called ``cuda``."""

from __future__ import annotations

from typing import Any

from tensocket_core.device import set_stream as set_backend_stream
from tensocket_operators import device_api as api

from .names import entry_of


class Event(api.Event):
    """A mark in a stream's queue.

    Args:
        enable_timing: Whether the event supports ``elapsed_time``.
        blocking: Accepted as in PyTorch; ``synchronize`` blocks the thread.
        interprocess: Accepted as in PyTorch; events belong to one process.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        super().__init__(entry_of().device, enable_timing)


class Stream(api.Stream):
    """A queue of work that runs in order.

    Args:
        device: The device; None is the current device.
        priority: Lower numbers have priority.
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        super().__init__(entry_of(device).device, priority)

    @property
    def cuda_stream(self) -> int:
        """A number that identifies the stream; 0 is the default one."""
        return self.stream_id

    def record_event(self, event: api.Event | None = None) -> api.Event:
        """Record an event after the queued work."""
        chosen: api.Event = Event() if event is None else event
        self._stream.record(chosen._event)
        return chosen


class StreamContext:
    """``with stream(s):`` — this thread's work goes to ``s``; None changes nothing."""

    def __init__(self, stream: api.Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error: object) -> None:
        if self.stream is not None:
            self.stream.__exit__(*error)


def stream(stream: api.Stream | None) -> StreamContext:
    """Return a context manager in which this thread's work goes to ``stream``; None changes nothing."""
    return StreamContext(stream)


def current_stream(device: Any = None) -> Stream:
    """Return the stream on which this thread queues work for a device."""
    entry = entry_of(device)
    return Stream._of(entry, entry.chosen_stream)


def default_stream(device: Any = None) -> Stream:
    """Return the default stream of a device."""
    entry = entry_of(device)
    return Stream._of(entry, entry.runtime.default_stream)


def set_stream(stream: api.Stream | None) -> None:
    """Queue this thread's work on ``stream`` from now on; None changes nothing."""
    if stream is not None:
        set_backend_stream(stream.device, stream._stream)
