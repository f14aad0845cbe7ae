"""The scope of a statement, that is its visible names, for the verifier."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from ..contract.dtypes import DType
from .nodes import (
    Assign,
    Buffer,
    Call,
    Declare,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
    Program,
    Reduce,
    Stmt,
    Temporary,
    Var,
)

#: Loops whose iterations run in parallel.
ARRAY_LOOPS = (LoopKind.PARALLEL, LoopKind.GROUP, LoopKind.LANE)


@dataclass(frozen=True, slots=True)
class Definition:
    """The origin of a variable: a scalar parameter, fixed (loop variable, ``Let``, reduction) or mutable.

    ``depth`` counts the enclosing loops whose iterations run in parallel.
    """

    dtype: DType
    origin: Literal["scalar", "fixed", "mutable"]
    depth: int


@dataclass(frozen=True, slots=True)
class Scope:
    """The names that are visible at one statement.

    Attributes:
        variables: Variables by name.
        arrays: Buffers, temporaries and local arrays by name.
        loops: Enclosing loops, outermost first.
        conditional: Whether an ``If`` encloses the statement.
        alone: Whether the statement is the only one of its block.
        varying: Names of variables that differ between the lanes of a group.
    """

    variables: dict[str, Definition]
    arrays: dict[str, Buffer | Temporary | Local]
    varying: frozenset[str] = frozenset()
    loops: tuple[For, ...] = ()
    conditional: bool = False
    alone: bool = False

    @staticmethod
    def of(program: Program, kernel: Kernel | None = None) -> Scope:
        """Return the outermost scope of a kernel; without a kernel, the scope for sizes of temporaries."""
        scalars = {s.name: Definition(s.dtype, "scalar", 0) for s in program.scalars}
        if kernel is None:
            return Scope(scalars, {})
        arrays: dict[str, Buffer | Temporary | Local] = {b.name: b for b in program.buffers}
        arrays.update((t.name, t) for t in program.temporaries)
        for local in kernel.locals:
            arrays.setdefault(local.name, local)
        return Scope(scalars, arrays, lane_dependent(kernel.body))

    @property
    def depth(self) -> int:
        """Number of enclosing loops whose iterations run in parallel."""
        return sum(s.kind in ARRAY_LOOPS for s in self.loops)

    def inside(self, *kinds: LoopKind) -> bool:
        """Whether a loop of one of the kinds encloses the statement."""
        return any(s.kind in kinds for s in self.loops)

    def knows(self, name: str) -> bool:
        """Whether a variable or array has this name."""
        return name in self.variables or name in self.arrays

    def define(self, variables: Iterable[Var], *, mutable: bool = False) -> Scope:
        """Return this scope with more variables."""
        origin: Literal["fixed", "mutable"] = "mutable" if mutable else "fixed"
        new = {v.name: Definition(v.dtype, origin, self.depth) for v in variables}
        return replace(self, variables={**self.variables, **new})

    def enter(self, loop: For) -> Scope:
        """Return the scope of a loop's body."""
        return replace(self, loops=(*self.loops, loop)).define([loop.var])


def parts(*expressions: Expr, known: Container[int] = (), among: Container[int] | None = None) -> list[Expr]:
    """Return the expressions and all their parts, each once, parts before wholes.

    Expressions whose ids are in ``known`` or not in ``among`` are left out, with the parts that only they contain.
    """
    found: list[Expr] = []
    seen: set[int] = set()
    # None on the stack is above an expression whose parts are done.
    stack: list[Expr | None] = [*reversed(expressions)]
    while stack:
        e = stack.pop()
        if e is None:
            found.append(stack.pop())  # type: ignore[arg-type]
        elif id(e) not in seen and id(e) not in known:
            seen.add(id(e))
            if isinstance(e, Call):
                stack += (e, None)
                stack += e.args[::-1] if among is None else [arg for arg in e.args[::-1] if id(arg) in among]
            elif isinstance(e, Load):
                stack += (e, None, e.index) if among is None or id(e.index) in among else (e, None)
            else:
                found.append(e)
    return found


def lane_dependent(body: tuple[Stmt, ...]) -> frozenset[str]:
    """Return the variables that may differ between the lanes of a group, by iterating to a fixed point."""
    names: set[str] = set()
    while True:
        before = len(names)
        _spread(body, names, False)
        if len(names) == before:
            return frozenset(names)


def varies(names: Iterable[str], *expressions: Expr) -> bool:
    """Whether an expression uses one of the variables."""
    known = frozenset(names)
    return bool(known) and any(isinstance(e, Var) and e.name in known for e in parts(*expressions))


def _spread(body: tuple[Stmt, ...], names: set[str], divergent: bool) -> None:
    for s in body:
        if isinstance(s, Let | Declare | Assign) and (divergent or varies(names, s.value)):
            names.add(s.var.name)
        elif isinstance(s, If):
            _spread(s.body, names, divergent or varies(names, s.condition))
        elif isinstance(s, For):
            apart = divergent or varies(names, s.start, s.stop, s.step)
            if apart or s.kind is LoopKind.LANE:
                names.add(s.var.name)
            _spread(s.body, names, apart)
        elif isinstance(s, Reduce) and (divergent or varies(names, *s.values)):
            names.update(v.name for v in s.results)
