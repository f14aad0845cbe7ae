"""Kernels for a processor: outer PARALLEL loops stay for the backend's threads, reductions become loops.

If adjacent outputs read adjacent elements (a sum over the first axis of a matrix), a block of outputs is computed
together, a few rows at a time. Short adjacent reductions are lanes of one vector. Other reductions hold independent
partial results in local arrays and advance them together. The schedule expresses all of this as VECTOR loops, which a
printer turns into vector instructions; no printer or compiler reorders float additions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Final

from ...contract.dtypes import DType
from ..lanes import is_vector_loop
from ..nodes import (
    Call,
    Expr,
    For,
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
    cast,
    loop,
)
from .adjacent import in_vectors
from .nest import (
    Names,
    ceil_div,
    definitions,
    expressions,
    larger,
    nested,
    peel,
    reads_across,
    smaller,
    subexpressions,
    substitute,
    unit_step,
    walk,
)
from .partials import FEW_LANES, LANES, RUN, Partials, VectorReduction, narrowed
from .reduce import accumulate, declare, fold_into

#: Adjacent elements of a row that are computed together.
ROW_LANES: Final = 32
#: Outer iterations that are lanes of a vector.
OUTER_LANES: Final = 16
#: The fewest and the most adjacent outputs that are reduced together, and the number of blocks in between: memory is
#: read fastest in long pieces of rows, and several blocks keep threads busy.
FEW_COLUMNS: Final = 128
COLUMNS: Final = 1024
BLOCKS: Final = 4


def _lower(body: Iterable[Stmt], reduction: Callable[[Reduce], Sequence[Stmt]]) -> tuple[Stmt, ...]:
    """Return ``body`` with every reduction replaced."""
    result: list[Stmt] = []
    for statement in body:
        match statement:
            case Reduce():
                result += reduction(statement)
            case For(_, _, _, _, inside):
                result.append(replace(statement, body=_lower(inside, reduction)))
            case If(condition, inside):
                result.append(If(condition, _lower(inside, reduction)))
            case _:
                result.append(statement)
    return tuple(result)


def schedule_loops(kernel: Kernel, names: Names) -> Kernel:
    """Schedule reductions as plain loops; best for short ones."""
    return Kernel(kernel.name, _lower(kernel.body, lambda reduce: accumulate(reduce, names)), kernel.locals)


def schedule_vectors(kernel: Kernel, names: Names, lanes: int = LANES) -> Kernel:
    """Schedule reductions as loops over vectors of ``lanes`` partial results; best if the innermost loop is long."""
    arrays: list[Local] = []

    def array(dtype: DType) -> str:
        arrays.append(Local(names.fresh("partial"), dtype, lanes))
        return arrays[-1].name

    def reduction(reduce: Reduce) -> list[Stmt]:
        return VectorReduction(reduce, array, names, lanes).build()

    outer, inner = peel(kernel.body)
    if outer:
        inner = tuple(vector_loops(inner, names, min(lanes, ROW_LANES)))
    return Kernel(kernel.name, nested(outer, _lower(inner, reduction)), (*kernel.locals, *arrays))


def vector_loops(body: Iterable[Stmt], names: Names, lanes: int) -> list[Stmt]:
    """Return ``body`` with loops over adjacent elements as whole vectors, and a masked one for the rest of each.

    A compiler would vectorise them too, but it makes several versions and takes longer than for all other code.
    """
    result: list[Stmt] = []
    for statement in body:
        if isinstance(statement, For) and statement.kind is LoopKind.PARALLEL and isinstance(statement.body[0], For):
            inside = tuple(vector_loops(statement.body, names, lanes))
            result.append(replace(statement, body=inside, kind=LoopKind.SERIAL))
            continue
        if isinstance(statement, For) and statement.kind is LoopKind.SERIAL:
            result.append(replace(statement, body=tuple(vector_loops(statement.body, names, lanes))))
            continue
        vectors = in_vectors(statement, names, lanes) if isinstance(statement, For) else None
        result += vectors or [statement]
    return result


def schedule_lanes_of_rows(kernel: Kernel, names: Names) -> Kernel | None:
    """Schedule adjacent outer iterations as lanes of vectors, each with its own short reductions; None without a gain.

    Lanes gather the elements of their rows. Indices are not divided in vectors: that takes longer than all other work.
    """
    outer, inner = peel(kernel.body)
    if not outer or not any(_is_repeated(statement, inner, outer[-1][0].name) for statement in inner):
        return None
    if _divides(inner):
        return None
    *outer, (var, extent) = outer
    block, lane = names.var("block", var.dtype), names.var("lane", var.dtype)
    body = _in_turn(_lower(inner, lambda reduce: accumulate(reduce, names)))
    lanes = loop(lane, OUTER_LANES, [Let(var, block * OUTER_LANES + lane), If(var < extent, body)], LoopKind.VECTOR)
    if not is_vector_loop(lanes):
        return None
    return Kernel(kernel.name, nested([*outer, (block, ceil_div(extent, OUTER_LANES))], [lanes]), kernel.locals)


def _in_turn(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """Return ``body`` with the iterations of its loops one after the other, as each lane runs them."""
    return tuple([replace(s, kind=LoopKind.SERIAL, body=_in_turn(s.body)) if isinstance(s, For) else s for s in body])


def _is_repeated(statement: Stmt, body: Sequence[Stmt], name: str) -> bool:
    """Whether a statement is a reduction, or a loop of an iteration that stores adjacent to its neighbours' stores."""
    if isinstance(statement, For) and statement.kind is LoopKind.SERIAL:
        named = definitions(body)
        places = [substitute(s.index, named) for s in walk(body) if isinstance(s, Store)]
        return all(unit_step(place, name) for place in places)
    return isinstance(statement, Reduce)


def _divides(body: Sequence[Stmt]) -> bool:
    return any(isinstance(part, Call) and part.function in ("idiv", "imod")
               for statement in walk(body) for e in expressions(statement) for part in subexpressions(e))


def schedule_columns(kernel: Kernel, names: Names) -> Kernel | None:
    """Schedule a block of adjacent outer iterations at once, row by row; None if their elements are not adjacent."""
    outer, inner = peel(kernel.body)
    if not outer or not _are_columns(inner, outer[-1][0].name):
        return None
    *outer, (column, columns) = outer
    block = names.var("block", column.dtype)
    width = larger(smaller(ceil_div(columns, BLOCKS * LANES) * LANES, COLUMNS), FEW_COLUMNS)
    lowered = _Columns(column, columns, block, width, names)
    body = lowered.lower(inner)
    return Kernel(kernel.name, nested([*outer, (block, ceil_div(columns, width))], body),
                  (*kernel.locals, *lowered.arrays))


def _are_columns(body: Sequence[Stmt], column: str) -> bool:
    """Whether an outer iteration reduces across columns and ``_Columns`` can distribute all of its statements."""
    return all(_is_plain(statement) for statement in body) and reads_across(body, column)


def _is_plain(statement: Stmt) -> bool:
    """Whether ``_Columns`` can distribute a statement over a block of columns."""
    if isinstance(statement, For):
        _, inside = peel((statement,))
        return statement.kind is LoopKind.PARALLEL and all(isinstance(s, Let | Store) for s in inside)
    return isinstance(statement, Reduce | Let | Store)


class _Columns:
    """Distribution of the statements of one outer iteration over a block of iterations.

    Values that later statements of an iteration use are stored in arrays (results of reductions) or computed again.
    """

    def __init__(self, column: Var, columns: Expr, block: Var, width: Expr, names: Names) -> None:
        self._column = column
        self._columns = columns
        self._block = block
        self._width = width
        self._names = names
        self._first, self._count, self._whole, self._most, self._chunk, self._lane, self._at = (
            names.var(stem, column.dtype) for stem in ("first", "count", "whole", "most", "chunk", "lane", "at"))
        self._known: list[Stmt] = []
        self.arrays: list[Local] = []

    def lower(self, body: Sequence[Stmt]) -> list[Stmt]:
        """Return ``body`` for the whole block."""
        result: list[Stmt] = [
            Let(self._first, self._block * self._width),
            Let(self._count, smaller(self._columns - self._first, self._width)),
            Let(self._whole, self._count - self._count % LANES),
            Let(self._most, self._count - self._count % FEW_LANES),
        ]
        rows_follow = any(isinstance(statement, For) for statement in body)
        for statement in body:
            match statement:
                case Reduce():
                    result += self._reduce(statement)
                case Let(var, value) if rows_follow and var.dtype.kind == "float" and isinstance(value, Call):
                    # Values that take computing are stored for the rows too.
                    self.arrays.append(Local(self._names.fresh("kept"), var.dtype, COLUMNS))
                    kept = self.arrays[-1].name
                    result += self._over([Store(kept, self._at, value)], once=True)
                    self._known.append(Let(var, Load(kept, self._at, var.dtype)))
                case Let():
                    self._known.append(statement)
                case For():
                    axes, inside = peel((statement,))
                    rows: Sequence[Stmt] = self._over(inside)
                    for var, extent in reversed(axes):
                        rows = [loop(var, extent, rows)]
                    result += rows
                case _:
                    result += self._over([statement], once=True)
        return result

    def _over(self, body: Sequence[Stmt], once: bool = False) -> list[Stmt]:
        """Return loops over the columns of the block: many at once, then few, then the rest.

        Work that happens ``once`` per block is not worth a loop over many.
        """
        inside = (Let(self._column, self._first + self._at), *self._known, *body)
        at = Let(self._at, self._chunk + self._lane)
        many, few = (loop(self._lane, lanes, [at, *inside], LoopKind.VECTOR) for lanes in (LANES, FEW_LANES))
        some = loop(self._lane, FEW_LANES, [at, If(self._at < self._count, inside)], LoopKind.VECTOR)
        wide: list[Stmt] = [] if once else [loop(self._chunk, self._whole, [many], step=LANES)]
        return [
            *wide,
            loop(self._chunk, self._most, [few], start=0 if once else self._whole, step=FEW_LANES),
            If(self._most < self._count, (Let(self._chunk, self._most), some)),
        ]

    def _reduce(self, reduce: Reduce) -> list[Stmt]:
        arrays = [Local(self._names.fresh("partial"), result.dtype, COLUMNS) for result in reduce.results]
        self.arrays += arrays
        partials = Partials(reduce, [array.name for array in arrays])
        *loops, (row, extent) = reduce.loops
        rows = self._runs(reduce, row, extent, partials)
        for var, stop in reversed(loops):
            rows = [loop(var, stop, rows)]
        first = self._over(partials.put(self._at, reduce.identity), once=True)
        self._known += [Let(result, value) for result, value in
                        zip(reduce.results, partials.get(self._at), strict=True)]
        return [*first, *rows]

    def _runs(self, reduce: Reduce, row: Var, extent: Expr, partials: Partials) -> list[Stmt]:
        """Return the loop over short runs of rows, which are folded in registers: as many streams of memory at once.

        Sums in the elements' precision begin at 0 and are added to the partial results, others begin with these.
        """
        run, end = (self._names.var(stem, row.dtype) for stem in ("run", "end"))
        narrow = narrowed(reduce)
        inner = reduce if narrow is None else narrow
        folded = [self._names.var("folded", result.dtype) for result in inner.results]
        first = partials.get(self._at) if narrow is None else inner.identity
        wide = [cast(value, result.dtype) for value, result in zip(folded, partials.results, strict=True)]
        return [loop(run, extent, [
            Let(end, smaller(run + RUN, extent)),
            *self._over([*declare(folded, first),
                         loop(row, end, [*inner.body, *fold_into(inner.combine, folded, inner.values)], start=run),
                         *(partials.put(self._at, folded) if narrow is None else partials.fold(self._at, wide))]),
        ], step=RUN)]
