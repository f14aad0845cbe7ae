"""Statements as the printers of C see them: the loops of a launch, and the names that a statement uses."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..nodes import (
    Assign,
    Atomic,
    Const,
    Declare,
    Expr,
    For,
    If,
    IRError,
    Kernel,
    Let,
    LoopKind,
    Reduce,
    Stmt,
    Store,
)
from ..vector_access import LoadVector, StoreVector
from .dialect import Dialect


def launch_loops(kernel: Kernel, kind: LoopKind) -> list[For]:
    """Return the GROUP or LANE loops that enclose all other statements, slowest axis first."""
    loops: list[For] = []
    body = kernel.body
    while len(body) == 1 and isinstance(body[0], For) and body[0].kind in (LoopKind.GROUP, LoopKind.LANE):
        loops.append(body[0])
        body = body[0].body
    return [loop for loop in loops if loop.kind is kind]


def lane_extent(loop: For) -> int:
    """Return the constant extent of a LANE loop."""
    if not isinstance(loop.stop, Const):
        raise IRError(f"the extent of LANE loop {loop.var.name} is not a constant")
    return int(loop.stop.value)


def walk(statements: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Yield all statements, outer ones first."""
    for statement in statements:
        yield statement
        if isinstance(statement, (For, If, Reduce)):
            yield from walk(statement.body)


def uses(s: Stmt, dialect: Dialect) -> tuple[set[str], tuple[Expr, ...]]:
    """Return the arrays that a statement itself accesses and the expressions that it evaluates."""
    if isinstance(s, (Let, Declare, Assign)):
        return set(), (s.value,)
    if isinstance(s, (Store, Atomic)):
        return {s.buffer}, (s.index, s.value)
    if isinstance(s, (LoadVector, StoreVector)):
        return {s.buffer}, (s.index, s.count)
    if isinstance(s, If):
        return set(), (s.condition,)
    if isinstance(s, For):
        hardware = s.kind in (LoopKind.GROUP, LoopKind.LANE) and not dialect.serial
        return set(), () if hardware else (s.start, s.stop, s.step)
    if isinstance(s, Reduce):
        extents = tuple(extent for _, extent in s.loops)
        return set(), (*extents, *s.values, *s.identity, *s.combine.values)
    return set(), ()


def loop_hint(s: For, dialect: Dialect, locals: Collection[str]) -> str:
    """Return the line before a loop; empty if there is none.

    Iterations of a parallel loop are independent where they only store to buffers: atomics of serial languages are
    plain sums, and ``locals`` of a kernel are shared by its iterations.
    """
    if s.kind is LoopKind.VECTOR:
        return dialect.unroll
    if s.kind is LoopKind.PARALLEL and all(
            isinstance(x, Let) or (isinstance(x, Store) and x.buffer not in locals) for x in s.body):
        return dialect.independent
    return ""
