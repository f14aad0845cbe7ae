"""Streams and events of a device whose work is done when a call returns."""

from __future__ import annotations

import time

from tensocket_plugins.contract.backend import Event, Stream
from tensocket_plugins.contract.errors import ArgumentError


class CpuEvent(Event):
    """Remembers when it was recorded."""

    __slots__ = ("recorded_ns", "timing")

    def __init__(self, *, timing: bool = False) -> None:
        self.timing = timing
        self.recorded_ns: int | None = None

    def query(self) -> bool:
        """Always true: nothing is ever pending."""
        return True

    def synchronize(self) -> None:
        """Return at once."""

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


class CpuStream(Stream):
    """A queue that is always empty."""

    __slots__ = ()

    def synchronize(self) -> None:
        """Return at once."""

    def query(self) -> bool:
        """Always true."""
        return True

    def wait(self, event: Event) -> None:
        """Return after ``event``, which at home has always happened; another device's event is waited for."""
        event.synchronize()

    def record(self, event: Event) -> None:
        """Note the time in ``event``.

        Raises:
            ArgumentError: It is another device's event.
        """
        if not isinstance(event, CpuEvent):
            raise ArgumentError("Stream.record_event", f"event={type(event).__name__}", "a CPU stream records CPU "
                                "events", "create the event on the CPU")
        event.recorded_ns = time.perf_counter_ns()
