"""Streaming stores: results that are larger than a processor's caches bypass them.

A store to a line that is not in a cache first reads the line, and evicts operands that would be read again. Vectors
that fill whole lines are written without either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ..nodes import Buffer, Call, Expr, Kernel, Let, LoopKind, Program, Stmt, Store, Var, loop
from .cpu import ROW_LANES, vector_loops
from .nest import (
    Names,
    ceil_div,
    definitions,
    expressions,
    loads,
    nested,
    peel,
    smaller,
    subexpressions,
    substitute,
    unit_step,
)

#: Iterations that stay together: whole lines for every dtype.
BLOCK: Final = 4096
#: Functions that LLVM does not vectorise.
_QUOTIENTS: Final = frozenset({"fmod", "idiv", "imod"})


def streamed(program: Program) -> tuple[Program, Var | None] | None:
    """Return a pointwise program, scheduled for kind ``cpu``, whose results bypass the caches.

    It may run on contiguous results that start at a 64-byte line and are not operands, and whose rows are whole lines.
    The values are the same.

    Returns:
        The program and the length of rows, if it runs by rows. None if the kernel is not a nest of loops over adjacent
        elements that vectors serve.
    """
    kernel = program.kernels[0]
    if len(program.kernels) > 1 or kernel.locals:
        return None
    axes, body = peel(kernel.body)
    stores = [s for s in body if isinstance(s, Store)]
    written = {s.buffer for s in stores}
    if not axes or not all(isinstance(s, Let | Store) for s in body) or (
            any(load.buffer in written for load in loads(body))):
        return None
    names = Names(program)
    *outer, (var, extent) = axes
    if not all(_lies_along(s.index, body, var, flat=not outer) for s in stores):
        return None
    before: list[Stmt] = []
    inner, stop = var, extent
    if not outer:
        block, place, count = (names.var(stem, var.dtype) for stem in ("block", "place", "count"))
        outer, before = [(block, ceil_div(extent, BLOCK))], [Let(count, smaller(extent - block * BLOCK, BLOCK))]
        body, inner, stop = (Let(var, block * BLOCK + place), *body), place, count
    rows = loop(inner, stop, body, LoopKind.PARALLEL)
    vectors = vector_loops((rows,), names, ROW_LANES)
    if vectors == [rows]:
        return None
    params = tuple(replace(p, streamed=p.name in written) if isinstance(p, Buffer) else p for p in program.params)
    made = replace(program, name=f"{program.name}_streamed", params=params,
                   kernels=(replace(kernel, body=nested(outer, [*before, *vectors])),))
    return made, extent if stop is extent and isinstance(extent, Var) else None


def _lies_along(index: Expr, body: Sequence[Stmt], var: Var, flat: bool) -> bool:
    """Whether adjacent elements are stored in the order of iterations; ``flat``: from the first element on."""
    plain = substitute(index, definitions(body))
    return isinstance(plain, Var) and plain.name == var.name if flat else unit_step(plain, var.name)


def schedule_quotients(kernel: Kernel, names: Names) -> Kernel | None:
    """Schedule adjacent elements in blocks as vector loops, for divisions that no compiler vectorises; else None.

    Threads divide the blocks, also those of one row.
    """
    axes, body = peel(kernel.body)
    if not axes or not all(isinstance(s, Let | Store) for s in body) or not any(
            isinstance(part, Call) and part.function in _QUOTIENTS
            for statement in body for e in expressions(statement) for part in subexpressions(e)):
        return None
    *outer, (var, extent) = axes
    block, place, count = (names.var(stem, var.dtype) for stem in ("block", "place", "count"))
    row = loop(place, count, [Let(var, block * BLOCK + place), *body], LoopKind.PARALLEL)
    vectors = vector_loops((row,), names, ROW_LANES)
    if vectors == [row]:
        return None
    before = Let(count, smaller(extent - block * BLOCK, BLOCK))
    return replace(kernel, body=nested([*outer, (block, ceil_div(extent, BLOCK))], [before, *vectors]))
