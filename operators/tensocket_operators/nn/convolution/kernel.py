"""Kernels over windows: weighted sums of taps and their gradients, without atomics.

The last dimensions of an array are the lines along which windows move, with one ``Taps`` each. All dimensions before
them are batch dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.geometry import coalesce, element_strides
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_plugins.contract.dtypes import DType, int32
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, linear, parallel
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.nodes import (
    Combine,
    Expr,
    Let,
    Load,
    Program,
    Reduce,
    Store,
    Var,
    call,
    cast,
    const,
    select,
)
from tensocket_plugins.ir.strategies import Strategy

from .taps import Taps

#: Adjacent results from which on a vector holds several results, not parts of one.
_FEW: Final = 8


def _sum(result: Var, loops: Sequence[tuple[Var, Expr]], body: Sequence[Let], value: Expr) -> Reduce:
    left, right = Var("left", result.dtype), Var("right", result.dtype)
    return Reduce((result,), tuple(loops), tuple(body), (value,), (const(0, result.dtype),),
                  Combine((left,), (right,), (left + right,)))


def _tap(nest: ProgramBuilder, table: str, line: Expr, tap: Expr, taps: Expr, name: str) -> tuple[Let, Var]:
    """Return the entry of a table for a tap of an element."""
    var = Var(name, nest.index)
    return Let(var, cast(Load(table, line * taps + tap, int32), nest.index)), var


def _inside(positions: Sequence[Expr]) -> Expr:
    """Whether all positions of a tap are inside their lines."""
    valid = positions[0] >= 0
    for position in positions[1:]:
        valid = valid & (position >= 0)
    return valid


def _clamped(positions: Sequence[Expr]) -> list[Expr]:
    """Return positions that are safe to read; those of no element are clamped."""
    return [call("max", position, 0) for position in positions]


# ------------------------------------------------------------------------------------------------------------ sums


def resample_nest(dtype: DType, ranks: tuple[int, int], unit: bool, index: DType) -> Program:
    """Compute ``out0[a.., o, b..] = sum over t of weights[o, t] * in0[a.., positions[o, t], b..]``.

    ``unit`` says that the last of the dimensions b has stride 1 in both arrays.
    """
    nest, work = ProgramBuilder("resample", index), arithmetic_dtype(dtype)
    nest.buffer("out0", dtype, writable=True)
    nest.buffer("in0", dtype)
    nest.buffer("positions", int32)
    nest.buffer("weights", work)
    before, (outputs,), after, (taps,) = (nest.sizes(prefix, rank) for prefix, rank in (
        ("n", ranks[0]), ("m", 1), ("p", ranks[1]), ("k", 1)))
    a, o, b, t = nest.variables("i", ranks[0]), Var("o", index), nest.variables("j", ranks[1]), Var("t", index)
    rank = sum(ranks) + 1
    made: list[Expr] = [*nest.strides("out0", rank)]
    steps: list[Expr] = [*nest.strides("in0", rank)]
    if unit:
        made[-1] = steps[-1] = const(1, index)
    target = dot([*a, o, *b], made)
    # Taps of an output have stride 1, but are read with a stride: so a block of outputs, not of taps, becomes a vector.
    (step,) = nest.strides("taps", 1)
    position = Var("position", index)
    let = Let(position, cast(Load("positions", o * taps + t * step, int32), index))
    value = cast(Load("in0", dot([*a, *_clamped([position]), *b], steps), dtype), work)
    total = Var("total", work)
    reduce = _sum(total, [(t, taps)], [let], select(
        position >= 0, value * Load("weights", o * taps + t * step, work), const(0, work)))
    return nest.program(parallel([*a, o, *b], [*before, outputs, *after],
                                 [reduce, Store("out0", target, cast(total, dtype))]))


def resample_array(state: DeviceState, out: Any, source: Any, axis: int, taps: Taps, dtype: DType) -> None:
    """Apply a map along ``axis`` of ``source``; both arrays have elements."""
    shape, steps = out.shape, [element_strides(out), element_strides(source)]
    sizes, strides = zip(*(_merged(shape[part], [s[part] for s in steps])
                           for part in (slice(0, axis), slice(axis + 1, None))), strict=True)
    ranks = (len(sizes[0]), len(sizes[1]))
    index = index_dtype(state, (out.size, source.size, *(_reach(x) for x in (out, source))))
    unit = bool(ranks[1]) and strides[1][0][-1] == strides[1][1][-1] == 1
    beside = sizes[1][-1] if ranks[1] else taps.outputs
    few = beside < _FEW and taps.taps > _FEW
    launch(state, ("resample", dtype, ranks, unit, index), lambda: resample_nest(dtype, ranks, unit, index),
           Strategy.GROUP if few else Strategy.SERIAL,
           [out, source, taps.on(state, "positions"), taps.on(state, "weights", arithmetic_dtype(dtype))],
           [*sizes[0], taps.outputs, *sizes[1], taps.taps,
            *(n for k in range(2) for n in (*strides[0][k], steps[k][axis], *strides[1][k])), 1])


def _merged(shape: tuple[int, ...], steps: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    return coalesce(shape, steps) if shape else ((), [()] * len(steps))


def _reach(array: Any) -> int:
    return sum((n - 1) * abs(s) for n, s in zip(array.shape, element_strides(array), strict=True))


def fold_nest(dtype: DType, outer: int, dims: int, index: DType) -> Program:
    """Compute ``out0[n.., i..] = sum over t.. of in0[n.., slots[i, t].., positions[i, t]..]``: sums of columns."""
    nest, work = ProgramBuilder("fold", index), arithmetic_dtype(dtype)
    nest.buffer("out0", dtype, writable=True)
    nest.buffer("in0", dtype)
    tables = [(nest.buffer(f"positions{d}", int32), nest.buffer(f"slots{d}", int32)) for d in range(dims)]
    lead, sizes, taps = nest.sizes("n", outer), nest.sizes("m", dims), nest.sizes("k", dims)
    a, i, t = nest.variables("a", outer), nest.variables("i", dims), nest.variables("t", dims)
    target, steps = dot([*a, *i], nest.strides("out0", outer + dims)), nest.strides("in0", outer + 2 * dims)
    lets: list[Let] = []
    places: list[list[Expr]] = [[], []]
    for d, pair in enumerate(tables):
        for found, table, name in zip(places, pair, ("position", "slot"), strict=True):
            let, var = _tap(nest, table, i[d], t[d], taps[d], f"{name}{d}")
            lets.append(let)
            found.append(var)
    positions, slots = places
    value = cast(Load("in0", dot([*a, *slots, *_clamped(positions)], steps), dtype), work)
    total = Var("total", work)
    reduce = _sum(total, list(zip(t, taps, strict=True)), lets, select(_inside(positions), value, const(0, work)))
    return nest.program(parallel([*a, *i], [*lead, *sizes], [reduce, Store("out0", target, cast(total, dtype))]))


def fold_array(state: DeviceState, out: Any, source: Any, windows: Sequence[Taps], dtype: DType) -> None:
    """Add up columns: ``source`` is [n.., kernel.., outputs..], ``out`` is [n.., sizes..]; both have elements."""
    dims = len(windows)
    outer = len(out.shape) - dims
    steps = [element_strides(out), element_strides(source)]
    lead, merged = coalesce(out.shape[:outer], [s[:outer] for s in steps])
    index = index_dtype(state, (out.size, source.size, *(_reach(x) for x in (out, source))))
    back = [window.transposed for window in windows]
    launch(state, ("fold", dtype, len(lead), dims, index), lambda: fold_nest(dtype, len(lead), dims, index),
           Strategy.SERIAL,
           [out, source, *(taps.on(state, part) for taps in back for part in ("positions", "slots"))],
           [*lead, *out.shape[outer:], *(taps.taps for taps in back),
            *(n for k in range(2) for n in (*merged[k], *steps[k][outer:]))])


def channels_nest(dtype: DType, dims: int, unit: bool, index: DType) -> Program:
    """Compute ``out0[n, c, m, o..] = sum over k.. of in0[n, c, o * hop + k * tap ..] * in1[c, m, k..]``.

    This convolves each channel with kernels of its own. The result is contiguous; ``unit`` says that
    adjacent results read adjacent elements.
    """
    nest, work = ProgramBuilder("convolve_channels", index), arithmetic_dtype(dtype)
    nest.buffer("out0", dtype, writable=True)
    nest.buffer("in0", dtype)
    nest.buffer("in1", dtype)
    lead, outputs, kernel = nest.sizes("n", 3), nest.sizes("m", dims), nest.sizes("k", dims)
    (n, c, m), o, k = nest.variables("i", 3), nest.variables("o", dims), nest.variables("t", dims)
    steps, hops, taps = nest.strides("in0", 2, "s"), nest.strides("in0", dims, "h"), nest.strides("in0", dims, "t")
    ones: list[Expr] = [*hops[:-1], const(1, index)] if unit else [*hops]
    x = cast(Load("in0", dot([n, c, *o, *k], [*steps, *ones, *taps]), dtype), work)
    # Strides are arguments although they are known: so a block of results, not of taps, becomes a vector.
    w = cast(Load("in1", dot([c, m, *k], nest.strides("in1", 2 + dims)), dtype), work)
    total = Var("total", work)
    reduce = _sum(total, list(zip(k, kernel, strict=True)), [], x * w)
    store = Store("out0", linear([n, c, m, *o], [*lead, *outputs]), cast(total, dtype))
    return nest.program(parallel([n, c, m, *o], [*lead, *outputs], [reduce, store]))


def channels_array(state: DeviceState, out: Any, source: Any, weight: Any, hops: Sequence[int], taps: Sequence[int],
                   dtype: DType) -> None:
    """Convolve each channel with its own kernels.

    Args:
        state: The device.
        out: [n, c, m, o..], contiguous.
        source: [n, c, ..], padded.
        weight: [c, m, k..].
        hops: Elements from window to window along each dimension.
        taps: Elements from tap to tap within a window.
        dtype: Element type of all three.
    """
    dims = len(hops)
    index = index_dtype(state, (out.size, source.size, weight.size, _reach(source)))
    unit = hops[-1] == 1
    launch(state, ("convolve_channels", dtype, dims, unit, index), lambda: channels_nest(dtype, dims, unit, index),
           Strategy.SERIAL, [out, source, weight],
           [*out.shape, *weight.shape[2:], *element_strides(source)[:2], *hops, *taps, *element_strides(weight)])
