"""The gradient of a weight of 3 x 3 windows by Winograd's method: the transpose of ``winograd_schedule.py``.

``dw = G' [sum over tiles of (A dy A') * (B' d B)] G``: for each of the 16 places of a tile, a product of matrices,
channels of the result by tiles, times tiles by channels of the image. For the latter, registers transpose squares of
channels by tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
)
from tensocket_plugins.ir.schedule.nest import smaller

from .tiles import Tile, index, lanes, named, numbers
from .winograd_schedule import PLACES, Lines, pitch, rows, take

#: The vectors of tiles in a panel.
PANEL: Final = 4


def turned(depth: int, columns: int, dtype: DType) -> int:
    """Return the number of channels of an image, padded to whole register tiles of ``columns`` vectors."""
    width = columns * lanes(dtype)
    return -(-depth // width) * width


def sizes(padded: int, made: int, dtype: DType) -> tuple[int, int, int, int]:
    """Return the layout of a task's scratch: offsets of transposed elements and gradients, stride of places, and end.

    Args:
        padded: Channels of an image, padded by ``turned``.
        made: Channels of the result that a task computes.
        dtype: The element type.
    """
    image = 4 * pitch(lanes(dtype), PANEL, dtype)
    place = PANEL * lanes(dtype) * padded + lanes(dtype)
    gradients = image + PLACES * place
    return image, gradients, place, gradients + 4 * pitch(made, PANEL, dtype)


def _transposed(work: DType, source: Callable[[Expr], Expr], target: Callable[[Expr], Expr]) -> list[Stmt]:
    """Return the statements that transpose a square of the scratch.

    Interleaving each row of the upper half with its row of the lower half rotates the bits of every element's index by
    one. Done once per bit of a row's index, this exchanges rows and columns.

    Args:
        work: The element type.
        source: The offset of a row.
        target: The offset of a row of the result.
    """
    width, lane, k = lanes(work), index("lane"), index("k")
    stages = width.bit_length() - 1
    body: list[Stmt] = []
    for stage in range(stages):
        read, write = f"square{stage % 2}", f"square{(stage + 1) % 2}"
        values = [Load("room", source(row) + lane, work) if stage == 0 else Load(read, row * width + lane, work)
                  for row in (k, k + width // 2)]
        places = [("room", target(row) + lane) if stage == stages - 1 else (write, row * width + lane)
                  for row in (k * 2, k * 2 + 1)]
        body.append(loop(k, width // 2, [
            loop(lane, width, [Store("pair", lane * 2 + half, value) for half, value in enumerate(values)],
                 LoopKind.VECTOR),
            loop(lane, width, [Store(*place, Load("pair", lane + half * width, work))
                               for half, place in enumerate(places)], LoopKind.VECTOR)]))
    return body


def _spread(values: Sequence[Expr]) -> list[Expr]:
    """Return the 4 gradients of a line of sums: 2 gradients of results times A'."""
    a, b = values
    return [a, a + b, a - b, -b]


def _upstream(lines: Lines, source: DType, work: DType, v: dict[str, Expr], at: Expr,
              channels: tuple[Expr, Expr]) -> list[Stmt]:
    """Return the transform of gradients of results to gradients of sums, for the channels in the range ``channels``."""
    c, lane, first, target, left, top = map(index, ("c", "lane", "first", "target", "left", "top"))
    width, span = lanes(work), PANEL * lanes(work)
    bounds, ends = lines.ends(v, top, left)
    taken = [[Var(f"taken{r}_{half}", work) for half in range(2)] for r in range(2)]
    read: list[Stmt] = [Declare(var, const(0, work)) for line in taken for var in line]
    for r, line in enumerate(taken):
        for half, var in enumerate(line):
            place = lane + half * width
            value = cast(Load("upstream", first + r * v["up_h"] + place * v["up_w"], source), work)
            read.append(If(place < ends[r], (Assign(var, value),)))
    for half in range(2):
        read += [Store(f"line{k}", lane + half * width, value)
                 for k, value in enumerate(_spread([line[half] for line in taken]))]
    stores: list[Stmt] = []
    for k in range(4):
        parts = [Var(f"part{k}_{s}", work) for s in range(2)]
        stores += [Let(part, Load(f"line{k}", lane * 2 + s, work)) for s, part in enumerate(parts)]
        stores += [Store("room", target + k * v["up_line"] + (lane + s * span), value)
                   for s, value in enumerate(_spread(parts))]
    return [
        *bounds,
        loop(c, channels[1], [
            Let(first, v["up_at"] + lines.image * v["up_n"] + c * v["up_c"] + top * v["up_h"] + left * v["up_w"]),
            Let(target, at + (c - channels[0]) * (4 * span) + lines.place),
            loop(lane, width, read, LoopKind.VECTOR),
            loop(lane, width, [If(lane < lines.count, tuple(stores))], LoopKind.VECTOR),
        ], start=channels[0]),
    ]


def sums(source: DType, work: DType, columns: int, steps: tuple[int | None, int | None]) -> Program:
    """Return the program for ``totals[g, chunk, place, o, c]``, the sums of the products over tiles.

    Parameters: totals (channels padded to whole register tiles), scratch (``room`` elements per task), images, upstream
    gradients; then sizes and strides as named below. A task computes one of ``chunks`` parts of a group's ``panels``,
    and of these ``part`` of all ``blocks`` of channels.

    Args:
        source: Element type of images and gradients.
        work: Element type of totals.
        columns: Vectors of channels in a register tile.
        steps: The last strides of images and gradients, if they are known.
    """
    scalars, v = named(
        "tasks parts part blocks chunks panels tiles lines_h lines_w depth padded made room turned_at "
        "turned_place up_room up_line height width pad_h pad_w image_n image_g image_c step_h step_w up_n up_g "
        "up_c up_h up_w out_h out_w", step_w=steps[0], up_w=steps[1])
    image_at, up_at = index("image_at"), index("up_at")
    v |= {"image_at": image_at, "up_at": up_at}
    task, chunk, panel, group, first, last, begin, end = map(
        index, ("task", "chunk", "panel", "group", "first_tile", "last_tile", "begin_block", "end_block"))
    room, totals, place, block, c, t, row, at = map(
        index, ("room_at", "totals_at", "place", "block", "block_c", "block_t", "row", "at"))
    lane, line = index("lane"), index("line_at")
    tile, width = Tile(rows(columns), columns, work), lanes(work)
    span, step = PANEL * width, columns * width
    height = v["blocks"] * tile.rows
    lines, shape = Lines(work), (v["lines_h"], v["lines_w"])
    turned_at, gradients = room + v["turned_at"], room + v["up_room"]
    temp = const(pitch(width, PANEL, work), int64)
    image = loop(c, v["depth"], [
        lines.each(first, last, shape, take(
            lines, source, work, span, v, (room, temp), (c, smaller(c + width, v["depth"])))),
        loop(place, PLACES, [loop(t, last - first, _transposed(
            work, lambda k: room + place // 4 * temp + (k * 4 + place % 4) * span + t,
            lambda k: turned_at + place * v["turned_place"] + (t + k) * v["padded"] + c), step=width)]),
    ], step=width)
    products = loop(place, PLACES, [loop(block, end, [
        Let(line, gradients + place // 4 * v["up_line"] + ((block - begin) * (4 * tile.rows) + place % 4) * span),
        loop(c, v["padded"], [
            Let(at, totals + (place * height + block * tile.rows) * v["padded"] + c),
            tile.zero(),
            tile.multiply(last - first, ("room", [line + r * (4 * span) for r in range(tile.rows)], 1),
                          ("room", turned_at + place * v["turned_place"] + c, v["padded"])),
            tile.vectors([Store("totals", tile.over(at + r * v["padded"], k),
                                Load("totals", tile.over(at + r * v["padded"], k), work) + tile.at(r, k))
                          for r in range(tile.rows) for k in range(columns)]),
        ], step=step),
    ], start=begin)])
    one_panel = [
        Let(first, panel * span),
        Let(last, smaller(first + span, v["tiles"])),
        image,
        lines.each(first, last, shape, _upstream(
            lines, source, work, v, gradients,
            (begin * tile.rows, smaller(end * tile.rows, v["made"])))),
        products,
    ]
    body = loop(task, v["tasks"], [
        Let(chunk, task // v["parts"] % v["chunks"]),
        Let(group, task // v["parts"] // v["chunks"]),
        Let(room, task * v["room"]),
        Let(totals, task // v["parts"] * (height * v["padded"] * PLACES)),
        Let(image_at, group * v["image_g"]),
        Let(up_at, group * v["up_g"]),
        Let(begin, task % v["parts"] * v["part"]),
        Let(end, smaller(begin + v["part"], v["blocks"])),
        loop(place, PLACES, [loop(row, end * tile.rows, [loop(c, v["padded"], [loop(lane, width, [
            Store("totals", totals + (place * height + row) * v["padded"] + c + lane, const(0, work))],
            LoopKind.VECTOR)], step=width)], start=begin * tile.rows)]),
        loop(panel, (chunk + 1) * v["panels"] // v["chunks"], one_panel, start=chunk * v["panels"] // v["chunks"]),
    ], LoopKind.PARALLEL)
    buffers = (Buffer("totals", work, True), Buffer("room", work, True), Buffer("image", source),
               Buffer("upstream", source))
    locals_ = (*tile.arrays, *lines.arrays, Local("pair", work, 2 * width),
               Local("square0", work, width * width), Local("square1", work, width * width))
    return Program("winograd_sums", (*buffers, *scalars), (Kernel("winograd_sums", (body,), locals_),))


def _window(values: Sequence[Expr]) -> list[Expr]:
    """Return a line of 4 sums times G: 3 elements of the window."""
    a, b, c, d = values
    half = const(0.5, a.dtype)
    return [a + half * (b + c), half * (b - c), half * (b + c) + d]


def gradient(result: DType, work: DType) -> Program:
    """Return the program ``out[g * made + o, c] = G' (sum over chunks of totals[g, chunk, ..., o, c]) G``.

    Parameters: result (contiguous), one vector per channel of the result that becomes nonzero if an element is not
    finite, totals; then the numbers of all result channels, result channels of a group, image channels of a group and
    chunks, and the padded numbers of result and image channels of a group.

    Args:
        result: Element type of the result.
        work: Element type of totals.
    """
    scalars, (tasks, made, depth, chunks, height, padded) = numbers("tasks made depth chunks height padded")
    task, c, lane, k, at = map(index, ("task", "c", "lane", "chunk", "at"))
    width = lanes(work)
    total = [[Var(f"total{h}_{w}", work) for w in range(4)] for h in range(4)]
    body: list[Stmt] = [Declare(var, const(0, work)) for line in total for var in line]
    body.append(loop(k, chunks, [
        Let(at, ((task // made * chunks + k) * (PLACES * height) + task % made) * padded + c),
        *(Assign(var, var + Load("totals", at + (4 * h + w) * height * padded + lane, work))
          for h, line in enumerate(total) for w, var in enumerate(line))]))
    columns = [_window([total[h][w] for h in range(4)]) for w in range(4)]
    stores: list[Stmt] = []
    for h in range(3):
        parts = [Var(f"part{h}_{w}", work) for w in range(4)]
        body += [Let(part, columns[w][h]) for w, part in enumerate(parts)]
        for w, value in enumerate(_window(parts)):
            var = Var(f"value{h}_{w}", work)
            body.append(Let(var, value))
            stores += [Store("out", (task * depth + c + lane) * 9 + (3 * h + w), cast(var, result)),
                       Store("wrong", lane, call("fma", var, const(0, work), Load("wrong", lane, work)))]
    body.append(If(c + lane < depth, tuple(stores)))
    kernel = Kernel("winograd_gradient", (loop(task, tasks, [
        loop(lane, width, [Store("wrong", lane, const(0, work))], LoopKind.VECTOR),
        loop(c, depth, [loop(lane, width, body, LoopKind.VECTOR)], step=width),
        loop(lane, width, [Store("infinite", task * width + lane, Load("wrong", lane, work))], LoopKind.VECTOR),
    ], LoopKind.PARALLEL),), (Local("wrong", work, width),))
    return Program("winograd_gradient", (Buffer("out", result, True), Buffer("infinite", work, True),
                                         Buffer("totals", work), *scalars), (kernel,))
