"""Kernels of groups and lanes: the launch frame, and the schedule with one lane per output iteration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ...contract.dtypes import DType
from ..nodes import Expr, For, If, Kernel, Let, LoopKind, Reduce, Stmt, Var, const, loop
from ..target import Target
from .nest import Axis, Names, ceil_div, index_dtype, peel, product, recover, smaller
from .reduce import accumulate

#: Number of groups that no launch exceeds: an axis has no more iterations than its index type can count.
UNLIMITED: Final = 2**31 - 1


def serialize(body: Iterable[Stmt], names: Names) -> tuple[Stmt, ...]:
    """Return ``body`` for one lane: PARALLEL loops and reductions become SERIAL loops."""
    result: list[Stmt] = []
    for statement in body:
        match statement:
            case Reduce():
                result += accumulate(statement, names)
            case For(var, start, stop, step, inside, kind):
                serial = LoopKind.SERIAL if kind is LoopKind.PARALLEL else kind
                result.append(For(var, start, stop, step, serialize(inside, names), serial))
            case If(condition, inside):
                result.append(If(condition, serialize(inside, names)))
            case _:
                result.append(statement)
    return tuple(result)


def group_size(target: Target) -> int:
    """Return the lanes per group: the preferred number, within the limit, rounded down to a power of two."""
    return 1 << (max(1, min(target.group_size, target.max_group_size)).bit_length() - 1)


def lanes_frame(count: Expr, lanes: int, target: Target, names: Names, body: Callable[[Expr], Sequence[Stmt]]) -> For:
    """Run ``body(number)`` once for every ``number`` below ``count``, one lane each; adjacent numbers share a group."""
    dtype = count.dtype
    group, lane = names.var("group", dtype), names.var("lane", dtype)
    groups = ceil_div(count, lanes)
    inside: Stmt
    if target.max_groups >= UNLIMITED:
        number = names.var("id", dtype)
        work: list[Stmt] = [Let(number, group * lanes + lane), If(number < count, tuple(body(number)))]
    else:
        groups, number = smaller(groups, target.max_groups), names.var("id", dtype)
        work = [loop(number, count, body(number), start=group * lanes + lane, step=groups * lanes)]
    inside = loop(lane, lanes, work, LoopKind.LANE)
    return loop(group, groups, [inside], LoopKind.GROUP)


def groups_frame(count: Expr, lanes: int, target: Target, names: Names,
                 body: Callable[[Expr, Var], Sequence[Stmt]]) -> For:
    """Run ``body(number, lane)`` once for every ``number`` below ``count``, by one group of ``lanes`` lanes each."""
    dtype = count.dtype
    group, lane = names.var("group", dtype), names.var("lane", dtype)
    if target.max_groups >= UNLIMITED:
        groups, work = count, body(group, lane)
    else:
        groups, number = smaller(count, target.max_groups), names.var("id", dtype)
        work = [loop(number, count, body(number, lane), start=group, step=groups)]
    return loop(group, groups, [loop(lane, lanes, work, LoopKind.LANE)], LoopKind.GROUP)


def outputs(axes: Sequence[Axis], dtype: DType) -> Expr:
    """Return the number of iterations of the outer loops; 1 without any."""
    return product((extent for _, extent in axes), dtype) if axes else const(1, dtype)


def schedule_lanes(kernel: Kernel, target: Target, names: Names) -> Kernel:
    """Give each iteration of the outer loops a lane; the innermost axis runs over adjacent lanes."""
    axes, inner = peel(kernel.body)
    frame = lanes_frame(outputs(axes, index_dtype(kernel)), group_size(target), target, names,
                        lambda number: [*recover(number, axes, names), *serialize(inner, names)])
    return Kernel(kernel.name, (frame,), kernel.locals)
