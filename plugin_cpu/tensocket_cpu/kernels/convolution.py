"""Convolution, its transpose and its weight's gradient by the direct schedule (``convolution_schedule.py``).

``winograd.py`` serves windows of 3 x 3 with stride 1 if it is faster and all results are finite.

Caches hold everything that depends on shapes and strides alone, above all the tables of offsets, so that small
convolutions cost little more than their launches.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_plugins.contract.backend import Executable, Stream
from tensocket_plugins.contract.dtypes import DType, dtype_from_name, float32
from tensocket_plugins.contract.launch_recorder import RECORDERS, expect_zero, note_constant
from tensocket_plugins.kit.bounded import BoundedCache

from ..threads.streams import CpuQueue
from . import convolution_schedule as programs
from . import lowp_convolution, winograd
from .clearing import clear
from .convolution_plans import (
    Flat,
    Plan,
    Sizes,
    Table,
    element_strides,
    forward_plan,
    offsets_of,
    pitches_of,
    transposed_plan,
)
from .tiles import lanes

if TYPE_CHECKING:
    from ..device import CpuDevice

_DTYPES: Final = ("float32", "float64", "float16", "bfloat16")
#: The number of positions whose elements stay in the first-level cache for all tiles of a task.
_SPAN: Final = 1024
#: The number of tasks that is enough for every thread.
_TASKS: Final = 16
#: The number of calls whose launches are cached.
_PLANNED: Final = 512


@dataclass(frozen=True, slots=True)
class _Part:
    """The launches of one phase.

    Attributes:
        size: Elements of the weight in blocks.
        places: The offsets in the weight from which the blocks are gathered.
        gather: The program that gathers them, with its scalars.
        offsets: See ``Phase``.
        rows: See ``Phase``.
        multiply: The convolution, with its scalars.
    """

    size: int
    places: Table
    gather: tuple[Executable, Sizes]
    offsets: Table
    rows: Table
    multiply: tuple[Executable, Sizes]


@dataclass(frozen=True, slots=True)
class _Call:
    """A convolution's launches; ``complete``: whether they write every element of the result."""

    image: Flat
    parts: tuple[_Part, ...]
    complete: bool


@dataclass(frozen=True, slots=True)
class _WeightCall:
    """The launches for a weight's gradient.

    Attributes:
        image: The flat image.
        upstream: The flat upstream gradient.
        offsets: The offsets of the taps, padded to whole tiles.
        multiply: The program that reads these, with its scalars.
        channels: Channels of a tile.
        plan: The layout of the result's positions.
    """

    image: Flat
    upstream: Flat
    offsets: Table
    multiply: tuple[Executable, Sizes]
    channels: int
    plan: Plan


def _block(count: int) -> int:
    """Return the number of channels of a tile."""
    return programs.CHANNELS if count > 4 else 4 if count > 2 else count


@lru_cache(maxsize=512)
def _weight_places(kernel: Sizes, steps: Sizes, taps: Sizes, depth: int, step: int) -> Table:
    """Return the offsets in the weight of the factors of one result channel, by input channel and tap."""
    tap: Any = np.zeros((1,) * len(steps), np.int64)
    for d, distance in enumerate(steps):
        tap = tap + np.arange(kernel[d]).reshape(tuple(-1 if k == d else 1 for k in range(len(steps)))) * distance
    return offsets_of(depth, step, tap.ravel()[list(taps)])


def _span(count: int, work: DType) -> int:
    """Return the number of positions in a tile, for a group of ``count`` channels."""
    return programs.vectors(_block(count)) * lanes(work)


def _there(plan: Plan, positions: int, work: DType) -> Any:
    """Return a mask over flat positions: 1 at positions of the result, else 0."""
    phase, pitch = plan.phases[0], plan.lines[-1].length
    number = np.arange(positions)
    rows = phase.rows[np.minimum(number // pitch, len(phase.rows) - 1)]  # the last row is outside of the result
    return ((rows >= 0) & (number % pitch < phase.width)).astype(work.numpy)


def _known_step(step: int) -> int | None:
    """Return the stride if the kernel can be specialised for it; None for any other stride."""
    return step if step in (0, 1, 2) else None


def _square(w: Any, scalars: Sequence[Any]) -> bool:
    """Whether Winograd's method can serve these windows."""
    return bool(w.shape[2:] == (3, 3) and scalars[0] == (1, 1) and scalars[2] == (1, 1))


def _layer(x: Any, out: Any, scalars: Sequence[Any], turned: bool) -> winograd.Layer:
    _, (high, wide), _, groups = scalars
    return winograd.Layer(x.shape[0], groups, x.shape[1] // groups, out.shape[1] // groups, x.shape[2:], out.shape[2:],
                          (2 - high, 2 - wide) if turned else (high, wide), turned)


class Convolutions:
    """The three convolution kernels of one device.

    The scalars of each are stride, padding, dilation (one number per spatial dimension) and groups. No array is empty,
    and results are contiguous.
    """

    def __init__(self, device: CpuDevice) -> None:
        self._device = device
        self._calls: BoundedCache[Any, Any] = BoundedCache(_PLANNED)
        for name in _DTYPES:
            dtype = dtype_from_name(name)
            work = dtype if dtype.itemsize >= 4 else float32
            for operator, run in (("convolve", self._forward), ("convolve_input", self._transposed),
                                  ("convolve_weight", self._weight)):
                device.kernels.register(operator, partial(run, dtype, work), dtypes=(name,), recorded=True)

    def _forward(self, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Sequence[Any],
                 stream: Stream) -> None:
        """Compute ``outs[0]`` [B, O, outputs..] from image [B, C, sizes..] and weight [O, C / groups, kernel..]."""
        self._convolve(dtype, work, outs[0], ins[0], ins[1], scalars, False, stream)

    def _transposed(self, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Sequence[Any],
                    stream: Stream) -> None:
        """Compute ``outs[0]`` [B, C, sizes..] from upstream [B, O, outputs..] and weight [O, C / groups, kernel..]."""
        self._convolve(dtype, work, outs[0], ins[0], ins[1], scalars, True, stream)

    def _convolve(self, dtype: DType, work: DType, out: Any, x: Any, w: Any, scalars: Sequence[Any], turned: bool,
                  stream: Stream) -> None:
        key = (dtype, turned, x.shape, x.strides, w.shape, w.strides, out.shape, scalars)
        call: _Call | lowp_convolution.LowPrecisionCall | None = self._calls.get(key)
        again = partial(self._convolve, dtype, work, out, x, w, scalars, turned)
        if call is None:
            layer = _layer(x, out, scalars, turned) if _square(w, scalars) else None
            plan = None if layer is None else winograd.plan(layer, work, self._device.get_num_threads())
            if layer is not None and plan is not None and (
                    self._queued("convolve_input" if turned else "convolve", again, stream) or winograd.convolve(
                        self._device, dtype, work, out, x, w, layer, plan, stream)):
                return
            narrow = plan is None and self._narrow(dtype, x, w, out, scalars)
            call = lowp_convolution.plan_call(self, self._device, out, x, w, scalars, turned) if narrow else \
                self._call(dtype, work, out, x, w, scalars, turned)
            if plan is None:
                self._calls[key] = call
        if isinstance(call, lowp_convolution.LowPrecisionCall):
            if not self._queued("convolve_input" if turned else "convolve", again, stream):
                lowp_convolution.convolve(self, self._device, call, out, x, w, scalars[3])
            return
        if not call.complete:
            clear(self._device, out.reshape((1, -1)), 0, dtype, stream)
        if not call.parts:
            return
        image = self.filled(call.image, work, x, stream)
        for part in call.parts:
            if RECORDERS:
                for table in (part.places, part.offsets, part.rows):
                    note_constant(table)
            weight = self._device.empty((part.size,), work, stream)
            run, numbers = part.gather
            run((weight, w, part.places), numbers, stream)
            run, numbers = part.multiply
            run((out, image, weight, part.offsets, part.rows), numbers, stream)

    def _narrow(self, dtype: DType, x: Any, w: Any, out: Any, scalars: Sequence[Any]) -> bool:
        """Whether the convolution multiplies pairs of bfloat16 numbers."""
        if dtype.name != "bfloat16" or not lowp_convolution.serves(x, w, out, scalars[3]):
            return False
        products = self._device.lowp_products(dtype.name)
        return products is not None and products.pairs

    def _weight(self, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Sequence[Any],
                stream: Stream) -> None:
        """Compute ``outs[0]`` [O, C / groups, kernel..] from upstream [B, O, outputs..] and image [B, C, sizes..]."""
        (out,), (grad, x) = outs, ins
        if self._queued("convolve_weight", partial(self._weight, dtype, work, outs, ins, scalars), stream):
            return
        key = (dtype, grad.shape, grad.strides, x.shape, x.strides, out.shape, scalars)
        call: _WeightCall | lowp_convolution.LowPrecisionWeightCall | None = self._calls.get(key)
        if call is None:
            layer = _layer(x, grad, scalars, False) if _square(out, scalars) else None
            plan = None if layer is None else winograd.weight_plan(layer, work, self._device.get_num_threads())
            if layer is not None and plan is not None and winograd.convolve_weight(
                    self._device, dtype, work, out, grad, x, layer, plan, stream):
                return
            narrow = plan is None and self._narrow(dtype, x, out, grad, scalars)
            call = lowp_convolution.plan_weight(self._device, out, grad, x, scalars) if narrow else \
                self._weight_call(dtype, work, out, grad, x, scalars)
            if plan is None:
                self._calls[key] = call
        if isinstance(call, lowp_convolution.LowPrecisionWeightCall):
            if lowp_convolution.weight_gradient(self, self._device, call, out, grad, x, scalars[3]):
                return
            call = self._weight_call(dtype, work, out, grad, x, scalars)
        image = self.filled(call.image, work, x, stream)
        upstream = self.filled(call.upstream, work, grad, stream)
        if RECORDERS:
            note_constant(call.offsets)
        run, numbers = call.multiply
        run((out, upstream, image, call.offsets), numbers, stream)
        wrong = image[0, -1:]
        expect_zero(wrong)
        if wrong[0]:
            run = self._device.program(programs.weight_gradient, dtype, work, call.channels, True)
            there = _there(call.plan, upstream.shape[1], work)
            run((out, upstream, image, call.offsets, there), numbers, stream)

    def _queued(self, operator: str, again: Callable[[Stream], None], stream: Stream) -> bool:
        """Queue a whole computation on a stream with a thread, and return whether the stream has one.

        The computation must look at its result to learn whether all of it is finite.
        """
        if type(stream) is not CpuQueue:
            return False
        stream.submit(operator, partial(again, self._device.default_stream))
        return True

    def filled(self, flat: Flat, work: DType, x: Any, stream: Stream) -> Any:
        """Return the flat image of ``x``."""
        made = self._device.empty(flat.shape, work, stream)
        clear(self._device, made, flat.used, work, stream)
        for run, numbers in flat.launches:
            run((made, x), numbers, stream)
        return made

    def _call(self, dtype: DType, work: DType, out: Any, x: Any, w: Any, scalars: Sequence[Any], turned: bool) -> _Call:
        stride, padding, dilation, groups = scalars
        taken, count = x.shape[1] // groups, out.shape[1] // groups
        span = _span(count, work)
        if turned:
            plan = transposed_plan(w.shape[0] // groups, out.shape[2:], w.shape[2:], x.shape[2:], stride, padding,
                                   dilation, span)
        else:
            plan = forward_plan(w.shape[1], x.shape[2:], w.shape[2:], out.shape[2:], stride, padding, dilation, span)
        channels = _block(count)
        blocks, plane, cells = -(-count // channels), plan.parts * plan.plane, math.prod(out.shape[2:])
        parts = []
        for phase in plan.phases:
            size, places, gather = self._blocks(dtype, work, w, groups, phase.taps, channels, turned)
            depth = len(phase.offsets)
            run = self._device.program(programs.convolution, dtype, work, channels, phase.hop != 1)
            parts.append(_Part(size, places, gather, phase.offsets, phase.rows, (run, (
                x.shape[0] * groups * phase.tiles, groups, blocks, depth, phase.tiles, x.shape[1] * plane,
                taken * plane, blocks * depth * channels, out.shape[1] * cells, count * cells, cells, count,
                phase.width, plan.lines[-1].length, phase.hop))))
        return _Call(self.flat(dtype, work, x, plan), tuple(parts), plan.complete)

    def flat(self, dtype: DType, work: DType, x: Any, plan: Plan) -> Flat:
        """Return the layout [B, C, phases, lengths..] of a flat image, followed by zeros that the last tile reads."""
        batch, channels, dims = x.shape[0], x.shape[1], len(plan.lines)
        lengths = [line.length for line in plan.lines]
        step = plan.parts * plan.plane
        used = batch * channels * step
        # A tile reads beyond the last position, and a tap of the weight's gradient beyond the last row.
        slack = pitches_of(lengths)[0] + _span(1, work) + 1  # the weight's gradient marks NaN in the last element
        step_n, step_c, *steps = element_strides(x)
        run = self._device.program(programs.flat_image, dtype, work, dims, _known_step(plan.lines[-1].stride
                                                                                      * steps[-1]))
        launches = []
        for number, phase in enumerate(product(*(range(len(line.low)) for line in plan.lines))):
            bounds = [n for line, k in zip(plan.lines, phase, strict=True) for n in (line.low[k], line.high[k])]
            origin = sum(line.first[k] * s for line, k, s in zip(plan.lines, phase, steps, strict=True))
            launches.append((run, (batch * channels, channels, *lengths, number * plan.plane, step, *bounds, origin,
                                   step_n, step_c, *(line.stride * s for line, s in zip(plan.lines, steps,
                                                                                        strict=True)))))
        return Flat((1, used + slack), used, tuple(launches))

    def _blocks(self, dtype: DType, work: DType, w: Any, groups: int, taps: Sizes, channels: int,
                turned: bool) -> tuple[int, Table, tuple[Executable, Sizes]]:
        """Return the weight in blocks of ``channels`` result channels: its size, its offsets and its program.

        If ``turned``, the weight's input channels are the result's channels.
        """
        out_step, in_step, *steps = element_strides(w)
        rows, inputs = w.shape[0] // groups, w.shape[1]
        count, step_c, depth, step = (inputs, in_step, rows, out_step) if turned else (rows, out_step, inputs, in_step)
        table = _weight_places(w.shape[2:], tuple(steps), taps, depth, step)
        blocks = -(-count // channels)
        run = self._device.program(programs.weight_blocks, dtype, work, channels)
        return groups * blocks * len(table) * channels, table, (
            run, (groups * blocks, blocks, len(table), count, rows * out_step, step_c))

    def _weight_call(self, dtype: DType, work: DType, out: Any, grad: Any, x: Any,
                     scalars: Sequence[Any]) -> _WeightCall:
        stride, padding, dilation, groups = scalars
        rows = grad.shape[1] // groups
        plan = forward_plan(out.shape[1], x.shape[2:], out.shape[2:], grad.shape[2:], stride, padding, dilation,
                            _span(rows, work))
        upstream = self._upstream(dtype, work, grad, plan)
        image, positions, plane = self.flat(dtype, work, x, plan), upstream.shape[1], plan.parts * plan.plane
        channels = _block(rows)
        offsets, depth = plan.phases[0].offsets, len(plan.phases[0].offsets)
        width = programs.vectors(channels)
        blocks, columns = -(-rows // channels), -(-depth // width)
        tiles = max(1, min(programs.TILES, columns, columns * groups * blocks // _TASKS))
        parts = -(-columns // tiles)
        padded = np.zeros(parts * tiles * width, np.int64)
        padded[:depth] = offsets
        run = self._device.program(programs.weight_gradient, dtype, work, channels)
        return _WeightCall(image, upstream, padded, (run, (
            groups * blocks * parts, blocks, parts, tiles, depth, rows, x.shape[0], max(1, _SPAN // positions),
            positions, _SPAN, grad.shape[1] * positions, rows * positions, positions, x.shape[1] * plane,
            out.shape[1] * plane, rows * depth, depth, image.shape[1] - 1)), channels, plan)

    def _upstream(self, dtype: DType, work: DType, grad: Any, plan: Plan) -> Flat:
        """Return the layout of upstream [B, O, positions], with zeros where rows of the flat image are longer."""
        outputs, dims = grad.shape[2:], len(plan.lines)
        lengths = [line.length for line in plan.lines]
        lengths[:-1] = [outputs[0], *lengths[1:-1]] if dims > 1 else []
        used, width = math.prod(lengths), lanes(work)
        positions = -(-used // width) * width
        planes = grad.shape[0] * grad.shape[1]
        step_n, step_c, *steps = element_strides(grad)
        run = self._device.program(programs.flat_image, dtype, work, dims, _known_step(steps[-1]))
        return Flat((planes, positions), used, ((run, (
            planes, grad.shape[1], *lengths, 0, positions, *(n for size in outputs for n in (0, size)), 0, step_n,
            step_c, *steps)),))
