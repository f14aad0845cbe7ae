"""Convolution of images with windows of 3 x 3 by Winograd's minimal filtering F(2 x 2, 3 x 3).

A tile of 2 x 2 results follows from 4 x 4 elements of the image with 16 products instead of 36 (Winograd, 1980; Lavin
and Gray, 2016): ``Y = A' [(G w G') * (B' d B)] A``, where * is elementwise and its products are summed over channels.
For each of the 16 places, these sums are a product of matrices: channels of the result by channels of the image, times
channels of the image by tiles.

A task takes tiles of all images one panel at a time; a panel has as many tiles as a register tile has columns. The task
transforms the panel's elements into scratch that stays in a cache, and from there computes the results of some channels
at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensocket_plugins.contract.dtypes import DType, bool_, int64
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
    Operand,
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
from tensocket_plugins.ir.schedule.nest import larger, smaller

from .tiles import Tile, index, lanes, named, numbers

#: The places of a tile: 4 x 4.
PLACES: Final = 16
#: The channels of the image whose windows are transformed at a time: a multiple of a vector.
_STAGE: Final = 16


def rows(columns: int) -> int:
    """Return the channels in a register tile that is ``columns`` vectors of tiles wide."""
    return 8 if columns > 1 else 16


def pitch(depth: int, columns: int, dtype: DType) -> int:
    """Return the stride of lines of places in a panel with ``depth`` channels, of layout [line, channel, 4, tiles].

    It is an odd number of vectors, so that the lines do not compete for the same sets of a cache.
    """
    return (4 * depth * columns | 1) * lanes(dtype)


def _window(values: Sequence[Expr]) -> list[Expr]:
    """Return a line of 3 elements of the window times G': 4 factors."""
    a, b, c = values
    half = const(0.5, a.dtype)
    ends, middle = half * (a + c), half * b
    return [a, ends + middle, ends - middle, c]


def weights(source: DType, work: DType, count: int, near: bool) -> Program:
    """Return the program ``out[g, block, place, c, o] = G w[g, block * count + o, c] G'``, 0 beyond the last channel.

    Parameters: result, weight; then: tasks (groups times blocks), blocks, channels of the image and of the result in a
    group, the weight's first element and its strides (group, channels of the result and of the image, rows, columns).

    Args:
        source: Element type of the weight.
        work: Element type of the result.
        count: Channels in a block, at most the elements of a vector.
        near: Whether the windows of adjacent channels of the result are adjacent and flipped, so that the origin is the
            last element of the first window. The program then copies the windows of some channels of the image at a
            time, because these are far apart in memory and a processor can wait for many copies at once.
    """
    scalars, (tasks, blocks, depth, made, origin, step_g, step_o, step_c, step_h, step_w) = numbers(
        "tasks blocks depth made origin step_g step_o step_c step_h step_w")
    task, c, lane, at, out_at, channel, o, first, some_at = map(
        index, ("task", "c", "lane", "at", "out_at", "channel", "o", "first", "some_at"))
    some = max(1, lanes(work) // count)
    taps = [[Var(f"tap{h}{w}", work) for w in range(3)] for h in range(3)]
    place = (channel - some_at) * (9 * count) + lane % count * 9
    read = [[Load("stage", place + (8 - 3 * h - w), work) if near else
             cast(Load("weight", first + h * step_h + w * step_w, source), work) for w in range(3)] for h in range(3)]
    body: list[Stmt] = [Let(channel, c + lane // count), Let(o, task % blocks * count + lane % count),
                        Let(first, at + o * step_o + channel * step_c)]
    body += [Declare(tap, const(0, work)) for line in taps for tap in line]
    body.append(If(o < made, tuple(Assign(taps[h][w], read[h][w]) for h in range(3) for w in range(3))))
    columns = [_window([taps[h][w] for h in range(3)]) for w in range(3)]
    for h in range(4):
        parts = [Var(f"part{h}_{w}", work) for w in range(3)]
        body += [Let(part, columns[w][h]) for w, part in enumerate(parts)]
        body += [Store("out", out_at + ((4 * h + w) * count * depth + c * count + lane), value)
                 for w, value in enumerate(_window(parts))]
    end, whole = smaller(some_at + _STAGE, depth), depth // some * some
    task_body = [
        Let(at, origin + task // blocks * step_g),
        Let(out_at, task * (PLACES * count * depth)),
        loop(some_at, depth, [
            *([_staged(source, work, count, (at - 8, some_at, end, step_c), (task % blocks * count, made))]
              if near else []),
            loop(c, smaller(some_at + _STAGE, whole), [loop(lane, some * count, body, LoopKind.VECTOR)], start=some_at,
                 step=some),
            loop(c, end, [loop(lane, count, body, LoopKind.VECTOR)], start=larger(some_at, whole)),
        ], step=_STAGE),
    ]
    locals_ = (Local("stage", work, _STAGE * 9 * count),) if near else ()
    kernel = Kernel("winograd_weights", (loop(task, tasks, task_body, LoopKind.PARALLEL),), locals_)
    return Program("winograd_weights", (Buffer("out", work, True), Buffer("weight", source), *scalars), (kernel,))


def _staged(source: DType, work: DType, count: int, place: tuple[Expr, Expr, Expr, Expr],
            channels: tuple[Expr, Expr]) -> Stmt:
    """Return the statement that copies the windows of a block of result channels, for some channels of the image.

    Args:
        source: Element type of the weight.
        work: Element type of the copy.
        count: Channels in a block.
        place: The offset of the weight; the first channel of the image, the end of the channels, and their stride.
        channels: The first channel of the result, and the number of all channels.
    """
    c, q, lane, run = map(index, ("c", "q", "lane", "run"))
    (at, first, end, step), (o, made) = place, channels
    value = cast(Load("weight", at + c * step + o * 9 + (q + lane), source), work)
    return loop(c, end, [
        Let(run, smaller(made - o, count) * 9),
        loop(q, run, [loop(lane, lanes(work), [
            If(q + lane < run, (Store("stage", (c - first) * (9 * count) + (q + lane), value),))], LoopKind.VECTOR)],
            step=lanes(work))], start=first)


def _combined(values: Sequence[Expr]) -> list[Expr]:
    """Return a line of 4 elements of the image times B."""
    a, b, c, d = values
    return [a - c, b + c, c - b, b - d]


def _results(values: Sequence[Expr]) -> list[Expr]:
    """Return a line of 4 sums times A: 2 results."""
    a, b, c, d = values
    return [a + b + c, b - c - d]


class Lines:
    """The loops over a panel's tiles, by lines of one image, that surround the transforms of both sides.

    Attributes:
        image: The index of the image.
        row: The index of the line of tiles in the image.
        column: The first tile in the line.
        count: The number of tiles, up to ``step``.
        place: The position of the first tile in the panel.
        step: Tiles at a time: two vectors hold all elements of the image that they need.
        arrays: Local arrays for the lines of these elements.
    """

    def __init__(self, work: DType) -> None:
        self.image, self.row, self.column, self.count, self.place = map(
            index, ("image", "row", "column", "count", "place"))
        self.step = lanes(work) - 1
        self.arrays = tuple(Local(f"line{k}", work, 2 * lanes(work)) for k in range(4))

    def each(self, first: Expr, last: Expr, sizes: tuple[Expr, Expr], body: Sequence[Stmt]) -> Stmt:
        """Return the loop of ``body`` over the tiles from ``first`` up to ``last``.

        ``sizes`` are the lines of an image, and the tiles of a line.
        """
        line, begin, end = index("line"), index("begin"), index("end")
        height, width = sizes
        return loop(line, (last - 1) // width + 1, [
            Let(self.image, line // height),
            Let(self.row, line % height),
            Let(begin, larger(first - line * width, const(0, int64))),
            Let(end, smaller(last - line * width, width)),
            loop(self.column, end, [
                Let(self.count, smaller(end - self.column, self.step)),
                Let(self.place, line * width + self.column - first),
                *body,
            ], start=begin, step=self.step),
        ], start=first // width)


    def ends(self, v: dict[str, Expr], top: Var, left: Var) -> tuple[list[Let], list[Var]]:
        """Return bindings of ``top``, ``left`` and the number of results in both lines, and the latter's variables."""
        ends = [index("end0"), index("end1")]
        return [
            Let(top, self.row * 2),
            Let(left, self.column * 2),
            Let(ends[0], smaller(self.count * 2, v["out_w"] - left)),
            Let(ends[1], select(top + 1 < v["out_h"], ends[0], const(0, int64))),
        ], ends


def take(lines: Lines, source: DType, work: DType, span: int, v: dict[str, Expr], at: tuple[Expr, Expr],
         channels: tuple[Operand, Expr]) -> list[Stmt]:
    """Return the transform of the elements of some tiles, 4 lines of 2 count + 2, to [line, channel, 4, tiles].

    Args:
        lines: The tiles.
        source: Element type of the image.
        work: Element type of the result.
        span: Tiles in a panel.
        v: The kernel's scalars by name.
        at: The offset of the result, and the stride of its lines.
        channels: The first channel, and the end of the channels.
    """
    c, lane, first, target, left, top = map(index, ("c", "lane", "first", "target", "left", "top"))
    width, (begin, pitch) = lanes(work), at
    within = [Var(f"within{half}", bool_) for half in range(2)]
    inside = [Var(f"inside{r}", bool_) for r in range(4)]
    taken = [[Var(f"taken{r}_{half}", work) for half in range(2)] for r in range(4)]
    read: list[Stmt] = [Declare(var, const(0, work)) for line in taken for var in line]
    read += [Let(var, (left + (lane + half * width) >= 0) & (left + (lane + half * width) < v["width"]))
             for half, var in enumerate(within)]
    for r, line in enumerate(taken):
        for half, var in enumerate(line):
            place = lane + half * width
            value = cast(Load("image", first + r * v["step_h"] + place * v["step_w"], source), work)
            read.append(If(within[half] & inside[r], (Assign(var, value),)))
    for half in range(2):
        read += [Store(f"line{k}", lane + half * width, value)
                 for k, value in enumerate(_combined([line[half] for line in taken]))]
    stores: list[Stmt] = []
    for k in range(4):
        parts = [Var(f"part{k}_{s}", work) for s in range(4)]
        stores += [Let(part, Load(f"line{k}", lane * 2 + s, work)) for s, part in enumerate(parts)]
        stores += [Store("room", target + k * pitch + (lane + s * span), value)
                   for s, value in enumerate(_combined(parts))]
    return [
        Let(top, lines.row * 2 - v["pad_h"]),
        Let(left, lines.column * 2 - v["pad_w"]),
        *(Let(var, (top + r >= 0) & (top + r < v["height"])) for r, var in enumerate(inside)),
        loop(c, channels[1], [
            Let(first, v["image_at"] + lines.image * v["image_n"] + c * v["image_c"] + top * v["step_h"]
                + left * v["step_w"]),
            Let(target, begin + (c - channels[0]) * (4 * span) + lines.place),
            loop(lane, width, read, LoopKind.VECTOR),
            loop(lane, width, [If(lane < lines.count, tuple(stores))], LoopKind.VECTOR),
        ], start=channels[0]),
    ]


def _give(lines: Lines, result: DType, work: DType, columns: int, v: dict[str, Expr], at: Expr,
          channels: tuple[Expr, Expr]) -> list[Stmt]:
    """Return the transform of the sums of some tiles to results, for the channels in the range ``channels``."""
    c, lane, source, target, left, top = map(index, ("c", "lane", "source", "target", "left", "top"))
    width, span = lanes(work), columns * lanes(work)
    first, last = channels
    bounds, ends = lines.ends(v, top, left)
    sums = [[Var(f"sum{h}_{w}", work) for w in range(4)] for h in range(4)]
    read: list[Stmt] = [Let(sums[h][w], Load("room", source + h * v["made_line"] + (lane + w * span), work))
                        for h in range(4) for w in range(4)]
    halves = [_results([sums[h][w] for h in range(4)]) for w in range(4)]
    for r in range(2):
        parts = [Var(f"half{r}_{w}", work) for w in range(4)]
        read += [Let(part, halves[w][r]) for w, part in enumerate(parts)]
        read += [Store(f"line{r}", lane * 2 + k, value) for k, value in enumerate(_results(parts))]
    write: list[Stmt] = []
    for r in range(2):
        for half in range(2):
            value, place = Var(f"value{r}_{half}", work), lane + half * width
            write += [Let(value, Load(f"line{r}", place, work)), If(place < ends[r], (
                Store("out", target + r * v["out_w"] + place, cast(value, result)),
                Store("wrong", lane, call("fma", value, const(0, work), Load("wrong", lane, work)))))]
    return [
        *bounds,
        loop(c, last, [
            Let(source, at + (c - first) * (4 * span) + lines.place),
            Let(target, v["out_at"] + lines.image * v["out_n"] + c * (v["out_h"] * v["out_w"]) + top * v["out_w"]
                + left),
            loop(lane, width, read, LoopKind.VECTOR),
            loop(lane, width, write, LoopKind.VECTOR),
        ], start=first),
    ]


def convolution(result: DType, work: DType, columns: int, step: int | None) -> Program:
    """Return ``out[n, g, o] = sum over c of image[n, g, c] * w[g, o, c]``, stride 1, with zeros around the images.

    Parameters: result (contiguous), scratch (``room`` elements per task), one vector per task that becomes nonzero if a
    result is not finite, images, weights as ``weights`` packs them in blocks of ``rows(columns)``; then sizes and
    strides as named below, images by their own strides. A task computes one of ``chunks`` parts of all ``panels``
    (``group_panels`` for each group), and of these ``part`` of all ``blocks`` of channels, ``some`` at a time.

    Args:
        result: Element type of images and results.
        work: Element type of weights and sums.
        columns: Vectors of tiles in a panel.
        step: The images' last stride, if it is known.
    """
    scalars, v = named(
        "tasks parts part some blocks chunks panels group_panels tiles lines_h lines_w depth made room taken_line "
        "made_line height width pad_h pad_w image_n image_g image_c step_h step_w out_n out_h out_w", step_w=step)
    image_at, out_at = index("image_at"), index("out_at")
    v |= {"image_at": image_at, "out_at": out_at}
    task, chunk, panel, group, first, last, begin, some_at, place, block = map(index, (
        "task", "chunk", "panel", "group", "first_tile", "last_tile", "begin_block", "some_at", "place", "block"))
    taken_at, made_at, weight, end, last_block, target = map(
        index, ("taken_at", "made_at", "weight_at", "end_block", "last_block", "sums_at"))
    tile = Tile(rows(columns), columns, work)
    width, span = lanes(work), columns * lanes(work)
    lines, sizes = Lines(work), (v["lines_h"], v["lines_w"])
    products = loop(place, PLACES, [loop(block, end, [
        Let(weight, ((group * v["blocks"] + block) * PLACES + place) * (v["depth"] * tile.rows)),
        Let(target, made_at + place // 4 * v["made_line"] + ((block - some_at) * (tile.rows * 4) + place % 4) * span),
        tile.zero(),
        tile.multiply(v["depth"], ("weight", [weight + r for r in range(tile.rows)], tile.rows),
                      ("room", taken_at + place // 4 * v["taken_line"] + place % 4 * span, const(4 * span, int64))),
        tile.vectors([Store("room", tile.over(target + r * (4 * span), column), tile.at(r, column))
                      for r in range(tile.rows) for column in range(columns)]),
    ], start=some_at)])
    one_panel = [
        Let(group, panel // v["group_panels"]),
        Let(first, panel % v["group_panels"] * span),
        Let(last, smaller(first + span, v["tiles"])),
        Let(image_at, group * v["image_g"]),
        Let(out_at, group * v["made"] * (v["out_h"] * v["out_w"])),
        lines.each(first, last, sizes, take(
            lines, result, work, span, v, (taken_at, v["taken_line"]), (0, v["depth"]))),
        loop(some_at, last_block, [
            Let(end, smaller(some_at + v["some"], last_block)),
            products,
            lines.each(first, last, sizes, _give(
                lines, result, work, columns, v, made_at,
                (some_at * tile.rows, smaller(end * tile.rows, v["made"])))),
        ], start=begin, step=v["some"]),
    ]
    lane = index("lane")
    body = loop(task, v["tasks"], [
        Let(taken_at, task * v["room"]),
        Let(made_at, taken_at + v["taken_line"] * 4),
        Let(begin, task % v["parts"] * v["part"]),
        Let(last_block, smaller(begin + v["part"], v["blocks"])),
        loop(lane, width, [Store("wrong", lane, const(0, work))], LoopKind.VECTOR),
        Let(chunk, task // v["parts"]),
        loop(panel, (chunk + 1) * v["panels"] // v["chunks"], one_panel, start=chunk * v["panels"] // v["chunks"]),
        loop(lane, width, [Store("infinite", task * width + lane, Load("wrong", lane, work))], LoopKind.VECTOR),
    ], LoopKind.PARALLEL)
    buffers = (Buffer("out", result, True), Buffer("room", work, True), Buffer("infinite", work, True),
               Buffer("image", result), Buffer("weight", work))
    locals_ = (*tile.arrays, *lines.arrays, Local("wrong", work, width))
    return Program("winograd", (*buffers, *scalars), (Kernel("winograd", (body,), locals_),))
