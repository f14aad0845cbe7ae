"""Reductions: as loops of one lane, as a tree over the lanes of a group, and split over two kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from ..nodes import (
    Assign,
    Barrier,
    Call,
    Combine,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Reduce,
    Stmt,
    Store,
    Temporary,
    Var,
    const,
    loop,
)
from .nest import Axis, Names, ceil_div, flat_index, index_dtype, larger, nested, peel, product, recover, smaller

#: Number of consecutive additions before a block's sum is added to the total: rounding errors grow with
#: ``BLOCK + n / BLOCK`` instead of ``n``.
BLOCK: Final = 64


def fold_into(combine: Combine, into: Sequence[Var], values: Sequence[Expr]) -> list[Stmt]:
    """Combine ``values`` into the mutable variables ``into``. The statements define names and need their own block."""
    rights = [Let(var, value) for var, value in zip(combine.right, values, strict=True)]
    lefts = [Let(var, value) for var, value in zip(combine.left, into, strict=True)]
    return [*rights, *lefts, *(Assign(var, value) for var, value in zip(into, combine.values, strict=True))]


def declare(variables: Sequence[Var], values: Sequence[Expr]) -> list[Stmt]:
    """Return mutable variables with their first values."""
    return [Declare(var, value) for var, value in zip(variables, values, strict=True)]


def rounds(reduce: Reduce) -> bool:
    """Whether the order of combination matters for accuracy: float sums and products."""
    return any(isinstance(value, Call) and value.function in ("add", "mul") and value.dtype.kind == "float"
               for value in reduce.combine.values)


def accumulate(reduce: Reduce, names: Names, start: Expr | int = 0, step: Expr | int = 1) -> list[Stmt]:
    """Declare the results and fold all iterations into them, in SERIAL loops of one lane.

    Args:
        reduce: The reduction.
        names: Source of new names.
        start: First iteration of the innermost loop for this lane.
        step: Distance between this lane's iterations.
    """
    return [*declare(reduce.results, reduce.identity), *_levels(reduce, names, 0, reduce.results, start, step)]


def _levels(reduce: Reduce, names: Names, level: int, into: Sequence[Var], start: Expr | int,
            step: Expr | int) -> list[Stmt]:
    """Return loops from ``level`` inwards, adding to ``into``."""
    if level == len(reduce.loops):
        return [*reduce.body, *fold_into(reduce.combine, into, reduce.values)]
    var, extent = reduce.loops[level]
    if level < len(reduce.loops) - 1:
        begin: Expr | int = 0
        stride: Expr | int = 1
    else:
        begin, stride = start, step

    def body(target: Sequence[Var]) -> list[Stmt]:
        return _levels(reduce, names, level + 1, target, start, step)

    if not rounds(reduce):
        return [loop(var, extent, body(into), start=begin, step=stride)]
    return [_blocked(reduce, names, (var, extent), into, body, begin, stride)]


def _blocked(reduce: Reduce, names: Names, axis: Axis, into: Sequence[Var],
             body: Callable[[Sequence[Var]], list[Stmt]], begin: Expr | int, stride: Expr | int) -> For:
    """Return a loop over blocks; each block is summed separately."""
    var, extent = axis
    first = names.var(f"{var.name}_block", var.dtype)
    parts = [names.var(f"{result.name}_block", result.dtype) for result in reduce.results]
    span = stride * BLOCK
    return loop(first, extent, [
        *declare(parts, reduce.identity),
        loop(var, smaller(first + span, extent), body(parts), start=first, step=stride),
        *fold_into(reduce.combine, into, parts),
    ], start=begin, step=span)


def flatten(reduce: Reduce, names: Names) -> Reduce:
    """Return the same reduction over one loop."""
    if len(reduce.loops) == 1:
        return reduce
    dtype = reduce.loops[0][0].dtype
    number = names.var("number", dtype)
    extent = product((extent for _, extent in reduce.loops), dtype)
    return replace(reduce, loops=((number, extent),), body=(*recover(number, reduce.loops, names), *reduce.body))


def tree(reduce: Reduce, names: Names, lane: Var, lanes: int, arrays: Sequence[str]) -> list[Stmt]:
    """Combine the results that the lanes of a group have accumulated; afterwards all lanes have the total.

    The tree has two levels, so that there are only two barriers: about the square root of ``lanes`` lanes fold a column
    each, then every lane folds the columns' results, in the same order.

    Args:
        reduce: The reduction whose results the lanes hold.
        names: Source of new names.
        lane: This lane's number.
        lanes: Lanes of the group; a power of two.
        arrays: A local array of ``lanes`` elements for each result. No lane may still be reading them.
    """
    columns = 1 << (lanes.bit_length() - 1) // 2
    at = names.var("at", lane.dtype)
    publish: list[Stmt] = [Store(array, lane, result) for array, result in zip(arrays, reduce.results, strict=True)]
    others = [Load(array, at, result.dtype) for array, result in zip(arrays, reduce.results, strict=True)]
    first = const(0, lane.dtype)
    return [
        *publish,
        Barrier(),
        If(lane < columns, (
            loop(at, lanes, fold_into(reduce.combine, reduce.results, others), start=lane + columns, step=columns),
            *publish,
        )),
        Barrier(),
        *(Assign(result, Load(array, first, result.dtype)) for array, result in
          zip(arrays, reduce.results, strict=True)),
        loop(at, columns, fold_into(reduce.combine, reduce.results, others), start=1),
    ]


def splittable(kernel: Kernel) -> bool:
    """Whether the kernel is one reduction per output, followed only by ``Let`` and ``Store``."""
    _, body = peel(kernel.body)
    return bool(body) and isinstance(body[0], Reduce) and all(isinstance(s, Let | Store) for s in body[1:])


def split(kernel: Kernel, parallelism: int, grain: Expr | int, flat: bool, names: Names,
          width: Expr | None = None) -> tuple[tuple[Kernel, Kernel], tuple[Temporary, ...]]:
    """Return two nests for a splittable one: partial results of parts of the outermost loop, and their fold.

    Args:
        kernel: A kernel for which ``splittable`` holds.
        parallelism: Number of partial results that keeps the device busy, over all outputs.
        grain: Minimum iterations of a part.
        flat: Whether to divide the iterations of all reduction loops together, at the price of a division per
            iteration, instead of those of the outermost only.
        names: Source of new names.
        width: Number of adjacent outputs that are reduced together, if so; then their partial results are adjacent.
    """
    outer, (reduce, *after) = peel(kernel.body)
    assert isinstance(reduce, Reduce)
    reduce = flatten(reduce, names) if flat else reduce
    dtype = index_dtype(kernel)
    outputs = product((extent for _, extent in outer), dtype)
    (var, extent), *inner = reduce.loops
    iterations = product((size for _, size in reduce.loops), dtype)
    together = outputs if width is None else ceil_div(outputs, width)
    parts = larger(smaller(smaller(ceil_div(const(parallelism, dtype), larger(together, 1)),
                                   ceil_div(iterations, grain)), extent), 1)
    part, step = names.var("part", dtype), names.var("step", dtype)
    partials = [Temporary(names.fresh(f"{result.name}_parts"), result.dtype, outputs * parts)
                for result in reduce.results]
    place = flat_index(outer, dtype) * parts + part if width is None else part * outputs + flat_index(outer, dtype)
    chunk = ceil_div(extent, parts)
    first = replace(
        reduce,
        loops=((step, smaller(chunk, larger(extent - part * chunk, 0))), *inner),
        body=(Let(var, part * chunk + step), *reduce.body),
    )
    stores = (Store(partial.name, place, result) for partial, result in zip(partials, reduce.results, strict=True))
    second = replace(reduce, loops=((part, parts),), body=(),
                     values=tuple(Load(partial.name, place, partial.dtype) for partial in partials))
    return (
        Kernel(names.fresh(f"{kernel.name}_parts"), nested([(part, parts), *outer], [first, *stores])),
        Kernel(kernel.name, nested(outer, [second, *after])),
    ), tuple(partials)
