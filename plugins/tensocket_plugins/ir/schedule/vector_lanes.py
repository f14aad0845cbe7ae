"""Nests without reductions on groups of lanes: each lane computes several adjacent elements.

A lane moves the elements of every operand and result between memory and its own arrays at once (``LoadVector`` and
``StoreVector``), and computes them in a loop that printers unroll.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..nodes import Call, Expr, Kernel, Let, LoopKind, Stmt, Store, Var, loop
from ..rewrite import Rewrite
from ..scope import parts
from ..target import Target
from ..text import format_expression
from ..vector_access import StoreVector
from .nest import Axis, Names, ceil_div, definitions, expressions, loads, peel, recover, smaller, substitute, unit_step
from .simt import group_size, lanes_frame, outputs
from .vector_loads import VectorLoads, vector_width

#: Functions of a lane's elements beyond which arithmetic, not memory, limits a nest.
CALLS: Final = 1024


def schedule_vector_lanes(kernel: Kernel, target: Target, names: Names) -> Kernel | None:
    """Give several adjacent iterations of the innermost axis a lane; None if memory is not accessed along that axis."""
    axes, inner = peel(kernel.body)
    # Lanes that run one after the other are vectors already.
    if target.sequential or not axes or not all(isinstance(s, Let | Store) for s in inner):
        return None
    var, _ = axes[-1]
    if not _stores_along(inner, var):
        return None
    width = min(vector_width(inner, var, [s.value.dtype for s in inner if isinstance(s, Store)]), _few(inner))
    return None if width == 1 else _kernel(kernel.name, axes, inner, width, target, names)


def _stores_along(body: Sequence[Stmt], var: Var) -> bool:
    """Whether stores step by one element along ``var``, each to its own array, read nowhere but at the same place."""
    named = definitions(body)
    places = {s.buffer: substitute(s.index, named) for s in body if isinstance(s, Store)}
    spelled = {buffer: format_expression(index) for buffer, index in places.items()}
    return len(places) == sum(isinstance(s, Store) for s in body) and all(
        unit_step(index, var.name) for index in places.values()) and all(
        format_expression(substitute(load.index, named)) == spelled[load.buffer]
        for load in loads(body) if load.buffer in spelled)


def _few(body: Sequence[Stmt]) -> int:
    """Return the elements of a lane whose arithmetic is not too much; a power of two."""
    calls = sum(isinstance(part, Call) for part in parts(*(e for s in body for e in expressions(s))))
    return max(1, 1 << (CALLS // max(calls, 1)).bit_length() >> 1)


def _kernel(name: str, axes: Sequence[Axis], body: tuple[Stmt, ...], width: int, target: Target,
            names: Names) -> Kernel:
    """Return the kernel with ``width`` elements of the last axis a lane."""
    *outer, (var, extent) = axes
    chunk, first, count, at = (names.var(stem, var.dtype) for stem in ("chunk", "first", "count", "at"))
    named = definitions(body)
    vectors = VectorLoads(var, first, count, at, width, named, names)
    # Elements beyond the end of the axis repeat its last one.
    inside: list[Stmt] = [Let(var, first + smaller(at, count - 1))]
    stores: list[Stmt] = []
    for s, old in zip(Rewrite(vectors).block(body), body, strict=True):
        if isinstance(s, Store) and isinstance(old, Store):
            array = vectors.array(s.buffer, s.value.dtype)
            start = vectors.start(substitute(old.index, named))
            stores.append(StoreVector(array, s.buffer, start, count, s.value.dtype))
            s = Store(array, at, s.value)
        inside.append(s)
    axes = [*outer, (chunk, ceil_div(extent, width))]

    def lane(number: Expr) -> list[Stmt]:
        return [
            *recover(number, axes, names),
            Let(first, chunk * width),
            Let(count, smaller(extent - first, width)),
            *vectors.statements,
            loop(at, width, inside, LoopKind.VECTOR),
            *stores,
        ]

    frame = lanes_frame(outputs(axes, var.dtype), group_size(target), target, names, lane)
    return Kernel(name, (frame,), tuple(vectors.arrays))
