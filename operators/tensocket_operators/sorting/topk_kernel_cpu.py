"""The top-k positions of rows on processors, without sorting the rows.

The kernel splits a row into interleaved columns and takes the best element of each. To select k elements, it uses the
k-th best of these as a threshold: at least k columns reach it, so no worse element is among the top k. The kernel
collects the elements better than the threshold, usually few, and ranks them by counting; the first elements equal to it
fill the rest. If the collected elements exceed their buffer, the kernel flags the row, and the caller sorts everything
instead.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.geometry import coalesce, element_strides
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.dtypes import DType, int32, int64
from tensocket_plugins.ir.build.elements import load
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, parallel, split
from tensocket_plugins.ir.nodes import (
    Assign,
    Declare,
    Expr,
    If,
    Let,
    Load,
    Local,
    Program,
    Stmt,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
)
from tensocket_plugins.ir.schedule.nest import product

from .bitonic_kernel import ordinal

#: Columns per wanted element.
FACTOR: Final = 4
#: Minimum and maximum number of columns.
LEAST: Final = 64
MOST: Final = 2048
#: Number of adjacent elements that are skipped together if none of them reaches the threshold.
SPAN: Final = 64


class _Select:
    """Builder of the program.

    Buffers are the positions, one flag per row that is not 0 if the row's buffer overflowed, and the elements. Sizes
    are those of the outer dimensions, elements per row, and wanted elements. Strides are those of the elements: outer
    ones, then the one along the row.
    """

    def __init__(self, dtype: DType, rank: int, largest: bool, columns: int, unit: bool, index: DType) -> None:
        self.dtype, self.largest, self.columns, self.index = dtype, largest, columns, index
        self.room = FACTOR * columns
        self.nest = nest = ProgramBuilder("top_places", index)
        nest.buffer("out0", int64, writable=True)
        nest.buffer("failed", int32, writable=True)
        nest.buffer("in0", dtype)
        self.sizes, (self.length, self.wanted) = nest.sizes("n", rank), nest.sizes("m", 2)
        strides: list[Expr] = [*nest.strides("in0", rank + 1)]
        self.strides = [*strides[:-1], const(1, index)] if unit else strides
        self.number, self.begin, self.i, self.j, self.base = (
            Var(stem, index) for stem in ("number", "begin", "i", "j", "base"))
        self.word = ordinal(load("in0", self.base, dtype)).dtype
        self.limit, self.best, self.key = (Var(stem, self.word) for stem in ("limit", "best", "key"))
        self.before, self.equal, self.count = (Var(stem, index) for stem in ("before", "equal", "count"))

    def program(self) -> Program:
        """Return the finished program: an iteration processes a row."""
        names = [Var(f"i{k}", self.index) for k in range(len(self.sizes))]
        start = dot(names, self.strides[:-1]) if names else const(0, self.index)
        body: list[Stmt] = [
            *[Let(var, value) for var, value in zip(names, split(self.number, self.sizes), strict=True)],
            Let(self.base, start), *self._fold(), *self._threshold(), *self._collect(), *self._rank(),
        ]
        kept = (("folded", self.word, self.columns), ("keys", self.word, self.room),
                ("places", self.index, self.room), ("equals", self.index, self.columns))
        return self.nest.program(parallel([self.number], [product(self.sizes, self.index)], body),
                                 tuple(Local(*local) for local in kept))

    def _key(self, position: Expr) -> Expr:
        """Return the sort key of an element: larger keys come first."""
        order = ordinal(load("in0", self.base + position * self.strides[-1], self.dtype))
        return order if self.largest else call("not", order)

    def _folded(self, at: Expr) -> Expr:
        return Load("folded", at, self.word)

    def _fold(self) -> list[Stmt]:
        """Compute the best key of each column."""
        rest = Var("rest", self.index)
        lowest = -(1 << (8 * self.word.itemsize - 1))

        def better(at: Expr, position: Expr) -> Store:
            return Store("folded", at, call("max", self._folded(at), self._key(position)))

        return [
            loop(self.i, self.columns, [Store("folded", self.i, const(lowest, self.word))]),
            Let(rest, self.length - self.length % self.columns),
            loop(self.begin, rest, [loop(self.i, self.columns, [better(self.i, self.begin + self.i)])],
                 step=self.columns),
            loop(self.j, self.length, [better(self.j - rest, self.j)], start=rest),
        ]

    def _threshold(self) -> list[Stmt]:
        """Compute the threshold: the least of the columns' best keys that fewer than k others exceed."""
        highest = (1 << (8 * self.word.itemsize - 1)) - 1
        more = cast(self.best < self._folded(self.j), self.index)
        return [
            Declare(self.limit, const(highest, self.word)),
            loop(self.i, self.columns, [
                Let(self.best, self._folded(self.i)), Declare(self.count, const(0, self.index)),
                loop(self.j, self.columns, [Assign(self.count, self.count + more)]),
                If(self.count < self.wanted, (Assign(self.limit, call("min", self.limit, self.best)),))]),
        ]

    def _collect(self) -> list[Stmt]:
        """Collect the elements above the threshold, and the first ones equal to it."""
        one, end, most = const(1, self.index), Var("end", self.index), Var("most", self.word)
        room = If(self.before < self.room, (Store("keys", self.before, self.key),
                                            Store("places", self.before, self.j)))
        ahead = If(self.limit < self.key, (room, Assign(self.before, self.before + one)))
        level = If(call("eq", self.limit, self.key) & (self.equal < self.wanted),
                   (Store("equals", self.equal, self.j), Assign(self.equal, self.equal + one)))
        one_by_one = loop(self.j, end, [
            Let(self.key, self._key(self.j)), If(self.limit <= self.key, (ahead, level))], start=self.begin)
        return [
            Declare(self.before, const(0, self.index)), Declare(self.equal, const(0, self.index)),
            loop(self.begin, self.length, [
                Let(end, call("min", self.begin + SPAN, self.length)), Declare(most, self._key(self.begin)),
                loop(self.i, end, [Assign(most, call("max", most, self._key(self.i)))], start=self.begin),
                If(self.limit <= most, (one_by_one,))], step=SPAN),
        ]

    def _rank(self) -> list[Stmt]:
        """Write every collected element to the position that counting yields."""
        rank, place, out = self.count, Var("place", self.index), self.number * self.wanted
        other = Load("keys", self.j, self.word)

        def counted(stop: Expr, condition: Expr) -> Stmt:
            return loop(self.j, stop, [Assign(rank, rank + cast(condition, self.index))])

        ranked = loop(self.i, self.before, [
            Let(self.key, Load("keys", self.i, self.word)), Declare(rank, const(0, self.index)),
            counted(self.before, self.key < other), counted(self.i, call("eq", self.key, other)),
            If(rank < self.wanted, (
                Store("out0", out + rank, cast(Load("places", self.i, self.index), int64)),))])
        filled = loop(self.i, call("min", self.equal, self.wanted - self.before), [
            Let(place, Load("equals", self.i, self.index)),
            Store("out0", out + self.before + self.i, cast(place, int64))])
        fits = self.before <= self.room
        return [Store("failed", self.number, cast(~fits, int32)), If(fits, (ranked, filled))]


def top_positions(state: DeviceState, array: Any, dtype: DType, axis: int, count: int, largest: bool) -> Any | None:
    """Return the positions of the first ``count`` elements of rows in sorted order, along the result's last dimension.

    Args:
        state: A processor.
        array: The input's handle; it has at least one dimension and is not empty.
        dtype: The input's element type.
        axis: The dimension along rows.
        count: Number of positions per row.
        largest: Whether the largest element comes first.

    Returns:
        A handle of int64, or None if sorting is faster.
    """
    length = array.shape[axis]
    columns = max(LEAST, 1 << (FACTOR * count - 1).bit_length())
    if count < 1 or columns > min(MOST, length):
        return None
    shape, strides = array.shape, element_strides(array)
    others = [k for k in range(len(shape)) if k != axis]
    sizes, (outer,) = coalesce(tuple(shape[k] for k in others), [tuple(strides[k] for k in others)]) if others else (
        (), [()])
    rows = math.prod(sizes)
    index = index_dtype(state, (array.size, rows * count))
    out = state.runtime.empty((*(shape[k] for k in others), count), int64, state.stream)
    failed = np.empty(rows, np.int32)
    form = (dtype, len(sizes), largest, columns, strides[axis] == 1, index)
    launch(state, ("top_places", *form), partial(_program, form), None, [out, failed, array],
           [*sizes, length, count, *outer, strides[axis]])
    return None if failed.any() else out


def _program(form: tuple[Any, ...]) -> Program:
    return _Select(*form).program()
