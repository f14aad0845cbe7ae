"""Convolution on a CPU without an im2col matrix: tiles of the result are accumulated in vector registers.

A *flat image* holds row after row, with the zeros of the padding between them. The element that a tap of the window
reads for output position p is then at p plus an offset that depends on channel and tap only, so that one vector load
serves adjacent positions, for any number of spatial dimensions. The kernel also computes positions beyond the end of a
row, and drops them. A stride divides the image into phases, each flat as above, so that adjacent positions still read
adjacent elements.

The weight's gradient sums products of the same two flat arrays over positions.
"""

from __future__ import annotations

from typing import Final

from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.ir.nodes import (
    Assign,
    Buffer,
    Declare,
    Expr,
    If,
    Kernel,
    Let,
    Load,
    Local,
    LoopKind,
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
from tensocket_plugins.ir.schedule.nest import smaller

from .tiles import Tile, index, lanes, numbers

#: The most channels of a tile of the result.
CHANNELS: Final = 8
#: The number of tiles of a weight's gradient whose sums one task holds.
TILES: Final = 24


def vectors(channels: int) -> int:
    """Return the vectors of positions in a tile: up to 24 of 32 registers hold sums."""
    return 3 if channels > 4 else 6


def _store_rows(tile: Tile, column: int, channel: Expr, result: DType, place: tuple[Expr, ...]) -> Stmt:
    """Return the statement that stores one vector of every channel in the result's rows that hold its positions."""
    target, first, count, width, pitch, hop, step = place
    row, begin, at, position = map(index, ("row", "begin", "at", "position"))
    after = first + (column * lanes(tile.dtype) + lanes(tile.dtype) - 1)
    stores = [If(channel + c < count, (Store("out", at + (channel + c) * step + position * hop,
                                             cast(tile.at(c, column), result)),)) for c in range(tile.rows)]
    return loop(row, after // pitch + 1, [
        Let(begin, Load("rows", row, int64)),
        If(begin >= 0, (
            Let(at, target + begin),
            tile.vectors([Let(position, tile.over(first, column) - row * pitch),
                          If((position >= 0) & (position < width), tuple(stores))]),
        )),
    ], start=(first + column * lanes(tile.dtype)) // pitch)


def convolution(result: DType, work: DType, channels: int, spread: bool) -> Program:
    """Return ``out[n, g, c, p] = sum over k of weight[g, c, k] * image[n, g, offset[k] + p]`` for positions in rows.

    Parameters: result, flat images, weights in blocks of ``channels`` ([g, block, k, channels]), offsets [k], and the
    offset in the result of each row of positions (-1: outside of it); then sizes and strides as named below.

    Args:
        result: Element type of the result.
        work: Element type of images, weights and sums.
        channels: Channels in a block.
        spread: Whether adjacent positions may be ``hop`` elements apart in the result.
    """
    scalars, names = numbers("tasks groups blocks depth tiles image_n image_g weight_g out_n out_g out_c count width "
                              "pitch hop")
    (tasks, groups, blocks, depth, tiles, image_n, image_g, weight_g, out_n, out_g, out_c, count, width, pitch,
     hop) = names
    task, block, k = map(index, ("task", "block", "k"))
    number, n, g, first, image, target = map(index, ("number", "n", "g", "first", "image_at", "target"))
    weight, at, taken = map(index, ("weight_at", "at", "taken"))
    columns = vectors(channels)
    span = columns * lanes(work)
    tile = Tile(channels, columns, work)
    factors = [Var(f"factor{c}", work) for c in range(channels)]
    values = [Var(f"value{v}", work) for v in range(columns)]
    multiply = loop(k, depth, [
        Let(at, image + Load("offsets", k, int64)),
        Let(taken, weight + k * channels),
        *(Let(factor, Load("weight", taken + c, work)) for c, factor in enumerate(factors)),
        tile.vectors([*(Let(value, Load("image", tile.over(at, v), work)) for v, value in enumerate(values)),
                      *tile.add(factors, values)]),
    ])
    place = (target, first, count, width, pitch, hop if spread else const(1, int64), out_c)
    finish = [_store_rows(tile, v, block * channels, result, place) for v in range(columns)]
    body = loop(task, tasks, [
        Let(number, task // tiles),
        Let(n, number // groups),
        Let(g, number % groups),
        Let(first, task % tiles * span),
        Let(image, n * image_n + g * image_g + first),
        Let(target, n * out_n + g * out_g),
        loop(block, blocks, [Let(weight, g * weight_g + block * (depth * channels)), tile.zero(), multiply, *finish]),
    ], LoopKind.PARALLEL)
    buffers = (Buffer("out", result, True), Buffer("image", work), Buffer("weight", work), Buffer("offsets", int64),
               Buffer("rows", int64))
    kernel = Kernel("convolution", (body,), tile.arrays)
    return Program("convolution", (*buffers, *scalars), (kernel,))


def flat_image(source: DType, work: DType, dims: int, step: int | None) -> Program:
    """Return the copy of images with zeros before and after their lines, for one phase of a stride.

    Parameters: result and source, then: images times channels, channels, sizes of the result's outer spatial
    dimensions, length of a line; the result's offset and the stride of its channels; for each dimension the begin and
    the end of the source in the result; the source's first element and its strides (image, channel, dimensions..).

    Args:
        source: Element type of the image.
        work: Element type of the result.
        dims: Spatial dimensions.
        step: The last stride, if it is known.
    """
    scalars, names = numbers(" ".join([
        "planes channels", *(f"size{d}" for d in range(dims - 1)), "length start channel_step",
        *(f"low{d} high{d}" for d in range(dims)), "origin step_n step_c", *(f"step{d}" for d in range(dims))]))
    v = {name.name: name for name in names}
    last = dims - 1
    plane, t, lane, low, high, begin, origin, position = map(
        index, ("plane", "t", "lane", "low", "high", "begin", "origin_at", "position"))
    places = [index(f"place{d}") for d in range(last)]
    inside: Expr = plane >= 0
    row: Expr = const(0, int64)
    first: Expr = v["origin"] + (plane // v["channels"]) * v["step_n"] + (plane % v["channels"]) * v["step_c"]
    for d, place in enumerate(places):
        inside = inside & (v[f"low{d}"] <= place) & (place < v[f"high{d}"])
        row = place if d == 0 else row * v[f"size{d}"] + place
    across = sum(((place - v[f"low{d}"]) * v[f"step{d}"] for d, place in enumerate(places)), const(0, int64))
    value, distance = Var("value", work), v[f"step{last}"] if step is None else const(step, int64)
    taken = cast(Load("in0", origin + across + (position - low) * distance, source), work)
    copy = loop(lane, lanes(work), [
        Let(position, t + lane),
        If(position < v["length"], (
            Declare(value, const(0, work)),
            If((position >= low) & (position < high), (Assign(value, taken),)),
            Store("out", begin + row * v["length"] + position, value),
        )),
    ], LoopKind.VECTOR)
    lines: list[Stmt] = [
        Let(low, select(inside, v[f"low{last}"], v["length"])),
        Let(high, select(inside, v[f"high{last}"], v["length"])),
        loop(t, v["length"], [copy], step=lanes(work)),
    ]
    for d, place in reversed(list(enumerate(places))):
        lines = [loop(place, v[f"size{d}"], lines)]
    body = loop(plane, v["planes"], [
        Let(origin, first), Let(begin, v["start"] + plane * v["channel_step"]), *lines], LoopKind.PARALLEL)
    return Program("flat_image", (Buffer("out", work, True), Buffer("in0", source), *scalars),
                   (Kernel("flat_image", (body,)),))


def weight_blocks(source: DType, work: DType, channels: int) -> Program:
    """Return ``out[g, block, k, c] = weight[g, block * channels + c, places[k]]``, 0 beyond the last channel.

    Parameters: result, weight, places [k]; then: tasks (groups times blocks), blocks, depth, channels in a group, and
    the weight's strides by group and by channel.
    """
    scalars, names = numbers("tasks blocks depth count step_g step_c")
    tasks, blocks, depth, count, step_g, step_c = names
    task, c, k, begin, taken, channel = map(index, ("task", "c", "k", "begin", "taken", "channel"))
    value = cast(Load("weight", begin + Load("places", k, int64), source), work)
    copy = loop(k, depth, [Store("out", taken + k * channels, value)], LoopKind.PARALLEL)
    clear = loop(k, depth, [Store("out", taken + k * channels, const(0, work))], LoopKind.PARALLEL)
    body = loop(task, tasks, [loop(c, channels, [
        Let(channel, task % blocks * channels + c),
        Let(taken, task * (depth * channels) + c),
        Let(begin, task // blocks * step_g + channel * step_c),
        If(channel < count, (copy,)),
        If(channel >= count, (clear,)),
    ])], LoopKind.PARALLEL)
    return Program("weight_blocks", (Buffer("out", work, True), Buffer("weight", source), Buffer("places", int64),
                                     *scalars), (Kernel("weight_blocks", (body,)),))


def weight_gradient(result: DType, work: DType, channels: int, masked: bool = False) -> Program:
    """Return ``out[g, c, k] = sum over n, p of upstream[n, g, c, p] * image[n, g, offset[k] + p]``.

    Parameters: result, flat upstream gradients (0 at positions outside of the result), flat images, offsets [k]; then
    sizes and strides as named below. The number of positions is a multiple of a vector. The kernel sums over ``span``
    positions of ``some`` images at a time, so that their elements stay in a cache for all tiles of a task.

    At positions outside of the result, the kernel multiplies an element of the image by 0, which gives NaN if the
    element is not finite. If a sum is NaN, ``image[wrong]`` becomes 1; the ``masked`` form then has the right sums.

    Args:
        result: Element type of the result.
        work: Element type of the other arrays and of sums.
        channels: Channels in a tile.
        masked: Whether one more array marks the positions of the result: 1 there, else 0.
    """
    scalars, names = numbers("tasks blocks parts tiles depth count images some positions span upstream_n upstream_g "
                              "upstream_c image_n image_g out_g out_c wrong")
    (tasks, blocks, parts, tiles, depth, count, images, some, positions, span, upstream_n, upstream_g, upstream_c,
     image_n, image_g, out_g, out_c, wrong) = names
    task, tile_at, n, p, first_n, first_p, g, block = map(
        index, ("task", "tile", "n", "p", "first_n", "first_p", "g", "block"))
    first_k, at, image_at, upstream_at, k, c = map(index, ("first_k", "at", "image_at", "upstream_at", "k", "c"))
    step, columns = lanes(work), vectors(channels)
    cells = channels * columns
    tile = Tile(channels, columns, work)
    rows = [index(f"row{c}") for c in range(channels)]
    taps = [index(f"tap{v}") for v in range(columns)]
    lefts = [Var(f"left{c}", work) for c in range(channels)]
    rights = [Var(f"right{v}", work) for v in range(columns)]
    total = [tile.over(at + (row * columns + column) * step) for row in range(channels) for column in range(columns)]
    sums = [tile.at(row, column) for row in range(channels) for column in range(columns)]
    read: list[Expr] = [Load("image", tile.over(image_at + tap + p), work) for tap in taps]
    if masked:
        read = [select(Load("there", tile.over(p), work) > const(0, work), value, const(0, work)) for value in read]
    multiply = loop(p, smaller(first_p + span, positions), [tile.vectors([
        *(Let(left, Load("upstream", tile.over(upstream_at + row + p), work))
          for left, row in zip(lefts, rows, strict=True)),
        *(Let(right, value) for right, value in zip(rights, read, strict=True)),
        *tile.add(lefts, rights),
    ])], start=first_p, step=step)
    one_tile = loop(tile_at, tiles, [
        Let(at, tile_at * (cells * step)),
        *(Let(tap, Load("offsets", first_k + (tile_at * columns + v), int64)) for v, tap in enumerate(taps)),
        tile.zero(),
        loop(n, smaller(first_n + some, images), [
            Let(upstream_at, n * upstream_n + g * upstream_g),
            Let(image_at, n * image_n + g * image_g),
            multiply,
        ], start=first_n),
        tile.vectors([Store("totals", place, Load("totals", place, work) + value)
                      for place, value in zip(total, sums, strict=True)]),
    ])
    cell, lane = index("cell"), index("element")
    widths = [step >> level for level in range(1, step.bit_length())]
    fold = [loop(lane, width, [Store("totals", cell * step + lane, Load("totals", cell * step + lane, work)
                                     + Load("totals", cell * step + (lane + width), work))], LoopKind.VECTOR)
            for width in widths]
    value = Load("totals", cell * step, work)
    finish = loop(cell, tiles * cells, [
        *fold,
        Let(c, block * channels + cell % cells // columns),
        Let(k, first_k + cell // cells * columns + cell % columns),
        If((c < count) & (k < depth), (
            Store("out", g * out_g + c * out_c + k, cast(value, result)),
            If(call("ne", value, value), (Store("image", wrong, const(1, work)),)),)),
    ])
    body = loop(task, tasks, [
        Let(g, task // (blocks * parts)),
        Let(block, task // parts % blocks),
        Let(first_k, task % parts * (tiles * columns)),
        *(Let(row, smaller(block * channels + c, count - 1) * upstream_c) for c, row in enumerate(rows)),
        loop(cell, tiles * cells, [tile.vectors([Store("totals", tile.over(cell * step), const(0, work))])]),
        loop(first_n, images, [loop(first_p, positions, [one_tile], step=span)], step=some),
        finish,
    ], LoopKind.PARALLEL)
    buffers = [Buffer("out", result, True), Buffer("upstream", work), Buffer("image", work, True),
               Buffer("offsets", int64)] + [Buffer("there", work)] * masked
    kernel = Kernel("weight_gradient", (body,), (*tile.arrays, Local("totals", work, TILES * cells * step)))
    return Program("weight_gradient", (*buffers, *scalars), (kernel,))
