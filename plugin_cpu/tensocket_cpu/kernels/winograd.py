"""Convolution with windows of 3 x 3 by Winograd's method (``winograd_schedule.py``), and an estimate of its cost."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.launch_recorder import forbid_replay

from . import convolution_schedule as direct
from . import winograd_schedule as programs
from . import winograd_weight as weight_programs
from .tiles import VECTOR_BYTES, lanes

if TYPE_CHECKING:
    from ..device import CpuDevice

Sizes = tuple[int, ...]

#: Channels whose sums a task holds at a time, so that they stay in the first-level cache.
_SOME: Final = 16
#: Tasks for each thread: few, because each begins with memory that is not in the cache.
_TASKS: Final = 2
#: Costs of panels by their number of vectors, relative to each other: narrow ones read more of the weight per product.
_WIDTHS: Final = {3: 1.0, 2: 1.0, 1: 1.05}
#: Bytes of a panel that fit into the second-level cache together with the weight, and the relative cost of products
#: with larger panels.
_HELD: Final = 1 << 19
_SPILLED: Final = 1.25
#: Bytes from which a transformed weight fits only into the last-level cache, and the bytes per cycle that each core
#: gets when all of them read it.
_FAR: Final = 1 << 22
_STREAM: Final = 5
#: Cycles of the transforms: a line of tiles of one channel on the input and the output side, and a weight window.
_TAKE: Final = 65
_GIVE: Final = 40
_WINDOW: Final = 20
#: The same for the direct method: a vector of the flat image, and a window of the weight in blocks.
_FLAT: Final = 12
_BLOCK: Final = 40
#: A square of elements that is transposed; for a weight's gradient, a vector of windows, and one of a chunk's sums.
_TURN: Final = 100
_GRADIENT: Final = 300
_CHUNK: Final = 130
#: An element of the weight's gradient by the direct method, which keeps its sums as vectors to the end.
_FOLD: Final = 10
#: Vectors that are multiplied and added per cycle, as measured; 2 is the best case.
_PRODUCTS: Final = 1.75
#: The same for the direct gradient of a weight.
_DIRECT_PRODUCTS: Final = 1.5


@dataclass(frozen=True)
class Layer:
    """A convolution with stride 1 and windows of 3 x 3, or the transpose of one.

    Attributes:
        batch: The number of images.
        groups: The groups of channels.
        depth: Channels of an image in a group.
        made: Channels of a result in a group.
        sizes: The sizes of images.
        outputs: The sizes of results.
        padding: Zeros before each dimension of an image; negative numbers leave elements out.
        turned: Whether rows of the weight are channels of the image, and windows are flipped.
    """

    batch: int
    groups: int
    depth: int
    made: int
    sizes: Sizes
    outputs: Sizes
    padding: Sizes
    turned: bool


@dataclass(frozen=True)
class Plan:
    """The division of a layer into tasks.

    Attributes:
        columns: Vectors of tiles in a panel.
        tasks: The tasks that threads may take.
        room: Elements of scratch for all tasks.
        blocks: Blocks of channels of the result in a group.
        scalars: The program's scalars that follow from the layer and the division, up to the padding of images.
    """

    columns: int
    tasks: int
    room: int
    blocks: int
    scalars: Sizes


def _cost(layer: Layer, vectors: int, columns: int, work: DType) -> float:
    """Estimate the cycles with panels of ``columns`` vectors."""
    height, width = (n + 1 >> 1 for n in layer.outputs)
    panels = layer.groups * -(-vectors // columns)
    rows = programs.rows(columns)
    products: float = programs.PLACES * panels * columns * layer.depth * (-(-layer.made // rows) * rows)
    lines = layer.groups * layer.batch * height * -(-width // (lanes(work) - 1)) + panels
    windows = layer.groups * layer.depth * layer.made
    if programs.PLACES * columns * VECTOR_BYTES * layer.depth > _HELD:
        products *= _SPILLED
    products *= _WIDTHS[columns] / _PRODUCTS
    weight = programs.PLACES * layer.depth * layer.made * work.itemsize
    if weight > _FAR:
        products = max(products, panels * weight / _STREAM)
    return (products + lines * (layer.depth * _TAKE + layer.made * _GIVE)
            + windows * _WINDOW)


def _direct_cost(layer: Layer, work: DType) -> float:
    """Estimate the cycles of the direct method."""
    block = direct.CHANNELS if layer.made > 4 else 4 if layer.made > 2 else layer.made
    span = direct.vectors(block) * lanes(work)
    height, width = layer.outputs
    positions = -(-((height - 1) * (width + 2) + width) // span) * span
    images = layer.groups * layer.batch
    products = images * positions // lanes(work) * layer.depth * 9 * (-(-layer.made // block) * block)
    flat = images * layer.depth * (height + 2) * -(-(width + 2) // lanes(work))
    return products / _PRODUCTS + flat * _FLAT + layer.groups * layer.depth * layer.made * _BLOCK


@lru_cache(maxsize=256)
def plan(layer: Layer, work: DType, threads: int) -> Plan | None:
    """Return the plan of a layer; None if the direct method is faster."""
    height, width = (n + 1 >> 1 for n in layer.outputs)
    tiles = layer.batch * height * width
    vectors = -(-tiles // lanes(work))
    columns = min(_WIDTHS, key=lambda c: _cost(layer, vectors, c, work))
    if _cost(layer, vectors, columns, work) > _direct_cost(layer, work):
        return None
    return divided(layer, work, threads, columns)


def divided(layer: Layer, work: DType, threads: int, columns: int) -> Plan:
    """Return a plan with panels of ``columns`` vectors. No result depends on the division."""
    height, width = (n + 1 >> 1 for n in layer.outputs)
    tiles = layer.batch * height * width
    group_panels = -(-tiles // (columns * lanes(work)))
    panels, rows = layer.groups * group_panels, programs.rows(columns)
    blocks = -(-layer.made // rows)
    chunks = min(panels, threads * _TASKS)
    # With few panels, every thread computes a part of the channels of each panel.
    parts = min(threads, blocks) if panels < 2 * chunks else 1
    part = -(-blocks // parts)
    parts = -(-blocks // part)
    some = min(part, _SOME // rows)
    taken, sums = (programs.pitch(n, columns, work) for n in (layer.depth, some * rows))
    # The kernel reads beyond the end of the last line of sums.
    room, tasks = 4 * (taken + sums) + lanes(work), chunks * parts
    return Plan(columns, tasks, tasks * room, blocks, (
        tasks, parts, part, some, blocks, chunks, panels, group_panels, tiles, height, width, layer.depth, layer.made,
        room, taken, sums, *layer.sizes, *layer.padding))


def _steps(array: Any) -> Sizes:
    return tuple(s // array.itemsize for s in array.strides)


def convolve(device: CpuDevice, dtype: DType, work: DType, out: Any, x: Any, w: Any, layer: Layer, plan: Plan,
             stream: Stream) -> bool:
    """Compute ``out`` in the caller's thread: ``stream`` must not have a thread of its own.

    Returns:
        Whether all results are finite. If one is not, others of the same tile may be wrong, because a value that is not
        finite spreads over its tiles.
    """
    forbid_replay()
    rows = programs.rows(plan.columns)
    step_o, step_c, step_h, step_w = _steps(w)
    step_g, origin = w.shape[0] // layer.groups * step_o, 0
    if layer.turned:
        step_o, step_c, origin, step_h, step_w = step_c, step_o, 2 * (step_h + step_w), -step_h, -step_w
    weight = device.empty((layer.groups * plan.blocks * programs.PLACES * layer.depth * rows,), work, stream)
    near = (step_o, step_h, step_w) == (9, -3, -1)
    device.program(programs.weights, dtype, work, rows, near)((weight, w), (
        layer.groups * plan.blocks, plan.blocks, layer.depth, layer.made, origin, step_g, step_o, step_c, step_h,
        step_w), stream)
    infinite = device.empty((plan.tasks * lanes(work),), work, stream)
    step_n, step_x, *line = _steps(x)
    device.program(programs.convolution, dtype, work, plan.columns, _known(line[1]))(
        (out, device.empty((plan.room,), work, stream), infinite, x, weight),
        (*plan.scalars, step_n, layer.depth * step_x, step_x, *line, _steps(out)[0], *layer.outputs), stream)
    return not infinite.any()


@dataclass(frozen=True)
class WeightPlan:
    """The division of the gradient of a layer's weight into tasks.

    Attributes:
        columns: Vectors of channels in a register tile.
        tasks: The tasks that threads may take.
        room: Elements of scratch for all tasks.
        chunks: Parts of the tiles with sums of their own.
        height: Channels of a group's result, padded.
        padded: Channels of a group's images, padded.
        scalars: The program's scalars up to the padding of images.
    """

    columns: int
    room: int
    chunks: int
    height: int
    padded: int
    scalars: Sizes


#: The most parts of the tiles with sums of their own, and the most elements of all sums.
_CHUNKS: Final = 8
_SUMS: Final = 1 << 21


def _weight_cost(layer: Layer, plan: WeightPlan, work: DType) -> float:
    """Estimate the cycles of the gradient of the weight."""
    width, (height, line) = lanes(work), (n + 1 >> 1 for n in layer.outputs)
    tiles, vectors = layer.batch * height * line, plan.padded // width
    panels = -(-tiles // (weight_programs.PANEL * width))
    sums = layer.groups * programs.PLACES * plan.height * vectors
    lines = layer.groups * (layer.batch * height * -(-line // (width - 1)) + panels)
    turned = layer.groups * programs.PLACES * vectors * -(-tiles // width)
    return (sums * (tiles / _PRODUCTS + 3 * (panels + plan.chunks)) + turned * _TURN
            + lines * (layer.depth * _TAKE + layer.made * _GIVE)
            + layer.groups * layer.made * vectors * (_GRADIENT + _CHUNK * plan.chunks))


def _direct_weight_cost(layer: Layer, work: DType) -> float:
    """Estimate the cycles of the gradient of the weight by the direct method."""
    height, width = layer.outputs
    block = direct.CHANNELS if layer.made > 4 else 4 if layer.made > 2 else layer.made
    columns, images = direct.vectors(block), layer.groups * layer.batch
    vectors = -(-height * (width + 2) // lanes(work))
    products = vectors * (-(-layer.made // block) * block) * (-(-9 * layer.depth // columns) * columns)
    return (images * (products / _DIRECT_PRODUCTS + vectors * (layer.depth + layer.made) * _FLAT)
            + layer.groups * layer.made * layer.depth * 9 * _FOLD)


@lru_cache(maxsize=256)
def weight_plan(layer: Layer, work: DType, threads: int) -> WeightPlan | None:
    """Return the plan for the gradient of a layer's weight; None if the direct method is faster."""
    plan = weight_divided(layer, work, threads)
    return plan if _weight_cost(layer, plan, work) < _direct_weight_cost(layer, work) else None


def weight_divided(layer: Layer, work: DType, threads: int) -> WeightPlan:
    """Return a plan for the gradient of a layer's weight.

    Rounding depends on the number of chunks only, which follows from sizes alone.
    """
    height, width = (n + 1 >> 1 for n in layer.outputs)
    tiles = layer.batch * height * width
    columns = min((3, 2, 1), key=lambda c: weight_programs.turned(layer.depth, c, work))
    padded, rows = weight_programs.turned(layer.depth, columns, work), programs.rows(columns)
    blocks = -(-layer.made // rows)
    panels = -(-tiles // (weight_programs.PANEL * lanes(work)))
    chunks = max(1, min(panels, _CHUNKS, _SUMS // (layer.groups * programs.PLACES * blocks * rows * padded)))
    parts = 1 if layer.groups * chunks >= threads * _TASKS else min(threads * _TASKS, blocks)
    part = -(-blocks // parts)
    parts = -(-blocks // part)
    turned_at, up_at, place, room = weight_programs.sizes(padded, part * rows, work)
    tasks, line = layer.groups * chunks * parts, programs.pitch(part * rows, weight_programs.PANEL, work)
    return WeightPlan(columns, tasks * room, chunks, blocks * rows, padded, (
        tasks, parts, part, blocks, chunks, panels, tiles, height, width, layer.depth, padded, layer.made, room,
        turned_at, place, up_at, line, *layer.sizes, *layer.padding))


def convolve_weight(device: CpuDevice, dtype: DType, work: DType, out: Any, grad: Any, x: Any, layer: Layer,
                    plan: WeightPlan, stream: Stream) -> bool:
    """Compute the gradient of the weight; arguments as for ``convolve``."""
    forbid_replay()
    totals = device.empty((layer.groups * plan.chunks * programs.PLACES * plan.height * plan.padded,), work, stream)
    (step_n, step_c, *line), (up_n, up_c, *up_line) = _steps(x), _steps(grad)
    known = (_known(line[1]), _known(up_line[1]))
    device.program(weight_programs.sums, dtype, work, plan.columns, known)(
        (totals, device.empty((plan.room,), work, stream), x, grad),
        (*plan.scalars, step_n, layer.depth * step_c, step_c, *line, up_n, layer.made * up_c, up_c, *up_line,
         *layer.outputs), stream)
    channels = layer.groups * layer.made
    infinite = device.empty((channels * lanes(work),), work, stream)
    device.program(weight_programs.gradient, dtype, work)(
        (out, infinite, totals), (channels, layer.made, layer.depth, plan.chunks, plan.height, plan.padded), stream)
    return not infinite.any()


def _known(step: int) -> int | None:
    """Return the stride if the kernel can be specialised for it; None for any other stride."""
    return step if step in (0, 1) else None
