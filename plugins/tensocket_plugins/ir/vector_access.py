"""Statements that move several adjacent elements between memory and a lane's own array, in one access where they can.

A GPU reaches the speed of its memory only if a lane moves 16 bytes at a time. An address that is no multiple of that,
or a row that ends earlier, makes the same statement move its elements one by one: ``elementwise`` is its meaning.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..contract.dtypes import DType
from .nodes import Expr, For, If, Load, LoopKind, Stmt, Store, Var, call, const, loop


@dataclass(frozen=True, slots=True, eq=False)
class LoadVector(Stmt):
    """Read ``buffer[index]`` and the elements after it into all of ``array``, a private one.

    Only ``count`` elements exist, at least one. The last one of them fills the rest of a longer array.
    """

    array: str
    buffer: str
    index: Expr
    count: Expr
    dtype: DType


@dataclass(frozen=True, slots=True, eq=False)
class StoreVector(Stmt):
    """Write ``array``, a private one, to ``buffer[index]`` and the elements after it, but only ``count`` of them."""

    array: str
    buffer: str
    index: Expr
    count: Expr
    dtype: DType


VectorAccess = LoadVector | StoreVector


def elementwise(s: VectorAccess, width: int) -> For:
    """Return the loop over single elements that does the same, for an array of ``width`` elements."""
    at = Var(f"{s.array}_at", s.index.dtype)
    if isinstance(s, LoadVector):
        last = s.count - const(1, at.dtype)
        body: Stmt = Store(s.array, at, Load(s.buffer, s.index + call("min", at, last), s.dtype))
    else:
        body = If(at < s.count, (Store(s.buffer, s.index + at, Load(s.array, at, s.dtype)),))
    return loop(at, width, [body], LoopKind.VECTOR)
