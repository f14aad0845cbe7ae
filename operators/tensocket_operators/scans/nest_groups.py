"""Nests of scans along contiguous rows for devices that run groups of lanes: a group scans a row, or a block of one.

A group takes a chunk of the row at a time. Each lane scans its own adjacent elements, which it reads as vectors; lanes'
totals meet in local memory, where few lanes scan a piece of them each; and every lane combines the total before the
chunk, those of the pieces before its own, and that of its piece before it, always in this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.elements import load, storage_dtype, stores
from tensocket_plugins.ir.build.nest import split
from tensocket_plugins.ir.complex import convert
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import (
    Assign,
    Barrier,
    Declare,
    Expr,
    If,
    Let,
    Load,
    Local,
    Program,
    Stmt,
    Store,
    Var,
    call,
    const,
    loop,
    select,
)
from tensocket_plugins.ir.schedule.nest import Names, product
from tensocket_plugins.ir.schedule.simt import group_size, groups_frame
from tensocket_plugins.ir.target import Target
from tensocket_plugins.ir.vector_access import LoadVector, StoreVector

from .nest import ScanForm, ScanNest
from .scan import Scan

#: Bytes of the adjacent elements that a lane scans, and the fewest and most of them.
BYTES: Final = 32
FEWEST: Final = 4
MOST: Final = 16
#: Fewest lanes of a group.
LANES: Final = 32


@dataclass(frozen=True)
class Chunk:
    """The part of a row that a group scans at once: so many lanes, each with so many elements."""

    lanes: int
    width: int

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.lanes * self.width


def chunk_of(target: Target, source: DType, length: int) -> Chunk:
    """Return the chunk for rows of ``length`` elements: no more lanes than they need."""
    width = min(MOST, max(FEWEST, BYTES // source.itemsize))
    needed = 1 << (max(1, -(-length // width)) - 1).bit_length()
    return Chunk(min(group_size(target), max(LANES, needed)), width)


def groups_nest(name: str, scan: Scan, form: ScanForm, chunk: Chunk, target: Target) -> Program:
    """Scan blocks like ``scan_nest``, scheduled for ``target``.

    The scan needs an identity and real values; strided arrays have stride 1 along the rows. The elements per block are
    a multiple of the chunk's. The last block's total, which no block needs, may include elements twice.
    """
    return _GroupsNest(name, scan, form, chunk, target).program()


class _GroupsNest(ScanNest):
    """Builder of one nest."""

    def __init__(self, name: str, scan: Scan, form: ScanForm, chunk: Chunk, target: Target) -> None:
        super().__init__(name, scan, form)
        self.chunk, self.target = chunk, target
        self.first, self.stop, self.begin, self.start = (
            Var(stem, form.index) for stem in ("first", "stop", "begin", "start"))
        assert scan.identity is not None
        self.identity = [const(value, dtype) for value, dtype in zip(
            scan.identity(form.accumulator), self.types, strict=True)]
        self.carry = [Var(f"before_chunk{k}", dtype) for k, dtype in enumerate(self.types)]
        self.locals: list[Local] = []
        #: Lanes that scan a piece of the totals each, and the number of totals in a piece.
        self.pieces = 1 << (chunk.lanes.bit_length() - 1) // 2
        self.piece = chunk.lanes // self.pieces

    def program(self) -> Program:
        """Return the finished program."""
        index = self.form.index
        rows = product([*self.sizes, self.blocks], index)
        totals, sums = (self._arrays(stem, size) for stem, size in (
            ("total", self.chunk.lanes), ("piece", self.pieces)))

        def group(number: Expr, lane: Var) -> list[Stmt]:
            block = Var("block", index)
            outer = [Var(f"row{k}", index) for k in range(self.form.rank)]
            self.outer, self.block = [*outer], block
            carry = self._unless_first(tuple(self.identity), self._carry()) if self.form.carried else self.identity
            return [
                *[Let(var, value) for var, value in zip(outer, split(number // self.blocks, self.sizes), strict=True)],
                Let(block, number % self.blocks),
                Let(self.first, block * self.length),
                Let(self.stop, call("min", self.first + self.length, self.count)),
                *map(Declare, self.carry, carry),
                loop(self.begin, self.stop, self._step_of_chunk(lane, totals, sums), start=self.first,
                     step=self.chunk.size),
                *([] if self.form.running else [If(lane < 1, tuple(self._write(block, tuple(self.carry))))]),
            ]

        names = Names(Program(self.nest.name, (), ()))
        frame = groups_frame(rows, self.chunk.lanes, self.target, names, group)
        return self.nest.program([frame], tuple(self.locals))

    def _arrays(self, stem: str, size: int) -> list[str]:
        added = [Local(f"{stem}{k}", dtype, size) for k, dtype in enumerate(self.types)]
        self.locals += added
        return [local.name for local in added]

    def _vector(self, name: str, dtype: DType) -> str:
        self.locals.append(Local(name, dtype, self.chunk.width, private=True))
        return name

    def _loaded(self, arrays: Sequence[str], at: Expr) -> tuple[Any, ...]:
        return tuple(Load(array, at, dtype) for array, dtype in zip(arrays, self.types, strict=True))

    def _stored(self, arrays: Sequence[str], at: Expr, values: Sequence[Expr]) -> list[Stmt]:
        return [Store(array, at, value) for array, value in zip(arrays, values, strict=True)]

    def _named_values(self, stem: str, values: Sequence[Any]) -> tuple[list[Stmt], tuple[Any, ...]]:
        """Return definitions of values, and these as variables."""
        pairs, named = self._named(stem, values)
        return [Let(var, value) for var, value in pairs], named

    def _step_of_chunk(self, lane: Var, totals: Sequence[str], sums: Sequence[str]) -> list[Stmt]:
        """Return the statements of a lane for one chunk."""
        own, running = self._own()
        before, found = self._before(lane, totals, sums)
        return [
            Let(self.start, self.begin + lane * self.chunk.width),
            *own,
            Barrier(),  # lanes may still read the totals of the chunk before
            *self._stored(totals, lane, running[-1]),
            Barrier(),
            If(lane < self.pieces, tuple(self._scan_piece(lane, totals, sums))),
            Barrier(),
            *before,
            *(self._results(found, running) if self.form.running else []),
        ]

    def _own(self) -> tuple[list[Stmt], list[tuple[Any, ...]]]:
        """Return the definitions of a lane's own running values, and these; beyond the end they are meaningless."""
        assert self.form.source is not None
        index, there = self.form.index, Var("there", self.form.index)
        held = self._vector("elements", storage_dtype(self.form.source))
        lets: list[Stmt] = [
            Let(there, call("min", self.start, self.stop - 1)),
            LoadVector(held, "in0", self._address("in0", there),
                       call("min", self.stop - there, const(self.chunk.width, index)),
                       storage_dtype(self.form.source)),
        ]
        running: list[tuple[Any, ...]] = []
        for k in range(self.chunk.width):
            value = convert(load(held, const(k, index), self.form.source), self.form.accumulator)
            values = self.scan.element(self.m, value, self.start + k)
            if running:
                values = self.scan.combine(self.m, running[-1], values)
            more, named = self._named_values(f"own{k}_", values)
            lets += more
            running.append(named)
        return lets, running

    def _scan_piece(self, lane: Var, totals: Sequence[str], sums: Sequence[str]) -> list[Stmt]:
        """Replace the totals of a piece by those before them in the piece, and note the piece's total."""
        at = Var("at", self.form.index)
        place = lane * self.piece + at
        accs = [Var(f"piece_acc{k}", dtype) for k, dtype in enumerate(self.types)]
        lets, here = self._named_values("here", self._loaded(totals, place))
        more, combined = self._named_values("with", self.scan.combine(self.m, tuple(accs), here))
        return [
            *map(Declare, accs, self.identity),
            loop(at, self.piece, [*lets, *more, *self._stored(totals, place, accs), *map(Assign, accs, combined)]),
            *self._stored(sums, lane, accs),
        ]

    def _before(self, lane: Var, totals: Sequence[str], sums: Sequence[str]) -> tuple[list[Stmt], tuple[Any, ...]]:
        """Return the statements that carry the total of all elements over a chunk, and the total before the lane."""
        at = Var("at", self.form.index)
        before = [Var(f"before{k}", dtype) for k, dtype in enumerate(self.types)]
        mine = call("eq", at, lane // self.piece)
        combined, values = self._named_values("more", self.scan.combine(
            self.m, tuple(self.carry), self._loaded(sums, at)))
        lets, found = self._named_values("found", self.scan.combine(
            self.m, tuple(before), self._loaded(totals, lane)))
        return [
            *map(Declare, before, self.carry),
            loop(at, self.pieces, [
                *[Assign(old, select(mine, new, old)) for old, new in zip(before, self.carry, strict=True)],
                *combined, *map(Assign, self.carry, values)]),
            *lets,
        ], found

    def _results(self, before: tuple[Any, ...], running: Sequence[tuple[Any, ...]]) -> list[Stmt]:
        """Return the statements that write a lane's results."""
        assert self.form.result is not None
        index, stored = self.form.index, storage_dtype(self.form.result)
        held = self._vector("results", stored)
        statements: list[Stmt] = []
        for k, own in enumerate(running):
            value = self.scan.finish(self.m, self.scan.combine(self.m, before, own))
            statements += stores(held, const(k, index), convert(value, arithmetic_dtype(self.form.result)),
                                 self.form.result)
        return [*statements, If(self.start < self.stop, (StoreVector(
            held, "out0", self._address("out0", self.start), self.stop - self.start, stored),))]
