"""Weights and positions of the elements around the points of a grid, in one kernel, for processors.

The arithmetic is that of ``grids``, operation by operation, so that both compute the same bits.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.nodes import Expr, Let, Load, Program, Stmt, Store, Var, call, cast, const, select

#: The parameter of cubic convolution.
_A: Final = -0.75


class _Grid:
    """Writer of the nest.

    Buffers are the weights and the int64 positions (-1: outside), both [B, K, points], and the grid, [B, points, dims];
    for slopes, the gradient of the grid, the grid, and the gradient of the weights. Sizes are those of the batch, the
    points and the image.
    """

    def __init__(self, dtype: DType, dims: int, mode: str, padding: str, align_corners: bool, slopes: bool = False
                 ) -> None:
        self.dtype, self.dims, self.mode, self.padding, self.align_corners = dtype, dims, mode, padding, align_corners
        self.nest = ProgramBuilder("grid_points", int64)
        self.nest.buffer("out0", dtype, writable=True)
        if not slopes:
            self.nest.buffer("out1", int64, writable=True)
        self.nest.buffer("in0", dtype)
        if slopes:
            self.nest.buffer("in1", dtype)
        (self.batch, self.points), self.sizes = self.nest.sizes("n", 2), self.nest.sizes("s", dims)
        self.b, self.p = Var("b", int64), Var("p", int64)
        self.lets: list[Stmt] = []
        # By dimension: from the gradient of a position to that of the coordinate, the last step first.
        self.back: list[list[Callable[[Expr], Expr]]] = [[] for _ in range(dims)]

    def program(self) -> Program:
        """Return the finished nest."""
        lines = [self._line(d) for d in range(self.dims)]
        found = {"nearest": self._nearest, "bilinear": self._linear, "bicubic": self._cubic}[self.mode](lines)
        stores: list[Stmt] = []
        for k, (weight, index) in enumerate(found):
            at = (self.b * len(found) + k) * self.points + self.p
            stores += [Store("out0", at, weight), Store("out1", at, index)]
        return self.nest.program(parallel([self.b, self.p], [self.batch, self.points], [*self.lets, *stores]))

    def slopes_program(self) -> Program:
        """Return the finished nest of the gradient of the grid."""
        lines = [self._line(d) for d in range(self.dims)]
        lows = [self._named(call("floor", x)) for x in lines]
        inner = [self._named(x - low) for x, low in zip(lines, lows, strict=True)]
        shares, slopes = ([make(x, low, t) for x, low, t in zip(lines, lows, inner, strict=True)] for make in (
            self._shares, self._share_slopes))
        corners = [*itertools.product(range(len(shares[0])), repeat=self.dims)]
        stores: list[Stmt] = []
        totals: list[Expr | None] = [None] * self.dims
        for k, corner in enumerate(corners):
            at = (self.b * len(corners) + k) * self.points + self.p
            grad = self._named(Load("in1", at, self.dtype))
            for d in range(self.dims):
                part: Expr = grad
                for e, side in enumerate(corner):
                    part = part * (slopes[e][side] if e == d else shares[e][side])
                before = totals[d]
                totals[d] = self._named(part if before is None else before + part)
        for d, total in enumerate(totals):
            assert total is not None
            for step in reversed(self.back[d]):
                total = self._named(step(total))
            at = (self.b * self.points + self.p) * self.dims + (self.dims - 1 - d)
            stores.append(Store("out0", at, total))
        return self.nest.program(parallel([self.b, self.p], [self.batch, self.points], [*self.lets, *stores]))

    def _shares(self, x: Expr, low: Expr, t: Expr) -> list[Expr]:
        """Return the factors along a dimension that the weights consist of."""
        if self.mode == "bicubic":
            return self._cubic_weights(t)
        return [self._number(1)] if self.mode == "nearest" else [self._named(low + 1 - x), t]

    def _share_slopes(self, x: Expr, low: Expr, t: Expr) -> list[Expr]:
        """Return the derivatives of the factors by the position."""
        if self.mode != "bicubic":
            return [self._number(0)] if self.mode == "nearest" else [self._number(-1), self._number(1)]

        def near(x: Expr) -> Expr:
            return self._named((x * (3 * (_A + 2)) - 2 * (_A + 3)) * x)

        def far(x: Expr) -> Expr:
            return self._named((x * (3 * _A) - 10 * _A) * x + 8 * _A)

        return [far(self._named(t + 1)), near(t), -near(self._named(1 - t)), -far(self._named(2 - t))]

    def _named(self, value: Expr) -> Expr:
        """Return a variable with a value."""
        name = Var(f"v{len(self.lets)}", value.dtype)
        self.lets.append(Let(name, value))
        return name

    def _number(self, value: float) -> Expr:
        return const(value, self.dtype)

    def _line(self, d: int) -> Expr:
        """Return the position of a point along a dimension of the image; the last coordinate belongs to the first."""
        at = (self.b * self.points + self.p) * self.dims + (self.dims - 1 - d)
        x, size = self._named(Load("in0", at, self.dtype)), cast(self.sizes[d], self.dtype)
        if self.align_corners:
            x = (x + 1) / self._number(2) * cast(self.sizes[d] - 1, self.dtype)
            self.back[d].append(lambda g: g * cast(self.sizes[d] - 1, self.dtype) / self._number(2))
        else:
            x = ((x + 1) * size - 1) / self._number(2)
            self.back[d].append(lambda g: g / self._number(2) * size)
        x = self._named(x)
        if self.mode == "bicubic":
            return x
        x = self._placed(x, d)
        if self.dims == 3 and self.padding == "zeros":
            finite = call("lt", call("abs", x), self._number(math.inf))
            x = self._named(select(finite, x, self._number(-2)))
            self.back[d].append(lambda g: select(finite, g, self._number(0)))
        return x

    def _placed(self, x: Expr, d: int) -> Expr:
        if self.padding == "reflection":
            x = self._reflected(x, d)
        return x if self.padding == "zeros" else self._clipped(x, d)

    def _clipped(self, x: Expr, d: int) -> Expr:
        last = cast(self.sizes[d] - 1, self.dtype)
        number = select(call("ne", x, x), self._number(0), x)
        inside = (x > self._number(0)) & (x < last)
        self.back[d].append(lambda g: select(inside, g, self._number(0)))
        return self._named(call("min", call("max", number, self._number(0)), last))

    def _reflected(self, x: Expr, d: int) -> Expr:
        low = self._number(0.0 if self.align_corners else -0.5)
        span = self._named(cast(self.sizes[d] - 1 if self.align_corners else self.sizes[d], self.dtype))
        zero, two = self._number(0), self._number(2)
        shifted = self._named(x - low)
        distance = self._named(select(shifted < zero, -shifted, shifted))
        folds = self._named(call("floor", distance / span))
        rest = self._named(call("fmod", distance, span))
        even = call("eq", call("fmod", folds, two), zero)
        self.back[d].append(lambda g: select(call("eq", span, zero), g * zero, select(
            self._flips(shifted, even), -g, g)))
        inside = select(even, rest + low, span - rest + low)
        return self._named(select(call("eq", span, zero), x * zero, inside))

    def _flips(self, shifted: Expr, even: Expr) -> Expr:
        """Return whether a reflected position moves against the coordinate."""
        behind = shifted < self._number(0)
        return (behind & even) | (call("not", behind) & call("not", even))

    def _index(self, places: Sequence[Expr]) -> Expr:
        """Return the flat position of an element at integral coordinates; -1 outside the image."""
        valid: Expr | None = None
        index: Expr | None = None
        for d, place in enumerate(places):
            inside = self._named((place >= 0) & (place <= cast(self.sizes[d] - 1, self.dtype)))
            valid = inside if valid is None else valid & inside
            whole = cast(select(inside, place, self._number(0)), int64)
            index = whole if index is None else index * self.sizes[d] + whole
        assert valid is not None
        assert index is not None
        return self._named(select(valid, index, const(-1, int64)))

    def _nearest(self, lines: list[Expr]) -> list[tuple[Expr, Expr]]:
        return [(self._number(1), self._index([self._named(call("rint", x)) for x in lines]))]

    def _linear(self, lines: list[Expr]) -> list[tuple[Expr, Expr]]:
        lows = [self._named(call("floor", x)) for x in lines]
        shares = [(self._named(low + 1 - x), self._named(x - low)) for x, low in zip(lines, lows, strict=True)]
        found = []
        for corner in itertools.product((0, 1), repeat=self.dims):
            weight: Expr | None = None
            for share, side in zip(shares, corner, strict=True):
                weight = share[side] if weight is None else weight * share[side]
            assert weight is not None
            places = [self._named(low + side) for low, side in zip(lows, corner, strict=True)]
            found.append((self._named(weight), self._index(places)))
        return found

    def _cubic(self, lines: list[Expr]) -> list[tuple[Expr, Expr]]:
        lows = [self._named(call("floor", x)) for x in lines]
        weights = [self._cubic_weights(self._named(x - low)) for x, low in zip(lines, lows, strict=True)]
        places = [[self._placed(self._named(low + (k - 1)), d) for k in range(4)] for d, low in enumerate(lows)]
        return [(self._named(weights[0][row] * weights[1][column]), self._index([places[0][row], places[1][column]]))
                for row, column in itertools.product(range(4), repeat=2)]

    def _cubic_weights(self, t: Expr) -> list[Expr]:
        def near(x: Expr) -> Expr:
            return self._named(((x * (_A + 2)) - (_A + 3)) * x * x + 1)

        def far(x: Expr) -> Expr:
            return self._named((((x * _A) - 5 * _A) * x + 8 * _A) * x - 4 * _A)

        return [far(self._named(t + 1)), near(t), near(self._named(1 - t)), far(self._named(2 - t))]


def grid_points(state: DeviceState, grid: Any, dtype: DType, sizes: tuple[int, ...], mode: str, padding: str,
                align_corners: bool) -> tuple[Any, Any]:
    """Return the weights and positions of the elements around the points of a grid, [B, K, points], on a processor.

    Args:
        state: The device.
        grid: A handle without gaps, [B, points, dims].
        dtype: float32 or float64.
        sizes: Sizes of the image; none is 0.
        mode: ``nearest``, ``bilinear``, or for two dimensions ``bicubic``.
        padding: ``zeros``, ``border`` or ``reflection``.
        align_corners: As for ``grid_sample``.
    """
    batch, points, dims = grid.shape
    shape = (batch, {"nearest": 1, "bilinear": 1 << dims, "bicubic": 16}[mode], points)
    weights, index = (state.runtime.empty(shape, kind, state.stream) for kind in (dtype, int64))
    if batch * points:
        form = (dtype, dims, mode, padding, align_corners)
        launch(state, ("grid_points", *form), partial(_program, form), None, [weights, index, grid],
               [batch, points, *sizes])
    return weights, index


def grid_slopes(state: DeviceState, grid: Any, grad: Any, dtype: DType, sizes: tuple[int, ...], mode: str, padding: str,
                align_corners: bool) -> Any:
    """Return the gradient of a grid, [B, points, dims], from that of the weights of ``grid_points``."""
    batch, points, dims = grid.shape
    out = state.runtime.empty(grid.shape, dtype, state.stream)
    if batch * points:
        form = (dtype, dims, mode, padding, align_corners)
        launch(state, ("grid_slopes", *form), lambda: _Grid(*form, slopes=True).slopes_program(), None,
               [out, grid, grad], [batch, points, *sizes])
    return out


def _program(form: tuple[Any, ...]) -> Program:
    return _Grid(*form).program()
