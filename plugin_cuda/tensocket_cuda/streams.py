"""CUDA streams and events. Every call into the driver runs with the device's context current.

Finalizers recycle the driver's objects instead of destroying them, because they may run in a thread whose context is
not current.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensocket_plugins.contract.backend import Event, Stream
from tensocket_plugins.contract.errors import ArgumentError, BackendUnavailable

if TYPE_CHECKING:
    from .device import CudaDevice


def forked(device: str) -> BackendUnavailable:
    """Return the error for using, in a forked child, a device that its parent opened."""
    return BackendUnavailable(
        "device", f"{device} in a process forked after CUDA was started", "CUDA does not work in forked children",
        "start children with the multiprocessing method 'spawn', or fork before the device is used")


class Spare:
    """The driver's events (without and with timing) and streams that nobody uses now."""

    def __init__(self) -> None:
        self.events: tuple[list[Any], list[Any]] = ([], [])
        self.streams: list[Any] = []

    def clear(self) -> None:
        """Destroy them; the context must be current."""
        for handles in (*self.events, self.streams):
            handles.clear()


class CudaEvent(Event):
    """A mark in a stream's queue."""

    __slots__ = ("device", "handle", "recorded", "timing")

    def __init__(self, device: CudaDevice, *, timing: bool = False) -> None:
        self.device = device
        self.timing = timing
        self.recorded = False
        try:
            self.handle = device.spare.events[timing].pop()
        except IndexError:
            with device.current as driver:
                self.handle = driver.Event(0 if timing else driver.event_flags.DISABLE_TIMING)

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)  # absent if creating it failed
        if handle is not None:
            self.device.spare.events[self.timing].append(handle)

    def query(self) -> bool:
        """Whether all work before the mark is done."""
        if not self.recorded:
            return True
        with self.device.current:
            return bool(self.handle.query())

    def synchronize(self) -> None:
        """Block until all work before the mark is done; other threads run meanwhile.

        Raises:
            KernelError: That work failed.
        """
        if self.recorded:
            with self.device.current:
                self.handle.synchronize()

    def elapsed_ms(self, end: Event) -> float:
        """Return the milliseconds from this mark to ``end``; waits for both.

        Raises:
            ArgumentError: ``end`` is another device's event, or one of the two has no time.
        """
        if not isinstance(end, CudaEvent) or end.device is not self.device:
            raise ArgumentError("Event.elapsed_time", f"an end event of another device than {self.device.name}",
                                "both events are of one device", f"create both on {self.device.name}")
        for name, event in (("start", self), ("end", end)):
            if not event.timing or not event.recorded:
                raise ArgumentError("Event.elapsed_time",
                                    f"{name} event with timing={event.timing}, recorded={event.recorded}",
                                    "both events were created with timing and recorded",
                                    "create them with enable_timing=True and call record()")
        with self.device.current:
            self.handle.synchronize()
            end.handle.synchronize()
            return float(self.handle.time_till(end.handle))


class CudaStream(Stream):
    """A queue of work.

    Attributes:
        handle: pycuda's stream.
        pointer: The driver's handle as a number, for libraries such as cuBLAS.
    """

    __slots__ = ("device", "handle", "pointer")

    def __init__(self, device: CudaDevice) -> None:
        self.device = device
        try:
            self.handle = device.spare.streams.pop()
        except IndexError:
            with device.current as driver:
                self.handle = driver.Stream()
        self.pointer = int(self.handle.handle)

    def __del__(self) -> None:
        handle = getattr(self, "handle", None)  # absent if creating it failed
        if handle is not None:
            self.device.spare.streams.append(handle)

    def synchronize(self) -> None:
        """Block until all queued work is done; other threads run meanwhile.

        Raises:
            KernelError: Work failed.
        """
        with self.device.current:
            self.handle.synchronize()

    def query(self) -> bool:
        """Whether all queued work is done."""
        with self.device.current:
            return bool(self.handle.is_done())

    def wait(self, event: Event) -> None:
        """Make work queued from now on start after ``event``; the host waits only for events of other backends."""
        if not isinstance(event, CudaEvent):
            event.synchronize()
        elif event.recorded:
            with self.device.current:
                self.handle.wait_for_event(event.handle)

    def record(self, event: Event) -> None:
        """Record ``event`` after the work queued so far.

        Raises:
            ArgumentError: It is an event of another device.
        """
        if not isinstance(event, CudaEvent) or event.device is not self.device:
            raise ArgumentError("Stream.record_event", f"an event of another device than {self.device.name}",
                                "a stream records events of its own device", f"create the event on {self.device.name}")
        with self.device.current:
            event.handle.record(self.handle)
        event.recorded = True
