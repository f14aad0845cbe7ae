"""A device that computes nothing: it notes which programs are launched on which memory.

Shapes, dtypes and the choice of kernels are those of any device with a code generator, so that a run on it is the list
of launches that C code has to make. Memory has no contents, except what comes from the host.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState, open_device
from tensocket_plugins.contract.arrays import Array, Block, DeviceArray
from tensocket_plugins.contract.backend import Allocator, Backend, Event, Executable, OpenDevice, Stream
from tensocket_plugins.contract.descriptor import Descriptor, DeviceInfo, Profile
from tensocket_plugins.contract.dtypes import BY_NAME
from tensocket_plugins.contract.errors import CompileError
from tensocket_plugins.contract.hooks import hookimpl
from tensocket_plugins.contract.kernels import KernelTable
from tensocket_plugins.contract.launch_recorder import RECORDERS, note_launch
from tensocket_plugins.contract.registry import registry
from tensocket_plugins.ir.nodes import Program
from tensocket_plugins.ir.target import Target

NAME: Final = "ahead"
_PROFILE: Final = Profile(dtypes=frozenset(BY_NAME), features=frozenset({"streams", "events", "fp64"}))


class Contents:
    """The memory of one block.

    Attributes:
        nbytes: Its size.
        data: What the host copied into it, over the whole of it; None if kernels write it.
    """

    __slots__ = ("data", "nbytes")

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes
        self.data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch.

    Attributes:
        program: The scheduled program.
        arrays: Its arrays.
        scalars: Its numbers.
    """

    program: Program
    arrays: tuple[DeviceArray, ...]
    scalars: tuple[int | float, ...]


@dataclass(slots=True)
class Notes:
    """What a run did.

    Attributes:
        launches: The launches, in order.
        filled: Blocks that the host filled during the run.
    """

    launches: list[Launch] = field(default_factory=list)
    filled: dict[int, Contents] = field(default_factory=dict)


class _Allocator(Allocator):
    def allocate(self, nbytes: int, stream: Stream) -> Block:
        """Return a block, which takes no memory."""
        return Block(Contents(nbytes), nbytes, stream)

    def free(self, block: Block) -> None:
        """Do nothing."""


class _Event(Event):
    def query(self) -> bool:
        """Return True: there is no work."""
        return True

    def synchronize(self) -> None:
        """Do nothing: there is no work."""

    def elapsed_ms(self, end: Event) -> float:
        """Return 0: there is no work."""
        return 0.0


class _Stream(Stream):
    def synchronize(self) -> None:
        """Do nothing: there is no work."""

    def query(self) -> bool:
        """Return True: there is no work."""
        return True

    def wait(self, event: Event) -> None:
        """Do nothing: there is no work."""

    def record(self, event: Event) -> None:
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
        self.notes: Notes | None = None

    def copy(self, dst: Array, src: Array, stream: Stream) -> None:
        """Keep the bytes that come from the host.

        Raises:
            CompileError: Elements are read.
        """
        if not isinstance(dst, DeviceArray) or isinstance(src, DeviceArray):
            raise CompileError("compile_c", "code that reads elements of a tensor", "a C library has no Python: only "
                               "kernels read elements", "leave out item(), bool(), tolist() and operators that run on "
                               "the host")
        contents: Contents = dst.storage.block.buffer
        start = dst.offset * dst.dtype.itemsize
        content = np.ascontiguousarray(src).reshape(-1).view(np.uint8).tobytes()
        before = contents.data or bytes(contents.nbytes)
        contents.data = before[:start] + content + before[start + len(content):]
        if self.notes is not None:
            self.notes.filled[id(contents)] = contents

    def synchronize(self) -> None:
        """Do nothing: there is no work."""

    def compile_ir(self, program: Program) -> Executable:
        """Return a function that notes a launch."""
        written = [buffer.writable for buffer in program.buffers]

        def run(buffers: Sequence[Array], scalars: Sequence[int | float], stream: Stream) -> None:
            if RECORDERS:
                note_launch(run, buffers, written, tuple(scalars))
            if self.notes is not None:
                self.notes.launches.append(Launch(program, tuple(buffers), tuple(scalars)))

        return run

    def create_stream(self, priority: int = 0) -> Stream:
        """Return a new stream."""
        return _Stream()

    def create_event(self, *, timing: bool = False) -> Event:
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
    """Return the device, which the process gets at its first use."""
    registry().add(_Hooks(), name=NAME)
    return open_device(NAME)


def note_run(function: Any) -> tuple[Any, Notes]:
    """Call a function; return its result and what it did on the device."""
    runtime: Any = ahead_device().runtime
    with TRACING:
        notes = runtime.notes = Notes()
        try:
            return function(), notes
        finally:
            runtime.notes = None
