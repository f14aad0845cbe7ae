"""Reductions over the rows of a matrix with few columns and no gaps: several rows form one row of more columns.

A single row would hardly fill a vector. The first kernel folds wide rows, each thread a part of them. The second one
folds the rest for every column: the partial results of all parts and places, and the last rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..nodes import Call, Expr, Kernel, Let, Load, Reduce, Stmt, Store, Temporary, Var, const
from ..strategies import WIDTH
from .nest import (
    Names,
    ceil_div,
    index_dtype,
    larger,
    loads,
    nested,
    peel,
    smaller,
    subexpressions,
    substitute,
    unit_step,
)


def packs(kernel: Kernel) -> bool:
    """Whether a nest is one reduction of rows for every column, and rows are as far apart as there are columns."""
    outer, body = peel(kernel.body)
    if len(outer) != 1 or not body or not isinstance(body[0], Reduce) or len(body[0].loops) != 1 or not all(
            isinstance(s, Let | Store) for s in body[1:]):
        return False
    (row, _), (column, columns) = body[0].loops[0], outer[0]
    elements = [load.index for load in loads((body[0],))]
    if any(_mentions(_without_loads(value), var) for var in (row, column)
           for value in (*body[0].values, *(let.value for let in body[0].body))):
        return False  # the values of rows or columns matter
    return isinstance(columns, Var) and bool(elements) and all(
        unit_step(index, column.name) and any(_is_row(part, row, columns) for part in subexpressions(index))
        for index in elements)


def _without_loads(expr: Expr) -> Expr:
    """Return an expression in which loads no longer differ."""
    match expr:
        case Load(buffer, index, dtype):
            return Load(buffer, const(0, index.dtype), dtype)
        case Call(function, args, dtype):
            return Call(function, tuple(_without_loads(arg) for arg in args), dtype)
    return expr


def _mentions(expr: Expr, var: Var) -> bool:
    return any(isinstance(part, Var) and part.name == var.name for part in subexpressions(expr))


def _is_row(expr: Expr, row: Var, columns: Var) -> bool:
    """Whether an expression is the start of a row."""
    return isinstance(expr, Call) and expr.function == "mul" and [
        part.name for part in expr.args if isinstance(part, Var)] == [row.name, columns.name]


def pack(kernel: Kernel, parallelism: int, grain: int, names: Names) -> tuple[
        tuple[Kernel, Kernel], tuple[Temporary, ...]]:
    """Return two nests for one that ``packs``.

    Args:
        kernel: The nest.
        parallelism: Number of parts that keeps the device busy.
        grain: Minimum elements of a part.
        names: Source of new names.
    """
    ((column, columns),), (reduce, *after) = peel(kernel.body)
    assert isinstance(reduce, Reduce)
    dtype = index_dtype(kernel)
    (row, rows), = reduce.loops
    part, step, place, joined = (names.var(stem, dtype) for stem in ("part", "step", "place", "joined"))
    together = larger(const(WIDTH, dtype) // columns, 1)
    wide, steps = together * columns, rows // together
    parts = larger(smaller(smaller(ceil_div(rows * columns, grain), parallelism), steps), 1)
    chunk = ceil_div(steps, parts)
    number = part * chunk + step
    partials = [Temporary(names.fresh(f"{result.name}_parts"), result.dtype, wide * parts)
                for result in reduce.results]
    first = _widened(reduce, row, column, number, place, together)
    first = replace(first, loops=((step, smaller(chunk, larger(steps - part * chunk, 0))),))
    stores = [Store(partial.name, part * wide + place, result)
              for partial, result in zip(partials, reduce.results, strict=True)]
    found = replace(_renamed(reduce, names), loops=((joined, parts * together),), body=(), values=tuple(
        Load(partial.name, joined * columns + column, partial.dtype) for partial in partials))
    rest = replace(_renamed(reduce, names), loops=((step, rows - steps * together),),
                   body=(Let(row, steps * together + step), *reduce.body))
    combine = reduce.combine
    both: list[Stmt] = [
        *(Let(var, value) for var, value in zip(combine.left, found.results, strict=True)),
        *(Let(var, value) for var, value in zip(combine.right, rest.results, strict=True)),
        *(Let(var, value) for var, value in zip(reduce.results, combine.values, strict=True)),
    ]
    return (
        Kernel(names.fresh(f"{kernel.name}_parts"), nested([(part, parts), (place, wide)], [first, *stores])),
        Kernel(kernel.name, nested([(column, columns)], [found, rest, *both, *after])),
    ), tuple(partials)


def _renamed(reduce: Reduce, names: Names) -> Reduce:
    """Return the same reduction with new names for the results and operands of its combine."""
    left, right = ([names.var(var.name, var.dtype) for var in side] for side in (
        reduce.combine.left, reduce.combine.right))
    mapping: dict[str, Expr] = {old.name: new for olds, news in (
        (reduce.combine.left, left), (reduce.combine.right, right)) for old, new in zip(olds, news, strict=True)}
    combine = replace(reduce.combine, left=tuple(left), right=tuple(right),
                      values=tuple(substitute(value, mapping) for value in reduce.combine.values))
    return replace(reduce, results=tuple(names.var(r.name, r.dtype) for r in reduce.results), combine=combine)


def _widened(reduce: Reduce, row: Var, column: Var, number: Expr, place: Var, together: Expr) -> Reduce:
    """Return the reduction of wide rows by ``number`` at ``place``."""
    wide: dict[str, Expr] = {row.name: number * together, column.name: place}
    body: Sequence[Let] = [Let(let.var, substitute(let.value, wide)) for let in reduce.body]
    return replace(reduce, body=tuple(body), values=tuple(substitute(value, wide) for value in reduce.values))
