"""The classes that a backend implements. A few members are required; everything else is derived from them.

Required: ``Backend.probe``, ``device_count``, ``device_info``, ``open``; of the opened device: ``allocator``,
``default_stream``, ``copy``, ``synchronize``; and one of two ways to compute: ``compile_ir`` (or, for a C-family
language, the kit's ``CFamilyDevice``), or the primitives of ``contract/primitives.py`` registered in ``kernels``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .arrays import Array, Block, DeviceArray, Storage, contiguous_strides
from .descriptor import DeviceInfo, Profile
from .dtypes import DType
from .exchange import Exchange
from .kernels import KernelTable

if TYPE_CHECKING:
    from ..ir.nodes import Program
    from ..ir.target import Target
    from .plans import Plan

#: A compiled program: ``run(buffers, scalars, stream)``, both in the order of the program's parameters.
Executable = Callable[[Sequence[Array], Sequence[int | float], "Stream"], None]


class Unavailable(Exception):
    """Raised by ``probe`` when something outside the backend is missing.

    Args:
        reason: The missing part: the library, symbol, driver or device.
        advice: The next step for the user.
    """

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.advice = advice


@dataclass(frozen=True)
class MemoryStats:
    """Bytes and counts of one device's allocator."""

    allocated: int = 0
    reserved: int = 0
    peak_allocated: int = 0
    peak_reserved: int = 0
    allocations: int = 0
    frees: int = 0

    def as_dict(self) -> Mapping[str, int]:
        """Return the numbers by name."""
        return dict(vars(self))


class Allocator(ABC):
    """The source of device memory. The kit's ``CachingAllocator`` makes a pooling one out of two functions."""

    @abstractmethod
    def allocate(self, nbytes: int, stream: Stream) -> Block:
        """Return a block of at least ``nbytes`` bytes, ready for use on ``stream``; zero bytes are allowed.

        Raises:
            OutOfMemoryError: With a summary of the allocator's state; a smaller allocation still works afterwards.
        """

    @abstractmethod
    def free(self, block: Block) -> None:
        """Take a block back. Work already queued on its streams may still use it. Never raises."""

    def stats(self) -> MemoryStats:
        """Return the current numbers."""
        return MemoryStats()

    def reset_peak(self) -> None:
        """Start counting peaks anew."""

    def empty_cache(self) -> None:
        """Return unused blocks to the driver."""

    def set_limit(self, nbytes: int | None) -> None:
        """Reserve at most ``nbytes`` bytes from now on; None for no limit but the device's.

        Raises:
            NotImplementedError: The allocator has no limit of its own.
        """
        raise NotImplementedError(f"{type(self).__name__} has no limit of its own")


class Event(ABC):
    """A mark in a stream's queue."""

    @abstractmethod
    def query(self) -> bool:
        """Whether all work before the mark is done. Never blocks. True for an event never recorded."""

    @abstractmethod
    def synchronize(self) -> None:
        """Block until all work before the mark is done."""

    @abstractmethod
    def elapsed_ms(self, end: Event) -> float:
        """Return the milliseconds from this mark to ``end``; both were created with ``timing=True`` and recorded."""


class Stream(ABC):
    """A queue of work that runs in order."""

    @abstractmethod
    def synchronize(self) -> None:
        """Block until all queued work is done; errors of asynchronous work surface here."""

    @abstractmethod
    def query(self) -> bool:
        """Whether all queued work is done. Never blocks."""

    @abstractmethod
    def wait(self, event: Event) -> None:
        """Make work queued from now on start after ``event``; the host does not wait."""

    @abstractmethod
    def record(self, event: Event) -> None:
        """Queue ``event`` after the work queued so far."""


class HostQueue(Stream):
    """A stream of a host-resident device that runs functions in order, on a thread of its own.

    On such a stream, the runtime queues whole operators: host kernels are functions on arrays and know nothing of
    streams.
    """

    @abstractmethod
    def submit(self, operator: str, function: Callable[[], object]) -> None:
        """Queue a function.

        If the function raises, the next ``synchronize`` raises the error, with ``operator`` as the operator's name;
        functions queued after it do not run before that.
        """


class OpenDevice(ABC):
    """One opened device: its memory, its queues, its kernels.

    Attributes:
        name: ``opencl:0``.
        index: Position among the backend's devices.
        profile: The backend's claims, narrowed to what this device does (no float64 on a device without it).
        kernels: Registered kernels.
        allocator: The source of its memory.
        default_stream: The stream that work runs on unless the user selects another.
        target: The limits that kernel schedules observe; None for a device without a code generator.
        exchange: The sharing of its memory through DLPack; None for a device that shares none.
    """

    name: str
    index: int
    profile: Profile
    kernels: KernelTable
    allocator: Allocator
    default_stream: Stream
    target: Target | None = None
    exchange: Exchange | None = None

    @abstractmethod
    def copy(self, dst: Array, src: Array, stream: Stream) -> None:
        """Copy between contiguous arrays of equal dtype and size: host to device, device to host or within the device.

        A host array is a ``numpy.ndarray`` of the same bytes. A copy to the host has finished when it returns; the
        caller may change a host source as soon as it returns.
        """

    @abstractmethod
    def synchronize(self) -> None:
        """Block until all streams of this device are idle; errors of asynchronous work surface here."""

    def compile_ir(self, program: Program) -> Executable:
        """Compile a scheduled program. Only called when ``target`` is set."""
        raise NotImplementedError(f"{self.name} has no code generator")

    def compile_plan(self, plan: Plan, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Compile a plan to a function that computes the same as ``next_path``, faster.

        Optional: a backend compiles the kinds of plans that gain from it. The kit derives the others
        (``kit.plans``): a list from ``compile_ir``, and a replay of launches on devices whose executables it wraps.

        Args:
            plan: The call as data; entries, products and joins are for host-resident devices only.
            next_path: Serves the calls that do not fit the plan; the compiled function hands them on, with the same
                arguments.

        Returns:
            The function; None if the device does not compile this kind of plan, or not this plan.

        Raises:
            KernelError: The backend failed to compile it.
        """
        return None

    def empty(self, shape: tuple[int, ...], dtype: DType, stream: Stream) -> Array:
        """Return an uninitialised contiguous array."""
        size = 1
        for n in shape:
            size *= n
        nbytes = size * dtype.itemsize
        storage = Storage(self.allocator.allocate(nbytes, stream), self.allocator, nbytes)
        return DeviceArray(storage, dtype, shape, contiguous_strides(shape), 0)

    def create_stream(self, priority: int = 0) -> Stream:
        """Return a new stream; the default one if the backend has no others. Lower priority numbers go first."""
        return self.default_stream

    def create_event(self, *, timing: bool = False) -> Event:
        """Return a new event on this device."""
        raise NotImplementedError(f"{self.name} has no events")

    def data_ptr(self, array: Array) -> int:
        """Return a number that identifies the first element's place in memory, for aliasing tests and
        ``Tensor.data_ptr``.
        """
        return id(array.storage) + int(array.offset) * int(array.dtype.itemsize)

    def close(self) -> None:
        """Release the device at interpreter exit."""


class Backend(ABC):
    """A kind of device. Creating it must not create a context."""

    @abstractmethod
    def probe(self) -> None:
        """Find out cheaply (under 200 ms, no context) whether at least one device can be opened.

        Raises:
            Unavailable: With the missing piece and the next step.
        """

    @abstractmethod
    def device_count(self) -> int:
        """Return the number of devices."""

    @abstractmethod
    def device_info(self, index: int) -> DeviceInfo:
        """Return model, memory in bytes and driver of a device."""

    @abstractmethod
    def open(self, index: int) -> OpenDevice:
        """Open a device; called once per index, ``0 <= index < device_count()``."""


