"""A device that computes nothing: it notes which programs are launched on which memory.

Shapes, dtypes and the choice of kernels are those of any device with a code generator, so that a run on it is the list
of launches that C code has to make. Memory has no contents, except what comes from the host.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from threading import get_ident
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState, open_device, selected_state, use_state
from tensocket_plugins.contract.arrays import Array, Block, DeviceArray
from tensocket_plugins.contract.backend import Allocator, Backend, Executable, OpenDevice, Stream
from tensocket_plugins.contract.backend import Event as DeviceEvent
from tensocket_plugins.contract.descriptor import Descriptor, DeviceInfo, Profile
from tensocket_plugins.contract.dtypes import BY_NAME, DType, float32, float64
from tensocket_plugins.contract.errors import CompileError
from tensocket_plugins.contract.hooks import hookimpl
from tensocket_plugins.contract.kernels import KernelTable
from tensocket_plugins.contract.launch_recorder import RECORDERS, note_launch
from tensocket_plugins.contract.registry import registry
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS
from tensocket_plugins.ir.digest import program_digest
from tensocket_plugins.ir.nodes import Program
from tensocket_plugins.ir.target import Target

from .convolutions import convolution, padding_scalars
from .pooling import pooling_scalars
from .products import Matrices
from .value_refusals import FixedNumbers, reads_elements

NAME: Final = "ahead"
_PROFILE: Final = Profile(dtypes=frozenset(BY_NAME), features=frozenset({"streams", "events", "fp64"}))


class Contents:
    """The memory of one block.

    Attributes:
        nbytes: Its size.
        data: The bytes that the host copied into it; None if there are none.
    """

    __slots__ = ("data", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Routine:
    """A function of the library that is no kernel.

    Attributes:
        name: ``product``, ``padding`` for a dense copy with zeros around it, or ``pooling`` for largest elements.
        dtype: The dtype of its arrays.
    """

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch.

    Attributes:
        program: The scheduled program, or a routine.
        arrays: Its arrays; those of a routine are the result and the operands.
        written: Whether it writes to each of them.
        scalars: Its numbers. Routines have those of the module that prints them.
        digest: The program's digest.
    """

    program: Program | Routine
    arrays: tuple[DeviceArray, ...]
    written: tuple[bool, ...]
    scalars: tuple[int | float, ...]
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """Integers that must be at least ``low`` and less than ``high``, or ``other``."""

    array: DeviceArray
    low: int
    high: int
    other: int


@dataclass(frozen=True, slots=True)
class Fill:
    """Bytes that the host copies into a block."""

    contents: Contents
    start: int
    data: bytes


Event = Launch | Check | Fill


class _Observer(FixedNumbers):
    """Observer of the values that code relies on: ranges are checks, and everything else is refused."""

    def __init__(self, events: list[Event]) -> None:
        self._events = events

    def note_read(self, source: Any) -> None:
        """Refuse to read elements.

        Raises:
            CompileError: Always.
        """
        raise reads_elements()

    def note_range(self, array: Any, low: int, high: int, other: int) -> None:
        """Note that kernels need integers in a range."""
        if not isinstance(array, DeviceArray) or not array.contiguous or array.dtype.kind not in ("int", "uint"):
            raise reads_elements()
        self._events.append(Check(array, low, high, other))


class _Allocator(Allocator):
    def allocate(self, nbytes: int, stream: Stream) -> Block:
        """Return a block, which takes no memory."""
        return Block(Contents(nbytes), nbytes, stream)

    def free(self, block: Block) -> None:
        """Do nothing."""


class _Event(DeviceEvent):
    def query(self) -> bool:
        """Return True: there is no work."""
        return True

    def synchronize(self) -> None:
        """Do nothing: there is no work."""

    def elapsed_ms(self, end: DeviceEvent) -> float:
        """Return 0: there is no work."""
        return 0.0


class _Stream(Stream):
    def synchronize(self) -> None:
        """Do nothing: there is no work."""

    def query(self) -> bool:
        """Return True: there is no work."""
        return True

    def wait(self, event: DeviceEvent) -> None:
        """Do nothing: there is no work."""

    def record(self, event: DeviceEvent) -> None:
        """Do nothing: there is no work."""


class AheadDevice(OpenDevice):
    """The opened device."""

    def __init__(self) -> None:
        self.name = f"{NAME}:0"
        self.index = 0
        self.profile = _PROFILE
        self.kernels = KernelTable()
        self.allocator = _Allocator()
        self.default_stream = _Stream()
        self.target = Target(kind="cpu", parallelism=1)
        self.events: list[Event] | None = None
        for dtype in (float32, float64):
            self.kernels.register("matmul", partial(self._product, dtype), dtypes=[dtype.name], recorded=True)
            self.kernels.register("convolve", partial(self._convolve, dtype), dtypes=[dtype.name], recorded=True)
            self.kernels.register("pool_max", partial(self._pool, dtype), dtypes=[dtype.name], recorded=True)

    def copy(self, dst: Array, src: Array, stream: Stream) -> None:
        """Keep the bytes that come from the host; a check of values that is declared as a range reads zeros.

        Raises:
            CompileError: Other code reads elements.
        """
        if not isinstance(dst, DeviceArray):
            if self.events is None or get_ident() in VALUE_OBSERVERS:
                raise reads_elements()
            dst[...] = np.zeros((), dst.dtype)
            return
        if isinstance(src, DeviceArray):
            raise reads_elements()
        contents: Contents = dst.storage.block.buffer
        start = dst.offset * dst.dtype.itemsize
        data = np.ascontiguousarray(src).reshape(-1).view(np.uint8).tobytes()
        before = contents.data or bytes(contents.nbytes)
        contents.data = before[:start] + data + before[start + len(data):]
        if self.events is not None:
            self.events.append(Fill(contents, start, data))

    def synchronize(self) -> None:
        """Do nothing: there is no work."""

    def compile_ir(self, program: Program) -> Executable:
        """Return a function that notes a launch."""
        written, digest = tuple(buffer.writable for buffer in program.buffers), program_digest(program)

        def run(buffers: Sequence[Array], scalars: Sequence[int | float], stream: Stream) -> None:
            if RECORDERS:
                note_launch(run, buffers, written, tuple(scalars))
            if not all(isinstance(x, DeviceArray) for x in buffers):
                raise CompileError("compile_c", f"a launch of {program.name} on memory of the host", "kernels of a C "
                                   "library read and write its own memory", "move the operands to one device")
            if self.events is not None:
                self.events.append(Launch(program, tuple(buffers), written, tuple(scalars), digest))

        return run

    def _product(self, dtype: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Any, stream: Stream) -> None:
        """Note a product of matrices."""
        self._launch(Routine("product", dtype), (*outs, *ins), Matrices.of_arrays(*outs, *ins).numbers)

    def _convolve(self, dtype: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Any, stream: Stream) -> None:
        """Note a convolution: a product of the windows of a padded image."""
        (out,), (x, weight), (stride, padding, dilation, groups) = outs, ins, scalars
        if any(padding):
            x = self._padded(dtype, x, padding, stream)
        if not weight.contiguous:
            weight = self._padded(dtype, weight, (0,) * len(padding), stream)
        numbers = convolution(out, x, weight, stride, dilation, groups).numbers
        self._launch(Routine("product", dtype), (out, x, weight), numbers)

    def _pool(self, dtype: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Any, stream: Stream) -> None:
        """Note the largest elements of windows, and their positions."""
        numbers = pooling_scalars(outs[0], ins[0], *scalars)
        self._launch(Routine("pooling", dtype), (*outs, *ins), numbers, results=2)

    def _padded(self, dtype: DType, x: Any, padding: Sequence[int], stream: Stream) -> Any:
        """Note a dense copy with zeros around it, and return it."""
        sizes = [n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)]
        out = self.empty((*x.shape[:2], *sizes), dtype, stream)
        self._launch(Routine("padding", dtype), (out, x), padding_scalars(x, padding))
        return out

    def _launch(self, routine: Routine, arrays: tuple[Any, ...], numbers: tuple[Any, ...], results: int = 1
                ) -> None:
        if self.events is not None:
            written = tuple([k < results for k in range(len(arrays))])
            self.events.append(Launch(routine, arrays, written, numbers))

    def create_stream(self, priority: int = 0) -> Stream:
        """Return a new stream."""
        return _Stream()

    def create_event(self, *, timing: bool = False) -> DeviceEvent:
        """Return a new event."""
        return _Event()


class _AheadBackend(Backend):
    def probe(self) -> None:
        """Do nothing: the backend is always available."""

    def device_count(self) -> int:
        """Return 1."""
        return 1

    def device_info(self, index: int) -> DeviceInfo:
        """Describe the device."""
        return DeviceInfo("Recorder of launches", 0, "none")

    def open(self, index: int) -> OpenDevice:
        """Open the device."""
        return AheadDevice()


class _Hooks:
    @hookimpl
    def tensocket_describe(self) -> Descriptor:
        """Return the descriptor."""
        return Descriptor(NAME, ((1, 1), (2, 0)), _PROFILE)

    @hookimpl
    def tensocket_backend(self) -> Backend:
        """Return the backend."""
        return _AheadBackend()


#: Held while a program is traced: the device has one list of notes.
TRACING: Final = threading.RLock()


@cache
def ahead_device() -> DeviceState:
    """Return the device, which the process gets at its first use, and no list of devices names."""
    registry().add(_Hooks(), name=NAME, listed=False)
    return open_device(NAME)


def note_run(function: Callable[[], Any]) -> tuple[Any, list[Event]]:
    """Call a function; return its result and what it did on the device.

    Raises:
        CompileError: It reads elements of tensors.
    """
    runtime: Any = ahead_device().runtime
    me = get_ident()
    with TRACING:
        events: list[Event] = []
        before, selected = VALUE_OBSERVERS.get(me), selected_state()
        use_state(ahead_device())  # factories make tensors there
        runtime.events, VALUE_OBSERVERS[me] = events, _Observer(events)
        try:
            return function(), events
        finally:
            runtime.events = None
            use_state(selected)
            if before is None:
                VALUE_OBSERVERS.pop(me, None)
            else:
                VALUE_OBSERVERS[me] = before
