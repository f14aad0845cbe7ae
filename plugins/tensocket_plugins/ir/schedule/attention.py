"""Attention on a processor without all scores: blocks of queries meet blocks of keys in the first cache.

The softmax is taken as the blocks come, with the largest score and the sum so far (Milakov and Gimelshein, 2018; Dao et
al., 2022): what has been added up is scaled down when a larger score appears. Of the way there only the logarithm of
each query's sum is kept; the way back computes the weights anew from it.

Products are tiles in vector registers: one operand is read element by element, the other in vectors, so that keys, and
values on the way back, are turned once before (``lines``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...contract.dtypes import DType, float32, float64
from ..nodes import (
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
    Scalar,
    Stmt,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)
from .nest import smaller
from .tiles import Tile, index, lanes, numbers

#: Queries in a block: a multiple of the rows of every tile.
ROWS: Final = 24
#: Vectors of keys in a block, and rows of the tile of their scores.
VECTORS: Final = 4
SCORES: Final = 6
#: Keys that the way back makes room for in a block: a multiple of the rows of every tile.
KEYS: Final = 72


def columns(width: int, dtype: DType) -> int:
    """Vectors in the rows of a tile, for results of a width: as few as possible stick out."""
    vectors = -(-width // lanes(dtype))
    return min((4, 3, 2, 1), key=lambda c: -(-vectors // c) * c)


def lines(source: DType, work: DType, unit: bool) -> Program:
    """``out[a, b, i, j] = source[a, b, i, j]``, 0 beyond the source's last j.

    Parameters: result, source; then the number of lines (a, b and i), sizes of b and i, the number of j, the result's
    number of j (a multiple of a vector), and the strides of the source.

    Args:
        source: Element type of the source.
        work: Element type of the result.
        unit: Whether neighbours along j are neighbours in the source.
    """
    scalars, names = numbers("total heads height width pitch step_a step_b step_i step_j")
    total, heads, height, width, pitch, step_a, step_b, step_i, step_j = names
    line, lead, j, at, place, lane = map(index, ("line", "lead", "j", "at", "place", "lane"))
    value = Var("value", work)
    hop: Expr = const(1, j.dtype) if unit else step_j
    copy = loop(lane, lanes(work), [
        Declare(value, const(0, work)),
        If(j + lane < width, (Assign(value, cast(Load("source", at + (j + lane) * hop, source), work)),)),
        Store("out", place + j + lane, value)], LoopKind.VECTOR)
    body = loop(line, total, [
        Let(lead, line // height),
        Let(at, lead // heads * step_a + lead % heads * step_b + line % height * step_i),
        Let(place, line * pitch),
        loop(j, pitch, [copy], step=lanes(work)),
    ], LoopKind.PARALLEL)
    return Program("lines", (Buffer("out", work, True), Buffer("source", source), *scalars),
                   (Kernel("lines", (body,)),))


@dataclass(frozen=True)
class Form:
    """What programs are made for.

    Attributes:
        result: Element type of operands and results.
        work: Element type of sums and of the arrays that ``lines`` makes.
        mask: Element type of the mask; None if there is none.
        causal: Whether query i looks at keys up to i only.
        keys: Vectors in rows of results as wide as a key.
        values: Vectors in rows of results as wide as a value.
    """

    result: DType
    work: DType
    mask: DType | None
    causal: bool
    keys: int
    values: int

    def masks(self) -> list[Buffer]:
        """The mask's parameter, if there is one."""
        return [] if self.mask is None else [Buffer("mask", self.mask)]


def _fold(array: str, width: int, dtype: DType, combine: Callable[[Expr, Expr], Expr]) -> list[Stmt]:
    """Combine the elements of a vector into its first one."""
    lane = index("lane")
    return [loop(lane, width >> level, [
        Store(array, lane, combine(Load(array, lane, dtype), Load(array, lane + (width >> level), dtype)))],
        LoopKind.VECTOR) for level in range(1, width.bit_length())]


def _larger(a: Expr, b: Expr) -> Expr:
    """The larger one; of a NaN and a number either, since sums tell what is NaN."""
    return select(a < b, b, a)


class _Block:
    """Statements about a block of queries and a block of keys."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.work = form.work
        self.width = lanes(form.work)
        self.span = VECTORS * self.width
        self.tile = Tile(SCORES, VECTORS, form.work)

    def limit(self, row: Expr, keys: Expr) -> Expr:
        """The number of keys that a query may look at."""
        return smaller(row + 1, keys) if self.form.causal else keys

    def products(self, array: str, operands: tuple[str, Expr, Expr, str, Expr, Expr], depth: Expr, count: Expr,
                 first: Expr, last: Expr) -> Stmt:
        """Products of a block's rows and columns, to a local array.

        Args:
            array: The array.
            operands: The array of rows, where its matrix begins and the distance of its rows; the array of turned rows,
                where the block begins in it and the distance of its lines.
            depth: Terms of a product.
            count: Rows in the block.
            first: The first of them.
            last: The matrix's last row.
        """
        left, begin, step, right, start, pitch = operands
        r, tile = index("r"), self.tile
        rows = [index(f"row{k}") for k in range(SCORES)]
        return loop(r, count, [
            *(Let(row, begin + smaller(first + (r + k), last) * step) for k, row in enumerate(rows)),
            tile.zero(),
            tile.multiply(depth, (left, rows, 1), (right, start, pitch)),
            tile.vectors([Store(array, tile.over((r + k) * self.span, c), tile.at(k, c))
                          for k in range(SCORES) for c in range(VECTORS)]),
        ], step=SCORES)

    def scores(self, r: Expr, key: Expr, limit: Expr, mask_at: Expr, scale: Expr) -> tuple[list[Stmt], list[Var]]:
        """Scaled and masked scores of a query; -inf where it may not look. Stands in a loop over lanes."""
        found, body, never = [], list[Stmt](), const(-math.inf, self.work)
        for c in range(VECTORS):
            score, place = Var(f"score{c}", self.work), self.tile.over(key, c)
            body += [Declare(score, never)]
            value: Expr = Load("scores", self.tile.over(r * self.span, c), self.work) * scale
            if self.form.mask is not None:
                shown = Load("mask", self.tile.over(mask_at + key, c), self.form.mask)
                value = select(shown, value, never) if self.form.mask.kind == "bool" else (
                    value + cast(shown, self.work))
            body.append(If(place < limit, (Assign(score, value),)))
            found.append(score)
        return body, found

    def accumulate(self, tile: Tile, array: str, step: tuple[Expr, Expr], size: tuple[Expr, Expr, Expr],
                   left: tuple[str, Callable[[Expr], Expr], int | Expr], right: tuple[str, Expr, Expr],
                   factor: str = "") -> Stmt:
        """Add a product to a matrix in memory, by tiles.

        Args:
            tile: Sums in registers.
            array: The matrix.
            step: Where it begins, and the distance of its rows.
            size: Its rows, tiles in a row, and the terms of a product.
            left: An array, where a row begins in it, and the distance of neighbours.
            right: As in ``Tile.multiply``.
            factor: An array of what each row is multiplied by before.
        """
        r, v, at = index("r"), index("v"), index("at")
        begin, pitch = step
        rows, tiles, depth = size
        width = tile.columns * self.width
        places = [(k, c) for k in range(tile.rows) for c in range(tile.columns)]
        starts = [index(f"start{k}") for k in range(tile.rows)]

        def old(k: int, c: int) -> Expr:
            value = Load(array, tile.over(at + pitch * k, c), self.work)
            return value * Load(factor, r + k, self.work) if factor else value

        name, start, hop = left
        other, first, distance = right
        return loop(r, rows, [
            *(Let(place, start(r + k)) for k, place in enumerate(starts)),
            loop(v, tiles, [
                Let(at, begin + r * pitch + v * width),
                tile.vectors([tile.put(k, c, old(k, c)) for k, c in places]),
                tile.multiply(depth, (name, starts, hop), (other, first + v * width, distance)),
                tile.vectors([Store(array, tile.over(at + pitch * k, c), tile.at(k, c)) for k, c in places]),
            ]),
        ], step=tile.rows)


def _sum(values: Sequence[Expr]) -> Expr:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def forward(form: Form) -> Program:
    """Attention of queries [A, B, L, E] to keys and values of fewer heads, [A, B / shared, S, ..].

    Parameters: results [A, B, L, V], logarithms of sums [A, B, L] (0 for queries that look at nothing), room for sums
    (rows of all tasks, pitch); the mask, whose elements for neighbouring keys are neighbours; queries, keys turned as
    ``lines`` does, values; the number of tasks (blocks of all queries), blocks of a head, B, shared, L, S, E and V, the
    pitch of sums, the distance of lines of keys; strides (a, b, row) of results, mask, queries and values; the scale.
    """
    scalars, names = numbers(
        "tasks blocks heads shared length keys depth size pitch key_pitch out_a out_b out_r mask_a mask_b mask_r "
        "query_a query_b query_r value_a value_b value_r")
    (tasks, blocks, heads, shared, length, keys, depth, size, pitch, key_pitch, out_a, out_b, out_r, mask_a, mask_b,
     mask_r, query_a, query_b, query_r, value_a, value_b, value_r) = names
    work = form.work
    scale = Var("scale", work)
    task, lead, a, b, first, count, end, j, r = map(
        index, ("task", "lead", "a", "b", "first", "count", "end", "j", "r"))
    key_at, value_at, query_at, room, limit, row = map(
        index, ("key_at", "value_at", "query_at", "room", "limit", "row"))
    block = _Block(form)
    span, width, tile = block.span, block.width, block.tile
    sums = Tile(ROWS // form.values, form.values, work, "total")
    never, zero, v = const(-math.inf, work), const(0, work), index("v")
    best, safe, factor = (Var(name, work) for name in ("best", "safe", "factor"))
    read, found = block.scores(r, j, limit, a * mask_a + b * mask_b + row * mask_r, scale)
    weights = [Var(f"weight{c}", work) for c in range(VECTORS)]
    total_at = tile.over(r * width)
    softmax = loop(r, count, [
        Let(row, first + r),
        Let(limit, block.limit(row, keys)),
        tile.vectors([*read, *(Store("scores", tile.over(r * span, c), score) for c, score in enumerate(found)),
                      Store("part", tile.over(const(0, r.dtype)), _larger(_larger(found[0], found[1]),
                                                                          _larger(found[2], found[3])))]),
        *_fold("part", width, work, _larger),
        Let(best, _larger(Load("best", r, work), Load("part", const(0, r.dtype), work))),
        Let(safe, select(call("eq", best, never), zero, best)),
        Let(factor, call("exp", Load("best", r, work) - safe)),
        Store("best", r, best),
        Store("factor", r, factor),
        tile.vectors([
            *(Let(weight, call("exp", Load("scores", tile.over(r * span, c), work) - safe))
              for c, weight in enumerate(weights)),
            *(Store("scores", tile.over(r * span, c), weight) for c, weight in enumerate(weights)),
            Store("total", total_at, call("fma", Load("total", total_at, work), factor, _sum(weights)))]),
    ])
    finish = _finish(block, (lead * length + first, a * out_a + b * out_b + first * out_r, out_r),
                     (count, size, room, pitch))
    tiles = pitch // (sums.columns * width)
    body = loop(task, tasks, [
        Let(lead, task // blocks), Let(a, lead // heads), Let(b, lead % heads), Let(first, task % blocks * ROWS),
        Let(count, smaller(const(ROWS, r.dtype), length - first)),
        Let(key_at, (a * (heads // shared) + b // shared) * (depth * key_pitch)),
        Let(value_at, a * value_a + b // shared * value_b),
        Let(query_at, a * query_a + b * query_b),
        Let(room, task * (ROWS * pitch)),
        Let(end, smaller(first + count, keys) if form.causal else keys),
        loop(r, ROWS, [Store("best", r, never), tile.vectors([Store("total", total_at, zero)])]),
        loop(v, ROWS * pitch, [tile.vectors([Store("room", tile.over(room + v), zero)])], step=width),
        loop(j, end, [
            block.products("scores", ("query", query_at, query_r, "key", key_at + j, key_pitch), depth, count, first,
                           length - 1),
            softmax,
            block.accumulate(sums, "room", (room, pitch), (count, tiles, smaller(const(span, j.dtype), end - j)),
                             ("scores", lambda at: at * span, 1), ("value", value_at + j * value_r, value_r),
                             "factor"),
        ], step=span),
        finish,
    ], LoopKind.PARALLEL)
    locals_ = (*tile.arrays, *sums.arrays, Local("scores", work, ROWS * span), Local("part", work, width),
               Local("best", work, ROWS), Local("factor", work, ROWS), Local("total", work, ROWS * width))
    buffers = [Buffer("out", form.result, True), Buffer("sums", work, True), Buffer("room", work, True), *form.masks(),
               Buffer("query", work), Buffer("key", work), Buffer("value", work)]
    kernel = Kernel("attention", (body,), locals_)
    return Program("attention", (*buffers, *scalars, _scale(work)), (kernel,))


def _scale(work: DType) -> Scalar:
    return Scalar("scale", float64 if work is float64 else float32)


def _finish(block: _Block, places: tuple[Expr, Expr, Expr], sizes: tuple[Expr, Expr, Expr, Expr]) -> Stmt:
    """Divide a block's results by their sums; keep the logarithms of these.

    Args:
        block: The block.
        places: Where the block begins among logarithms and results, and the distance of the results' rows.
        sizes: Rows in the block, size of a value, and where the sums begin and the distance of their rows.
    """
    work, width, tile = block.work, block.width, block.tile
    (at, out_at, out_r), (count, size, room, pitch) = places, sizes
    r, v = index("r"), index("v")
    total, inverse, zero = Var("sum", work), Var("inverse", work), const(0, work)
    nothing = call("eq", total, zero)
    value = Load("room", tile.over(room + r * pitch + v), work) * inverse
    return loop(r, count, [
        tile.vectors([Store("part", tile.over(const(0, r.dtype)), Load("total", tile.over(r * width), work))]),
        *_fold("part", width, work, lambda x, y: x + y),
        Let(total, Load("part", const(0, r.dtype), work)),
        Store("sums", at + r, select(nothing, zero, Load("best", r, work) + call("log", total))),
        Let(inverse, select(nothing, zero, 1.0 / total)),
        loop(v, size, [tile.vectors([If(tile.over(v) < size, (
            Store("out", tile.over(out_at + r * out_r + v), cast(value, block.form.result)),))])], step=width),
    ])


def backward(form: Form) -> Program:
    """The way back of ``forward``: one task for each head of keys, so that sums have one order.

    Parameters: gradients of queries, keys and values (contiguous); rooms for them: [A, B, blocks * ROWS, pitch of
    keys], for each task [KEYS, pitch of keys] and [KEYS, pitch of values]; room for a number of every query; the mask;
    queries, keys turned, keys, values turned, gradients of results, results (their last dimension is contiguous) and
    logarithms of sums; then the number of tasks, heads of keys, shared, L, S, E and V, blocks of queries, pitches of
    rooms and of lines of keys and values; strides (a, b, row) of mask, queries, keys, gradients and results; the scale.
    """
    scalars, names = numbers(
        "tasks groups shared length keys depth size blocks key_pitch value_pitch key_line value_line mask_a mask_b "
        "mask_r query_a query_b query_r key_a key_b key_r grad_a grad_b grad_r out_a out_b out_r")
    part = _Back(form, dict(zip((s.name for s in scalars), names, strict=True)))
    task, a, g, j, h, first, v = map(index, ("task", "a", "g", "j", "h", "first", "v"))
    p, block, zero = part.p, part.block, const(0, form.work)
    key_room, value_room = task * (KEYS * p["key_pitch"]), task * (KEYS * p["value_pitch"])
    span, width, vectors = block.span, block.width, block.tile.vectors

    def clear(array: str, begin: Expr, count: Expr) -> Stmt:
        return loop(v, count, [vectors([Store(array, block.tile.over(begin + v), zero)])], step=width)

    heads = p["groups"] * p["shared"]
    lead, b, here = index("lead"), index("b"), index("here")
    head = [Let(b, g * p["shared"] + h), Let(lead, a * heads + b)]
    plane = p["blocks"] * (ROWS * p["key_pitch"])
    body = loop(task, p["tasks"], [
        Let(a, task // p["groups"]), Let(g, task % p["groups"]),
        loop(h, p["shared"], [*head, clear("query_room", lead * plane, plane), part.dots(lead, a, b)]),
        loop(j, p["keys"], [
            Let(here, smaller(const(span, j.dtype), p["keys"] - j)),
            clear("key_room", key_room, KEYS * p["key_pitch"]),
            clear("value_room", value_room, KEYS * p["value_pitch"]),
            loop(h, p["shared"], [
                *head, loop(first, p["length"], part.meet((task, a, b, g, lead), first, j, here),
                            start=j // ROWS * ROWS if form.causal else 0, step=ROWS)]),
            part.write("key_grad", ((task * p["keys"] + j) * p["depth"], p["depth"]), "key_room",
                       (key_room, p["key_pitch"]), here),
            part.write("value_grad", ((task * p["keys"] + j) * p["size"], p["size"]), "value_room",
                       (value_room, p["value_pitch"]), here),
        ], step=span),
        loop(h, p["shared"], [*head, part.write("query_grad", (lead * (p["length"] * p["depth"]), p["depth"]),
                                                "query_room", (lead * plane, p["key_pitch"]), p["length"])]),
    ], LoopKind.PARALLEL)
    work, result = form.work, form.result
    buffers = [*(Buffer(f"{name}_grad", result, True) for name in ("query", "key", "value")),
               *(Buffer(f"{name}_room", work, True) for name in ("query", "key", "value")),
               Buffer("dots", work, True), *form.masks(),
               *(Buffer(name, work) for name in ("query", "turned_key", "key", "turned_value", "grad")),
               Buffer("out", result), Buffer("sums", work)]
    kernel = Kernel("attention_back", (body,), part.locals)
    return Program("attention_back", (*buffers, *scalars, _scale(work)), (kernel,))


class _Back:
    """Parts of the way back."""

    def __init__(self, form: Form, parameters: dict[str, Var]) -> None:
        self.form = form
        self.p = parameters
        self.block = _Block(form)
        work, span = form.work, self.block.span
        self._keys = Tile(ROWS // form.keys, form.keys, work, "key_sum")
        self._values = self._keys if form.values == form.keys else (
            Tile(ROWS // form.values, form.values, work, "value_sum"))
        tiles = {id(t): t for t in (self.block.tile, self._keys, self._values)}.values()
        self.locals = (*(array for tile in tiles for array in tile.arrays),
                       *(Local(name, work, ROWS * span + KEYS) for name in ("scores", "slopes")),
                       Local("part", work, self.block.width))

    def dots(self, lead: Expr, a: Expr, b: Expr) -> Stmt:
        """The product of each query's result and its gradient."""
        p, tile, work = self.p, self.block.tile, self.form.work
        row, v, at, grad_at = map(index, ("row", "v", "at", "grad_at"))
        lane, zero = tile.over(const(0, v.dtype)), const(0, work)
        term = Load("grad", tile.over(grad_at + v), work) * cast(Load("out", tile.over(at + v), self.form.result), work)
        return loop(row, p["length"], [
            Let(at, a * p["out_a"] + b * p["out_b"] + row * p["out_r"]),
            Let(grad_at, a * p["grad_a"] + b * p["grad_b"] + row * p["grad_r"]),
            tile.vectors([Store("part", lane, zero)]),
            loop(v, p["size"], [tile.vectors([If(tile.over(v) < p["size"], (
                Store("part", lane, Load("part", lane, work) + term),))])], step=self.block.width),
            *_fold("part", self.block.width, work, lambda x, y: x + y),
            Store("dots", lead * p["length"] + row, Load("part", const(0, v.dtype), work)),
        ])

    def meet(self, at: tuple[Expr, ...], first: Expr, j: Expr, here: Expr) -> list[Stmt]:
        """What a block of queries and a block of keys add to the gradients."""
        p, block = self.p, self.block
        task, a, b, g, lead = at
        count, query_at, grad_at, key_at = map(index, ("count", "query_at", "grad_at", "key_at"))
        group, span, last = a * p["groups"] + g, block.span, p["length"] - 1
        key_lines, value_lines = p["key_pitch"], p["value_pitch"]
        key_tiles = key_lines // (self._keys.columns * block.width)
        value_tiles = value_lines // (self._values.columns * block.width)
        room = lead * (p["blocks"] * (ROWS * key_lines)) + first * key_lines
        return [
            Let(count, smaller(const(ROWS, j.dtype), p["length"] - first)),
            Let(query_at, a * p["query_a"] + b * p["query_b"]),
            Let(grad_at, a * p["grad_a"] + b * p["grad_b"]),
            Let(key_at, a * p["key_a"] + g * p["key_b"] + j * p["key_r"]),
            block.products("scores", ("query", query_at, p["query_r"], "turned_key",
                                      group * (p["depth"] * p["key_line"]) + j, p["key_line"]),
                           p["depth"], count, first, last),
            block.products("slopes", ("grad", grad_at, p["grad_r"], "turned_value",
                                      group * (p["size"] * p["value_line"]) + j, p["value_line"]),
                           p["size"], count, first, last),
            self._slopes(at, count, first, j),
            block.accumulate(self._values, "value_room", (task * (KEYS * value_lines), value_lines),
                             (here, value_tiles, count), ("scores", lambda r: r, span),
                             ("grad", grad_at + first * p["grad_r"], p["grad_r"])),
            block.accumulate(self._keys, "key_room", (task * (KEYS * key_lines), key_lines),
                             (here, key_tiles, count), ("slopes", lambda r: r, span),
                             ("query", query_at + first * p["query_r"], p["query_r"])),
            block.accumulate(self._keys, "query_room", (room, key_lines), (count, key_tiles, here),
                             ("slopes", lambda r: r * span, 1), ("key", key_at, p["key_r"])),
        ]

    def _slopes(self, at: tuple[Expr, ...], count: Expr, first: Expr, j: Expr) -> Stmt:
        """Weights in the place of scores, and the gradients of scores."""
        p, block, work = self.p, self.block, self.form.work
        _, a, b, _, lead = at
        r, row, limit = map(index, ("r", "row", "limit"))
        dot, log_sum, scale = Var("dot", work), Var("log_sum", work), Var("scale", work)
        mask_at = a * p["mask_a"] + b * p["mask_b"] + row * p["mask_r"]
        read, found = block.scores(r, j, limit, mask_at, scale)
        weights = [Var(f"weight{c}", work) for c in range(VECTORS)]
        places = [block.tile.over(r * block.span, c) for c in range(VECTORS)]
        return loop(r, count, [
            Let(row, first + r),
            Let(limit, block.limit(row, p["keys"])),
            Let(dot, Load("dots", lead * p["length"] + row, work)),
            Let(log_sum, Load("sums", lead * p["length"] + row, work)),
            block.tile.vectors([*read, *(Store("scores", place, score)
                                         for place, score in zip(places, found, strict=True))]),
            block.tile.vectors([
                *(Let(weight, call("exp", Load("scores", place, work) - log_sum))
                  for place, weight in zip(places, weights, strict=True)),
                *(Store("scores", place, weight) for place, weight in zip(places, weights, strict=True)),
                *(Store("slopes", place, weight * ((Load("slopes", place, work) - dot) * scale))
                  for place, weight in zip(places, weights, strict=True))]),
        ])

    def write(self, result: str, place: tuple[Expr, Expr], room: str, source: tuple[Expr, Expr], rows: Expr) -> Stmt:
        """Rows of a room, to a result of some width."""
        r, v, tile = index("r"), index("v"), self.block.tile
        (at, width), (begin, pitch) = place, source
        value = cast(Load(room, tile.over(begin + r * pitch + v), self.form.work), self.form.result)
        return loop(r, rows, [loop(v, width, [tile.vectors([If(tile.over(v) < width, (
            Store(result, tile.over(at + r * width + v), value),))])], step=self.block.width)])
