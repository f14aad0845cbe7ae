"""Convolution of bfloat16 numbers, and its transpose, on processors that multiply pairs of them.

The image is flat, as for the direct schedule, but stays bfloat16. The elements that one tap of the window reads from a
channel, for all positions of the result, are then one contiguous row that begins at an offset. So a convolution is a
product of the weight with a matrix whose rows overlap and begin where a table says; no such matrix is ever copied.
The values between the rows of the result are dropped.

The weight's gradient is a product of upstream, in the same flat layout with zeros between its rows, with the transpose
of that matrix, over the positions of all images, which follow each other in each channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.backend import Executable
from tensocket_plugins.contract.dtypes import int64, uint16
from tensocket_plugins.ir.nodes import Buffer, Expr, If, Kernel, Let, Load, LoopKind, Program, Store, const, loop

from .convolution_plans import (
    Flat,
    Phase,
    Plan,
    Sizes,
    Table,
    element_strides,
    forward_plan,
    offsets_of,
    transposed_plan,
)
from .convolution_schedule import flat_image
from .tiles import index, lanes, numbers

if TYPE_CHECKING:
    from ..device import CpuDevice
    from ..lowp_gemm.products import LowPrecisionProducts
    from .convolution import Convolutions

#: The fewest channels of a group's result, and the fewest terms of its sums, that fill tiles well enough.
_ROWS: Final = 16
_TERMS: Final = 128
#: Bits that are all set in numbers that are not finite.
_EXPONENT: Final = np.uint16(0x7F80)


@dataclass(frozen=True, slots=True)
class _Part:
    """One phase of the result.

    Attributes:
        taps: See ``Phase``; None for all taps.
        table: The offsets of rows in an image's group, in bytes.
        positions: The length of a row.
        rows: See ``Phase``.
        place: The program that copies rows of the result out of the positions, with its scalars.
    """

    taps: Sizes | None
    table: Table
    positions: int
    rows: Table
    place: tuple[Executable, Sizes]


@dataclass(frozen=True, slots=True)
class LowPrecisionCall:
    """The launches of a convolution.

    Attributes:
        image: The flat image.
        steps: Bytes from one flat image to the next, and from one group to the next.
        parts: One for each phase of the result.
        complete: Whether the parts write every element of the result.
    """

    image: Flat
    steps: tuple[int, int]
    parts: tuple[_Part, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class LowPrecisionWeightCall:
    """The launches for a weight's gradient.

    Attributes:
        image: The flat image, channels first.
        upstream: The flat upstream gradient, channels first.
        step: Bytes from one group of the image to the next.
        table: The offsets of channels and taps in the image.
    """

    image: Flat
    upstream: Flat
    step: int
    table: Table


def serves(x: Any, w: Any, out: Any, groups: int) -> bool:
    """Whether a convolution is large enough to fill tiles and to cost more than its layout."""
    count = out.shape[1] // groups
    return bool(count >= _ROWS and x.shape[1] // groups * w[0, 0].size >= _TERMS)


def place_rows(spread: bool) -> Program:
    """Return ``out[plane, rows[r] + hop * p] = made[plane, r * pitch + p]`` for p < ``width`` and ``rows[r] >= 0``.

    Parameters: result, positions, rows; then planes, number of rows, pitch, width, hop, elements of a plane of
    positions and of the result.

    Args:
        spread: Whether ``hop`` may differ from 1.
    """
    scalars, names = numbers("planes count pitch width hop span cells")
    planes, count, pitch, width, hop, span, cells = names
    plane, row, begin, t, lane, position = map(index, ("plane", "row", "begin", "t", "lane", "position"))
    step: Expr = hop if spread else const(1, int64)
    copy = loop(lane, lanes(uint16), [
        Let(position, t + lane),
        If(position < width, (Store("out", plane * cells + begin + position * step,
                                    Load("made", plane * span + row * pitch + position, uint16)),)),
    ], LoopKind.VECTOR)
    body = loop(plane, planes, [loop(row, count, [
        Let(begin, Load("rows", row, int64)),
        If(begin >= 0, (loop(t, width, [copy], step=lanes(uint16)),)),
    ])], LoopKind.PARALLEL)
    buffers = (Buffer("out", uint16, True), Buffer("made", uint16), Buffer("rows", int64))
    return Program("place_rows", (*buffers, *scalars), (Kernel("place_rows", (body,)),))


def plan_call(own: Convolutions, device: CpuDevice, out: Any, x: Any, w: Any, scalars: Sequence[Any],
              turned: bool) -> LowPrecisionCall:
    """Return the launches for arrays of these shapes and strides."""
    stride, padding, dilation, groups = scalars
    plan: Plan
    if turned:
        plan = transposed_plan(w.shape[0] // groups, out.shape[2:], w.shape[2:], x.shape[2:], stride, padding, dilation,
                               1)
    else:
        plan = forward_plan(w.shape[1], x.shape[2:], w.shape[2:], out.shape[2:], stride, padding, dilation, 1)
    plane = plan.parts * plan.plane * 2
    cells = out[0, 0].size
    parts = tuple(_part(device, phase, plan, out.shape[0] * out.shape[1], cells, turned) for phase in plan.phases)
    return LowPrecisionCall(own.flat(uint16, uint16, x, plan), (x.shape[1] * plane, x.shape[1] // groups * plane),
                            parts,
                      plan.complete)


def _part(device: CpuDevice, phase: Phase, plan: Plan, planes: int, cells: int, turned: bool) -> _Part:
    pitch = plan.lines[-1].length
    count = int(np.flatnonzero(phase.rows >= 0)[-1]) + 1
    positions = (count - 1) * pitch + phase.width
    run = device.program(place_rows, phase.hop != 1)
    return _Part(phase.taps if turned else None, phase.offsets * 2, positions, phase.rows, (
        run, (planes, count, pitch, phase.width, phase.hop, positions, cells)))


def convolve(own: Convolutions, device: CpuDevice, call: LowPrecisionCall, out: Any, x: Any, w: Any,
             groups: int) -> None:
    """Run ``call`` on arrays with the layouts that it was planned for."""
    stream = device.default_stream
    if not call.complete:
        out[...] = 0
    if not call.parts:
        return
    image = own.filled(call.image, uint16, x, stream)
    for part in call.parts:
        factors = _factors(w, groups, part.taps)
        made = device.empty((x.shape[0], groups, factors.shape[1], part.positions), uint16, stream)
        _products(device).of_rows(factors, image, part.table, made, call.steps)
        run, sizes = part.place
        run((out, made, part.rows), sizes, stream)


def plan_weight(device: CpuDevice, out: Any, grad: Any, x: Any, scalars: Sequence[Any]) -> LowPrecisionWeightCall:
    """Return the launches for arrays of these shapes and strides."""
    stride, padding, dilation, groups = scalars
    plan = forward_plan(out.shape[1], x.shape[2:], out.shape[2:], grad.shape[2:], stride, padding, dilation, 1)
    lengths, images = tuple(line.length for line in plan.lines), x.shape[0]
    places = plan.phases[0].offsets[:out[0, 0].size]  # those of the first channel
    part, shift = np.divmod(places, plan.plane)
    whole = x.shape[1] * images * plan.plane  # elements of a phase
    table = offsets_of(out.shape[1], images * plan.plane, part * whole + shift)
    outputs = grad.shape[2:]
    bounds = tuple(n for size in outputs for n in (0, size))
    steps = element_strides(grad)
    run = device.program(flat_image, uint16, uint16, len(lengths), None)
    planes = grad.shape[1] * images
    upstream = Flat((planes, plan.plane), plan.plane, ((run, (
        planes, images, *lengths, 0, plan.plane, *bounds, 0, steps[1], steps[0], *steps[2:])),))
    return LowPrecisionWeightCall(_channels_first(run, x, plan), upstream,
                                  x.shape[1] // groups * images * plan.plane * 2,
                            table * 2)


def _channels_first(run: Executable, x: Any, plan: Plan) -> Flat:
    """Return the layout [phases, C, B, lengths..] of an image, followed by zeros that the last channel's taps read."""
    step_n, step_c, *steps = element_strides(x)
    planes, lengths = x.shape[0] * x.shape[1], [line.length for line in plan.lines]
    launches = []
    for number, phase in enumerate(product(*(range(len(line.low)) for line in plan.lines))):
        bounds = [n for line, k in zip(plan.lines, phase, strict=True) for n in (line.low[k], line.high[k])]
        origin = sum(line.first[k] * s for line, k, s in zip(plan.lines, phase, steps, strict=True))
        launches.append((run, (planes, x.shape[0], *lengths, number * planes * plan.plane, plan.plane, *bounds, origin,
                               step_c, step_n, *(line.stride * s for line, s in zip(plan.lines, steps, strict=True)))))
    used = plan.parts * planes * plan.plane
    return Flat((1, used + plan.plane), used, tuple(launches))


def weight_gradient(own: Convolutions, device: CpuDevice, call: LowPrecisionWeightCall, out: Any, grad: Any, x: Any,
                    groups: int) -> bool:
    """Run ``call``; return False if a result is not finite.

    The kernel multiplies the values between rows by 0, so a value there that is not finite may be the cause.
    """
    stream = device.default_stream
    image, upstream = own.filled(call.image, uint16, x, stream), own.filled(call.upstream, uint16, grad, stream)
    rows = grad.shape[1] // groups
    made, left = out.reshape((1, groups, rows, len(call.table))), upstream.reshape((groups, rows, -1))
    _products(device).of_rows(left, image, call.table, made, (0, call.step), turned=True)
    return not bool(((out & _EXPONENT) == _EXPONENT).any())


def _products(device: CpuDevice) -> LowPrecisionProducts:
    found = device.lowp_products("bfloat16")
    assert found is not None  # calls are planned only if it exists
    return found


def _factors(w: Any, groups: int, taps: Sizes | None) -> Any:
    """Return the weight [groups, channels of the result, terms].

    With ``taps``, the weight's input channels are the result's channels.
    """
    outputs, inputs = w.shape[0] // groups, w.shape[1]
    flat = w.reshape((groups, outputs, inputs, w[0, 0].size))
    if taps is None:
        return flat.reshape((groups, outputs, inputs * flat.shape[-1]))
    some = flat if len(taps) == flat.shape[-1] and taps == tuple(range(len(taps))) else flat[..., list(taps)]
    return np.ascontiguousarray(some.swapaxes(1, 2)).reshape((groups, inputs, outputs * len(taps)))
