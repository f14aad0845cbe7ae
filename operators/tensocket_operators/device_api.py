"""The device-generic user API: available devices, their streams, events and memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from tensocket_core.device import DeviceState, open_device, set_stream
from tensocket_plugins.contract.backend import Stream as BackendStream
from tensocket_plugins.contract.descriptor import DeviceInfo, Profile
from tensocket_plugins.contract.devices import MEANT, Device, parse_device
from tensocket_plugins.contract.errors import ArgumentError
from tensocket_plugins.contract.registry import registry
from tensocket_plugins.contract.states import BackendRecord


def backends() -> list[BackendRecord]:
    """Load and probe all installed backends; return them with their states."""
    return registry().records()


def device_count(name: str) -> int:
    """Return the number of devices of a backend; 0 if it cannot be used. An installed name never raises an error."""
    return registry().record(name, probe=True).device_count


def is_available(name: str) -> bool:
    """Whether a backend has a device that can be used."""
    return MEANT.get(name, name) in registry().names() and device_count(name) > 0


def get_device_info(name: Any) -> DeviceInfo:
    """Return model, memory and driver of a device."""
    return registry().device_info(parse_device(name))


def profile(name: Any) -> Profile:
    """Return a device's profile, which declares its abilities."""
    return open_device(name).runtime.profile


def synchronize(name: Any = None) -> None:
    """Wait until all work on a device is done, and raise errors of asynchronous work."""
    open_device(name).runtime.synchronize()


def memory_stats(name: Any = None) -> Mapping[str, int]:
    """Return bytes and counts of a device's allocator."""
    return open_device(name).runtime.allocator.stats().as_dict()


def memory_allocated(name: Any = None) -> int:
    """Return the number of bytes in use on a device."""
    return memory_stats(name)["allocated"]


def reset_peak_memory_stats(name: Any = None) -> None:
    """Reset the peaks of memory statistics."""
    open_device(name).runtime.allocator.reset_peak()


def empty_cache(name: Any = None) -> None:
    """Give unused memory of a device's allocator back to the driver."""
    open_device(name).runtime.allocator.empty_cache()


def set_memory_fraction(name: Any, fraction: float) -> None:
    """Limit the memory that a device's allocator reserves to a fraction of the device's memory.

    Args:
        name: The device.
        fraction: The fraction; 1 for all.

    Raises:
        ArgumentError: It is not a fraction, or the allocator does not support a limit.
    """
    if not 0 <= fraction <= 1:
        raise ArgumentError("set_per_process_memory_fraction", f"fraction={fraction}",
                            "a fraction lies between 0 and 1", "pass a part of the device's memory")
    state = open_device(name)
    total = registry().device_info(parse_device(f"{state.device.type}:{state.runtime.index}")).memory
    try:
        state.runtime.allocator.set_limit(None if fraction == 1 else int(total * fraction))
    except NotImplementedError:
        if fraction != 1:
            raise ArgumentError("set_per_process_memory_fraction", f"fraction={fraction} of {state.device}",
                                "allocators have no limit below the device's memory", "pass 1.0") from None


def build_stats(name: Any = None) -> Any:
    """Return the number of kernels built, their build time and cache hits; None without a code generator."""
    return getattr(open_device(name).runtime, "build_stats", None)


class Event:
    """A mark in a stream's queue.

    Args:
        device: Device of the event.
        enable_timing: Whether the program calls ``elapsed_time``.
    """

    def __init__(self, device: Any = None, enable_timing: bool = False) -> None:
        self._device_state = open_device(device)
        self._event = self._device_state.runtime.create_event(timing=enable_timing)

    def record(self, stream: Stream | None = None) -> None:
        """Put the mark after the work queued on a stream, by default this thread's."""
        (self._device_state.chosen_stream if stream is None else stream._stream).record(self._event)

    @property
    def device(self) -> Device:
        """The device."""
        return self._device_state.device

    def wait(self, stream: Stream | None = None) -> None:
        """Make work that is queued on ``stream`` from now on start after the event; by default on this thread's."""
        (self._device_state.chosen_stream if stream is None else stream._stream).wait(self._event)

    def query(self) -> bool:
        """Whether everything before the mark is done."""
        return self._event.query()

    def synchronize(self) -> None:
        """Wait until everything before the mark is done."""
        self._event.synchronize()

    def elapsed_time(self, end: Event) -> float:
        """Return the milliseconds to another event."""
        return self._event.elapsed_ms(end._event)


class Stream:
    """A queue of work that runs in order; as a context manager, it takes this thread's work.

    Args:
        device: Device of the stream.
        priority: Lower numbers go first.
    """

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self._device_state = open_device(device)
        self._stream: BackendStream = self._device_state.runtime.create_stream(priority)
        self._before: list[BackendStream] = []

    @classmethod
    def _of(cls, state: DeviceState, stream: BackendStream) -> Self:
        """Return a stream object for a stream of the backend."""
        known = cls.__new__(cls)
        known._device_state, known._stream, known._before = state, stream, []
        return known

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and other._stream is self._stream

    def __hash__(self) -> int:
        return id(self._stream)

    @property
    def device(self) -> Device:
        """The device."""
        return self._device_state.device

    @property
    def device_index(self) -> int:
        """Index of its device."""
        return self._device_state.runtime.index

    @property
    def stream_id(self) -> int:
        """A number that identifies the stream; 0 is the default one."""
        return 0 if self._stream is self._device_state.runtime.default_stream else id(self._stream)

    def __enter__(self) -> Stream:
        self._before.append(self._device_state.chosen_stream)
        set_stream(self._device_state.device, self._stream)
        return self

    def __exit__(self, *error: object) -> None:
        set_stream(self._device_state.device, self._before.pop())

    def synchronize(self) -> None:
        """Wait until all queued work is done."""
        self._stream.synchronize()

    def query(self) -> bool:
        """Whether all queued work is done."""
        return self._stream.query()

    def wait_event(self, event: Event) -> None:
        """Make work that is queued from now on start after ``event``."""
        self._stream.wait(event._event)

    def wait_stream(self, stream: Stream) -> None:
        """Make work that is queued from now on start after the work queued on ``stream`` so far."""
        if stream._stream is not self._stream:
            self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """Put an event after the queued work, and return it."""
        event = Event(self._device_state.device) if event is None else event
        self._stream.record(event._event)
        return event
