"""Convolution with windows of 3 x 3 by Winograd's method (``ir/schedule/winograd.py``), and when that is faster."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from tensocket_plugins.contract.backend import Stream
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.schedule import convolution as direct
from tensocket_plugins.ir.schedule import winograd as programs
from tensocket_plugins.ir.schedule.tiles import lanes

if TYPE_CHECKING:
    from .device import CpuDevice

Sizes = tuple[int, ...]

#: Channels whose sums a task keeps while the first cache holds them.
_SOME: Final = 16
#: Tasks for each thread: few, because each begins with memory that is not in the cache.
_TASKS: Final = 2
#: What panels of so many vectors cost, relative to each other: narrow ones read more of the weight for each product.
_WIDTHS: Final = {3: 1.0, 2: 1.02, 1: 1.15}
#: Cycles that transforms take: a line of tiles of one channel on either side, and a window of the weight.
_TAKE: Final = 65
_GIVE: Final = 40
_WINDOW: Final = 20
#: The same of the direct method: a vector of the image laid out flat, and a window of the weight in blocks.
_FLAT: Final = 12
_BLOCK: Final = 40
#: Vectors that are multiplied and added up in a cycle, as measured: twice in the best case.
_PRODUCTS: Final = 1.75


@dataclass(frozen=True)
class Layer:
    """A convolution with stride 1 and windows of 3 x 3, or the transpose of one.

    Attributes:
        batch: Number of images.
        groups: Groups of channels.
        depth: Channels of an image in a group.
        made: Channels of a result in a group.
        sizes: Of images.
        outputs: Sizes of results.
        padding: Zeros before each dimension of an image; negative numbers leave elements out.
        turned: Whether rows of the weight are channels of the image, and windows are turned around.
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
    """How a layer is divided.

    Attributes:
        columns: Vectors of tiles in a panel.
        tasks: What threads may take.
        room: Elements of memory for all tasks.
        blocks: Blocks of channels of the result in a group.
        scalars: The program's numbers that follow from the layer and the division, up to the sizes of images.
    """

    columns: int
    tasks: int
    room: int
    blocks: int
    scalars: Sizes


def _cost(layer: Layer, vectors: int, columns: int, work: DType) -> float:
    """Estimated cycles, for a panel of so many vectors."""
    height, width = (n + 1 >> 1 for n in layer.outputs)
    panels = layer.groups * -(-vectors // columns)
    rows = programs.rows(columns)
    products = programs.PLACES * panels * columns * layer.depth * (-(-layer.made // rows) * rows)
    lines = layer.groups * layer.batch * height * -(-width // (lanes(work) - 1)) + panels
    windows = layer.groups * layer.depth * layer.made
    return (products * _WIDTHS[columns] / _PRODUCTS + lines * (layer.depth * _TAKE + layer.made * _GIVE)
            + windows * _WINDOW)


def _direct_cost(layer: Layer, work: DType) -> float:
    """Estimated cycles of the direct method."""
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
    """How to do a layer; None where the direct method is faster."""
    height, width = (n + 1 >> 1 for n in layer.outputs)
    tiles = layer.batch * height * width
    vectors = -(-tiles // lanes(work))
    columns = min(_WIDTHS, key=lambda c: _cost(layer, vectors, c, work))
    if _cost(layer, vectors, columns, work) > _direct_cost(layer, work):
        return None
    return divided(layer, work, threads, columns)


def divided(layer: Layer, work: DType, threads: int, columns: int) -> Plan:
    """A plan with panels of so many vectors. No result depends on how it is divided."""
    height, width = (n + 1 >> 1 for n in layer.outputs)
    tiles = layer.batch * height * width
    group_panels = -(-tiles // (columns * lanes(work)))
    panels, rows = layer.groups * group_panels, programs.rows(columns)
    blocks = -(-layer.made // rows)
    chunks = min(panels, threads * _TASKS)
    # Where there are few panels, every thread does a part of the channels of each.
    parts = min(threads, blocks) if panels < 2 * chunks else 1
    part = -(-blocks // parts)
    parts = -(-blocks // part)
    some = min(part, _SOME // rows)
    taken, sums = (programs.pitch(n, columns, work) for n in (layer.depth, some * rows))
    # The last line of sums is read beyond its end.
    room, tasks = 4 * (taken + sums) + lanes(work), chunks * parts
    return Plan(columns, tasks, tasks * room, blocks, (
        tasks, parts, part, some, blocks, chunks, panels, group_panels, tiles, height, width, layer.depth, layer.made,
        room, taken, sums, *layer.sizes, *layer.padding))


def _steps(array: Any) -> Sizes:
    return tuple(s // array.itemsize for s in array.strides)


def convolve(device: CpuDevice, dtype: DType, work: DType, out: Any, x: Any, w: Any, layer: Layer, plan: Plan,
             stream: Stream) -> bool:
    """Compute ``out``, in order with what the caller does: ``stream`` is none that has a thread of its own.

    Returns:
        Whether all results are finite. Where one is not, others of the same tile may be wrong: what is not finite
        spreads over the tiles that it is in.
    """
    rows = programs.rows(plan.columns)
    step_o, step_c, step_h, step_w = _steps(w)
    step_g, origin = w.shape[0] // layer.groups * step_o, 0
    if layer.turned:
        step_o, step_c, origin, step_h, step_w = step_c, step_o, 2 * (step_h + step_w), -step_h, -step_w
    weight = device.empty((layer.groups * plan.blocks * programs.PLACES * layer.depth * rows,), work, stream)
    device.program(programs.weights, dtype, work, rows)((weight, w), (
        layer.groups * plan.blocks, plan.blocks, layer.depth, layer.made, origin, step_g, step_o, step_c, step_h,
        step_w), stream)
    infinite = device.empty((plan.tasks * lanes(work),), work, stream)
    step_n, step_x, *line = _steps(x)
    known = line[1] if line[1] in (0, 1) else None
    device.program(programs.convolution, dtype, work, plan.columns, known)(
        (out, device.empty((plan.room,), work, stream), infinite, x, weight),
        (*plan.scalars, step_n, layer.depth * step_x, step_x, *line, _steps(out)[0], *layer.outputs), stream)
    return not infinite.any()
