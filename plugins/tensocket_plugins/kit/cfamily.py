"""Code generation for devices that compile a C-like language: a backend adds ``compile_source`` and ``launch``."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..contract.arrays import Array, Block
from ..contract.backend import Executable, OpenDevice, Stream
from ..contract.dtypes import DType, float32
from ..contract.launch_recorder import RECORDERS, note_launch
from ..contract.plans import Plan, ReplayPlan
from ..ir.launch import Geometry, geometry, host_function
from ..ir.nodes import Buffer, Kernel, Program, Scalar
from ..ir.printers.c import entry_name, kernel_params, print_c
from ..ir.printers.dialect import Dialect
from .plans import compile_replay

_offset: Final = np.int64
_LARGEST: Final = float(np.finfo(np.float32).max)


class CFamilyDevice(OpenDevice):
    """A device whose kernels are printed in a dialect of C.

    Attributes:
        dialect: The language: ``OPENCL`` or ``CUDA`` of ``ir/printers/dialect.py``, or the backend's own.
    """

    dialect: Dialect

    @abstractmethod
    def compile_source(self, source: str, names: Sequence[str]) -> Mapping[str, Any]:
        """Compile a source and return its kernels by name. The backend may cache by ``source``, also on disk.

        Raises:
            KernelError: The source does not compile; the message has the compiler's log.
        """

    @abstractmethod
    def launch(self, kernel: Any, grid: tuple[int, ...], group: tuple[int, ...], args: Sequence[Any],
               stream: Stream) -> None:
        """Queue a kernel.

        Args:
            kernel: The kernel that ``compile_source`` returned.
            grid: Number of groups, at least one, along one to three axes, the fastest first.
            group: Lanes per group, along the same axes.
            args: Opaque buffers, and NumPy scalars of the parameters' types (``uint8`` for bool).
            stream: The stream for the launch.
        """

    def compile_ir(self, program: Program) -> Executable:
        """Print, compile and wrap a scheduled program.

        Raises:
            IRError: The dialect cannot express the program.
            KernelError: The source does not compile; a bug of the printer.
        """
        kernels = self.compile_source(print_c(program, self.dialect), [entry_name(k) for k in program.kernels])
        launches = [_plan(program, k, kernels[entry_name(k)], self.dialect) for k in program.kernels]
        return _with_temporaries(self, program, launches) if program.temporaries else _plain(self, program, launches)

    def compile_plan(self, plan: Plan, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        """Compile replays; other plans have no form of their own."""
        return compile_replay(self, plan, next_path) if type(plan) is ReplayPlan else None


@dataclass(frozen=True, slots=True)
class _Launch:
    """One kernel of a program, with all data that is the same for every run."""

    kernel: Any
    geometry: Callable[[Mapping[str, int]], Geometry]
    positions: tuple[int, ...]  # of its arguments in the list of values of a run


def _plan(program: Program, kernel: Kernel, compiled: Any, dialect: Dialect) -> _Launch:
    """Return a kernel's launch, with argument positions in ``[buffer, offset, ..., scalar, ..., temporary, ...]``."""
    first: dict[str, int] = {}
    for i, buffer in enumerate(program.buffers):
        first[buffer.name] = 2 * i
    rest = [s.name for s in program.scalars] + [t.name for t in program.temporaries]
    first.update({name: i for i, name in enumerate(rest, 2 * len(program.buffers))})
    positions: list[int] = []
    for p in kernel_params(program, kernel, dialect):
        positions += [first[p.name], first[p.name] + 1] if isinstance(p, Buffer) else [first[p.name]]
    return _Launch(compiled, geometry(kernel), tuple(positions))


def _float32(value: float) -> np.float32:
    if -_LARGEST <= value <= _LARGEST:
        return np.float32(value)
    with np.errstate(over="ignore"):  # a number beyond the range becomes infinite, as in a cast
        return np.float32(value)


def scalar_type(dtype: DType) -> Callable[[Any], Any]:
    """Return the type of the NumPy scalar that is passed for a number parameter of ``dtype``."""
    if dtype.kind == "bool":
        return np.uint8
    return _float32 if dtype is float32 else dtype.numpy.type


def _marshal(scalars: tuple[Scalar, ...]) -> Callable[[Sequence[Array], Sequence[int | float]], list[Any]]:
    """Return a function that builds the list of values from which arguments are picked."""
    types = tuple(scalar_type(s.dtype) for s in scalars)

    def values(buffers: Sequence[Array], numbers: Sequence[int | float]) -> list[Any]:
        result: list[Any] = []
        for array in buffers:
            result += (array.storage.block.buffer, _offset(array.offset))
        result += [convert(number) for convert, number in zip(types, numbers, strict=True)]
        return result

    return values


def _plain(device: CFamilyDevice, program: Program, launches: list[_Launch]) -> Executable:
    """Return a run of kernels without temporaries."""
    names, written = tuple(s.name for s in program.scalars), [buffer.writable for buffer in program.buffers]
    marshal, queue = _marshal(program.scalars), device.launch
    steps = [(step.kernel, step.geometry, step.positions) for step in launches]

    def run(buffers: Sequence[Array], scalars: Sequence[int | float], stream: Stream) -> None:
        if RECORDERS:
            note_launch(run, buffers, written, tuple(scalars))
        values = marshal(buffers, scalars)
        named: Any = dict(zip(names, scalars, strict=True))
        for kernel, shape, positions in steps:
            grid, group = shape(named)
            if 0 not in grid:
                queue(kernel, grid, group, [values[i] for i in positions], stream)

    return run


def _with_temporaries(device: CFamilyDevice, program: Program, launches: list[_Launch]) -> Executable:
    """Return a run of kernels with temporaries, allocated for the run and freed once everything is queued."""
    names, written = tuple(s.name for s in program.scalars), [buffer.writable for buffer in program.buffers]
    marshal = _marshal(program.scalars)
    sizes = host_function(tuple(t.size for t in program.temporaries))
    widths = tuple(t.dtype.itemsize for t in program.temporaries)

    def run(buffers: Sequence[Array], scalars: Sequence[int | float], stream: Stream) -> None:
        if RECORDERS:
            note_launch(run, buffers, written, tuple(scalars))
        values = marshal(buffers, scalars)
        named: Any = dict(zip(names, scalars, strict=True))
        blocks: list[Block] = []
        try:
            for size, width in zip(sizes(named), widths, strict=True):
                blocks.append(device.allocator.allocate(size * width, stream))
                values.append(blocks[-1].buffer)
            for step in launches:
                grid, group = step.geometry(named)
                if 0 not in grid:
                    device.launch(step.kernel, grid, group, [values[i] for i in step.positions], stream)
        finally:
            for block in blocks:
                device.allocator.free(block)

    return run
