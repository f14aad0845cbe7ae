"""Counts of elements in bins of equal width, in one pass, for processors.

The bins and the order of additions are those of ``histograms``, so that both compute the same bits.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tensocket_core.device import DeviceState
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.nodes import If, Let, Load, Program, Stmt, Store, Var, call, cast, const, loop, select


def histogram_nest(dtype: DType, weighted: bool, index: DType) -> Program:
    """Return the program of ``count_in_bins``; buffers are the counts, the elements, the edges and the weights.

    Scalars are 1, the numbers of elements and bins, the lower bound, and the bins per unit.
    """
    nest = ProgramBuilder("histogram", index)
    for name, writable in (("out0", True), ("in0", False), ("edges", False), ("weights", False))[:3 + weighted]:
        nest.buffer(name, dtype, writable=writable)
    (once, count, bins), (low, rate) = nest.sizes("n", 3), [nest.number(name, dtype) for name in ("low", "rate")]
    whole, k, j = Var("whole", index), Var("k", index), Var("j", index)
    value, guess, lower, place = Var("value", dtype), Var("guess", index), Var("lower", index), Var("place", index)
    zero, one, last = const(0, index), const(1, index), bins - 1

    def edge(position: Any) -> Any:
        return Load("edges", position, dtype)

    def inside(position: Any) -> Any:
        return call("min", call("max", position, zero), last)

    scaled = call("max", (value - low) * rate, const(0, dtype))
    more = Load("weights", j, dtype) if weighted else const(1, dtype)
    counted: list[Stmt] = [
        Let(guess, cast(call("min", scaled, cast(last, dtype)), index)),
        Let(lower, inside(guess - select(value < edge(guess), one, zero))),
        Let(place, inside(lower + select(value >= edge(lower + 1), one, zero))),
        Store("out0", place, Load("out0", place, dtype) + more)]
    body: list[Stmt] = [
        loop(k, bins, [Store("out0", k, const(0, dtype))]),
        loop(j, count, [Let(value, Load("in0", j, dtype)),
                        If((value >= edge(zero)) & (value <= edge(bins)), tuple(counted))])]
    return nest.program(parallel([whole], [once], body))


def count_in_bins(state: DeviceState, values: Any, edges: Any, weights: Any, dtype: DType, low: float,
                  high: float) -> Any:
    """Return the counts, or sums of weights, of elements in bins of equal width, on a processor.

    Args:
        state: The device.
        values: A vector's handle without gaps.
        edges: The handle of the bins' edges; there is at least one bin.
        weights: The handle of a weight for each element, without gaps; None for 1.
        dtype: float32 or float64.
        low: The first edge.
        high: The last edge.
    """
    bins = edges.size - 1
    index = index_dtype(state, (values.size, bins + 1))
    out = state.runtime.empty((bins,), dtype, state.stream)
    form = (dtype, weights is not None, index)
    launch(state, ("histogram", *form), partial(histogram_nest, *form), None,
           [out, values, edges, *([] if weights is None else [weights])],
           [1, values.size, bins, low, bins / (high - low)])
    return out
