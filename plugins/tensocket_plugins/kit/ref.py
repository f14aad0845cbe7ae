"""The device ``ref``: a complete backend that runs every program in the reference interpreter.

It is slow, simple and strict: fresh memory is filled with garbage, kernels that access memory outside of their arrays
raise, and the memory of its two devices is limited, so that tests can provoke errors. It is also the smallest example
of a backend with a code generator: descriptor, backend, device, allocator, stream and event on two screens.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from ..contract.arrays import Array, Block, DeviceArray
from ..contract.backend import Allocator, Backend, Event, Executable, MemoryStats, OpenDevice, Stream
from ..contract.descriptor import Descriptor, DeviceInfo, Limits, Profile
from ..contract.dtypes import BY_NAME
from ..contract.errors import ArgumentError, OutOfMemoryError
from ..contract.hooks import hookimpl
from ..contract.kernels import KernelTable
from ..contract.launch_recorder import RECORDERS, note_launch
from ..contract.plans import Plan, ReplayPlan
from ..ir.interpreter import interpret
from ..ir.memory import GARBAGE
from ..ir.nodes import Program
from ..ir.target import Target
from ..ir.verify import verify
from .host_operators import HOST_OPERATORS
from .plans import compile_replay

NAME: Final = "ref"
DEVICES: Final = 2
#: Bytes of each device's memory, unless the environment variable says otherwise.
MEMORY: Final = 4 << 30
MEMORY_VARIABLE: Final = "TENSOCKET_REF_MEMORY"

PROFILE: Final = Profile(
    host_kernels=HOST_OPERATORS,
    dtypes=frozenset(BY_NAME),
    features=frozenset({"streams", "events", "fp64", "multi_device", "deterministic", "reference"}),
    limits=Limits(max_bytes=MEMORY),
)


class RefAllocator(Allocator):
    """An allocator of NumPy arrays that counts their bytes.

    Args:
        device: The device's name, for the error.
        memory: Maximum bytes allocated at a time.
    """

    def __init__(self, device: str, memory: int) -> None:
        self.device = device
        self.memory = memory
        # An array may be freed during an allocation, when the garbage collector runs.
        self._lock = threading.RLock()
        self._stats = MemoryStats()

    def allocate(self, nbytes: int, stream: Stream) -> Block:
        """Return a block of exactly ``nbytes`` bytes of garbage."""
        with self._lock:
            now = self._stats
            allocated = now.allocated + nbytes
            if allocated > self.memory:
                raise OutOfMemoryError(
                    "allocate", f"{nbytes} bytes on {self.device}", f"{self.memory - now.allocated} of {self.memory} "
                    f"bytes are free ({now.allocated} allocated in {now.allocations - now.frees} blocks, peak "
                    f"{now.peak_allocated})", f"free tensors, or set {MEMORY_VARIABLE} to more bytes")
            peak = max(now.peak_allocated, allocated)
            self._stats = MemoryStats(allocated, allocated, peak, peak, now.allocations + 1, now.frees)
        return Block(np.full(nbytes, GARBAGE, np.uint8), nbytes, stream)

    def free(self, block: Block) -> None:
        """Take a block back."""
        with self._lock:
            now = self._stats
            left = now.allocated - block.nbytes
            # Not by the class's name: the last tensors are freed after the interpreter has emptied this module.
            self._stats = type(now)(left, left, now.peak_allocated, now.peak_reserved, now.allocations, now.frees + 1)

    def stats(self) -> MemoryStats:
        """Return current numbers; reserved memory equals allocated memory."""
        return self._stats

    def reset_peak(self) -> None:
        """Restart the peak counters."""
        with self._lock:
            now = self._stats
            self._stats = MemoryStats(now.allocated, now.reserved, now.allocated, now.reserved, now.allocations,
                                      now.frees)


class RefEvent(Event):
    """A point in time.

    Args:
        timing: Whether ``elapsed_ms`` is allowed.
    """

    def __init__(self, timing: bool) -> None:
        self.timing = timing
        self.seconds: float | None = None

    def query(self) -> bool:
        """Return True: work is done when its call returns."""
        return True

    def synchronize(self) -> None:
        """Do nothing: no work is pending."""

    def elapsed_ms(self, end: Event) -> float:
        """Return the milliseconds between the two events.

        Raises:
            ArgumentError: One of the events has no timing or was not recorded.
        """
        if not isinstance(end, RefEvent) or not self.timing or not end.timing:
            raise ArgumentError("elapsed_time", "an event without timing", "both events take times",
                                "create both with timing=True on one device")
        if self.seconds is None or end.seconds is None:
            raise ArgumentError("elapsed_time", "an event that was not recorded", "both events are recorded",
                                "record both events before asking")
        return (end.seconds - self.seconds) * 1000.0


class RefStream(Stream):
    """A queue whose work is done when its call returns."""

    def synchronize(self) -> None:
        """Do nothing: no work is pending."""

    def query(self) -> bool:
        """Return True: work is done when its call returns."""
        return True

    def wait(self, event: Event) -> None:
        """Do nothing: no work is pending."""

    def record(self, event: Event) -> None:
        """Store the present time in ``event``."""
        if isinstance(event, RefEvent):
            event.seconds = time.perf_counter()


class RefDevice(OpenDevice):
    """An opened ``ref`` device.

    Args:
        index: 0 or 1.
        memory: Bytes of its memory.
    """

    def __init__(self, index: int, memory: int) -> None:
        self.name = f"{NAME}:{index}"
        self.index = index
        self.profile = PROFILE
        self.kernels = KernelTable()
        self.allocator = RefAllocator(self.name, memory)
        self.default_stream = RefStream()
        self.target = Target(kind="interpreter")

    def copy(self, dst: Array, src: Array, stream: Stream) -> None:
        """Copy bytes between contiguous arrays of the host, this device or the other one."""
        _bytes(dst)[...] = _bytes(src)

    def synchronize(self) -> None:
        """Do nothing: no work is pending."""

    def compile_ir(self, program: Program) -> Executable:
        """Check ``program`` and return a function that interprets it."""
        verify(program)
        written = [buffer.writable for buffer in program.buffers]

        def run(buffers: Sequence[Array], scalars: Sequence[int | float], stream: Stream) -> None:
            if RECORDERS:
                note_launch(run, buffers, written, tuple(scalars))
            interpret(program, buffers, scalars)

        return run

    def compile_plan(self, plan: Plan, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Compile replays; other plans have no form of their own."""
        return compile_replay(self, plan, next_path) if type(plan) is ReplayPlan else None

    def create_stream(self, priority: int = 0) -> Stream:
        """Return a new stream."""
        return RefStream()

    def create_event(self, *, timing: bool = False) -> Event:
        """Return a new event."""
        return RefEvent(timing)


def _bytes(array: Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of a contiguous array, to read or to write."""
    if isinstance(array, DeviceArray):
        start = array.offset * array.dtype.itemsize
        found: np.ndarray[Any, np.dtype[np.uint8]] = array.storage.buffer[start : start + array.nbytes]
        return found
    flat: np.ndarray[Any, Any] = array.reshape(-1, copy=False)
    return flat.view(np.uint8)


class RefBackend(Backend):
    """A backend of two devices, each with its own memory.

    Args:
        memory: Bytes per device; None takes the environment variable or the default.
    """

    def __init__(self, memory: int | None = None) -> None:
        self.memory = int(os.environ.get(MEMORY_VARIABLE, MEMORY)) if memory is None else memory

    def probe(self) -> None:
        """Do nothing: the backend is always available."""

    def device_count(self) -> int:
        """Return 2."""
        return DEVICES

    def device_info(self, index: int) -> DeviceInfo:
        """Describe the interpreter and its memory."""
        return DeviceInfo("Reference interpreter", self.memory, f"NumPy {np.__version__}")

    def open(self, index: int) -> OpenDevice:
        """Open device 0 or 1."""
        return RefDevice(index, self.memory)


@hookimpl
def tensocket_describe() -> Descriptor:
    """Return the descriptor."""
    return Descriptor(NAME, ((1, 1), (2, 0)), PROFILE)


@hookimpl
def tensocket_backend() -> Backend:
    """Return the backend."""
    return RefBackend()
