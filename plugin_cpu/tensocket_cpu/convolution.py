"""Convolution, its transpose and its weight's gradient by the direct schedule (``ir/schedule/convolution.py``).

Windows of 3 x 3 with stride 1 are left to ``winograd.py`` where that is faster and all results are finite.

What depends on shapes alone, tables of offsets above all, is a plan; plans are kept. The transpose of a convolution
with stride s is one convolution for each of the s phases of its result, every one with the taps that reach this phase.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.contract.dtypes import DType, dtype_from_name, float32
from tensocket_plugins.ir.schedule import convolution as programs
from tensocket_plugins.ir.schedule.tiles import lanes

from . import winograd
from .streams import CpuQueue

if TYPE_CHECKING:
    from .device import CpuDevice

Sizes = tuple[int, ...]
Table = NDArray[np.int64]

_DTYPES: Final = ("float32", "float64", "float16", "bfloat16")
#: Positions whose elements the first cache holds for all tiles of a task.
_SPAN: Final = 1024
#: Tasks from which there is enough for every thread.
_TASKS: Final = 16


@dataclass(frozen=True)
class _Line:
    """A convolution along one dimension.

    Attributes:
        length: Elements of the flat image, by phase.
        low: Zeros before the image's first element in each phase; negative numbers cut elements off.
        high: Where the image ends in each phase.
        stride: Distance of neighbours of one phase in the image.
        first: The image's element at ``low`` of each phase, if that is not negative.
    """

    length: int
    low: Sizes
    high: Sizes
    stride: int
    first: Sizes


@dataclass(frozen=True)
class _Phase:
    """One convolution with stride 1 that makes a part of the result.

    Attributes:
        offsets: What a tap adds to the position that it reads, by channel and tap.
        taps: Numbers of the taps that take part, row-major.
        rows: Where each row of positions begins in the result; -1: nowhere.
        width: Positions of a row that are in the result.
        hop: Their distance there.
        tiles: Tiles of the positions.
    """

    offsets: Table
    taps: Sizes
    rows: Table
    width: int
    hop: int
    tiles: int


@dataclass(frozen=True)
class _Plan:
    """A flat image and what is computed of it."""

    lines: tuple[_Line, ...]
    phases: tuple[_Phase, ...]
    complete: bool

    @property
    def parts(self) -> int:
        """Phases that the flat image has."""
        return math.prod(len(line.low) for line in self.lines)

    @property
    def plane(self) -> int:
        """Elements of one phase of one channel."""
        return math.prod(line.length for line in self.lines)


def _pitches(lengths: Sequence[int]) -> Sizes:
    """Distance of neighbours along each dimension of a flat array."""
    return tuple(math.prod(lengths[d + 1:]) for d in range(len(lengths)))


def _offsets(channels: int, step: int, taps: Sequence[int]) -> Table:
    return (np.arange(channels)[:, None] * step + np.asarray(taps, np.int64)).ravel().astype(np.int64)


def _rows(lengths: Sizes, counts: Sizes, steps: Sizes, starts: Sizes, span: int) -> tuple[Table, int]:
    """The table of rows, and the number of tiles; ``steps`` and ``starts`` say where positions are in the result."""
    pitches = _pitches(lengths)
    last = sum((count - 1) * pitch for count, pitch in zip(counts, pitches, strict=True))
    tiles = last // span + 1
    rows = np.full((tiles * span - 1) // lengths[-1] + 2, -1, np.int64)
    begin: Any = np.zeros((1,) * (len(lengths) - 1), np.int64) + starts[-1]
    number: Any = np.zeros((1,) * (len(lengths) - 1), np.int64)
    for d in range(len(lengths) - 1):
        axis = np.arange(counts[d]).reshape(tuple(-1 if k == d else 1 for k in range(len(lengths) - 1)))
        begin = begin + starts[d] + axis * steps[d]
        number = number + axis * (pitches[d] // lengths[-1])
    rows[number.ravel()] = begin.ravel()
    return rows, tiles


@lru_cache(maxsize=256)
def _forward_plan(channels: int, sizes: Sizes, kernel: Sizes, outputs: Sizes, stride: Sizes, padding: Sizes,
                  dilation: Sizes, span: int) -> _Plan:
    lines, taps = [], []
    for n, k, o, s, p, d in zip(sizes, kernel, outputs, stride, padding, dilation, strict=True):
        length = o + d * (k - 1) // s
        low = [max(0, -((phase - p) // s)) for phase in range(s)]
        high = [max(at, min(length, (n - 1 + p - phase) // s + 1)) for at, phase in zip(low, range(s), strict=True)]
        first = [at * s + phase - p for at, phase in zip(low, range(s), strict=True)]
        lines.append(_Line(length, tuple(low), tuple(high), s, tuple(first)))
        taps.append([divmod(d * t, s) for t in range(k)])
    lengths = tuple(line.length for line in lines)
    pitches, plane, phases = _pitches(lengths), math.prod(lengths), math.prod(stride)
    places = []
    for tap in product(*taps):
        phase = 0
        for (_, part), s in zip(tap, stride, strict=True):
            phase = phase * s + part
        places.append(phase * plane + sum(shift * pitch for (shift, _), pitch in zip(tap, pitches, strict=True)))
    rows, tiles = _rows(lengths, outputs, _pitches(outputs), (0,) * len(sizes), span)
    only = _Phase(_offsets(channels, phases * plane, places), tuple(range(len(places))), rows, outputs[-1], 1, tiles)
    return _Plan(tuple(lines), (only,), True)


@dataclass(frozen=True)
class _Part:
    """One phase of a transposed convolution's result along one dimension."""

    start: int
    count: int
    taps: tuple[tuple[int, int], ...]


def _parts(n: int, k: int, s: int, p: int, d: int) -> list[_Part]:
    """Result element ``s * q + r - p`` takes tap t of upstream element ``q + (r - d t) / s``, where that is whole."""
    parts = []
    for r in range(s):
        first = -((r - p) // s)
        count = max(0, (n - 1 + p - r) // s - first + 1)
        taps = tuple((t, first + (r - d * t) // s) for t in range(k) if (r - d * t) % s == 0)
        if count:
            parts.append(_Part(s * first + r - p, count, taps))
    return parts


@lru_cache(maxsize=256)
def _transposed_plan(channels: int, sizes: Sizes, kernel: Sizes, outputs: Sizes, stride: Sizes, padding: Sizes,
                     dilation: Sizes, span: int) -> _Plan:
    """``outputs`` are the sizes of upstream, ``sizes`` those of the result."""
    every = [_parts(*line) for line in zip(sizes, kernel, stride, padding, dilation, strict=True)]
    lines, before = [], []
    for parts, o in zip(every, outputs, strict=True):
        shifts = [shift for part in parts for _, shift in part.taps] or [0]
        zeros = -min(shifts)
        length = max([part.count + shift + zeros for part in parts for _, shift in part.taps] or [1])
        low = max(0, zeros)
        lines.append(_Line(length, (low,), (max(low, min(length, o + zeros)),), 1, (low - zeros,)))
        before.append(zeros)
    lengths = tuple(line.length for line in lines)
    pitches, steps, plane = _pitches(lengths), _pitches(sizes), math.prod(lengths)
    phases = []
    complete = True
    for combined in product(*every):
        taps = list(product(*(part.taps for part in combined)))
        if not taps:
            complete = False
            continue
        numbers = tuple(sum(t * step for (t, _), step in zip(tap, _pitches(kernel), strict=True)) for tap in taps)
        places = [sum((shift + zeros) * pitch for (_, shift), zeros, pitch in zip(tap, before, pitches, strict=True))
                  for tap in taps]
        rows, tiles = _rows(lengths, tuple(part.count for part in combined),
                            tuple(s * step for s, step in zip(stride, steps, strict=True)),
                            tuple(part.start * step for part, step in zip(combined, steps, strict=True)), span)
        phases.append(_Phase(_offsets(channels, plane, places), numbers, rows,
                             combined[-1].count, stride[-1], tiles))
    return _Plan(tuple(lines), tuple(phases), complete)


def _element_strides(array: Any) -> Sizes:
    return tuple(s // array.itemsize for s in array.strides)


def _block(count: int) -> int:
    """Channels of a tile."""
    return programs.CHANNELS if count > 4 else 4 if count > 2 else count


@lru_cache(maxsize=512)
def _weight_places(kernel: Sizes, steps: Sizes, taps: Sizes, depth: int, step: int) -> Table:
    """Where the factors of a channel of the result stand in the weight, by channel that is read and tap."""
    tap: Any = np.zeros((1,) * len(steps), np.int64)
    for d, distance in enumerate(steps):
        tap = tap + np.arange(kernel[d]).reshape(tuple(-1 if k == d else 1 for k in range(len(steps)))) * distance
    return _offsets(depth, step, tap.ravel()[list(taps)])


def _span(count: int, work: DType) -> int:
    """Positions of a tile for a group of ``count`` channels."""
    return programs.vectors(_block(count)) * lanes(work)


def _known_step(step: int) -> int | None:
    """A step that vectors of neighbours can be read with."""
    return step if step in (0, 1, 2) else None


def _layer(x: Any, out: Any, scalars: Sequence[Any], turned: bool) -> winograd.Layer:
    _, (high, wide), _, groups = scalars
    return winograd.Layer(x.shape[0], groups, x.shape[1] // groups, out.shape[1] // groups, x.shape[2:], out.shape[2:],
                          (2 - high, 2 - wide) if turned else (high, wide), turned)


class Convolutions:
    """The three kernels of one device.

    Each is called with stride, padding, dilation (a number per spatial dimension) and groups as scalars; no array is
    empty, and results are contiguous.
    """

    def __init__(self, device: CpuDevice) -> None:
        self._device = device
        for name in _DTYPES:
            dtype = dtype_from_name(name)
            work = dtype if dtype.itemsize >= 4 else float32
            for operator, run in (("convolve", self._forward), ("convolve_input", self._transposed),
                                  ("convolve_weight", self._weight)):
                device.kernels.register(operator, partial(run, dtype, work), dtypes=(name,))

    def _forward(self, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Sequence[Any],
                 stream: Stream) -> None:
        """``outs[0]`` [B, O, outputs..] of ``ins``: image [B, C, sizes..] and weight [O, C / groups, kernel..]."""
        (out,), (x, w), (stride, padding, dilation, groups) = outs, ins, scalars
        if self._tiled("convolve", dtype, work, out, x, w, scalars, stream):
            return
        span = _span(out.shape[1] // groups, work)
        plan = _forward_plan(w.shape[1], x.shape[2:], w.shape[2:], out.shape[2:], stride, padding, dilation, span)
        self._convolve(dtype, work, out, x, w, groups, plan, False, stream)

    def _transposed(self, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Sequence[Any],
                    stream: Stream) -> None:
        """``outs[0]`` [B, C, sizes..] of ``ins``: upstream [B, O, outputs..] and weight [O, C / groups, kernel..]."""
        (out,), (x, w), (stride, padding, dilation, groups) = outs, ins, scalars
        if self._tiled("convolve_input", dtype, work, out, x, w, scalars, stream):
            return
        span = _span(out.shape[1] // groups, work)
        plan = _transposed_plan(w.shape[0] // groups, out.shape[2:], w.shape[2:], x.shape[2:], stride, padding,
                                dilation, span)
        if not plan.complete:
            out[...] = 0
        self._convolve(dtype, work, out, x, w, groups, plan, True, stream)

    def _tiled(self, operator: str, dtype: DType, work: DType, out: Any, x: Any, w: Any, scalars: Sequence[Any],
               stream: Stream) -> bool:
        """Compute ``out`` by Winograd's method, or queue that, if this is faster and all results are finite."""
        if w.shape[2:] != (3, 3) or scalars[0] != (1, 1) or scalars[2] != (1, 1):
            return False
        layer = _layer(x, out, scalars, operator == "convolve_input")
        plan = winograd.plan(layer, work, self._device.get_num_threads())
        if plan is None:
            return False
        again = partial(self._transposed if layer.turned else self._forward, dtype, work, (out,), (x, w), scalars)
        return self._queued(operator, again, stream) or winograd.convolve(
            self._device, dtype, work, out, x, w, layer, plan, stream)

    def _tiled_weight(self, dtype: DType, work: DType, out: Any, grad: Any, x: Any, scalars: Sequence[Any],
                      stream: Stream) -> bool:
        """As ``_tiled``."""
        if out.shape[2:] != (3, 3) or scalars[0] != (1, 1) or scalars[2] != (1, 1):
            return False
        layer = _layer(x, grad, scalars, False)
        plan = winograd.weight_plan(layer, work, self._device.get_num_threads())
        if plan is None:
            return False
        again = partial(self._weight, dtype, work, (out,), (grad, x), scalars)
        return self._queued("convolve_weight", again, stream) or winograd.convolve_weight(
            self._device, dtype, work, out, grad, x, layer, plan, stream)

    def _queued(self, operator: str, again: Callable[[Stream], None], stream: Stream) -> bool:
        """Queue what makes a result on a stream with a thread: if it is finite is known only when it is there."""
        if type(stream) is not CpuQueue:
            return False
        stream.submit(operator, partial(again, self._device.default_stream))
        return True

    def _convolve(self, dtype: DType, work: DType, out: Any, x: Any, w: Any, groups: int, plan: _Plan, turned: bool,
                  stream: Stream) -> None:
        if not plan.phases:
            return
        image = self._flat(dtype, work, x, plan, stream)
        taken, count = x.shape[1] // groups, out.shape[1] // groups
        channels = _block(count)
        blocks, plane, cells = -(-count // channels), plan.parts * plan.plane, math.prod(out.shape[2:])
        run = self._device.program(programs.convolution, dtype, work, channels, plan.phases[0].hop != 1)
        for phase in plan.phases:
            weight = self._blocks(dtype, work, w, groups, phase.taps, channels, turned, stream)
            depth = len(phase.offsets)
            run((out, image, weight, phase.offsets, phase.rows), (
                x.shape[0] * groups * phase.tiles, groups, blocks, depth, phase.tiles, x.shape[1] * plane,
                taken * plane, blocks * depth * channels, out.shape[1] * cells, count * cells, cells, count,
                phase.width, plan.lines[-1].length, phase.hop), stream)

    def _flat(self, dtype: DType, work: DType, x: Any, plan: _Plan, stream: Stream) -> Any:
        """The image [B, C, phases, lengths..], and zeros behind it that the last tile reads."""
        batch, channels, dims = x.shape[0], x.shape[1], len(plan.lines)
        lengths = [line.length for line in plan.lines]
        step = plan.parts * plan.plane
        used = batch * channels * step
        # A tile reads beyond the last position, and a tap of the weight's gradient beyond the last row.
        slack = _pitches(lengths)[0] + _span(1, work)
        flat = self._device.empty((used + slack,), work, stream)
        flat[used:] = 0
        step_n, step_c, *steps = _element_strides(x)
        known = _known_step(plan.lines[-1].stride * steps[-1])
        run = self._device.program(programs.flat_image, dtype, work, dims, known)
        for number, phase in enumerate(product(*(range(len(line.low)) for line in plan.lines))):
            bounds = [n for line, k in zip(plan.lines, phase, strict=True) for n in (line.low[k], line.high[k])]
            origin = sum(line.first[k] * s for line, k, s in zip(plan.lines, phase, steps, strict=True))
            run((flat, x), (batch * channels, channels, *lengths[:-1], lengths[-1],
                            number * plan.plane, step, *bounds, origin, step_n, step_c,
                            *(line.stride * s for line, s in zip(plan.lines, steps, strict=True))), stream)
        return flat

    def _blocks(self, dtype: DType, work: DType, w: Any, groups: int, taps: Sizes, channels: int, turned: bool,
                stream: Stream) -> Any:
        """The weight by blocks of ``channels`` of the result; ``turned``: its inputs are the result's channels."""
        out_step, in_step, *steps = _element_strides(w)
        rows, inputs = w.shape[0] // groups, w.shape[1]
        count, step_c, depth, step = (inputs, in_step, rows, out_step) if turned else (rows, out_step, inputs, in_step)
        table = _weight_places(w.shape[2:], tuple(steps), taps, depth, step)
        blocks = -(-count // channels)
        out = self._device.empty((groups * blocks * len(table) * channels,), work, stream)
        self._device.program(programs.weight_blocks, dtype, work, channels)(
            (out, w, table), (groups * blocks, blocks, len(table), count, rows * out_step, step_c), stream)
        return out

    def _weight(self, dtype: DType, work: DType, outs: Sequence[Any], ins: Sequence[Any], scalars: Sequence[Any],
                stream: Stream) -> None:
        """``outs[0]`` [O, C / groups, kernel..] of ``ins``: upstream [B, O, outputs..] and image [B, C, sizes..]."""
        (out,), (grad, x), (stride, padding, dilation, groups) = outs, ins, scalars
        if self._tiled_weight(dtype, work, out, grad, x, scalars, stream):
            return
        span = _span(grad.shape[1] // groups, work)
        plan = _forward_plan(out.shape[1], x.shape[2:], out.shape[2:], grad.shape[2:], stride, padding, dilation, span)
        image = self._flat(dtype, work, x, plan, stream)
        upstream, positions = self._upstream(dtype, work, grad, plan, stream)
        rows, plane = grad.shape[1] // groups, plan.parts * plan.plane
        channels = _block(rows)
        offsets, depth = plan.phases[0].offsets, len(plan.phases[0].offsets)
        width = programs.vectors(channels)
        blocks, columns = -(-rows // channels), -(-depth // width)
        tiles = max(1, min(programs.TILES, columns, columns * groups * blocks // _TASKS))
        parts = -(-columns // tiles)
        padded = np.zeros(parts * tiles * width, np.int64)
        padded[:depth] = offsets
        self._device.program(programs.weight_gradient, dtype, work, channels)((out, upstream, image, padded), (
            groups * blocks * parts, blocks, parts, tiles, depth, rows, x.shape[0], max(1, _SPAN // positions),
            positions, _SPAN, grad.shape[1] * positions, rows * positions, positions, x.shape[1] * plane,
            out.shape[1] * plane, rows * depth, depth), stream)

    def _upstream(self, dtype: DType, work: DType, grad: Any, plan: _Plan, stream: Stream) -> tuple[Any, int]:
        """Upstream [B, O, positions] with zeros where rows of the flat image are longer, and the positions."""
        outputs, dims = grad.shape[2:], len(plan.lines)
        lengths = [line.length for line in plan.lines]
        lengths[:-1] = [outputs[0], *lengths[1:-1]] if dims > 1 else []
        used, width = math.prod(lengths), lanes(work)
        positions = -(-used // width) * width
        planes = grad.shape[0] * grad.shape[1]
        flat = self._device.empty((planes * positions,), work, stream)
        flat.reshape(planes, positions)[:, used:] = 0
        step_n, step_c, *steps = _element_strides(grad)
        self._device.program(programs.flat_image, dtype, work, dims, _known_step(steps[-1]))((flat, grad), (
            planes, grad.shape[1], *lengths[:-1], lengths[-1], 0, positions,
            *(n for size in outputs for n in (0, size)), 0, step_n, step_c, *steps), stream)
        return flat, positions
