"""The largest elements of windows at random distances, for processors: one pass over the windows of each image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.geometry import contiguous
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract.dtypes import DType, float32, float64, int64
from tensocket_plugins.contract.launch_recorder import forbid_replay
from tensocket_plugins.ir.build.nest import ProgramBuilder, linear, parallel
from tensocket_plugins.ir.nodes import (
    Assign,
    Declare,
    If,
    Let,
    Load,
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

from ...kinds.programs import Programs

_PROGRAMS: Final = Programs("fractional_pool", cpu=True, simt=False)


def fractional_nest(dtype: DType, order: tuple[int, ...]) -> Program:
    """Return the program of ``fractional_array``.

    Its buffers are the results, their positions in the flattened images, random numbers from 0 to 1 and the images. The
    sizes are the number of images, and for each dimension elements, windows and taps; the numbers are the windows' mean
    distances.

    Args:
        dtype: Element type of images and random numbers.
        order: The random number of an image that each dimension takes.
    """
    nest, dims = ProgramBuilder("fractional_pool", int64), len(order)
    nest.buffer("out0", dtype, writable=True)
    nest.buffer("out1", int64, writable=True)
    nest.buffer("in1", dtype)
    nest.buffer("in0", dtype)
    (images,), sizes, outputs, taps = (nest.sizes(*part) for part in (("n", 1), ("s", dims), ("m", dims), ("k", dims)))
    steps = [nest.number(f"step{d}", dtype) for d in range(dims)]
    (a,), o, t = nest.variables("a", 1), nest.variables("o", dims), nest.variables("t", dims)
    best, value, place, position = Var("best", dtype), Var("value", dtype), Var("place", int64), Var("position", int64)
    shares, starts = ([Var(f"{stem}{d}", kind) for d in range(dims)] for stem, kind in (
        ("share", dtype), ("start", int64)))
    none = const(-1, int64)
    larger = (best < value) | call("ne", value, value) | call("eq", place, none)
    at = linear([start + tap for start, tap in zip(starts, t, strict=True)], sizes)
    body: list[Stmt] = [
        Let(position, at), Let(value, Load("in0", linear([a], [images]) * _product(sizes) + position, dtype)),
        # The first NaN stays.
        If(larger, (If(call("eq", best, best), (Assign(best, value), Assign(place, position))),))]
    for tap, count in zip(reversed(t), reversed(taps), strict=True):
        body = [loop(tap, count, body)]
    to = linear([a, *o], [images, *outputs])
    body = [Declare(best, const(-math.inf, dtype)), Declare(place, none), *body, Store("out0", to, best),
            Store("out1", to, place)]
    for d in reversed(range(dims)):
        last = sizes[d] - taps[d]
        moved = cast((cast(o[d], dtype) + shares[d]) * steps[d], int64) - cast(shares[d] * steps[d], int64)
        start = select(call("eq", o[d], outputs[d] - 1), last, call("max", call("min", moved, last), const(0, int64)))
        body = [loop(o[d], outputs[d], [Let(starts[d], start), *body])]
    drawn = [Let(share, Load("in1", a * dims + order[d], dtype)) for d, share in enumerate(shares)]
    return nest.program(parallel([a], [images], [*drawn, *body]))


def _product(sizes: Sequence[Any]) -> Any:
    total = sizes[0]
    for size in sizes[1:]:
        total = total * size
    return total


def fractional_array(state: DeviceState, out: Any, places: Any, source: Any, samples: Any, order: tuple[int, ...],
                     kernel: tuple[int, ...], dtype: DType, drawn: bool) -> bool:
    """Find the largest elements of windows; return whether the kernel suits the arrays.

    Args:
        state: The device.
        out: [n.., outputs..].
        places: int64 positions in the flattened images, of the same shape.
        source: [n.., sizes..].
        samples: [n.., dims], of the same dtype.
        order: The random number of an image that each dimension takes.
        kernel: Taps of each dimension.
        dtype: Element type.
        drawn: Whether all samples are known to lie between 0 and 1; replays do not look at them.
    """
    dims = len(order)
    if not _PROGRAMS.of(state) or dtype not in (float32, float64) or not all(
            contiguous(x) for x in (out, places, source, samples)):
        return False
    if not drawn:
        forbid_replay()
        if not (samples.min() >= 0 and samples.max() < 1):  # outside of the image: the general path refuses them
            return False
    sizes, outputs = source.shape[-dims:], out.shape[-dims:]
    real: Any = dtype.numpy.type
    steps = [float(real(n - k) / real(m - 1)) if m > 1 else 0.0 for n, m, k in zip(sizes, outputs, kernel, strict=True)]
    launch(state, ("fractional_pool", dtype, order), partial(fractional_nest, dtype, order), None,
           [out, places, samples, source],
           [math.prod(source.shape[:-dims]), *sizes, *outputs, *kernel, *steps])
    return True
