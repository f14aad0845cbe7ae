"""Counts of points in bins of equal width, in one pass, for processors.

The bins and the order of additions are those of ``histograms``, so that both compute the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.dtypes import DType, bool_
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.nodes import If, Let, Load, Program, Stmt, Store, Var, call, cast, const, loop, select

#: The most coordinates of a point: each has its own statements in the program.
COORDINATES: Final = 8


def histogram_nest(dtype: DType, weighted: bool, coordinates: int, index: DType) -> Program:
    """Return the program of ``count_in_bins``; buffers are the counts, the points, the edges and the weights.

    Scalars are 1, the numbers of points and of cells, and for each coordinate the number of bins; then for each
    coordinate the lower bound, and for each the bins per unit.
    """
    nest = ProgramBuilder("histogram", index)
    for name, writable in (("out0", True), ("in0", False), ("edges", False), ("weights", False))[:3 + weighted]:
        nest.buffer(name, dtype, writable=writable)
    once, count, cells, *bins = nest.sizes("n", 3 + coordinates)
    lows, rates = ([nest.number(f"{name}{d}", dtype) for d in range(coordinates)] for name in ("low", "rate"))
    whole, k, j = Var("whole", index), Var("k", index), Var("j", index)
    zero, one = const(0, index), const(1, index)
    values = [Var(f"value{d}", dtype) for d in range(coordinates)]
    read: list[Stmt] = [Let(value, Load("in0", j * coordinates + d, dtype)) for d, value in enumerate(values)]
    inside: Any = const(True, bool_)
    cell: Any = zero
    first: Any = zero
    counted: list[Stmt] = []
    for d, (value, many) in enumerate(zip(values, bins, strict=True)):
        guess, lower, place = (Var(f"{name}{d}", index) for name in ("guess", "lower", "place"))

        def edge(position: Any, first: Any = first) -> Any:
            return Load("edges", first + position, dtype)

        def limited(position: Any, last: Any = many - one) -> Any:
            return call("min", call("max", position, zero), last)

        scaled = call("max", (value - lows[d]) * rates[d], const(0, dtype))
        counted += [
            Let(guess, cast(call("min", scaled, cast(many - one, dtype)), index)),
            Let(lower, limited(guess - select(value < edge(guess), one, zero))),
            Let(place, limited(lower + select(value >= edge(lower + one), one, zero)))]
        inside = inside & (value >= edge(zero)) & (value <= edge(many))
        cell, first = (cell * many + place if d else place), first + many + one
    more = Load("weights", j, dtype) if weighted else const(1, dtype)
    counted.append(Store("out0", cell, Load("out0", cell, dtype) + more))
    body: list[Stmt] = [
        loop(k, cells, [Store("out0", k, const(0, dtype))]),
        loop(j, count, [*read, If(inside, tuple(counted))])]
    return nest.program(parallel([whole], [once], body))


def count_in_bins(state: DeviceState, points: Any, edges: Any, weights: Any, dtype: DType, bins: Sequence[int],
                  low: Sequence[float], high: Sequence[float]) -> Any:
    """Return the counts of points, or sums of their weights, in cells whose sides are bins of equal width.

    Args:
        state: The device, a processor.
        points: A handle without gaps, (points, coordinates).
        edges: The handle of all coordinates' edges, one after the other.
        weights: The handle of a weight for each point, without gaps; None for 1.
        dtype: float32 or float64.
        bins: The number of bins for each coordinate, at least one.
        low: The first edge of each coordinate.
        high: The last edge of each.
    """
    cells = math.prod(bins)
    index = index_dtype(state, (points.size, edges.size, cells))
    out = state.runtime.empty(tuple(bins), dtype, state.stream)
    form = (dtype, weights is not None, len(bins), index)
    rates = [many / (last - first) for many, first, last in zip(bins, low, high, strict=True)]
    launch(state, ("histogram", *form), partial(histogram_nest, *form), None,
           [out, points, edges, *([] if weights is None else [weights])],
           [1, points.shape[0], cells, *bins, *low, *rates])
    return out
