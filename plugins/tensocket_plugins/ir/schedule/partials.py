"""Reductions on a processor: independent partial results in arrays, which advance together as lanes of vectors.

Rounding errors of a sum in one precision grow with the number of consecutive additions, so blocks are summed separately
first. If accumulators are wider than the elements, runs of ``RUN`` elements are added in the narrower precision,
because converting an element takes longer than adding it. The error is at most ``RUN`` roundings of the sum of
magnitudes, whatever the number of elements; that of a pairwise sum grows with its logarithm.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from ...contract.dtypes import DType
from ..nodes import (
    Call,
    Combine,
    Const,
    Expr,
    If,
    Let,
    Load,
    LoopKind,
    Reduce,
    Stmt,
    Store,
    Var,
    cast,
    const,
    loop,
)
from .nest import Names, loads, smaller
from .reduce import BLOCK, declare, fold_into, rounds

#: Partial results that advance together: enough to hide the latency of an addition with the widest vectors.
LANES: Final = 64
#: The same for few elements: one vector.
FEW_LANES: Final = 16
#: Elements of one lane that are added in the precision in which they are computed.
RUN: Final = 8


class Partials:
    """Partial results of a reduction in arrays, one array per accumulator."""

    def __init__(self, reduce: Reduce, arrays: Sequence[str]) -> None:
        self._reduce = reduce
        self._arrays = arrays
        self.results = reduce.results

    def get(self, at: Expr) -> list[Expr]:
        """Return element ``at`` of every array."""
        return [Load(array, at, result.dtype) for array, result in zip(self._arrays, self._reduce.results, strict=True)]

    def put(self, at: Expr, values: Sequence[Expr]) -> list[Stmt]:
        """Return statements that set element ``at``."""
        return [Store(array, at, value) for array, value in zip(self._arrays, values, strict=True)]

    def fold(self, at: Expr, values: Sequence[Expr]) -> list[Stmt]:
        """Return statements that combine ``values`` into element ``at``; they define names and need their own block."""
        combine = self._reduce.combine
        return [
            *(Let(var, value) for var, value in zip(combine.right, values, strict=True)),
            *(Let(var, value) for var, value in zip(combine.left, self.get(at), strict=True)),
            *self.put(at, combine.values),
        ]


def narrowed(reduce: Reduce) -> Reduce | None:
    """Return the same sums in the elements' precision, at least float32; None if accumulators are not wider."""
    named = {let.var.name: let.value for let in reduce.body}
    values: list[Expr] = []
    for value, identity in zip(reduce.values, reduce.identity, strict=True):
        found = named.get(value.name, value) if isinstance(value, Var) else value
        if not isinstance(found, Call) or found.function != "cast" or not isinstance(identity, Const):
            return None
        narrow, wide = found.args[0], found.dtype
        if narrow.dtype.kind != "float" or wide.kind != "float" or not 4 <= narrow.dtype.itemsize < wide.itemsize:
            return None
        values.append(narrow)
    combine = reduce.combine
    if not all(_adds(value, left, right) for value, left, right in zip(
            combine.values, combine.left, combine.right, strict=True)):
        return None
    left, right = (tuple(Var(var.name, value.dtype) for var, value in zip(side, values, strict=True))
                   for side in (combine.left, combine.right))
    return replace(
        reduce,
        results=tuple(Var(result.name, value.dtype) for result, value in zip(reduce.results, values, strict=True)),
        values=tuple(values),
        identity=tuple(const(0, value.dtype) for value in values),
        combine=Combine(left, right, tuple(x + y for x, y in zip(left, right, strict=True))),
    )


def _adds(value: Expr, left: Var, right: Var) -> bool:
    names = {arg.name for arg in value.args if isinstance(arg, Var)} if isinstance(value, Call) else set()
    return isinstance(value, Call) and value.function == "add" and names == {left.name, right.name}


def _is_wide(reduce: Reduce) -> bool:
    """Whether accumulators are wider than the elements, so that the order of additions does not matter."""
    widest = max((load.dtype.itemsize for load in loads((reduce,)) if load.dtype.kind == "float"), default=8)
    return all(result.dtype.itemsize > widest for result in reduce.results)


class VectorReduction:
    """The loops of one reduction over arrays of partial results.

    Args:
        reduce: The reduction.
        array: Makes a local array of ``lanes`` elements.
        names: Source of new names.
        lanes: Number of partial results.
    """

    def __init__(self, reduce: Reduce, array: Callable[[DType], str], names: Names, lanes: int) -> None:
        self._reduce = reduce
        self._array = array
        self._names = names
        self._lanes = lanes
        self._dtype = reduce.loops[0][0].dtype
        self._at = names.var("at", self._dtype)
        self._totals = self._partials(reduce)

    def build(self) -> list[Stmt]:
        """Return statements that declare and compute the results."""
        *outer, (var, extent) = self._reduce.loops
        narrow = narrowed(self._reduce)
        if narrow is not None:
            inside = self._blocks(narrow, var, extent, RUN)
        elif rounds(self._reduce) and not _is_wide(self._reduce):
            inside = self._blocks(self._reduce, var, extent, BLOCK)
        else:
            inside = self._row(self._reduce, self._totals, var, const(0, self._dtype), extent)
        for outer_var, outer_extent in reversed(outer):
            inside = [loop(outer_var, outer_extent, inside)]
        return [
            *declare(self._reduce.results, self._reduce.identity),
            self._vector(self._totals.put(self._at, self._reduce.identity)),
            *inside,
            *self._folded(),
        ]

    def _partials(self, reduce: Reduce) -> Partials:
        return Partials(reduce, [self._array(result.dtype) for result in reduce.results])

    def _vector(self, body: Sequence[Stmt], lanes: int | None = None) -> Stmt:
        return loop(self._at, lanes or self._lanes, body, LoopKind.VECTOR)

    def _blocks(self, reduce: Reduce, var: Var, extent: Expr, length: int) -> list[Stmt]:
        """Return the innermost loop in blocks of ``length`` elements per lane, with a sum per block.

        Args:
            reduce: The reduction to run in a block.
            var: The loop's variable.
            extent: Its extent.
            length: Elements per lane.
        """
        block, end = (self._names.var(stem, self._dtype) for stem in (f"{var.name}_block", "end"))
        partials, step = self._partials(reduce), self._lanes * length
        sums = [cast(value, total.dtype) for value, total in zip(
            partials.get(self._at), self._reduce.results, strict=True)]
        return [loop(block, extent, [
            Let(end, smaller(block + step, extent)),
            self._vector(partials.put(self._at, reduce.identity)),
            *self._row(reduce, partials, var, block, end),
            self._vector(self._totals.fold(self._at, sums)),
        ], step=step)]

    def _row(self, reduce: Reduce, partials: Partials, var: Var, start: Expr, end: Expr) -> list[Stmt]:
        """Fold elements from ``start`` to ``end`` of the innermost loop into partial results."""
        tail, chunk = self._names.var("tail", self._dtype), self._names.var("chunk", self._dtype)
        fold = [Let(var, chunk + self._at), *reduce.body, *partials.fold(self._at, reduce.values)]
        few = min(self._lanes, FEW_LANES)
        return [
            Let(tail, end - (end - start) % self._lanes),
            loop(chunk, tail, [self._vector(fold)], start=start, step=self._lanes),
            loop(chunk, end, [self._vector([fold[0], If(var < end, tuple(fold[1:]))], few)], start=tail, step=few),
        ]

    def _folded(self) -> list[Stmt]:
        """Fold the upper half of the totals into the lower one until one element is left, which is the result."""
        totals, first = self._totals, const(0, self._dtype)
        halves = [loop(self._at, self._lanes >> level,
                       totals.fold(self._at, totals.get(self._at + (self._lanes >> level))), LoopKind.VECTOR)
                  for level in range(1, self._lanes.bit_length())]
        return [*halves, *fold_into(self._reduce.combine, self._reduce.results, totals.get(first))]
