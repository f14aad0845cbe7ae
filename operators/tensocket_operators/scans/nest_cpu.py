"""Nests of scans for processors, on which independent additions run in parallel.

Vectors hold the next elements of several rows, or of several pieces of one row; the nests read them as squares of
elements, which they transpose. If there are few long rows, a first pass computes the total of each block, and a second
pass its running values from the carry. Both passes compute a running value as the carry combined with the running value
of the block alone, so that running sums of positive numbers never decrease. Where results are rounded to fewer bits
than the sums have, both passes take the fastest order instead. Along an outer dimension, an iteration processes
adjacent columns together. Blocks depend only on sizes, never on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.elements import load, storage_dtype, stores
from tensocket_plugins.ir.build.nest import parallel, split
from tensocket_plugins.ir.complex import convert
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import (
    Assign,
    Declare,
    Expr,
    If,
    Let,
    Load,
    Local,
    LoopKind,
    Program,
    Stmt,
    Store,
    Var,
    call,
    const,
    loop,
)
from tensocket_plugins.ir.schedule.nest import product
from tensocket_plugins.ir.schedule.transpose import shuffles

from .nest import ScanForm, ScanNest
from .scan import Scan

#: Number of rows, or pieces of a row, that a square holds, and of elements that it holds of each.
SIDE: Final = 16
#: Elements of a block.
BLOCK: Final = 2048
#: Partial totals of a block.
LANES: Final = 32
#: Number of adjacent columns that an iteration processes together.
COLUMNS: Final = 64


def rows_nest(name: str, scan: Scan, form: ScanForm) -> Program:
    """Scan rows like ``scan_nest``, ``SIDE`` rows at a time; best for short rows.

    The scan needs an identity and real values; strided arrays have stride 1 along the rows. Blocks are not used.
    """
    return _RowsNest(name, scan, form).program()


def tiles_nest(name: str, scan: Scan, form: ScanForm) -> Program:
    """Scan rows like ``scan_nest``, one square of a row's elements at a time; it needs the same as ``rows_nest``."""
    return _TilesNest(name, scan, form).program()


def columns_nest(name: str, scan: Scan, form: ScanForm) -> Program:
    """Scan along an outer dimension; the last dimension has stride 1, and its size is the last of the outer sizes.

    Sizes and strides are those of ``scan_nest``; the sizes of blocks are not used.
    """
    return _ColumnsNest(name, scan, form).program()


class _VectorNest(ScanNest):
    """Base of nests that read squares of elements and transpose them.

    In a transposed square, position ``k * SIDE + i`` holds element ``k`` of the chain in lane ``i``.
    """

    def __init__(self, name: str, scan: Scan, form: ScanForm) -> None:
        super().__init__(name, scan, form)
        self.number, self.i, self.j, self.k, self.at, self.first, self.rest, self.begin, self.piece = (
            Var(stem, form.index) for stem in ("number", "i", "j", "k", "at", "first", "rest", "begin", "piece"))
        assert scan.identity is not None
        self.identity = [const(value, dtype) for value, dtype in zip(
            scan.identity(form.accumulator), self.types, strict=True)]
        # Integers wrap around to the same sum in any order, and adding one by one is faster than transposing vectors.
        self.exact = len(self.types) == 1 and self.types[0].kind in ("int", "uint")
        # A result that is rounded to a narrower type does not need the exact order.
        self.loose = len(self.types) == 1 and form.source is not None and (
            self.exact or form.source.itemsize < self.types[0].itemsize)
        self.locals: list[Local] = []
        self.sums = self._arrays("sum", self.types, SIDE)
        self.accs = [Var(f"acc{k}", dtype) for k, dtype in enumerate(self.types)]

    def _arrays(self, stem: str, dtypes: Sequence[DType], size: int) -> list[str]:
        added = [Local(f"{stem}{k}", dtype, size) for k, dtype in enumerate(dtypes)]
        self.locals += added
        return [local.name for local in added]

    def _enter(self, row: Expr, block: Expr, stem: str) -> list[Stmt]:
        """Bind the row's indices and the block to variables."""
        index = self.form.index
        names = [Var(f"{stem}{k}", index) for k in range(self.form.rank)]
        at = Var(f"{stem}_block", index)
        self.outer, self.block = [*names], at
        return [*[Let(var, value) for var, value in zip(names, split(row, self.sizes), strict=True)], Let(at, block)]

    def _combined(self, before: Sequence[Any], element: Sequence[Any]) -> tuple[list[Stmt], list[Any]]:
        """Return the definitions of a step's combined values, and these as variables."""
        pairs, values = self._named("next", self.scan.combine(self.m, tuple(before), tuple(element)))
        return [Let(var, value) for var, value in pairs], [*values]

    def _shown(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """Return running values of a block combined with its carry, unless they start from it."""
        own = tuple(values)
        if self.loose or not self.form.carried:
            return own
        return self._unless_first(own, self.scan.combine(self.m, self._carry(), own))

    def _loaded(self, arrays: Sequence[str], at: Expr) -> list[Expr]:
        return [Load(array, at, dtype) for array, dtype in zip(arrays, self.types, strict=True)]

    def _stored(self, arrays: Sequence[str], at: Expr, values: Sequence[Expr]) -> list[Stmt]:
        return [Store(array, at, value) for array, value in zip(arrays, values, strict=True)]

    def _lanes(self, body: Sequence[Stmt]) -> Stmt:
        return loop(self.i, SIDE, body, LoopKind.VECTOR)

    def _scalar(self, start: Expr, stop: Expr) -> Stmt:
        """Scan the elements of one chain one by one, starting from the accumulators."""
        lets, values = self._combined(self.accs, self._element(self.j))
        step: list[Stmt] = [*lets, *[Assign(var, value) for var, value in zip(self.accs, values, strict=True)]]
        if self.form.running:
            step += self._write(self.j, self._shown(self.accs))
        return loop(self.j, stop, step, start=start)

    def _shown_square(self, values: Sequence[Any], square: str) -> list[Stmt]:
        """Store lane ``i``'s result ``k`` into a square."""
        assert self.form.result is not None
        value = convert(self.scan.finish(self.m, tuple(values)), arithmetic_dtype(self.form.result))
        return stores(square, self.k * SIDE + self.i, value, self.form.result)

    def _contribution(self, square: str, position: Expr) -> tuple[Any, ...]:
        """Return the contribution of lane ``i``'s element ``k``."""
        assert self.form.source is not None
        value = load(square, self.k * SIDE + self.i, self.form.source)
        return self.scan.element(self.m, convert(value, self.form.accumulator), position)


class _RowsNest(_VectorNest):
    """Nest whose lanes are rows."""

    def program(self) -> Program:
        """Return the finished nest: an iteration scans a group of rows, as vectors if it is whole, else one by one."""
        index, zero = self.form.index, const(0, self.form.index)
        start, end, row = (Var(stem, index) for stem in ("start", "end", "row"))
        rows = product(self.sizes, index)
        entered = self._enter(row, zero, "row")
        alone = [*entered, *map(Declare, self.accs, self.identity), self._scalar(zero, self.count)]
        rest = [*self._enter(row, zero, "row"),
                *map(Declare, self.accs, self._loaded(self.sums, row - start)), self._scalar(self.rest, self.count)]
        together = [
            self._lanes(self._stored(self.sums, self.i, self.identity)),
            Let(self.rest, self.count - self.count % SIDE),
            loop(self.begin, self.rest, self._square(start), step=SIDE),
            loop(row, end, rest, start=start),
        ]
        whole = (start + SIDE) <= rows
        body: list[Stmt] = [Let(start, self.number * SIDE), Let(end, call("min", start + SIDE, rows)),
                            If(whole, tuple(together)), If(~whole, (loop(row, end, alone, start=start),))]
        groups = (rows + (SIDE - 1)) // SIDE
        return self.nest.program(parallel([self.number], [groups], body), tuple(self.locals))

    def _square(self, start: Expr) -> list[Stmt]:
        """Scan the next ``SIDE`` elements of every row."""
        assert self.form.source is not None
        assert self.form.result is not None
        i, k, zero, position = self.i, self.k, const(0, self.form.index), self.begin + self.k
        held, stored = storage_dtype(self.form.source), storage_dtype(self.form.result)
        into, out = (self._arrays(stem, (dtype, dtype), SIDE * SIDE) for stem, dtype in (("in_square", held),
                                                                                        ("out_square", stored)))
        read = [*self._enter(start + i, zero, "from"), loop(k, SIDE, [
            Store(into[0], i * SIDE + k, Load("in0", self._address("in0", position), held))], LoopKind.VECTOR)]
        turned, square = shuffles(into[0], into[1], held, SIDE, self.at)
        back, shown = shuffles(out[0], out[1], stored, SIDE, self.at)
        lets, values = self._combined(self._loaded(self.sums, i), self._contribution(square, position))
        step = [*lets, *self._stored(self.sums, i, values), *self._shown_square(values, out[0])]
        write = [*self._enter(start + i, zero, "to"), loop(k, SIDE, [
            Store("out0", self._address("out0", position), Load(shown, i * SIDE + k, stored))], LoopKind.VECTOR)]
        return [loop(i, SIDE, read), *turned, loop(k, SIDE, [self._lanes(step)]), *back, loop(i, SIDE, write)]


class _TilesNest(_VectorNest):
    """Nest whose lanes are adjacent pieces of a row: a square is contiguous memory."""

    def program(self) -> Program:
        """Return the finished nest: an iteration scans a block of a row."""
        stop = Var("stop", self.form.index)
        step = LANES if self.loose and not self.form.running else SIDE * SIDE
        in_squares = self.form.source is not None and step != LANES and not self.exact
        body: list[Stmt] = [
            *self._enter(self.number // self.blocks, self.number % self.blocks, "row"),
            Let(self.first, self.block * self.length), Let(stop, call("min", self.first + self.length, self.count)),
            Let(self.rest, stop - (stop - self.first) % step),
        ]
        body += map(Declare, self.accs, self._unless_first(tuple(self.identity), self._carry())
                    if self.loose and self.form.carried else self.identity)
        if self.form.source is not None and step == LANES:
            body += self._folded()
        elif in_squares:
            body.append(loop(self.piece, self.rest, self._piece(), start=self.first, step=BLOCK))
        body.append(self._scalar(self.rest if in_squares or step == LANES else self.first, stop))
        if not self.form.running:
            body += self._write(self.block, tuple(self.accs))
        extent = product([*self.sizes, self.blocks], self.form.index)
        return self.nest.program(parallel([self.number], [extent], body), tuple(self.locals))

    def _folded(self) -> list[Stmt]:
        """Compute the total of a block, in an order that suits vectors."""
        arrays = self._arrays("lane", self.types, LANES)
        lets, values = self._combined(self._loaded(arrays, self.at), self._element(self.begin + self.at))
        totals = [Var(f"total{n}", dtype) for n, dtype in enumerate(self.types)]
        more, sums = self._combined(self.accs, totals)
        return [
            loop(self.at, LANES, self._stored(arrays, self.at, self.identity), LoopKind.VECTOR),
            loop(self.begin, self.rest, [loop(self.at, LANES, [*lets, *self._stored(arrays, self.at, values)],
                                              LoopKind.VECTOR)], start=self.first, step=LANES),
            loop(self.i, LANES, [
                *map(Let, totals, self._loaded(arrays, self.i)), *more, *map(Assign, self.accs, sums)]),
        ]

    def _piece(self) -> list[Stmt]:
        """Prefetch a few squares, so that reads run at the speed of memory, and scan them."""
        assert self.form.source is not None
        held, limit = storage_dtype(self.form.source), Var("limit", self.form.index)
        (near,) = self._arrays("near", (held,), BLOCK)
        fetch = Store(near, self.at, Load("in0", self._address("in0", self.piece + self.at), held))
        return [Let(limit, call("min", self.piece + BLOCK, self.rest)), loop(self.at, limit - self.piece, [fetch]),
                loop(self.begin, limit, self._tile(near, held), start=self.piece, step=SIDE * SIDE)]

    def _tile(self, near: str, held: DType) -> list[Stmt]:
        """Scan every piece, then the pieces' totals, and combine both."""
        i, k, at, half = self.i, self.k, self.at, SIDE * SIDE // 2
        into = self._arrays("in_square", (held, held), 2 * half)
        half //= 2
        read = [Store(into[0], at * 4 + n, Load(near, self.begin - self.piece + at + n * half, held)) for n in range(4)]
        turned, square = shuffles(into[0], into[1], held, SIDE, at, 2)
        position = self.begin + i * SIDE + k
        lets, values = self._combined(self._loaded(self.sums, i), self._contribution(square, position))
        step = [*lets, *self._stored(self.sums, i, values)]
        parts: list[str] = []
        if self.form.running:
            parts = self._arrays("part", self.types, 4 * half)
            step += self._stored(parts, k * SIDE + i, values)
        totals = [Var(f"total{n}", dtype) for n, dtype in enumerate(self.types)]
        more, sums = self._combined(self.accs, totals)
        carry: list[Stmt] = [
            *map(Let, totals, self._loaded(self.sums, i)), *self._stored(self.sums, i, self.accs), *more,
            *map(Assign, self.accs, sums)]
        start = self._lanes(self._stored(self.sums, i, self.identity))
        return [loop(at, half, read), *turned, start,
                loop(k, SIDE, [self._lanes(step)]), loop(i, SIDE, carry), *(self._results(parts) if parts else [])]

    def _results(self, parts: Sequence[str]) -> list[Stmt]:
        """Compute each piece's running values from the total before it."""
        assert self.form.result is not None
        i, k, at, half = self.i, self.k, self.at, SIDE * SIDE // 2
        stored = storage_dtype(self.form.result)
        out = self._arrays("out_square", (stored, stored), 2 * half)
        lets, values = self._combined(self._loaded(self.sums, i), self._loaded(parts, k * SIDE + i))
        step = [*lets, *self._shown_square(self._shown(values), out[0])]
        back, shown = shuffles(out[0], out[1], stored, SIDE, at, 2)
        half //= 2
        write = [Store("out0", self._address("out0", self.begin + at * 4 + n), Load(shown, at + n * half, stored))
                 for n in range(4)]
        return [loop(k, SIDE, [self._lanes(step)]), *back, loop(at, half, write)]


class _ColumnsNest(ScanNest):
    """Builder of a nest over strips of columns, whose running values are in local arrays."""

    def _strides(self, array: str) -> list[Expr]:
        *outer, _, along = super()._strides(array)
        return [*outer, const(1, self.form.index), along]

    def program(self) -> Program:
        """Return the finished nest."""
        index = self.form.index
        *rows, columns = self.sizes
        number, start, self.column, self.at, self.j = (
            Var(stem, index) for stem in ("number", "start", "column", "at", "j"))
        strips = (columns + (COLUMNS - 1)) // COLUMNS
        outer = split(number // strips, rows)
        names = [Var(f"row{k}", index) for k in range(len(outer))]
        self.outer, self.start = [*names, self.column], start
        whole = (start + COLUMNS) <= columns
        body: list[Stmt] = [
            *[Let(var, value) for var, value in zip(names, outer, strict=True)],
            Let(start, (number % strips) * COLUMNS),
            If(whole, tuple(self._strip(const(COLUMNS, index), LoopKind.VECTOR))),
            If(~whole, tuple(self._strip(columns - start, LoopKind.SERIAL))),
        ]
        values = self._named("acc", self._element(const(0, index)))[0]
        arrays = tuple(Local(f"{var.name}_all", var.dtype, COLUMNS) for var, _ in values)
        return self.nest.program(parallel([number], [product(rows, index) * strips], body), arrays)

    def _strip(self, width: Expr, kind: LoopKind) -> list[Stmt]:
        """Scan all rows of a strip: start from the first element of each column."""
        column = Let(self.column, self.start + self.at)
        zero = const(0, self.form.index)
        again = loop(self.at, width, [column, *self._advance(self.j, False)], kind)
        return [loop(self.at, width, [column, *self._advance(zero, True)], kind),
                loop(self.j, self.count, [again], start=1)]

    def _advance(self, position: Expr, first: bool) -> list[Stmt]:
        """Combine one more element of each column, or start with the first one."""
        element = self._element(position)
        held, values = self._named("acc", element)
        new = element if first else self.scan.combine(self.m, values, element)
        pairs, results = self._named("next", new)
        return [*([] if first else [Let(var, Load(f"{var.name}_all", self.at, var.dtype)) for var, _ in held]),
                *[Let(var, value) for var, value in pairs],
                *[Store(f"{var.name}_all", self.at, value) for (var, _), (value, _) in zip(held, pairs, strict=True)],
                *self._write(position, results)]
