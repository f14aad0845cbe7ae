"""Loops over adjacent elements, which become whole vectors and a masked one for the rest.

A compiler would vectorise them too, but it makes several versions, takes longer than for all other code, and computes
the costly forms of functions (``rarely``) for all elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..lanes import is_vector_loop
from ..nodes import Call, Expr, For, If, Let, LoopKind, Program, Reduce, Stmt, Store, Var, loop
from .nest import Names, definitions, expressions, loads, subexpressions, substitute, unit_step, walk

#: Bytes of the values that a vector loop of ``print_row`` computes together: two of the widest vectors.
_BYTES: Final = 128


def in_vectors(statement: For, names: Names, lanes: int) -> list[Stmt] | None:
    """Return a PARALLEL loop over adjacent elements as loops over vectors; None for any other loop."""
    if not _over_neighbours(statement):
        return None
    return _vectors(statement, statement.start, statement.stop, names, lanes)


def prints_in_vectors(statement: For) -> bool:
    """Whether ``row_in_vectors`` applies to a loop: one over adjacent elements with a function in two forms."""
    return _has_two_forms(statement) and _over_neighbours(statement) and is_vector_loop(
        loop(statement.var, 2, statement.body, LoopKind.VECTOR))


def row_in_vectors(statement: For, first: Expr, stop: Expr, names: Names) -> list[Stmt]:
    """Return some iterations of such a loop as loops over vectors."""
    width = max(s.value.dtype.itemsize for s in walk(statement.body) if isinstance(s, Store))
    made = _vectors(statement, first, stop, names, _BYTES // max(width, 4))
    assert made is not None
    return made


def all_vectors(program: Program) -> bool:
    """Whether all innermost loops of a scheduled program become vector instructions."""
    return not any(_has_scalar_loop(kernel.body) for kernel in program.kernels)


def _vectors(statement: For, first: Expr, stop: Expr, names: Names, lanes: int) -> list[Stmt] | None:
    """Return iterations of a loop as whole vectors and a masked one; None if vectors do not serve it."""
    var = statement.var
    chunk, lane, whole = (names.var(stem, var.dtype) for stem in ("chunk", "lane", "whole"))
    at = Let(var, chunk + lane)
    vector = loop(lane, lanes, [at, *statement.body], LoopKind.VECTOR)
    masked = loop(lane, lanes, [at, If(var < stop, statement.body)], LoopKind.VECTOR)
    if not is_vector_loop(vector):
        return None
    return [
        Let(whole, stop - (stop - first) % lanes),
        loop(chunk, whole, [vector], start=first, step=lanes),
        If(whole < stop, (Let(chunk, whole), masked)),
    ]


def _over_neighbours(statement: For) -> bool:
    """Whether a loop reads adjacent elements, perhaps backwards, or one in all iterations, and writes adjacent ones.

    A loop with a function in two forms may read anywhere: it computes longer than vectors gather.
    """
    name = statement.var.name
    if statement.kind is not LoopKind.PARALLEL or any(isinstance(s, For | Reduce) for s in statement.body):
        return False
    named = definitions(statement.body)
    read = [substitute(load.index, named) for load in loads(statement.body)]
    written = [substitute(s.index, named) for s in walk(statement.body) if isinstance(s, Store)]
    return all(unit_step(index, name) or not _uses(index, name) for index in written) and (
        _has_two_forms(statement) or all(
            unit_step(index, name) or _is_backwards(index, name) or not _uses(index, name) for index in read))


def _is_backwards(index: Expr, name: str) -> bool:
    """Whether an index is a constant minus a term that grows by one."""
    return (isinstance(index, Call) and index.function == "sub" and not _uses(index.args[0], name)
            and unit_step(index.args[1], name))


def _uses(index: Expr, name: str) -> bool:
    return any(isinstance(part, Var) and part.name == name for part in subexpressions(index))


def _has_two_forms(statement: For) -> bool:
    return any(isinstance(part, Call) and part.function == "rarely"
               for s in statement.body for e in expressions(s) for part in subexpressions(e))


def _has_scalar_loop(body: Sequence[Stmt]) -> bool:
    """Whether any innermost loop does not become vector instructions."""
    for statement in body:
        if isinstance(statement, If):
            if _has_scalar_loop(statement.body):
                return True
        elif isinstance(statement, For) and not is_vector_loop(statement) and (
                _has_scalar_loop(statement.body) if _has_loop(statement.body) else not prints_in_vectors(statement)):
            return True
    return False


def _has_loop(body: Sequence[Stmt]) -> bool:
    return any(isinstance(s, For) or (isinstance(s, If) and _has_loop(s.body)) for s in body)
