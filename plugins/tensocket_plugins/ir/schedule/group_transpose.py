"""Transposing nests on groups of lanes: tiles of operands pass through local memory.

If results are adjacent along the last axis and an operand is along another one, lanes read a tile of the operand along
its own axis and use it along the results', so that neighbouring lanes access neighbouring elements both times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from ..nodes import Barrier, Expr, If, Kernel, Let, Load, Local, LoopKind, Stmt, Store, Var, const, loop, select
from ..rewrite import Rewrite
from ..target import Target
from ..text import format_expression
from .nest import Axis, Names, ceil_div, definitions, larger, loads, peel, recover, smaller, substitute, unit_step
from .simt import UNLIMITED, group_size, groups_frame, outputs
from .vector_loads import BYTES, mentions

#: Bytes of a line of a square tile.
LINE: Final = 128
#: Fewest and most elements of a line.
LEAST: Final = 32
MOST: Final = 64


def schedule_group_transpose(kernel: Kernel, target: Target, names: Names) -> Kernel | None:
    """Schedule a transposing nest by tiles; return None for any other."""
    axes, body = peel(kernel.body)
    if target.sequential or len(axes) < 2 or not all(isinstance(s, Let | Store) for s in body):
        return None
    last, _ = axes[-1]
    named = definitions(body)
    if not all(unit_step(substitute(s.index, named), last.name) for s in body if isinstance(s, Store)):
        return None
    written = {s.buffer for s in body if isinstance(s, Store)}
    for axis in axes[:-1]:
        found = {(load.buffer, format_expression(index)): (load, index) for load in loads(body)
                 if load.buffer not in written and unit_step(index := substitute(load.index, named), axis[0].name)
                 and mentions(index, last) and not unit_step(index, last.name)}
        if found:
            tiles = _Tiles([other for other in axes[:-1] if other is not axis], axis, axes[-1], found, named, names)
            return tiles.kernel(kernel.name, body, target)
    return None


class _Tiles:
    """Builder of the statements of a group, whose tile is ``high`` along ``across`` and ``wide`` along the last axis.

    A short axis makes the tile longer along the other one.
    """

    def __init__(self, outer: Sequence[Axis], across: Axis, last: Axis, found: Mapping[tuple[str, str], tuple[
            Load, Expr]], named: Mapping[str, Expr], names: Names) -> None:
        self.outer, self.across, self.last, self.found, self.named = outer, across, last, found, named
        self.side = min(MOST, max(LEAST, LINE // max(load.dtype.itemsize for load, _ in found.values())))
        self.names, self.dtype = names, last[0].dtype
        self.batch = BYTES // max(load.dtype.itemsize for load, _ in found.values())
        self.kept: list[Local] = []
        # A tile has at most as many elements as a square, and one more at the end of each line, so that the lanes of a
        # column are in different banks.
        self.tiles = {place: Local(names.fresh("tile"), load.dtype, 2 * self.side * self.side)
                      for place, (load, _) in found.items()}
        self.high, self.wide, self.top, self.left = (
            names.var(stem, self.dtype) for stem in ("high", "wide", "top", "left"))

    def kernel(self, name: str, body: Sequence[Stmt], target: Target) -> Kernel | None:
        """Return the scheduled kernel; None if the tiles do not fit."""
        lanes = group_size(target)
        most = const(self.side * self.side, self.dtype)
        used = sum(tile.size * tile.dtype.itemsize for tile in self.tiles.values())
        if lanes < 2 or used > target.local_bytes:
            return None
        high = larger(smaller(self.across[1], most // larger(smaller(self.last[1], self.side), 1)), 1)
        wide = larger(smaller(self.last[1], most // high), 1)
        row, column = self.names.var("tile_row", self.dtype), self.names.var("tile_column", self.dtype)
        axes = [*self.outer, (row, ceil_div(self.across[1], high)), (column, ceil_div(self.last[1], wide))]

        def group(number: Expr, lane: Var) -> list[Stmt]:
            # A group that takes several tiles uses the local arrays again.
            wait: list[Stmt] = [Barrier()] if target.max_groups < UNLIMITED else []
            return [
                *wait,
                *recover(number, axes, self.names),
                Let(self.high, high),
                Let(self.wide, wide),
                Let(self.top, row * self.high),
                Let(self.left, column * self.wide),
                *self._read(lane, lanes),
                Barrier(),
                *self._use(body, lane, lanes),
            ]

        frame = groups_frame(outputs(axes, self.dtype), lanes, target, self.names, group)
        return Kernel(name, (frame,), (*self.tiles.values(), *self.kept))

    def _lines(self, lane: Var, lanes: int, length: Expr, lines: Expr) -> tuple[list[Stmt], Expr, Expr]:
        """Return a lane's place when the group is divided into lines of ``length``.

        Returns:
            The definitions of the group's number of lines and of the lane's line, and these two. Lanes that are left
            over start beyond the last line of the tile.
        """
        rows, row = (self.names.var(stem, self.dtype) for stem in ("rows", "row"))
        inside = lane < rows * length
        # A line may be longer than the group.
        return [Let(rows, larger(const(lanes, self.dtype) // length, 1)),
                Let(row, select(inside, lane // length, lines))], rows, row

    def _read(self, lane: Var, lanes: int) -> list[Stmt]:
        """Return the loops that fill the tiles, along the operands' axis; a lane reads several lines at once."""
        (across, height), (last, width) = self.across, self.last
        lets, rows, row = self._lines(lane, lanes, self.high, self.wide)
        end, line, at = (self.names.var(stem, self.dtype) for stem in ("end", "line", "at"))
        read: list[Stmt] = []
        put: list[Stmt] = []
        for place, tile in self.tiles.items():
            kept = self._kept(tile)
            read.append(Store(kept, at, Load(place[0], self.found[place][1], tile.dtype)))
            put.append(Store(tile.name, self._place(), Load(kept, at, tile.dtype)))
        number = line + at * rows
        return [
            *lets,
            Let(end, smaller(width - self.left, self.wide) + self.left),
            loop(line, end, [loop(across, smaller(height - self.top, self.high) + self.top, [
                # The last line takes the place of those beyond it, so that no condition delays a load.
                loop(at, self.batch, [Let(last, smaller(number, end - 1)), *read], LoopKind.VECTOR),
                loop(at, self.batch, [Let(last, number), If(last < end, tuple(put))], LoopKind.VECTOR),
            ], start=self.top + lane % self.high, step=lanes)], start=self.left + row, step=rows * self.batch),
        ]

    def _use(self, body: Sequence[Stmt], lane: Var, lanes: int) -> list[Stmt]:
        """Return the loops over the nest's statements, along the results' axis, with elements from the tiles."""
        def change(e: Expr) -> Expr:
            if not isinstance(e, Load):
                return e
            tile = self.tiles.get((e.buffer, format_expression(substitute(e.index, self.named))))
            return e if tile is None else Load(tile.name, self._place(), tile.dtype)

        (across, height), (last, width) = self.across, self.last
        lets, rows, row = self._lines(lane, lanes, self.wide, self.high)
        return [
            *lets,
            loop(across, smaller(height - self.top, self.high) + self.top, [
                loop(last, smaller(width - self.left, self.wide) + self.left, Rewrite(change).block(body),
                     start=self.left + lane % self.wide, step=lanes),
            ], start=self.top + row, step=rows),
        ]

    def _place(self) -> Expr:
        """Return the index of the present element in a tile."""
        return (self.last[0] - self.left) * (self.high + 1) + (self.across[0] - self.top)

    def _kept(self, tile: Local) -> str:
        """Return a new array for the elements of a lane that are on their way to a tile."""
        self.kept.append(Local(self.names.fresh("kept"), tile.dtype, self.batch, private=True))
        return self.kept[-1].name
