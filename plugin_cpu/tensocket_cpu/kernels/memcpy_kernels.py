"""Copies of runs of adjacent elements, and gathers of rows at indices, divided over the workers.

The C library copies long runs the fastest way that the processor has, without reading the lines that it writes. Many
short runs that are together larger than the caches are written past the caches.
"""

from __future__ import annotations

import math
import struct
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.ir.printers.llvm_vectors import LINE
from tensocket_plugins.kit.disk_cache import BuildStats

from ..code.caches import begins_line, cache_bytes
from ..code.executable import make_entry
from ..code.pointers import address_of
from ..threads.pool import Entry, ThreadPool
from ..threads.streams import CpuQueue
from . import memcpy_code

if TYPE_CHECKING:
    from ..code.compiler import Compiler

Array = NDArray[Any]
#: An axis: its size, and its strides in bytes in the target and in the source.
_Axis = tuple[int, int, int]

_PACK: Final = struct.Struct("=2Q8q").pack
#: Bytes that are worth a thread of their own.
_GRAIN: Final = 1 << 18
#: Bytes of a run from which copying run by run is faster than NumPy's loops over elements, and of the pieces into which
#: a single run is divided.
_SHORTEST: Final = 16
_PIECE: Final = 1 << 16
#: The same limit for a row at an index, whose address needs one stride only.
_SHORTEST_ROW: Final = 64

_PACK_ROWS: Final = struct.Struct("=3Q5q").pack
_PACK_JOIN: Final = struct.Struct("=2Q2q").pack


def runs(target: Array, source: Array) -> tuple[int, list[_Axis]]:
    """Return the bytes of the longest runs that arrays of one shape share, and the axes over runs, outermost first."""
    run, axes = target.itemsize, list[_Axis]()
    for size, to, start in zip(reversed(target.shape), reversed(target.strides), reversed(source.strides), strict=True):
        if size == 1:
            continue
        if not axes and to == start == run:
            run *= size
        elif axes and (to, start) == (axes[0][0] * axes[0][1], axes[0][0] * axes[0][2]):
            axes[0] = (axes[0][0] * size, *axes[0][1:])
        else:
            axes.insert(0, (size, to, start))
    return run, axes


def _joined(parts: Sequence[Array], sizes: Sequence[int], rows: int) -> NDArray[np.uint64]:
    """Return the table of ``join_runs`` for contiguous parts; a single row is divided into pieces."""
    table, place = list[int](), 0
    for part, size in zip(parts, sizes, strict=True):
        start = address_of(part)
        if rows > 1 or size <= _GRAIN:
            table += (start, size, place, size)
        else:
            for begin in range(0, size, _PIECE):
                table += (start + begin, size, place + begin, min(_PIECE, size - begin))
        place += size
    return np.array(table, np.uint64)


def _gathering(target: Array, source: Array, run: int) -> str:
    """Return the name of the function that gathers runs of ``run`` bytes: past the caches if runs are many whole lines.

    Caches help up to a larger size here than for data that is read once, because a gather may read a run several times.
    """
    many = target.nbytes + min(target.nbytes, source.nbytes) >= cache_bytes()
    lines = many and begins_line(target) and run % LINE == 0 and target.strides[0] % LINE == 0
    return "gather_lines" if lines else "gather_runs"


class RunCopies:
    """The kernels ``copy``, ``cat`` and ``gather``, for arrays that don't overlap.

    Args:
        compiler: Returns the compiler.
        pool: The threads.
        stats: Records that LLVM cannot be loaded, so that NumPy copies.
    """

    def __init__(self, compiler: Callable[[], Compiler], pool: ThreadPool, stats: BuildStats) -> None:
        self._compiler, self._pool, self._stats = compiler, pool, stats
        self._entries: dict[str, Entry | None] = {}

    def copy(self, outs: Sequence[Array], ins: Sequence[Array], scalars: Sequence[Any], stream: Stream) -> None:
        """Copy an array; NumPy copies arrays that are not runs over at most two axes."""
        if type(stream) is CpuQueue:
            stream.submit("copy", partial(self._copy, outs[0], ins[0]))
        else:
            self._copy(outs[0], ins[0])

    def join(self, outs: Sequence[Array], ins: Sequence[Array], scalars: Sequence[Any], stream: Stream) -> None:
        """Concatenate arrays of one dtype along an axis, into a new contiguous array."""
        if type(stream) is CpuQueue:
            stream.submit("cat", partial(self._join, outs[0], tuple(ins), scalars[0]))
        else:
            self._join(outs[0], ins, scalars[0])

    def _join(self, target: Array, parts: Sequence[Array], axis: int) -> None:
        rows = math.prod(target.shape[:axis])
        sizes = [part.nbytes // rows for part in parts] if target.size else []
        long = rows == 1 or min(sizes, default=0) >= _SHORTEST
        whole = long and all(x.flags.c_contiguous for x in (target, *parts))
        entry = self._entry("join_runs") if whole and target.size else None
        if entry is not None:
            table = _joined(parts, sizes, rows)
            runs_of_row = len(table) // 4
            self._run(entry, _PACK_JOIN(address_of(target), address_of(table), runs_of_row, target.nbytes // rows),
                      rows * runs_of_row, target.nbytes)
            return
        begin = 0
        for part in parts:
            end = begin + part.shape[axis]
            self._copy(target[(slice(None),) * axis + (slice(begin, end),)], part)
            begin = end

    def gather(self, outs: Sequence[Array], ins: Sequence[Array], scalars: Sequence[Any], stream: Stream) -> None:
        """Gather elements at valid indices along an axis; NumPy serves gathers that are not runs at one index each."""
        if type(stream) is CpuQueue:
            stream.submit("gather", partial(self._gather, outs[0], ins[0], ins[1], scalars[0]))
        else:
            self._gather(outs[0], ins[0], ins[1], scalars[0])

    def _gather(self, target: Array, source: Array, index: Array, axis: int) -> None:
        row = target.nbytes // target.shape[0] if target.size else 0
        rows = axis == 0 and target.size > 0 and not any(index.strides[1:]) and target.shape[1:] == source.shape[1:]
        whole = rows and row >= _SHORTEST_ROW and runs(target[0], source[0]) == (row, [])
        entry = self._entry(_gathering(target, source, row)) if whole else None
        if entry is None:
            target[...] = (np.take(source, index.reshape(len(index), -1)[:, 0], 0) if rows
                           else np.take_along_axis(source, index, axis))
            return
        args = _PACK_ROWS(address_of(target), address_of(source), address_of(index), row, target.strides[0],
                          source.strides[0], index.strides[0], source.shape[0])
        self._run(entry, args, target.shape[0], target.nbytes)

    def _copy(self, target: Array, source: Array) -> None:
        run, axes = runs(target, source)
        entry = self._entry("copy_runs") if len(axes) <= 2 and run >= _SHORTEST else None
        if entry is None:
            target[...] = source
            return
        last = run
        if not axes:
            count = -(-run // _PIECE)
            last = run - (count - 1) * _PIECE
            run, axes = (_PIECE if count > 1 else run), [(count, _PIECE, _PIECE)]
        (rows, *outer), (inner, *steps) = axes if len(axes) == 2 else [(1, 0, 0), axes[0]]
        count = rows * inner
        args = _PACK(address_of(target), address_of(source), run, last, count - 1, inner, outer[0], steps[0], outer[1],
                     steps[1])
        self._run(entry, args, count, target.nbytes)

    def _run(self, entry: Entry, args: bytes, count: int, nbytes: int) -> None:
        pieces = nbytes // _GRAIN
        if pieces > 1:
            self._pool.run(entry, args, count, pieces)
        else:
            entry(args, 0, count)

    def _entry(self, name: str) -> Entry | None:
        """Return a function of ``memcpy_code``; None without LLVM, with a warning the first time."""
        try:
            return self._entries[name]
        except KeyError:
            pass
        try:
            (address,), library = self._compiler().compile_text(name, memcpy_code.text(name), [name])
        except KernelError as error:
            if not self._stats.failures:
                warnings.warn(f"{error}; NumPy copies instead; build_stats('cpu').failures has all reasons",
                              RuntimeWarning, stacklevel=2)
            self._stats.failures[name] = str(error)
            self._entries[name] = None
        else:
            self._entries[name] = make_entry(address, library)
        return self._entries[name]
