"""Copies of runs of neighbouring elements, also of rows at indices: ``memcpy`` of each run, over the workers.

The C library knows the processor's fastest way to copy, which does not read the lines that it writes.
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
from tensocket_plugins.kit.disk_cache import BuildStats

from .executable import make_entry
from .pointers import address_of
from .streams import CpuQueue
from .threads import Entry, ThreadPool

if TYPE_CHECKING:
    from .compiler import Compiler

Array = NDArray[Any]
#: Size, and steps in bytes of the target and of the source.
_Axis = tuple[int, int, int]

_PACK: Final = struct.Struct("=2Q8q").pack
#: Bytes that are worth a thread of their own.
_GRAIN: Final = 1 << 18
#: Bytes of a run from which a call for each is cheap, and of the pieces that one run alone is divided into.
_SHORTEST: Final = 512
_PIECE: Final = 1 << 16

_TEXT: Final = """declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @copy_runs(ptr %args, i64 %begin, i64 %end) nounwind {
start:
  %at1 = getelementptr i64, ptr %args, i64 1
  %at2 = getelementptr i64, ptr %args, i64 2
  %at3 = getelementptr i64, ptr %args, i64 3
  %at4 = getelementptr i64, ptr %args, i64 4
  %at5 = getelementptr i64, ptr %args, i64 5
  %at6 = getelementptr i64, ptr %args, i64 6
  %at7 = getelementptr i64, ptr %args, i64 7
  %at8 = getelementptr i64, ptr %args, i64 8
  %at9 = getelementptr i64, ptr %args, i64 9
  %target = load ptr, ptr %args
  %source = load ptr, ptr %at1
  %run = load i64, ptr %at2
  %last = load i64, ptr %at3
  %final = load i64, ptr %at4
  %inner = load i64, ptr %at5
  %t0 = load i64, ptr %at6
  %t1 = load i64, ptr %at7
  %s0 = load i64, ptr %at8
  %s1 = load i64, ptr %at9
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %next, label %out
next:
  %k = phi i64 [%begin, %start], [%k1, %next]
  %row = sdiv i64 %k, %inner
  %used = mul i64 %row, %inner
  %column = sub i64 %k, %used
  %ta = mul i64 %row, %t0
  %tb = mul i64 %column, %t1
  %tc = add i64 %ta, %tb
  %to = getelementptr i8, ptr %target, i64 %tc
  %sa = mul i64 %row, %s0
  %sb = mul i64 %column, %s1
  %sc = add i64 %sa, %sb
  %from = getelementptr i8, ptr %source, i64 %sc
  %ends = icmp eq i64 %k, %final
  %size = select i1 %ends, i64 %last, i64 %run
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %size, i1 false)
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %end
  br i1 %more, label %next, label %out
out:
  ret void
}
"""

_GATHER: Final = """declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define void @gather_runs(ptr %args, i64 %begin, i64 %end) nounwind {
start:
  %at1 = getelementptr i64, ptr %args, i64 1
  %at2 = getelementptr i64, ptr %args, i64 2
  %at3 = getelementptr i64, ptr %args, i64 3
  %at4 = getelementptr i64, ptr %args, i64 4
  %at5 = getelementptr i64, ptr %args, i64 5
  %at6 = getelementptr i64, ptr %args, i64 6
  %target = load ptr, ptr %args
  %source = load ptr, ptr %at1
  %index = load ptr, ptr %at2
  %run = load i64, ptr %at3
  %t = load i64, ptr %at4
  %s = load i64, ptr %at5
  %i = load i64, ptr %at6
  %some = icmp slt i64 %begin, %end
  br i1 %some, label %next, label %out
next:
  %k = phi i64 [%begin, %start], [%k1, %next]
  %ia = mul i64 %k, %i
  %place = getelementptr i8, ptr %index, i64 %ia
  %row = load i64, ptr %place
  %ta = mul i64 %k, %t
  %to = getelementptr i8, ptr %target, i64 %ta
  %sa = mul i64 %row, %s
  %from = getelementptr i8, ptr %source, i64 %sa
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %run, i1 false)
  %k1 = add i64 %k, 1
  %more = icmp slt i64 %k1, %end
  br i1 %more, label %next, label %out
out:
  ret void
}
"""
_PACK_ROWS: Final = struct.Struct("=3Q4q").pack


def runs(target: Array, source: Array) -> tuple[int, list[_Axis]]:
    """Bytes of the longest runs that both arrays of one shape have, and the axes over these, outermost first."""
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


class RunCopies:
    """The kernels ``copy``, ``cat`` and ``gather``, of arrays that don't overlap.

    Args:
        compiler: Gives LLVM.
        pool: The threads.
        stats: Where it is recorded that LLVM cannot be loaded, and NumPy copies.
    """

    def __init__(self, compiler: Callable[[], Compiler], pool: ThreadPool, stats: BuildStats) -> None:
        self._compiler, self._pool, self._stats = compiler, pool, stats
        self._entries: dict[str, Entry | None] = {}

    def copy(self, outs: Sequence[Array], ins: Sequence[Array], scalars: Sequence[Any], stream: Stream) -> None:
        """Copy; what does not consist of runs over at most two axes is left to NumPy."""
        if type(stream) is CpuQueue:
            stream.submit("copy", partial(self._copy, outs[0], ins[0]))
        else:
            self._copy(outs[0], ins[0])

    def join(self, outs: Sequence[Array], ins: Sequence[Array], scalars: Sequence[Any], stream: Stream) -> None:
        """Arrays of one dtype along an axis, into a new array without gaps."""
        if type(stream) is CpuQueue:
            stream.submit("cat", partial(self._join, outs[0], tuple(ins), scalars[0]))
        else:
            self._join(outs[0], ins, scalars[0])

    def _join(self, target: Array, parts: Sequence[Array], axis: int) -> None:
        first, second = parts[0], parts[-1]
        run = math.prod(first.shape[axis:]) * first.itemsize
        pair = len(parts) == 2 and first.shape == second.shape and run >= _SHORTEST and all(
            x.flags.c_contiguous for x in (target, first, second))
        entry = self._entry("copy_runs", _TEXT) if pair else None
        if entry is not None:
            # Row by row, so that memory is written in order: the second part is a step from the first.
            start = address_of(first)
            args = _PACK(address_of(target), start, run, run, -1, 2, 2 * run, run, run, address_of(second) - start)
            self._run(entry, args, target.nbytes // run, target.nbytes)
            return
        begin = 0
        for part in parts:
            end = begin + part.shape[axis]
            self._copy(target[(slice(None),) * axis + (slice(begin, end),)], part)
            begin = end

    def gather(self, outs: Sequence[Array], ins: Sequence[Array], scalars: Sequence[Any], stream: Stream) -> None:
        """Elements at valid indices along an axis; what is no runs at one index each is left to NumPy."""
        if type(stream) is CpuQueue:
            stream.submit("gather", partial(self._gather, outs[0], ins[0], ins[1], scalars[0]))
        else:
            self._gather(outs[0], ins[0], ins[1], scalars[0])

    def _gather(self, target: Array, source: Array, index: Array, axis: int) -> None:
        row = target.nbytes // target.shape[0] if target.size else 0
        whole = axis == 0 and row >= _SHORTEST and not any(index.strides[1:]) and target.shape[1:] == source.shape[1:]
        entry = self._entry("gather_runs", _GATHER) if whole and runs(target[0], source[0]) == (row, []) else None
        if entry is None:
            target[...] = np.take_along_axis(source, index, axis)
            return
        args = _PACK_ROWS(address_of(target), address_of(source), address_of(index), row, target.strides[0],
                          source.strides[0], index.strides[0])
        self._run(entry, args, target.shape[0], target.nbytes)

    def _copy(self, target: Array, source: Array) -> None:
        run, axes = runs(target, source)
        entry = self._entry("copy_runs", _TEXT) if len(axes) <= 2 and run >= _SHORTEST else None
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

    def _entry(self, name: str, text: str) -> Entry | None:
        """The compiled function; None where there is no LLVM, of which the first time warns."""
        try:
            return self._entries[name]
        except KeyError:
            pass
        try:
            (address,), library = self._compiler().compile_text(name, text, [name])
        except KernelError as error:
            if not self._stats.failures:
                warnings.warn(f"{error}; NumPy copies instead; build_stats('cpu').failures has all reasons",
                              RuntimeWarning, stacklevel=2)
            self._stats.failures[name] = str(error)
            self._entries[name] = None
        else:
            self._entries[name] = make_entry(address, library)
        return self._entries[name]
