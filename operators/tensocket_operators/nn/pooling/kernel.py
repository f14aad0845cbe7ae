"""Max-pooling kernels: the largest elements of windows, and their gradients, without atomics; see ``windows``."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.geometry import coalesce, contiguous, element_strides
from tensocket_core.launch.kernel_handles import moved_handle
from tensocket_core.launch.plan import Plan, launch_planned
from tensocket_core.launch.programs import index_dtype, launch, program
from tensocket_plugins.contract.dtypes import DType, int32, int64
from tensocket_plugins.ir.build.nest import ProgramBuilder, dot, linear, parallel
from tensocket_plugins.ir.element_types import MOVED_AS, arithmetic_dtype
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
from tensocket_plugins.ir.strategies import Strategy

from ...kinds.programs import Programs
from ..convolution.kernel import _clamped, _inside, _reach, _sum, _tap
from ..convolution.taps import Taps

#: Position for a window without elements; larger than every real position, so that real positions win.
_NOWHERE: Final = (1 << 30) - 1
#: Rows that one iteration of ``place_nest`` clears and fills.
_ROWS: Final = 64
_LINES: Final = Programs("place", cpu=True, simt=False)


def lowest(dtype: DType) -> Expr:
    """Return the least element of a dtype."""
    if dtype.kind == "float":
        return const(-math.inf, dtype)
    return const(0 if dtype.kind != "int" else -(1 << (8 * dtype.itemsize - 1)), dtype)


def _first_largest(value: DType, index: DType) -> Combine:
    """Return the larger value with its position: the first of equal values, the last of several NaN, as in PyTorch."""
    (x, y), (i, j) = ([Var(f"{side}_{what}", dtype) for side in ("left", "right")]
                      for what, dtype in (("value", value), ("position", index)))
    left = (y < x) | (call("eq", x, y) & (i < j))
    if value.kind == "float":
        x_nan, y_nan = call("ne", x, x), call("ne", y, y)
        left = (~y_nan & (left | x_nan)) | (x_nan & y_nan & (j < i))
    return Combine((x, i), (y, j), (select(left, x, y), select(left, i, j)))


def pool_nest(dtype: DType, outer: int, dims: int, index: DType) -> Program:
    """Build the program: ``out0[n.., o..]`` is the largest element of a window of ``in0``, ``out1`` its position."""
    nest, work = ProgramBuilder("pool_max", index), arithmetic_dtype(dtype)
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
    least, nowhere = lowest(work), const(_NOWHERE, index)
    best, place = Var("best", work), Var("place", index)
    reduce = Reduce(
        (best, place), tuple(zip(t, taps, strict=True)), (*(let for let, _ in found), Let(valid, _inside(positions))),
        (select(valid, value, least), select(valid, linear(positions, sizes), nowhere)), (least, nowhere),
        _first_largest(work, index))
    body: list[Stmt] = [reduce, Store("out0", target, cast(best, dtype)), Store("out1", target, cast(place, int64))]
    return nest.program(parallel([*a, *o], [*lead, *outputs], body))


def even_pool_nest(dtype: DType, outer: int, dims: int, hop: int | None, unit: tuple[bool, bool], index: DType
                   ) -> Program:
    """Build the program of ``pool_nest`` for evenly spaced windows: it computes positions, and compares in sequence.

    Args:
        dtype: Element type of the image.
        outer: Number of dimensions before those of windows.
        dims: Number of dimensions of windows.
        hop: Stride of the windows along the last dimension, if it is known.
        unit: Whether the last strides of the results and of the image are 1.
        index: Integer type of index arithmetic.
    """
    nest, work = ProgramBuilder("pool_max", index), arithmetic_dtype(dtype)
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
    # The first of equal values, and the last of several NaN, as in PyTorch.
    better = (best < value) | call("ne", value, value) | call("eq", place, nowhere)
    compare: tuple[Stmt, ...] = (
        *(Let(position, o[d] * distances[d] + (t[d] * gaps[d] - pads[d])) for d, position in enumerate(positions)),
        If(inside, (Let(value, cast(Load("in0", dot([*a, *positions], ends[1]), dtype), work)),
                    If(better, (Assign(best, value), Assign(place, cast(linear(positions, sizes), int32)))))),
    )
    for var, size in zip(reversed(t), reversed(taps), strict=True):
        compare = (loop(var, size, compare),)
    target = dot([*a, *o], ends[0])
    body = [Declare(best, lowest(work)), Declare(place, nowhere), *compare,
            Store("out0", target, cast(best, dtype)), Store("out1", target, cast(place, int64))]
    return nest.program(parallel([*a, *o], [*lead, *outputs], body))


def pool_array(state: DeviceState, out: Any, places: Any, source: Any, windows: tuple[Taps, ...], dtype: DType) -> None:
    """Find the largest elements of windows; ``out`` and ``places`` have the same strides, and no array is empty."""
    launch_planned(state, ("pool_max", dtype, windows), (out, places, source),
                   lambda: _pool_plan(state, out, source, windows, dtype))


def _pool_plan(state: DeviceState, out: Any, source: Any, windows: tuple[Taps, ...], dtype: DType) -> Plan:
    dims = len(windows)
    outer = len(out.shape) - dims
    steps = [element_strides(out), element_strides(source)]
    lead, merged = coalesce(out.shape[:outer], [s[:outer] for s in steps])
    index = index_dtype(state, (out.size, source.size, *(_reach(x) for x in (out, source))))
    even = [window.even for window in windows if window.even is not None]
    sizes = [*lead, *out.shape[outer:], *(window.taps for window in windows), *source.shape[outer:]]
    ends = [n for k in range(2) for n in (*merged[k], *steps[k][outer:])]
    if len(even) == dims and math.prod(source.shape[outer:]) < _NOWHERE:
        hop = even[-1][0] if even[-1][0] <= 2 else None
        unit = (steps[0][-1] == 1, steps[1][-1] == 1)
        run = program(state, ("even_pool_max", dtype, len(lead), dims, hop, unit, index),
                      lambda: even_pool_nest(dtype, len(lead), dims, hop, unit, index), Strategy.SERIAL)
        return Plan(run, (*sizes, *(n for numbers in zip(*even, strict=True) for n in numbers), *ends))
    run = program(state, ("pool_max", dtype, len(lead), dims, index),
                  lambda: pool_nest(dtype, len(lead), dims, index), Strategy.SERIAL)
    return Plan(run, (*sizes, *ends), constants=tuple([window.on(state, "positions") for window in windows]))


def pool_gradient_nest(dtype: DType, outer: int, dims: int, index: DType) -> Program:
    """Build the program: ``out0[n.., i..]`` is the sum of ``in0[n.., o..]`` over windows whose maximum is at ``i``."""
    nest, work = ProgramBuilder("pool_max_gradient", index), arithmetic_dtype(dtype)
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
    """Build the gradient's program for processors: image by image, window by window; ``out0`` is contiguous."""
    nest, work = ProgramBuilder("pool_max_spread", index), arithmetic_dtype(dtype)
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
        # A window that covers only padding has no element.
        If((found >= 0) & (found < cast(image, int64)), (
            Let(place, cast(found, index)), Store("out0", target, cast(total, dtype)))))
    for var, size in zip(reversed(o), reversed(outputs), strict=True):
        body = (loop(var, size, body),)
    element = Var("element", index)
    clear = loop(element, image, [Store("out0", linear(a, lead) * image + element, const(0, dtype))],
                 LoopKind.PARALLEL)
    return nest.program(parallel(a, lead, (clear, *body)))


def pool_spread_array(state: DeviceState, out: Any, grad: Any, places: Any, dims: int, dtype: DType) -> None:
    """Scatter gradients to the largest elements of contiguous images; no array is empty."""
    launch_planned(state, ("pool_max_spread", dtype, dims), (out, grad, places),
                   lambda: _spread_plan(state, out, grad, places, dims, dtype))


def _spread_plan(state: DeviceState, out: Any, grad: Any, places: Any, dims: int, dtype: DType) -> Plan:
    outer = len(out.shape) - dims
    steps = [element_strides(out), element_strides(grad), element_strides(places)]
    lead, merged = coalesce(out.shape[:outer], [s[:outer] for s in steps])
    index = index_dtype(state, (out.size, grad.size, *(_reach(x) for x in (out, grad, places))))
    run = program(state, ("pool_max_spread", dtype, len(lead), dims, index),
                  lambda: pool_spread_nest(dtype, len(lead), dims, index), Strategy.SERIAL)
    return Plan(run, (*lead, *grad.shape[outer:], math.prod(out.shape[outer:]),
                      *(n for k in (1, 2) for n in (*merged[k], *steps[k][outer:]))))


def place_nest(dtype: DType, index: DType) -> Program:
    """Build the program: ``out0`` is rows of zeros with elements of ``in0`` at positions, for processors."""
    nest, word = ProgramBuilder("place", index), MOVED_AS.get(dtype, dtype)
    nest.buffer("out0", word, writable=True)
    nest.buffer("places", int64)
    nest.buffer("in0", word)
    rows, count, size = nest.sizes("n", 3)
    names = ("block", "first", "end", "row", "element", "o")
    block, first, end, row, element, o = (Var(name, index) for name in names)
    found = Var("found", int64)
    return nest.program(parallel([block], [(rows + (_ROWS - 1)) // _ROWS], [
        Let(first, block * _ROWS), Let(end, call("min", first + _ROWS, rows)),
        loop(element, (end - first) * size, [Store("out0", first * size + element, const(0, word))],
             LoopKind.PARALLEL),
        loop(row, end, [loop(o, count, [
            Let(found, Load("places", row * count + o, int64)),
            # Other threads may change positions after they were checked.
            If((found >= 0) & (found < cast(size, int64)), (
                Store("out0", row * size + cast(found, index), Load("in0", row * count + o, word)),))])], start=first),
    ]))


def places_lines(state: DeviceState, lines: Any, places: Any, dtype: DType) -> bool:
    """Whether ``place_array`` suits the arrays."""
    return _LINES.of(state) and contiguous(lines) and contiguous(places) and (
        MOVED_AS.get(dtype, dtype).itemsize == dtype.itemsize)


def place_array(state: DeviceState, out: Any, lines: Any, places: Any, dtype: DType) -> None:
    """Write elements of lines to valid positions in lines of zeros; no array is empty."""
    index = index_dtype(state, (out.size, lines.size))
    rows = math.prod(out.shape[:-1])
    launch(state, ("place", dtype, index), lambda: place_nest(dtype, index), Strategy.GROUP,
           [moved_handle(out, dtype), places, moved_handle(lines, dtype)], [rows, lines.shape[-1], out.shape[-1]])


def pool_gradient_array(state: DeviceState, out: Any, grad: Any, places: Any, windows: tuple[Taps, ...],
                        dtype: DType) -> None:
    """Gather the gradients of windows at their largest elements; no array is empty."""
    launch_planned(state, ("pool_max_gradient", dtype, windows), (out, grad, places),
                   lambda: _gradient_plan(state, out, grad, places, windows, dtype))


def _gradient_plan(state: DeviceState, out: Any, grad: Any, places: Any, windows: tuple[Taps, ...],
                   dtype: DType) -> Plan:
    dims = len(windows)
    outer = len(out.shape) - dims
    steps = [element_strides(out), element_strides(grad), element_strides(places)]
    lead, merged = coalesce(out.shape[:outer], [s[:outer] for s in steps])
    index = index_dtype(state, (out.size, grad.size, *(_reach(x) for x in (out, grad, places))))
    back = [window.transposed for window in windows]
    run = program(state, ("pool_max_gradient", dtype, len(lead), dims, index),
                  lambda: pool_gradient_nest(dtype, len(lead), dims, index), Strategy.SERIAL)
    return Plan(run, (*lead, *out.shape[outer:], *(taps.taps for taps in back),
                      *(n for k in range(3) for n in (*merged[k], *steps[k][outer:]))),
                constants=tuple([taps.on(state, "positions") for taps in back]))
