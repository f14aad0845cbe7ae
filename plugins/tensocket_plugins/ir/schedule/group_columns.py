"""Reductions across adjacent outputs, such as the sum of a matrix's rows, on groups of lanes.

A group reduces some adjacent columns together. Neighbouring lanes read neighbouring elements of a row, each a vector,
and the rows of lanes share the rows of the matrix. They meet in local memory, in the same order every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..nodes import (
    Barrier,
    Expr,
    If,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Reduce,
    Stmt,
    Store,
    Var,
    const,
    loop,
    select,
)
from ..rewrite import Rewrite
from ..strategies import COLUMNS
from ..target import Target
from .nest import Axis, Names, ceil_div, definitions, larger, peel, reads_across, recover, smaller
from .partials import Partials
from .reduce import BLOCK, flatten, rounds, splittable
from .simt import UNLIMITED, group_size, groups_frame, outputs
from .vector_loads import VectorLoads, vector_width

#: Rows that each row of lanes reads at least if a reduction is split.
SHARE: Final = 16


def is_across(kernel: Kernel) -> bool:
    """Whether a nest is one reduction of elements that are adjacent for adjacent outputs, and then stores."""
    axes, inner = peel(kernel.body)
    return bool(axes) and splittable(kernel) and reads_across(inner, axes[-1][0].name)


def tile(kernel: Kernel, target: Target) -> tuple[Expr, Expr]:
    """Return the number of adjacent columns that a group reduces together, and the number of its rows of lanes."""
    (*_, (column, columns)), (reduce, *_) = peel(kernel.body)
    width = vector_width((reduce,), column)
    vectors = _across(columns, width, target)
    return vectors * width, const(group_size(target), columns.dtype) // vectors


def _across(columns: Expr, width: int, target: Target) -> Expr:
    """Return the number of lanes that read a row of a tile; at least 1."""
    return larger(smaller(ceil_div(columns, width), min(COLUMNS // width, group_size(target))), 1)


def schedule_group_columns(kernel: Kernel, target: Target, names: Names) -> Kernel | None:
    """Give some adjacent iterations of the innermost axis a group; None for nests of another form."""
    if target.sequential or not is_across(kernel):
        return None
    axes, (reduce, *after) = peel(kernel.body)
    assert isinstance(reduce, Reduce)
    columns = _Columns(axes, flatten(reduce, names), after, group_size(target), names)
    made = columns.kernel(kernel.name, target)
    used = sum(array.size * array.dtype.itemsize for array in made.locals if not array.private)
    return made if used <= target.local_bytes else None


class _Columns:
    """Builder of the statements of a group. All partial results are in private arrays, one element per column."""

    def __init__(self, axes: Sequence[Axis], reduce: Reduce, after: Sequence[Stmt], lanes: int, names: Names) -> None:
        *self.outer, (self.column, self.columns) = axes
        self.reduce, self.after, self.lanes, self.names = reduce, after, lanes, names
        self.width = vector_width((reduce,), self.column)
        (self.number, self.extent), = reduce.loops
        self.block, self.across, self.rows, self.row, self.place, self.first, self.count, self.at = (
            names.var(stem, self.column.dtype)
            for stem in ("block", "across", "rows", "row", "place", "first", "count", "at"))
        self.arrays: list[Local] = []

    def kernel(self, name: str, target: Target) -> Kernel:
        """Return the scheduled kernel."""
        across = _across(self.columns, self.width, target)
        vectors = ceil_div(self.columns, self.width)
        axes = [*self.outer, (self.block, ceil_div(vectors, across))]
        totals, shared = self._partials("total"), self._arrays("shared", self.lanes * self.width, private=False)
        reading = self._rows(totals)

        def body(number: Expr, lane: Var) -> list[Stmt]:
            # A group that takes several blocks uses the local arrays again.
            wait: list[Stmt] = [Barrier()] if target.max_groups < UNLIMITED else []
            vector = self.names.var("vector", lane.dtype)
            return [
                *wait,
                Let(self.across, across),
                Let(self.rows, const(self.lanes, lane.dtype) // self.across),
                Let(self.row, lane // self.across),
                Let(self.place, lane % self.across),
                *recover(number, axes, self.names),
                Let(vector, self.block * self.across + self.place),
                # Lanes beyond the last vector repeat it, because all lanes meet at the barrier.
                Let(self.first, smaller(vector, vectors - 1) * self.width),
                Let(self.count, smaller(self.columns - self.first, self.width)),
                *reading,
                self._each([Store(array, self.at * self.lanes + lane, value)
                            for array, value in zip(shared, totals.get(self.at), strict=True)]),
                Barrier(),
                If((self.row < 1) & (vector < vectors), tuple(self._fold(totals, shared))),
            ]

        frame = groups_frame(outputs(axes, self.column.dtype), self.lanes, target, self.names, body)
        return Kernel(name, (frame,), tuple(self.arrays))

    def _rows(self, totals: Partials) -> list[Stmt]:
        """Return the loop over this lane's rows, in blocks if sums round."""
        # Lanes that are left over when the group is divided into rows have no work.
        start: Expr = select(self.row < self.rows, self.row, self.extent)
        clear = self._each(totals.put(self.at, self.reduce.identity))
        if not rounds(self.reduce):
            return [clear, loop(self.number, self.extent, self._one(totals), start=start, step=self.rows)]
        sums, first = self._partials("sum"), self.names.var("first_row", self.number.dtype)
        span = self.rows * BLOCK
        return [clear, loop(first, self.extent, [
            self._each(sums.put(self.at, self.reduce.identity)),
            loop(self.number, smaller(self.extent - first, span) + first, self._one(sums), start=first,
                 step=self.rows),
            self._each(totals.fold(self.at, sums.get(self.at))),
        ], start=start, step=span)]

    def _one(self, into: Partials) -> list[Stmt]:
        """Return the statements that fold a lane's elements of one row."""
        reduce = self.reduce
        vectors = VectorLoads(self.column, self.first, self.count, self.at, self.width, definitions(reduce.body),
                              self.names)
        rewrite = Rewrite(vectors)
        lets = rewrite.block(reduce.body)
        values = [rewrite.expression(value) for value in reduce.values]
        self.arrays += vectors.arrays
        column = Let(self.column, self.first + smaller(self.at, self.count - 1))
        return [*vectors.statements, self._each([column, *lets, *into.fold(self.at, values)])]

    def _fold(self, totals: Partials, shared: Sequence[str]) -> list[Stmt]:
        """Return the statements of the first row of lanes: add the other rows' results, and store the total."""
        other = self.names.var("other", self.row.dtype)
        there = self.at * self.lanes + other * self.across + self.place
        values = [Load(array, there, result.dtype) for array, result in zip(shared, self.reduce.results, strict=True)]
        known = [Let(result, value) for result, value in
                 zip(self.reduce.results, totals.get(self.at), strict=True)]
        return [
            loop(other, self.rows, [self._each(totals.fold(self.at, values))], start=1),
            self._each([If(self.at < self.count, (Let(self.column, self.first + self.at), *known, *self.after))]),
        ]

    def _each(self, body: Sequence[Stmt]) -> Stmt:
        return loop(self.at, self.width, body, LoopKind.VECTOR)

    def _partials(self, stem: str) -> Partials:
        return Partials(self.reduce, self._arrays(stem, self.width, private=True))

    def _arrays(self, stem: str, size: int, private: bool) -> list[str]:
        made = [Local(self.names.fresh(stem), result.dtype, size, private) for result in self.reduce.results]
        self.arrays += made
        return [array.name for array in made]
