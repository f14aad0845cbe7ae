"""Transposing nests for a processor: squares of elements pass through local arrays.

If results step by one element along the last axis and an operand does along another one, no order of plain loops reads
and writes whole cache lines. A square of such an operand is read along its own lines, transposed in local memory and
then used along the results' lines. A transposition of ``2 ** n`` rows is ``n`` perfect shuffles of the elements
(H. S. Stone, Parallel processing with the perfect shuffle, 1971), two of them at a time, in loops that become vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...contract.dtypes import DType
from ..nodes import Expr, If, Kernel, Let, Load, Local, LoopKind, Stmt, Store, Var, loop
from ..rewrite import Rewrite
from ..text import format_expression
from .nest import Axis, Names, ceil_div, loads, peel, product, recover, smaller, substitute, unit_step

#: Bytes of a cache line.
LINE: Final = 64
#: Minimum rows and columns of a square.
LEAST: Final = 8


@dataclass(frozen=True)
class _TransposedNest:
    """A nest with operands contiguous along ``across`` and results contiguous along ``last``."""

    outer: list[Axis]
    across: Axis
    last: Axis
    body: tuple[Stmt, ...]
    loads: dict[tuple[str, str], Load]


def _match(kernel: Kernel) -> _TransposedNest | None:
    axes, body = peel(kernel.body)
    if len(axes) < 2 or not all(isinstance(s, Let | Store) for s in body):
        return None
    last = axes[-1]
    if not any(isinstance(s, Store) and unit_step(s.index, last[0].name) for s in body):
        return None
    for position, axis in enumerate(axes[:-1]):
        found = {(load.buffer, format_expression(load.index)): load
                 for load in loads(body) if unit_step(load.index, axis[0].name)}
        if found:
            return _TransposedNest([*axes[:position], *axes[position + 1:-1]], axis, last, body, found)
    return None


def schedule_transposed(kernel: Kernel, names: Names) -> Kernel | None:
    """Schedule a transposing nest by squares; return None for any other."""
    nest = _match(kernel)
    return None if nest is None else _Squares(nest, names).kernel(kernel)


def shuffles(source: str, other: str, dtype: DType, side: int, at: Var, done: int = 0) -> tuple[list[Stmt], str]:
    """Transpose a square.

    Args:
        source: The array that holds it, row by row; overwritten.
        other: Another array of the same size.
        dtype: Their element type.
        side: Rows and columns; a power of two.
        at: The loops' variable.
        done: Number of shuffles that are done already, or are left to the caller.

    Returns:
        The statements, and the name of the array that holds the result.
    """
    # Not VECTOR loops: they would have as many lanes as iterations, and scatter.
    statements: list[Stmt] = []
    left = side.bit_length() - 1 - done
    while left:
        ways = 4 if left > 1 else 2
        share = side * side // ways
        statements.append(loop(at, share, [
            Store(other, at * ways + k, Load(source, at + k * share, dtype)) for k in range(ways)]))
        source, other = other, source
        left -= ways // 2
    return statements, source


class _Squares:
    """Builder of the loops over squares: one iteration covers the whole of ``across``."""

    def __init__(self, nest: _TransposedNest, names: Names) -> None:
        self.nest, self.names = nest, names
        self.index = nest.last[0].dtype
        self.side = max(LEAST, *(LINE // load.dtype.itemsize for load in nest.loads.values()))
        self.locals: list[Local] = []
        self.row, self.column = names.var("row", self.index), names.var("column", self.index)

    def kernel(self, kernel: Kernel) -> Kernel:
        """Return the scheduled kernel."""
        nest, side = self.nest, self.side
        number, strip = self.names.var("number", self.index), self.names.var("strip", self.index)
        strips = ceil_div(nest.last[1], side)
        whole = ((self.row + side) <= nest.across[1]) & ((self.column + side) <= nest.last[1])
        inside: list[Stmt] = [
            *recover(number, [*nest.outer, (strip, strips)], self.names),
            Let(self.column, strip * side),
            loop(self.row, nest.across[1], [If(whole, tuple(self._square())), If(~whole, tuple(self._rest()))],
                 step=side),
        ]
        extent = product([extent for _, extent in nest.outer] + [strips], self.index)
        body = loop(number, extent, inside, LoopKind.PARALLEL)
        return Kernel(kernel.name, (body,), (*kernel.locals, *self.locals))

    def _square(self) -> list[Stmt]:
        """Return a whole square: operands are loaded and transposed, and the body runs along the results' lines."""
        (across, _), (last, _) = self.nest.across, self.nest.last
        i, j = self.names.var("i", self.index), self.names.var("j", self.index)
        statements: list[Stmt] = []
        held: dict[tuple[str, str], str] = {}
        for key, load in self.nest.loads.items():
            held[key] = self._bring(load, statements)

        def change(e: Expr) -> Expr:
            name = held.get((e.buffer, format_expression(e.index))) if isinstance(e, Load) else None
            return e if name is None else Load(name, i * self.side + j, e.dtype)

        body = Rewrite(change).block(self.nest.body)
        return [*statements, loop(i, self.side, [
            Let(across, self.row + i), loop(j, self.side, [Let(last, self.column + j), *body])])]

    def _bring(self, load: Load, statements: list[Stmt]) -> str:
        """Read a square of an operand and transpose it; return the name of the array that holds it."""
        (across, _), (last, _) = self.nest.across, self.nest.last
        side = self.side
        i, j = self.names.var("i", self.index), self.names.var("j", self.index)
        source, target = self._array(load.dtype), self._array(load.dtype)
        index = substitute(load.index, {across.name: self.row + j, last.name: self.column + i})
        statements.append(loop(i, side, [loop(j, side, [
            Store(source, i * side + j, Load(load.buffer, index, load.dtype))], LoopKind.VECTOR)]))
        turned, result = shuffles(source, target, load.dtype, side, self.names.var("at", self.index))
        statements += turned
        return result

    def _array(self, dtype: DType) -> str:
        self.locals.append(Local(self.names.fresh("square"), dtype, self.side * self.side))
        return self.locals[-1].name

    def _rest(self) -> Sequence[Stmt]:
        """Return a square that is cut off at the edge, as plain loops."""
        ends = [self.names.var("end", self.index) for _ in range(2)]
        pairs = ((self.row, self.nest.across), (self.column, self.nest.last))
        lets = [Let(end, smaller(first + self.side, axis[1])) for end, (first, axis) in zip(ends, pairs, strict=True)]
        inner = loop(self.nest.last[0], ends[1], self.nest.body, start=self.column)
        return [*lets, loop(self.nest.across[0], ends[0], [inner], start=self.row)]
