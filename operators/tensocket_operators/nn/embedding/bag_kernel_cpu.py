"""Sums of a table's rows in bags, for processors: each row is read once and added up in registers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract.dtypes import DType, float64, int64
from tensocket_plugins.ir.build.elements import load, stores
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import (
    Assign,
    Declare,
    Expr,
    If,
    Let,
    Load,
    LoopKind,
    Program,
    Stmt,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)

#: Columns that are added up together, and as many of the remaining ones.
_MANY: Final = 64
_FEW: Final = 16
#: Rows whose sum is added to the total in double precision, so that long sums are as exact as short ones.
_RUN: Final = 64


@dataclass(frozen=True)
class BagForm:
    """Everything that the source of a nest depends on.

    Attributes:
        dtype: Element type of the table and of the result.
        weighted: Whether each index has a factor.
        mean: Whether sums are divided by their number of rows.
        padded: Whether one row is skipped.
    """

    dtype: DType
    weighted: bool
    mean: bool
    padded: bool


def bag_nest(form: BagForm) -> Program:
    """Return the nest that sums bags; its buffers are the result, the table, indices, beginnings of bags and factors.

    The last beginning is the end of the last bag. The sizes are bags, columns, the step from row to row of the table,
    the skipped row, and the numbers of rows and of indices. Indices and beginnings are valid when the
    kernel starts, but other threads may change them while it runs.
    """
    return _Bags(form).program()


class _Bags:
    """Writer of the nest."""

    def __init__(self, form: BagForm) -> None:
        self.form = form
        self.work = arithmetic_dtype(form.dtype)
        self.nest = ProgramBuilder("bags", int64)
        self.nest.buffer("out0", form.dtype, writable=True)
        for name, dtype in (("in0", form.dtype), ("index", int64), ("starts", int64)):
            self.nest.buffer(name, dtype)
        if form.weighted:
            self.nest.buffer("factors", form.dtype)
        self.bags, self.columns, self.step, self.skipped, self.rows, self.many = self.nest.sizes("n", 6)
        self.bag, self.chunk, self.lane, self.at, self.first, self.end, self.run, self.stop, self.j, self.row = (
            Var(name, int64) for name in ("bag", "chunk", "lane", "at", "first", "end", "run", "stop", "j", "row"))
        self.total = Var("total", float64)
        self.sum, self.count, self.factor = (Var(name, self.work) for name in ("sum", "count", "factor"))

    def program(self) -> Program:
        """Return the finished nest: one bag per iteration, its columns in vectors."""
        whole = Var("whole", int64)
        body: list[Stmt] = [
            Let(self.first, call("max", Load("starts", self.bag, int64), const(0, int64))),
            Let(self.end, call("min", Load("starts", self.bag + 1, int64), self.many)),
            Let(whole, self.columns - self.columns % _MANY),
            loop(self.chunk, whole, [self._columns(_MANY, masked=False)], step=_MANY),
            loop(self.chunk, self.columns, [self._columns(_FEW, masked=True)], start=whole, step=_FEW),
        ]
        return self.nest.program(parallel([self.bag], [self.bags], body))

    def _columns(self, lanes: int, *, masked: bool) -> Stmt:
        """Sum one vector of columns; ``masked`` leaves out lanes past the last column."""
        zero = const(0, self.work)
        counted = self.form.mean and self.form.padded
        runs: list[Stmt] = [
            Let(self.stop, call("min", self.run + _RUN, self.end)), Declare(self.sum, zero),
            loop(self.j, self.stop, self._row(masked, counted), start=self.run),
            Assign(self.total, self.total + cast(self.sum, float64)),
        ]
        write = stores("out0", self.bag * self.columns + self.at, self._result(), self.form.dtype)
        return loop(self.lane, lanes, [
            Let(self.at, self.chunk + self.lane), Declare(self.total, const(0, float64)),
            *([Declare(self.count, zero)] if counted else []),
            loop(self.run, self.end, runs, start=self.first, step=_RUN),
            *self._where_there(write, masked),
        ], LoopKind.VECTOR)

    def _row(self, masked: bool, counted: bool) -> list[Stmt]:
        """Add one row of the table."""
        value = load("in0", self.row * self.step + self.at, self.form.dtype)
        lets: list[Stmt] = [Let(self.row, call(
            "min", call("max", Load("index", self.j, int64), const(0, int64)), self.rows - 1))]
        if self.form.weighted:
            lets.append(Let(self.factor, load("factors", self.j, self.form.dtype)))
            value = value * self.factor
        if not self.form.padded:
            return [*lets, *self._where_there([Assign(self.sum, self.sum + value)], masked)]
        kept = call("ne", self.row, self.skipped)
        more: list[Stmt] = [Assign(self.count, select(kept, self.count + 1.0, self.count))] if counted else []
        add = Assign(self.sum, select(kept, self.sum + value, self.sum))
        return [*lets, *more, *self._where_there([add], masked)]

    def _where_there(self, body: Sequence[Stmt], masked: bool) -> list[Stmt]:
        return [If(self.at < self.columns, tuple(body))] if masked else [*body]

    def _result(self) -> Expr:
        total = cast(self.total, self.work)
        if not self.form.mean:
            return total
        count: Expr = self.count if self.form.padded else cast(self.end - self.first, self.work)
        return total / call("max", count, const(1, self.work))


def sum_bags(state: DeviceState, table: Any, index: Any, starts: Any, factors: Any, dtype: DType, mean: bool,
             skipped: int) -> Any:
    """Return sums or means over bags of rows, [bags, columns], of handles on a processor.

    Args:
        state: A device whose target is of kind ``cpu``.
        table: [rows, columns]; adjacent columns are adjacent in memory.
        index: int64 rows, all valid.
        starts: int64, the starts of the bags and the end of the last one; ascending, all within ``index``.
        factors: One of dtype ``dtype`` for each index, or None.
        dtype: The table's element type.
        mean: Whether sums are divided by the number of rows.
        skipped: A row to leave out; -1 for none.
    """
    form = BagForm(dtype, factors is not None, mean, skipped >= 0)
    bags, columns = starts.shape[0] - 1, table.shape[1]
    out = state.runtime.empty((bags, columns), dtype, state.stream)
    if out.size:
        step = table.strides[0] // dtype.itemsize
        launch(state, ("bags", form), partial(bag_nest, form), None,
               [out, table, index, starts, *(() if factors is None else (factors,))],
               [bags, columns, step, skipped, table.shape[0], index.size])
    return out
