"""Nests whose iterations each write a short run of adjacent elements, for a processor: vectors via a small array.

The lanes of a vector write non-adjacent elements. So their results go to a local array in registers, where writes are
permutations, and from there to memory as whole vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..lanes import is_vector_loop
from ..nodes import Call, Const, Expr, If, Kernel, Let, Load, Local, LoopKind, Stmt, Store, Var, loop
from ..text import format_expression
from .nest import Names, nested, peel, substitute, unit_step

#: Maximum elements of a run.
LONGEST: Final = 4


@dataclass(frozen=True)
class _Runs:
    """The statements of an iteration before it stores a run, and the run.

    The run is the elements of ``buffer`` from ``number * len(values)`` on, as far as they are below ``bound``.
    """

    before: tuple[Stmt, ...]
    buffer: str
    number: Expr
    bound: Expr
    values: list[Expr]


def schedule_runs(kernel: Kernel, names: Names) -> Kernel | None:
    """Schedule a nest with a constant last extent and iterations that each end with a run; None for any other."""
    axes, body = peel(kernel.body)
    if len(axes) < 2 or not isinstance(axes[-1][1], Const):
        return None
    *outer, (lane, extent) = axes
    found = _match(body, lane)
    if found is None:
        return None
    ways, lanes = len(found.values), int(axes[-1][1].value)
    run = Local(names.fresh("run"), found.values[0].dtype, ways * lanes)
    spot = names.var("spot", lane.dtype)
    stores = [Store(run.name, lane * ways + k, value) for k, value in enumerate(found.values)]
    made = loop(lane, extent, [*found.before, *stores], LoopKind.VECTOR)
    place = substitute(found.number, {lane.name: Const(0, lane.dtype)}) * ways + spot
    copied = If(place < found.bound, (Store(found.buffer, place, Load(run.name, spot, run.dtype)),))
    written = loop(spot, ways * lanes, [copied], LoopKind.VECTOR)
    if not is_vector_loop(made):
        return None
    return Kernel(kernel.name, nested(outer, [made, written]), (*kernel.locals, run))


def _match(body: Sequence[Stmt], lane: Var) -> _Runs | None:
    """Return the parts of a body that ends with the stores of a run, each within the bound."""
    stores: list[Store] = []
    bounds: list[Expr] = []
    for statement in reversed(body):
        match statement:
            case If(Call("lt", (Var(place), bound)), (Store(_, Var(index)) as store,)) if place == index:
                stores.insert(0, store)
                bounds.insert(0, bound)
            case _:
                break
    ways = len(stores)
    if not 2 <= ways <= LONGEST or any(s.buffer != stores[0].buffer for s in stores):
        return None
    named = {s.var.name: s.value for s in body if isinstance(s, Let) and s.var.dtype is lane.dtype}
    places = [named.get(s.index.name) for s in stores if isinstance(s.index, Var)]
    match places[0]:
        case Call("add", (Call("mul", (number, Const())), Const())) if unit_step(number, lane.name):
            expected = [number * ways + k for k in range(ways)]
        case _:
            return None
    alike = [*zip(places, expected, strict=True), *((bound, bounds[0]) for bound in bounds)]
    if any(found is None or format_expression(found) != format_expression(wanted) for found, wanted in alike):
        return None
    return _Runs(tuple(body[:-ways]), stores[0].buffer, number, bounds[0], [s.value for s in stores])
