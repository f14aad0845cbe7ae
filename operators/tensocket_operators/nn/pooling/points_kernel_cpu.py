"""Weighted sums of elements at points, and their gradients, for processors: points are vector lanes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Literal

from tensocket_core.device import DeviceState
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract.dtypes import DType, float64, int64
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.nodes import (
    Assign,
    Declare,
    Expr,
    If,
    Let,
    Load,
    LoopKind,
    Program,
    Stmt,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)

#: Points that one vector handles together.
_LANES: Final = 16

Kind = Literal["read", "place", "slopes"]


def point_nest(kind: Kind, dtype: DType, count: int) -> Program:
    """Return the program of ``run_point_kernel``; buffers are the result, its operands, and int64 positions, -1 for
    none.

    Sizes are those of the batch, channels, elements of a channel and points.

    Args:
        kind: One of the three kinds of ``run_point_kernel``.
        dtype: Element type of the result and the operands.
        count: Positions of each point.
    """
    return _Points(kind, dtype, count).program()


class _Points:
    """Writer of a nest."""

    def __init__(self, kind: Kind, dtype: DType, count: int) -> None:
        self.kind, self.dtype, self.count = kind, dtype, count
        self.nest = ProgramBuilder(f"points_{kind}", int64)
        for name, kept in (("out0", True), ("in0", False), ("in1", False)):
            self.nest.buffer(name, dtype, writable=kept)
        self.nest.buffer("index", int64)
        self.batch, self.channels, self.size, self.points = self.nest.sizes("n", 4)
        self.b, self.c, self.block, self.lane, self.p = (Var(name, int64) for name in ("b", "c", "block", "lane", "p"))
        self.base = Var("base", int64)

    def program(self) -> Program:
        """Return the finished nest."""
        if self.kind == "place":
            return self.nest.program(parallel([self.b, self.c], [self.batch, self.channels], self._placed()))
        at = Let(self.p, self.block * _LANES + self.lane)
        body = self._read() if self.kind == "read" else self._slopes()
        lanes = loop(self.lane, _LANES, [at, If(self.p < self.points, tuple(body))], LoopKind.VECTOR)
        blocks = (self.points + (_LANES - 1)) // _LANES
        return self.nest.program(parallel([self.b, self.block], [self.batch, blocks], [lanes]))

    def _at(self, k: int) -> Expr:
        """Return the offset of position or weight ``k`` of a point."""
        return (self.b * self.count + k) * self.points + self.p

    def _channel(self, size: Expr) -> Expr:
        """Return the offset of a channel."""
        return (self.b * self.channels + self.c) * size

    def _positions(self) -> tuple[list[Stmt], list[Var]]:
        names = [Var(f"place{k}", int64) for k in range(self.count)]
        return [Let(name, Load("index", self._at(k), int64)) for k, name in enumerate(names)], names

    def _inside(self, place: Expr) -> Expr:
        """Return a valid position: other threads may change positions while the kernel runs."""
        return call("min", call("max", place, const(0, int64)), self.size - 1)

    def _element(self, array: str, place: Expr) -> Expr:
        """Return an element of the channel; 0 at position -1."""
        found = Load(array, self.base + self._inside(place), self.dtype)
        return select(place >= 0, found, const(0, self.dtype))

    def _read(self) -> list[Stmt]:
        lets, places = self._positions()
        weights = [Var(f"weight{k}", self.dtype) for k in range(self.count)]
        lets += [Let(weight, Load("in1", self._at(k), self.dtype)) for k, weight in enumerate(weights)]
        total: Expr | None = None
        for place, weight in zip(places, weights, strict=True):
            part = self._element("in0", place) * weight
            total = part if total is None else total + part
        assert total is not None
        return [*lets, loop(self.c, self.channels, [
            Let(self.base, self._channel(self.size)), Store("out0", self._channel(self.points) + self.p, total)])]

    def _slopes(self) -> list[Stmt]:
        lets, places = self._positions()
        sums = [Var(f"sum{k}", float64) for k in range(self.count)]
        slope = Var("slope", self.dtype)
        steps = [Assign(total, total + cast(self._element("in1", place) * slope, float64))
                 for total, place in zip(sums, places, strict=True)]
        return [*lets, *[Declare(total, const(0, float64)) for total in sums],
                loop(self.c, self.channels, [
                    Let(self.base, self._channel(self.size)),
                    Let(slope, Load("in0", self._channel(self.points) + self.p, self.dtype)), *steps]),
                *[Store("out0", self._at(k), cast(total, self.dtype)) for k, total in enumerate(sums)]]

    def _placed(self) -> list[Stmt]:
        """Write zeros, then add the contribution of every point, in order."""
        i, slope = Var("i", int64), Var("slope", self.dtype)
        lets, places = self._positions()
        for k, place in enumerate(places):
            to = self.base + self._inside(place)
            more = slope * Load("in1", self._at(k), self.dtype)
            lets.append(If(place >= 0, (Store("out0", to, Load("out0", to, self.dtype) + more),)))
        return [
            Let(self.base, self._channel(self.size)),
            loop(i, self.size, [Store("out0", self.base + i, const(0, self.dtype))]),
            loop(self.p, self.points, [
                Let(slope, Load("in0", self._channel(self.points) + self.p, self.dtype)), *lets]),
        ]


def run_point_kernel(state: DeviceState, kind: Kind, shape: tuple[int, ...], operands: Sequence[Any], dtype: DType,
              sizes: Sequence[int]) -> Any:
    """Return a new array on a processor: the sums at points, or the gradient of their elements or weights.

    Args:
        state: A device whose target is of kind ``cpu``.
        kind: ``read`` for sums over the positions of each point, ``place`` for gradients of elements, ``slopes`` for
            those of weights.
        shape: The result's shape.
        operands: Handles without gaps: the elements or the gradient, the weights or elements, the positions.
        dtype: Element type of everything but positions.
        sizes: Sizes of the batch, the channels, the elements of a channel and the points.
    """
    out = state.runtime.empty(shape, dtype, state.stream)
    if out.size:
        count = operands[2].shape[1]
        launch(state, ("points", kind, dtype, count), partial(point_nest, kind, dtype, count), None,
               [out, *operands], sizes)
    return out
