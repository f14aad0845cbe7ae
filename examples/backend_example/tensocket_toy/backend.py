"""The device ``toy``: memory of its own, asynchronous queues, and the primitives of the contract."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from tensocket_plugins.contract import Array, Backend, DeviceArray, DeviceInfo, Event, KernelTable, OpenDevice, Stream
from tensocket_plugins.contract.primitives import PRIMITIVES
from tensocket_plugins.kit.allocator import CachingAllocator
from tensocket_plugins.kit.host_primitives import compute, host_view

from . import NAME, PROFILE
from .queue import ToyEvent, ToyStream


class Memory:
    """A piece of device memory, as kernels take it; the runtime never looks inside."""

    def __init__(self, nbytes: int) -> None:
        self.data = np.empty(nbytes, np.uint8)


class ToyDevice(OpenDevice):
    """An opened device."""

    def __init__(self, index: int) -> None:
        self.name = f"{NAME}:{index}"
        self.index = index
        self.profile = PROFILE
        self.streams: list[ToyStream] = []
        self.default_stream = self.create_stream()
        # The kit makes a pooling allocator from two functions. Its capacity is this device's whole memory.
        self.allocator = CachingAllocator(Memory, lambda memory: None, device_name=self.name,
                                          capacity=PROFILE.limits.max_bytes, record_event=self.record_event)
        # Without a code generator (``target``), the device registers the primitives; the runtime composes the rest.
        self.kernels = KernelTable()
        for name in PRIMITIVES:
            self.kernels.register(name, partial(self.launch, name))

    def launch(self, name: str, outs: Sequence[Array], ins: Sequence[Array], scalars: Sequence[Any],
               stream: Stream) -> None:
        """Queue a primitive, and return before it has run. This is the calling convention of every kernel."""
        out, inputs = self.view(outs[0]), [self.view(array) for array in ins]
        assert isinstance(stream, ToyStream), "the runtime passes streams of this device"
        stream.submit(lambda: compute(name, out, inputs, scalars))

    def view(self, array: DeviceArray) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the NumPy view of the memory that ``array`` (buffer, element offset, shape, strides) describes."""
        return host_view(array, array.storage.buffer.data)

    def copy(self, dst: Array, src: Array, stream: Stream) -> None:
        """Copy between contiguous arrays: host to device, device to host, or within the device."""
        assert isinstance(stream, ToyStream), "the runtime passes streams of this device"
        # The caller may change a host source as soon as this returns, so this copies its values now.
        source = self.view(src) if isinstance(src, DeviceArray) else np.array(src)
        target = self.view(dst) if isinstance(dst, DeviceArray) else dst
        stream.submit(lambda: np.copyto(target, source.reshape(target.shape)))
        if not isinstance(dst, DeviceArray):
            stream.synchronize()

    def synchronize(self) -> None:
        """Wait for all queues."""
        for stream in self.streams:
            stream.synchronize()

    def create_stream(self, priority: int = 0) -> ToyStream:
        """Return a new queue."""
        self.streams.append(ToyStream())
        return self.streams[-1]

    def create_event(self, *, timing: bool = False) -> ToyEvent:
        """Return a new event; every event records its time."""
        return ToyEvent()

    def record_event(self, stream: Stream) -> Event:
        """Return an event after the work queued on ``stream``, for the allocator."""
        event = self.create_event()
        stream.record(event)
        return event

    def close(self) -> None:
        """End the workers, at interpreter exit."""
        for stream in self.streams:
            stream.close()


class ToyBackend(Backend):
    """All devices of this kind; there is one."""

    def probe(self) -> None:
        """Do nothing. A real backend looks for its driver, and raises ``Unavailable(reason, advice)`` without it."""

    def device_count(self) -> int:
        """Return 1."""
        return 1

    def device_info(self, index: int) -> DeviceInfo:
        """Return the description that ``tensocket devices`` prints."""
        memory = PROFILE.limits.max_bytes
        return DeviceInfo(model="NumPy behind a queue", memory=memory, driver=f"NumPy {np.__version__}")

    def open(self, index: int) -> OpenDevice:
        """Open the device; called once."""
        return ToyDevice(index)
