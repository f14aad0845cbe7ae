"""Compiled programs as calls: arguments are packed into slots, kernels are called through ctypes.

The cost of a call decides from which size on generated kernels beat NumPy, so tenths of a microsecond matter here.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from tensocket_plugins.contract.backend import Executable, Stream
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.launch_recorder import RECORDERS, note_launch
from tensocket_plugins.ir.launch import host_function
from tensocket_plugins.ir.nodes import Assign, Atomic, Call, Declare, Expr, Kernel, Let, Load, Program, Stmt, Store, Var
from tensocket_plugins.ir.printers.llvm_calls import split_loop, walk
from tensocket_plugins.ir.printers.llvm_vectors import LINE
from tensocket_plugins.ir.schedule.cpu import ROW_LANES
from tensocket_plugins.ir.schedule.nontemporal_stores import streamed
from tensocket_plugins.kit.bounded import BoundedCache

from ..threads.pool import Entry, ThreadPool
from ..threads.streams import CpuQueue
from .caches import begins_line, streaming_bytes
from .pointers import POINTER_FIELD, address_of

#: The compiled entry's type; the call releases the interpreter lock.
_ENTRY: Final = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64)
#: The number of simple operations that are worth a second thread, about 15 microseconds of work.
_GRAIN: Final = 1 << 16
#: The number of sets of scalars for which a program caches the plan that follows from them.
_PLANNED: Final = 64

_Slot = Callable[[Any], int]
#: The function that returns the number that stands for an array in a slot.
array_slot: Final[_Slot] = address_of if POINTER_FIELD is None else id


class LaunchWords(NamedTuple):
    """The part of a noted launch that this backend needs to repeat it.

    Attributes:
        words: The words that the entry takes: a slot for each array, then scalars; a library's are its own.
        iterations: The number of iterations.
        pieces: The most pieces that threads may divide them into.
        data: Positions of the words that are addresses of each array's elements; empty if slots come first.
    """

    words: bytes
    iterations: int
    pieces: int = 1
    data: tuple[int, ...] = ()


def _code(dtype: DType) -> str:
    """Return the ``struct`` code of a scalar's slot."""
    if dtype.kind == "float":
        return "d"
    return "Q" if dtype.name == "uint64" else "q"


def slot_codes(program: Program) -> str:
    """Return the ``struct`` codes of a program's slots."""
    return "Q" * (len(program.buffers) + len(program.temporaries)) + "".join(_code(s.dtype) for s in program.scalars)


def written_slots(program: Program) -> tuple[bool, ...]:
    """Return whether a program writes each of its arrays: first the buffers, then the temporaries."""
    return (*[buffer.writable for buffer in program.buffers], *[True] * len(program.temporaries))


def grain(kernel: Kernel) -> int:
    """Return the number of elements from which a kernel is worth dividing over threads."""
    return _GRAIN // max(2, _operations(kernel.body))


def make_entry(address: int, library: Any) -> Entry:
    """Return a compiled kernel as a function; ``library`` keeps its code alive."""
    entry: Any = _ENTRY(address)
    entry.address, entry.library = address, library
    return entry  # type: ignore[no-any-return]


def _operations(body: Sequence[Stmt]) -> int:
    """Estimate the operations of one pass through all loops in ``body``, not counting address arithmetic."""
    seen: set[int] = set()

    def visit(e: Expr) -> int:
        if id(e) in seen:
            return 0
        seen.add(id(e))
        if isinstance(e, Call):
            return 1 + sum(map(visit, e.args))
        return 1 if isinstance(e, Load) else 0

    return sum(visit(s.value) for s in walk(body) if isinstance(s, Let | Declare | Assign | Store | Atomic))


class _Launch:
    """One kernel: its entry, and how many of its iterations threads may divide."""

    __slots__ = ("entry", "extent", "grain", "position")

    def __init__(self, program: Program, number: int, address: int, library: Any) -> None:
        kernel = program.kernels[number]
        self.entry = make_entry(address, library)
        loop = split_loop(program, kernel)
        # The extent is nearly always one scalar parameter, found by position.
        self.position: int | None = None
        self.extent: Callable[[Any], tuple[int, ...]] | None = None
        if loop is not None:
            names = [s.name for s in program.scalars]
            if isinstance(loop.stop, Var):
                self.position = names.index(loop.stop.name)
            else:
                self.extent = host_function((loop.stop,))
        # The iterations are divided if the largest array has more elements than this.
        self.grain = grain(kernel)


def make_executable(program: Program, addresses: Sequence[int], library: Any, pool: ThreadPool,
                    empty: Callable[[tuple[int, ...], np.dtype[Any]], Any] = np.empty,
                    recompile: Callable[[Program], Executable] | None = None) -> Executable:
    """Return a function ``run(buffers, scalars, stream)``.

    Args:
        program: The scheduled program.
        addresses: The entry of each kernel.
        library: An object that keeps the addresses valid.
        pool: The threads that large launches are divided over.
        empty: Allocates temporaries.
        recompile: Compiles another form of the program, for arrays that are larger than the caches.
    """
    pack = struct.Struct(f"={slot_codes(program)}").pack
    launches = [_Launch(program, number, address, library) for number, address in enumerate(addresses)]
    only = launches[0]
    if len(launches) == 1 and not program.temporaries and only.position is not None and program.buffers:
        streaming = None
        if recompile is not None and not any(buffer.streamed for buffer in program.buffers):
            streaming = Streaming(program, recompile)
        return _simple(program.name, pack, written_slots(program), only.entry, only.position, only.grain, pool,
                       streaming)
    return _Run(program, pack, launches, pool, empty)


class Streaming:
    """The form of a program that writes its results past the caches, compiled for the first large arrays.

    Attributes:
        least: The number of elements of a result from which all arrays together can fill the caches.
    """

    __slots__ = ("_program", "_recompile", "_row", "_run", "_written", "least")

    def __init__(self, program: Program, recompile: Callable[[Program], Executable]) -> None:
        self._program, self._recompile = program, recompile
        self._run: Executable | None = None
        self._row: int | None = None
        self._written = [k for k, buffer in enumerate(program.buffers) if buffer.writable]
        self.least: float = streaming_bytes() / sum(buffer.dtype.itemsize for buffer in program.buffers)

    def run(self, buffers: Sequence[Any], scalars: Sequence[int | float]) -> bool:
        """Run if this form fits, and return whether it did.

        The arrays must be large enough together; results must be contiguous, begin at a cache line, consist of rows of
        whole lines and overwrite no operand.
        """
        if sum([array.nbytes for array in buffers]) <= streaming_bytes():  # operands may be smaller than results
            return False
        for k in self._written:
            out = buffers[k]
            if not out.flags.c_contiguous or not begins_line(out) or any(
                    out is array for j, array in enumerate(buffers) if j != k):
                return False
        if self._run is None and not self._compile():
            return False
        if self._row is not None:
            length = int(scalars[self._row])
            if length < ROW_LANES or any(length * buffers[k].itemsize % LINE for k in self._written):
                return False
        self._run(buffers, scalars, None)  # type: ignore[misc, arg-type]  # compiled by now; the default stream
        return True

    def _compile(self) -> bool:
        found = streamed(self._program)
        if found is None:
            self.least = math.inf
            return False
        program, row = found
        self._row = None if row is None else [s.name for s in program.scalars].index(row.name)
        self._run = self._recompile(program)
        return True


def _simple(name: str, pack: Callable[..., bytes], written: Sequence[bool], entry: Entry, position: int, grain: int,
            pool: ThreadPool, streaming: Streaming | None) -> Executable:
    """Return the function of the usual case: one kernel, no temporaries, a scalar as the divisible loop's extent."""
    slot = array_slot

    def run(buffers: Sequence[Any], scalars: Sequence[int | float], stream: Stream | None) -> None:
        if type(stream) is CpuQueue:
            stream.submit(name, partial(run, tuple(buffers), tuple(scalars), None))
            return
        count: Any = scalars[position]
        if streaming is not None and buffers[0].size >= streaming.least and not RECORDERS and (
                streaming.run(buffers, scalars)):  # a replay's results need not begin at a line
            return
        args = pack(*map(slot, buffers), *scalars)
        # Results come first and operands last; the larger of the two measures the work.
        size = max(buffers[0].size, buffers[-1].size)
        if RECORDERS:
            pieces = 2 * size // grain if size > grain else 1
            note_launch(entry, buffers, written, LaunchWords(args, count, pieces), size > grain)
        if size > grain:
            pool.run(entry, args, count, 2 * size // grain)
        else:
            entry(args, 0, count)

    return run


class _Run:
    """The executable of any program."""

    def __init__(self, program: Program, pack: Callable[..., bytes], launches: Sequence[_Launch],
                 pool: ThreadPool, empty: Callable[[tuple[int, ...], np.dtype[Any]], Any]) -> None:
        self._empty = empty
        self._name = program.name
        self._names = [s.name for s in program.scalars]
        self._sizes = host_function(tuple(t.size for t in program.temporaries))
        self._written = written_slots(program)
        self._dtypes = [t.dtype.numpy for t in program.temporaries]
        self._pack = pack
        self._launches = launches
        self._pool = pool
        self._plans: BoundedCache[tuple[int | float, ...], tuple[tuple[tuple[int], ...], tuple[int | None, ...]]] = (
            BoundedCache(_PLANNED))

    def __call__(self, buffers: Sequence[Any], scalars: Sequence[int | float], stream: Stream | None) -> None:
        if type(stream) is CpuQueue:
            stream.submit(self._name, partial(self, tuple(buffers), tuple(scalars), None))
            return
        key = tuple(scalars)
        plan = self._plans.get(key) or self._plan(key)
        sizes, counts = plan
        arrays = [*buffers, *map(self._empty, sizes, self._dtypes)]
        args = self._pack(*map(array_slot, arrays), *scalars)
        largest = max([array.size for array in arrays], default=0)
        for launch, count in zip(self._launches, counts, strict=True):
            if RECORDERS:
                divided = count is not None and largest > launch.grain
                words = LaunchWords(args, 1 if count is None else count,
                                    2 * largest // launch.grain if divided else 1)
                note_launch(launch.entry, arrays, self._written, words, largest > launch.grain)
            if count is not None and largest > launch.grain:
                self._pool.run(launch.entry, args, count, 2 * largest // launch.grain)
            else:
                launch.entry(args, 0, 1 if count is None else count)

    def _plan(self, scalars: tuple[int | float, ...]) -> tuple[tuple[tuple[int], ...], tuple[int | None, ...]]:
        """Return the shapes of temporaries and each kernel's number of divisible iterations; cached by the scalars."""
        named: Any = dict(zip(self._names, scalars, strict=True))
        counts: list[Any] = [scalars[launch.position] if launch.position is not None
                             else None if launch.extent is None else launch.extent(named)[0]
                             for launch in self._launches]
        plan = self._plans[scalars] = tuple((size,) for size in self._sizes(named)), tuple(counts)
        return plan
