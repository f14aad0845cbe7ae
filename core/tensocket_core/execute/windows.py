"""Kernels over windows: weighted sums and largest elements of taps, and the gradients of both, without atomics.

The last dimensions of an array are the lines that windows lie on, one ``Taps`` each; all dimensions before them are
walked through alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType, int32, int64
from tensocket_plugins.ir.nodes import (
    Assign,
    Combine,
    Declare,
    Expr,
    If,
    Let,
    Load,
    LoopKind,
    Program,
    Reduce,
    Stmt,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)
from tensocket_plugins.ir.schedule import Strategy

from ..device import DeviceEntry
from .geometry import coalesce, element_strides
from .math import arithmetic_dtype
from .nests import Nest, dot, linear, parallel
from .programs import index_dtype, launch
from .taps import Taps

#: Position of a window without elements; larger than every real one, so that real ones win.
_NOWHERE = (1 << 30) - 1
#: Results side by side from which these are computed together, not each by a vector of its own.
_FEW: Final = 8


def _sum(result: Var, loops: Sequence[tuple[Var, Expr]], body: Sequence[Let], value: Expr) -> Reduce:
    left, right = Var("left", result.dtype), Var("right", result.dtype)
    return Reduce((result,), tuple(loops), tuple(body), (value,), (const(0, result.dtype),),
                  Combine((left,), (right,), (left + right,)))


def _tap(nest: Nest, table: str, line: Expr, tap: Expr, taps: Expr, name: str) -> tuple[Let, Var]:
    """The entry of a table for a tap of an element."""
    var = Var(name, nest.index)
    return Let(var, cast(Load(table, line * taps + tap, int32), nest.index)), var


def _inside(positions: Sequence[Expr]) -> Expr:
    """Whether all of a tap's positions are elements."""
    valid = positions[0] >= 0
    for position in positions[1:]:
        valid = valid & (position >= 0)
    return valid


def _clamped(positions: Sequence[Expr]) -> list[Expr]:
    """Positions that may be read, those of no element included."""
    return [call("max", position, 0) for position in positions]


# ------------------------------------------------------------------------------------------------------------ sums


def resample_nest(dtype: DType, ranks: tuple[int, int], unit: bool, index: DType) -> Program:
    """``out0[a.., o, b..] = sum over t of weights[o, t] * in0[a.., positions[o, t], b..]``.

    ``unit`` says that the last of the dimensions b has stride 1 in both arrays.
    """
    nest, work = Nest("resample", index), arithmetic_dtype(dtype)
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
    # Taps of an output have a stride, although it is 1: so a block of outputs, not of taps, becomes one vector.
    (step,) = nest.strides("taps", 1)
    position = Var("position", index)
    let = Let(position, cast(Load("positions", o * taps + t * step, int32), index))
    value = cast(Load("in0", dot([*a, *_clamped([position]), *b], steps), dtype), work)
    total = Var("total", work)
    reduce = _sum(total, [(t, taps)], [let], select(
        position >= 0, value * Load("weights", o * taps + t * step, work), const(0, work)))
    return nest.program(parallel([*a, o, *b], [*before, outputs, *after],
                                 [reduce, Store("out0", target, cast(total, dtype))]))


def resample_array(entry: DeviceEntry, out: Any, source: Any, axis: int, taps: Taps, dtype: DType) -> None:
    """Apply a map along ``axis`` of ``source``; neither array is empty."""
    shape, steps = out.shape, [element_strides(out), element_strides(source)]
    sizes, strides = zip(*(_merged(shape[part], [s[part] for s in steps])
                           for part in (slice(0, axis), slice(axis + 1, None))), strict=True)
    ranks = (len(sizes[0]), len(sizes[1]))
    index = index_dtype(entry, (out.size, source.size, *(_reach(x) for x in (out, source))))
    unit = bool(ranks[1]) and strides[1][0][-1] == strides[1][1][-1] == 1
    beside = sizes[1][-1] if ranks[1] else taps.outputs
    few = beside < _FEW and taps.taps > _FEW
    launch(entry, ("resample", dtype, ranks, unit, index), lambda: resample_nest(dtype, ranks, unit, index),
           Strategy.GROUP if few else Strategy.SERIAL,
           [out, source, taps.on(entry, "positions"), taps.on(entry, "weights", arithmetic_dtype(dtype))],
           [*sizes[0], taps.outputs, *sizes[1], taps.taps,
            *(n for k in range(2) for n in (*strides[0][k], steps[k][axis], *strides[1][k])), 1])


def _merged(shape: tuple[int, ...], steps: list[tuple[int, ...]]) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    return coalesce(shape, steps) if shape else ((), [()] * len(steps))


def _reach(array: Any) -> int:
    return sum((n - 1) * abs(s) for n, s in zip(array.shape, element_strides(array), strict=True))


def fold_nest(dtype: DType, outer: int, dims: int, index: DType) -> Program:
    """``out0[n.., i..] = sum over t.. of in0[n.., slots[i, t].., positions[i, t]..]``: columns added up to an image."""
    nest, work = Nest("fold", index), arithmetic_dtype(dtype)
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


def fold_array(entry: DeviceEntry, out: Any, source: Any, windows: Sequence[Taps], dtype: DType) -> None:
    """Add columns up: ``source`` is [n.., kernel.., outputs..], ``out`` [n.., sizes..]; neither is empty."""
    dims = len(windows)
    outer = len(out.shape) - dims
    steps = [element_strides(out), element_strides(source)]
    lead, merged = coalesce(out.shape[:outer], [s[:outer] for s in steps])
    index = index_dtype(entry, (out.size, source.size, *(_reach(x) for x in (out, source))))
    back = [window.transposed for window in windows]
    launch(entry, ("fold", dtype, len(lead), dims, index), lambda: fold_nest(dtype, len(lead), dims, index),
           Strategy.SERIAL,
           [out, source, *(taps.on(entry, part) for taps in back for part in ("positions", "slots"))],
           [*lead, *out.shape[outer:], *(taps.taps for taps in back),
            *(n for k in range(2) for n in (*merged[k], *steps[k][outer:]))])


def channels_nest(dtype: DType, dims: int, unit: bool, index: DType) -> Program:
    """``out0[n, c, m, o..] = sum over k.. of in0[n, c, o * hop + k * tap ..] * in1[c, m, k..]``.

    The convolution of each channel with kernels of its own. The result is contiguous; ``unit`` says that
    neighbouring results read neighbouring elements.
    """
    nest, work = Nest("convolve_channels", index), arithmetic_dtype(dtype)
    nest.buffer("out0", dtype, writable=True)
    nest.buffer("in0", dtype)
    nest.buffer("in1", dtype)
    lead, outputs, kernel = nest.sizes("n", 3), nest.sizes("m", dims), nest.sizes("k", dims)
    (n, c, m), o, k = nest.variables("i", 3), nest.variables("o", dims), nest.variables("t", dims)
    steps, hops, taps = nest.strides("in0", 2, "s"), nest.strides("in0", dims, "h"), nest.strides("in0", dims, "t")
    ones: list[Expr] = [*hops[:-1], const(1, index)] if unit else [*hops]
    x = cast(Load("in0", dot([n, c, *o, *k], [*steps, *ones, *taps]), dtype), work)
    # Strides as arguments, although they are known: so a block of results, not of taps, becomes one vector.
    w = cast(Load("in1", dot([c, m, *k], nest.strides("in1", 2 + dims)), dtype), work)
    total = Var("total", work)
    reduce = _sum(total, list(zip(k, kernel, strict=True)), [], x * w)
    store = Store("out0", linear([n, c, m, *o], [*lead, *outputs]), cast(total, dtype))
    return nest.program(parallel([n, c, m, *o], [*lead, *outputs], [reduce, store]))


def channels_array(entry: DeviceEntry, out: Any, source: Any, weight: Any, hops: Sequence[int], taps: Sequence[int],
                   dtype: DType) -> None:
    """Convolve every channel by itself.

    Args:
        entry: The device.
        out: [n, c, m, o..], contiguous.
        source: [n, c, ..], padded.
        weight: [c, m, k..].
        hops: Elements from window to window along each dimension.
        taps: Elements from place to place within a window.
        dtype: Element type of all three.
    """
    dims = len(hops)
    index = index_dtype(entry, (out.size, source.size, weight.size, _reach(source)))
    unit = hops[-1] == 1
    launch(entry, ("convolve_channels", dtype, dims, unit, index), lambda: channels_nest(dtype, dims, unit, index),
           Strategy.SERIAL, [out, source, weight],
           [*out.shape, *weight.shape[2:], *element_strides(source)[:2], *hops, *taps, *element_strides(weight)])


# --------------------------------------------------------------------------------------------------- largest elements


def _lowest(dtype: DType) -> Expr:
    if dtype.kind == "float":
        return const(-math.inf, dtype)
    return const(0 if dtype.kind != "int" else -(1 << (8 * dtype.itemsize - 1)), dtype)


def _first_largest(value: DType, index: DType) -> Combine:
    """The larger value with its position: of equals the first, and of several NaN the last, as PyTorch has it."""
    (x, y), (i, j) = ([Var(f"{side}_{what}", dtype) for side in ("left", "right")]
                      for what, dtype in (("value", value), ("position", index)))
    left = (y < x) | (call("eq", x, y) & (i < j))
    if value.kind == "float":
        x_nan, y_nan = call("ne", x, x), call("ne", y, y)
        left = (~y_nan & (left | x_nan)) | (x_nan & y_nan & (j < i))
    return Combine((x, i), (y, j), (select(left, x, y), select(left, i, j)))


def pool_nest(dtype: DType, outer: int, dims: int, index: DType) -> Program:
    """``out0[n.., o..]`` is the largest element of a window of ``in0``, ``out1`` its position in the dimensions."""
    nest, work = Nest("pool_max", index), arithmetic_dtype(dtype)
    nest.buffer("out0", dtype, writable=True)
    nest.buffer("out1", int64, writable=True)
    nest.buffer("in0", dtype)
    tables = [nest.buffer(f"positions{d}", int32) for d in range(dims)]
    lead, outputs, taps, sizes = (nest.sizes(*p) for p in (("n", outer), ("m", dims), ("k", dims), ("s", dims)))
    a, o, t = nest.variables("a", outer), nest.variables("o", dims), nest.variables("t", dims)
    target, steps = dot([*a, *o], nest.strides("out0", outer + dims)), nest.strides("in0", outer + dims)
    found = [_tap(nest, table, o[d], t[d], taps[d], f"position{d}") for d, table in enumerate(tables)]
    positions = [position for _, position in found]
    valid = Var("valid", (positions[0] >= 0).dtype)
    value = cast(Load("in0", dot([*a, *_clamped(positions)], steps), dtype), work)
    lowest, nowhere = _lowest(work), const(_NOWHERE, index)
    best, place = Var("best", work), Var("place", index)
    reduce = Reduce(
        (best, place), tuple(zip(t, taps, strict=True)), (*(let for let, _ in found), Let(valid, _inside(positions))),
        (select(valid, value, lowest), select(valid, linear(positions, sizes), nowhere)), (lowest, nowhere),
        _first_largest(work, index))
    body: list[Stmt] = [reduce, Store("out0", target, cast(best, dtype)), Store("out1", target, cast(place, int64))]
    return nest.program(parallel([*a, *o], [*lead, *outputs], body))


def even_pool_nest(dtype: DType, outer: int, dims: int, hop: int | None, unit: tuple[bool, bool], index: DType
                   ) -> Program:
    """The same for windows that lie evenly: positions are computed, and elements compared one after the other.

    Args:
        dtype: Element type of the image.
        outer: Dimensions before those of windows.
        dims: Dimensions of windows.
        hop: Stride of the windows along the last dimension, where it is known.
        unit: Whether the results' and the image's last strides are 1.
        index: Integer type of index arithmetic.
    """
    nest, work = Nest("pool_max", index), arithmetic_dtype(dtype)
    nest.buffer("out0", dtype, writable=True)
    nest.buffer("out1", int64, writable=True)
    nest.buffer("in0", dtype)
    lead, outputs, taps, sizes = (nest.sizes(*p) for p in (("n", outer), ("m", dims), ("k", dims), ("s", dims)))
    hops, gaps, pads = (nest.sizes(prefix, dims) for prefix in ("hop", "gap", "pad"))
    a, o, t = nest.variables("a", outer), nest.variables("o", dims), nest.variables("t", dims)
    one = const(1, index)
    ends = [[*strides[:-1], one] if known else [*strides] for strides, known in (
        (nest.strides(array, outer + dims), known) for array, known in zip(("out0", "in0"), unit, strict=True))]
    distances: list[Expr] = [*hops[:-1], hops[-1] if hop is None else const(hop, index)]
    best, place, value = Var("best", work), Var("place", int32), Var("value", work)
    positions = [Var(f"position{d}", index) for d in range(dims)]
    inside = positions[0] >= 0
    for d, position in enumerate(positions):
        inside = inside & (position >= 0) & (position < sizes[d]) if d else inside & (position < sizes[d])
    nowhere = const(_NOWHERE, int32)
    # The first of equals, and of several NaN the last, as PyTorch has it.
    better = (best < value) | call("ne", value, value) | call("eq", place, nowhere)
    compare: tuple[Stmt, ...] = (
        *(Let(position, o[d] * distances[d] + (t[d] * gaps[d] - pads[d])) for d, position in enumerate(positions)),
        If(inside, (Let(value, cast(Load("in0", dot([*a, *positions], ends[1]), dtype), work)),
                    If(better, (Assign(best, value), Assign(place, cast(linear(positions, sizes), int32)))))),
    )
    for var, size in zip(reversed(t), reversed(taps), strict=True):
        compare = (loop(var, size, compare),)
    target = dot([*a, *o], ends[0])
    body = [Declare(best, _lowest(work)), Declare(place, nowhere), *compare,
            Store("out0", target, cast(best, dtype)), Store("out1", target, cast(place, int64))]
    return nest.program(parallel([*a, *o], [*lead, *outputs], body))


def pool_array(entry: DeviceEntry, out: Any, places: Any, source: Any, windows: Sequence[Taps], dtype: DType) -> None:
    """Find the largest elements of windows; ``out`` and ``places`` have the same strides, and no array is empty."""
    dims = len(windows)
    outer = len(out.shape) - dims
    steps = [element_strides(out), element_strides(source)]
    lead, merged = coalesce(out.shape[:outer], [s[:outer] for s in steps])
    index = index_dtype(entry, (out.size, source.size, *(_reach(x) for x in (out, source))))
    even = [window.even for window in windows if window.even is not None]
    if len(even) == dims and math.prod(source.shape[outer:]) < _NOWHERE:
        hop = even[-1][0] if even[-1][0] <= 2 else None
        unit = (steps[0][-1] == 1, steps[1][-1] == 1)
        launch(entry, ("even_pool_max", dtype, len(lead), dims, hop, unit, index),
               lambda: even_pool_nest(dtype, len(lead), dims, hop, unit, index), Strategy.SERIAL, [out, places, source],
               [*lead, *out.shape[outer:], *(window.taps for window in windows), *source.shape[outer:],
                *(n for numbers in zip(*even, strict=True) for n in numbers),
                *(n for k in range(2) for n in (*merged[k], *steps[k][outer:]))])
        return
    launch(entry, ("pool_max", dtype, len(lead), dims, index), lambda: pool_nest(dtype, len(lead), dims, index),
           Strategy.SERIAL, [out, places, source, *(window.on(entry, "positions") for window in windows)],
           [*lead, *out.shape[outer:], *(window.taps for window in windows), *source.shape[outer:],
            *(n for k in range(2) for n in (*merged[k], *steps[k][outer:]))])


def pool_gradient_nest(dtype: DType, outer: int, dims: int, index: DType) -> Program:
    """``out0[n.., i..]`` is the sum of ``in0[n.., o..]`` over the windows whose largest element it is."""
    nest, work = Nest("pool_max_gradient", index), arithmetic_dtype(dtype)
    nest.buffer("out0", dtype, writable=True)
    nest.buffer("in0", dtype)
    nest.buffer("places", int64)
    tables = [nest.buffer(f"positions{d}", int32) for d in range(dims)]
    lead, sizes, taps = nest.sizes("n", outer), nest.sizes("m", dims), nest.sizes("k", dims)
    a, i, t = nest.variables("a", outer), nest.variables("i", dims), nest.variables("t", dims)
    target, grads, wheres = (dot([*a, *i], nest.strides("out0", outer + dims)),
                             nest.strides("in0", outer + dims), nest.strides("places", outer + dims))
    found = [_tap(nest, table, i[d], t[d], taps[d], f"position{d}") for d, table in enumerate(tables)]
    positions = [position for _, position in found]
    at = [*a, *_clamped(positions)]
    mine = call("eq", Load("places", dot(at, wheres), int64), cast(linear(i, sizes), int64))
    total = Var("total", work)
    reduce = _sum(total, list(zip(t, taps, strict=True)), [let for let, _ in found], select(
        _inside(positions) & mine, cast(Load("in0", dot(at, grads), dtype), work), const(0, work)))
    return nest.program(parallel([*a, *i], [*lead, *sizes], [reduce, Store("out0", target, cast(total, dtype))]))


def pool_spread_nest(dtype: DType, outer: int, dims: int, index: DType) -> Program:
    """The same for processors: every image by itself, window after window; ``out0`` is contiguous."""
    nest, work = Nest("pool_max_spread", index), arithmetic_dtype(dtype)
    nest.buffer("out0", dtype, writable=True)
    nest.buffer("in0", dtype)
    nest.buffer("places", int64)
    lead, outputs = nest.sizes("n", outer), nest.sizes("m", dims)
    (image,) = nest.sizes("image", 1)
    a, o = nest.variables("a", outer), nest.variables("o", dims)
    grads, wheres = (dot([*a, *o], nest.strides(array, outer + dims)) for array in ("in0", "places"))
    place, found = Var("place", index), Var("found", int64)
    target = linear(a, lead) * image + place
    total = cast(Load("out0", target, dtype), work) + cast(Load("in0", grads, dtype), work)
    body: tuple[Stmt, ...] = (
        Let(found, Load("places", wheres, int64)),
        # A window of padding alone has no element.
        If((found >= 0) & (found < cast(image, int64)), (
            Let(place, cast(found, index)), Store("out0", target, cast(total, dtype)))))
    for var, size in zip(reversed(o), reversed(outputs), strict=True):
        body = (loop(var, size, body),)
    element = Var("element", index)
    clear = loop(element, image, [Store("out0", linear(a, lead) * image + element, const(0, dtype))],
                 LoopKind.PARALLEL)
    return nest.program(parallel(a, lead, (clear, *body)))


def pool_spread_array(entry: DeviceEntry, out: Any, grad: Any, places: Any, dims: int, dtype: DType) -> None:
    """Take gradients back to the largest elements of contiguous images; no array is empty."""
    outer = len(out.shape) - dims
    steps = [element_strides(out), element_strides(grad), element_strides(places)]
    lead, merged = coalesce(out.shape[:outer], [s[:outer] for s in steps])
    index = index_dtype(entry, (out.size, grad.size, *(_reach(x) for x in (out, grad, places))))
    launch(entry, ("pool_max_spread", dtype, len(lead), dims, index),
           lambda: pool_spread_nest(dtype, len(lead), dims, index), Strategy.SERIAL, [out, grad, places],
           [*lead, *grad.shape[outer:], math.prod(out.shape[outer:]),
            *(n for k in (1, 2) for n in (*merged[k], *steps[k][outer:]))])


def pool_gradient_array(entry: DeviceEntry, out: Any, grad: Any, places: Any, windows: Sequence[Taps],
                        dtype: DType) -> None:
    """Take gradients back to the largest elements; no array is empty."""
    dims = len(windows)
    outer = len(out.shape) - dims
    steps = [element_strides(out), element_strides(grad), element_strides(places)]
    lead, merged = coalesce(out.shape[:outer], [s[:outer] for s in steps])
    index = index_dtype(entry, (out.size, grad.size, *(_reach(x) for x in (out, grad, places))))
    back = [window.transposed for window in windows]
    launch(entry, ("pool_max_gradient", dtype, len(lead), dims, index),
           lambda: pool_gradient_nest(dtype, len(lead), dims, index), Strategy.SERIAL,
           [out, grad, places, *(taps.on(entry, "positions") for taps in back)],
           [*lead, *out.shape[outer:], *(taps.taps for taps in back),
            *(n for k in range(3) for n in (*merged[k], *steps[k][outer:]))])
