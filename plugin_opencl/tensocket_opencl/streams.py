"""In-order command queues as streams, markers as events."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np
import pyopencl as cl

from tensocket_plugins.contract.backend import Event, Stream
from tensocket_plugins.contract.errors import ArgumentError, BackendUnavailable, KernelError, OutOfMemoryError

_Result = TypeVar("_Result")

#: The most host arrays that a stream keeps alive for copies to the device that may still be running.
MAX_STAGED: Final = 64

_MEMORY_CODES: Final = (cl.status_code.MEM_OBJECT_ALLOCATION_FAILURE, cl.status_code.OUT_OF_RESOURCES,
                        cl.status_code.OUT_OF_HOST_MEMORY)


def translated(error: Any, operator: str, device: str) -> KernelError | OutOfMemoryError:
    """Return tensocket's error for one of OpenCL's."""
    if error.code in _MEMORY_CODES:
        return OutOfMemoryError(operator, f"{error} on {device}", "the driver has no memory left for this work",
                                "free tensors or use smaller batches")
    return KernelError(operator, f"{error} on {device}", "queued work must run to its end",
                       "see the driver's log; other work on this device may still succeed")


def forked(device: str) -> BackendUnavailable:
    """Return the error for using, in a forked child, a device that its parent opened."""
    return BackendUnavailable(
        "device", f"{device} in a process forked after it was opened", "the threads of an OpenCL driver are not "
        "inherited by forked children", "start children with the multiprocessing method 'spawn', or fork before the "
        "device is used")


def guarded(operator: str, device: str, work: Callable[[], _Result]) -> _Result:
    """Return the result of ``work``.

    Raises:
        OutOfMemoryError: OpenCL reports missing memory or resources.
        KernelError: OpenCL reports any other error.
    """
    try:
        return work()
    except cl.Error as error:
        raise translated(error, operator, device) from error


class OpenCLEvent(Event):
    """A mark in a queue.

    Attributes:
        marker: OpenCL's event, once recorded.
        timing: Whether the event supports ``elapsed_ms``.
    """

    def __init__(self, device: str, *, timing: bool = False) -> None:
        self.device = device
        self.timing = timing
        self.marker: Any = None

    def query(self) -> bool:
        """Whether the work before the mark is done (or has failed). Never blocks."""
        return self.marker is None or bool(self.marker.command_execution_status <= cl.command_execution_status.COMPLETE)

    def synchronize(self) -> None:
        """Block until the work before the mark is done.

        Raises:
            KernelError: The work failed.
        """
        if self.marker is not None:
            guarded("Event.synchronize", self.device, self.marker.wait)

    def elapsed_ms(self, end: Event) -> float:
        """Return the milliseconds from this mark to ``end``; waits for neither.

        Raises:
            ArgumentError: An event has no time, or ``end`` is of another backend.
        """
        start = _time(self, "start")
        return (_time(end, "end") - start) / 1e6


def _time(event: Event, which: str) -> int:
    if not isinstance(event, OpenCLEvent):
        raise ArgumentError("Event.elapsed_time", f"{which}={type(event).__name__}", "both events are of one device",
                            "create both on the same OpenCL device")
    if not event.timing or event.marker is None or not event.query():
        raise ArgumentError(
            "Event.elapsed_time",
            f"{which} event with timing={event.timing}, recorded={event.marker is not None}, done={event.query()}",
            "both events were created with timing, recorded, and have happened",
            "create them with enable_timing=True, call record(), then synchronize()")
    return int(event.marker.profile.end)


class OpenCLStream(Stream):
    """An in-order command queue.

    Attributes:
        queue: OpenCL's queue.
        last: OpenCL's event of the work that was queued last.
    """

    def __init__(self, context: Any, device: str) -> None:
        self.device = device
        self.queue = cl.CommandQueue(context, properties=cl.command_queue_properties.PROFILING_ENABLE)
        self.last: Any = None
        self._staged: deque[Any] = deque()

    def abandon(self) -> None:
        """Abandon the queue in a forked child: the driver's threads, which run its work, exist only in the parent."""
        # Releasing an object would make the driver wait for those threads, so an extra reference keeps it forever.
        for driven in (self.queue, self.last, *self._staged):
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(driven))
        del self.queue
        self.last = None
        self._staged = deque()

    def __getattr__(self, name: str) -> Any:
        # Runs only for missing attributes, so the hot path does not pay for the check.
        if name == "queue":
            raise forked(self.device)
        raise AttributeError(name)

    def synchronize(self) -> None:
        """Block until all queued work is done.

        Raises:
            KernelError: Some of the work failed.
        """
        guarded("Stream.synchronize", self.device, self.queue.finish)
        last = self.last
        if last is not None and last.command_execution_status < 0:
            self.last = None
            raise KernelError("Stream.synchronize", f"status {last.command_execution_status} on {self.device}",
                              "queued work must run to its end",
                              "see the driver's log; other work on this device may still succeed")

    def query(self) -> bool:
        """Whether all queued work is done. Never blocks."""
        if self.last is None:
            return True
        self.queue.flush()
        return bool(self.last.command_execution_status <= cl.command_execution_status.COMPLETE)

    def wait(self, event: Event) -> None:
        """Make work queued from now on start after ``event``; the host waits only for events of other devices."""
        if not isinstance(event, OpenCLEvent) or event.device != self.device:
            event.synchronize()
        elif event.marker is not None:
            self.last = cl.enqueue_barrier(self.queue, wait_for=[event.marker])

    def record(self, event: Event) -> None:
        """Record ``event`` after the work queued so far.

        Raises:
            ArgumentError: It is another device's event.
        """
        if not isinstance(event, OpenCLEvent) or event.device != self.device:
            raise ArgumentError("Stream.record_event", f"event={type(event).__name__}", f"a stream of {self.device} "
                                "records events of the same device", f"create the event on {self.device}")
        event.marker = self.last = cl.enqueue_marker(self.queue)
        # Other queues and the host wait for events; a driver may hold back unflushed work forever.
        self.queue.flush()

    def stage(self, target: Any, data: np.ndarray[Any, Any], offset: int) -> None:
        """Queue a copy of ``data``, which nobody may change any more, to byte ``offset`` of buffer ``target``."""
        # OpenCL's event keeps the data alive, and waits for the copy when the event is released.
        self.last = cl.enqueue_copy(self.queue, target, data, dst_offset=offset, is_blocking=False)
        staged = self._staged
        staged.append(self.last)
        while len(staged) > MAX_STAGED or (staged and staged[0].command_execution_status <= 0):
            staged.popleft()
