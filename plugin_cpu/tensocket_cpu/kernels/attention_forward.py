"""Attention on a processor without all scores: blocks of queries meet blocks of keys in the first cache.

The kernel computes the softmax block by block, with the largest score and the sum so far (Milakov and Gimelshein, 2018;
Dao et al., 2022): it scales the sums down when a larger score appears. The forward pass saves only the logarithm of
each query's sum, from which the backward pass recomputes the weights.

Products are tiles in vector registers: a tile reads one operand element by element and the other in vectors. So keys,
and values in the backward pass, are transposed once beforehand (``lines``).
"""

from __future__ import annotations

import math

from tensocket_plugins.contract.dtypes import DType
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

from .attention_blocks import ROWS, VECTORS, Block, Form, fold, larger, scale_of, sum_of
from .tiles import Tile, index, lanes, numbers


def lines(source: DType, work: DType, unit: bool) -> Program:
    """Return the program ``out[a, b, i, j] = source[a, b, i, j]``, 0 beyond the source's last j.

    Parameters: result, source; then the number of lines (a, b and i), sizes of b and i, the number of j, the result's
    number of j (a multiple of a vector), and the strides of the source.

    Args:
        source: Element type of the source.
        work: Element type of the result.
        unit: Whether the source is contiguous along j.
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


def forward(form: Form) -> Program:
    """Return the attention of queries [A, B, L, E] to keys and values of fewer heads, [A, B / shared, S, ..].

    Parameters: results [A, B, L, V], logarithms of sums [A, B, L] (0 for queries that attend to no key), scratch for
    sums (rows of all tasks, pitch); the mask, contiguous along keys; queries, keys transposed by ``lines``, values; the
    number of tasks (blocks of all queries), blocks of a head, B, shared, L, S, E and V, the pitch of sums, the stride
    of lines of keys; strides (a, b, row) of results, mask, queries and values; the scale.
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
    block = Block(form)
    span, width, tile = block.span, block.width, block.tile
    sums = Tile(ROWS // form.values, form.values, work, "total")
    never, zero, v = const(-math.inf, work), const(0, work), index("v")
    padded = -(-ROWS // width) * width
    read, found = block.scores(r, j, limit, a * mask_a + b * mask_b + row * mask_r, scale)
    softmax = _softmax(block, [Let(row, first + r), Let(limit, block.limit(row, keys))], (read, found), count)
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
        loop(r, padded, [tile.vectors([Store(name, tile.over(r), never) for name in ("best", "peak")])], step=width),
        loop(r, ROWS, [tile.vectors([Store("total", tile.over(r * width), zero)])]),
        loop(v, ROWS * pitch, [tile.vectors([Store("room", tile.over(room + v), zero)])], step=width),
        loop(j, end, [
            block.products("scores", ("query", query_at, query_r, "key", key_at + j, key_pitch), depth, count, first,
                           length - 1),
            *softmax,
            block.accumulate(sums, "room", (room, pitch), (count, tiles, smaller(const(span, j.dtype), end - j)),
                             ("scores", lambda at: at * span, 1), ("value", value_at + j * value_r, value_r),
                             "factor"),
        ], step=span),
        *finish,
    ], LoopKind.PARALLEL)
    locals_ = (*tile.arrays, *sums.arrays, Local("scores", work, ROWS * span), Local("part", work, width),
               *(Local(name, work, padded) for name in ("best", "peak", "factor")), Local("total", work, ROWS * width))
    buffers = [Buffer("out", form.result, True), Buffer("sums", work, True), Buffer("room", work, True), *form.masks(),
               Buffer("query", work), Buffer("key", work), Buffer("value", work)]
    kernel = Kernel("attention", (body,), locals_)
    return Program("attention", (*buffers, *scalars, scale_of(work)), (kernel,))


def _softmax(block: Block, begin: list[Stmt], scores: tuple[list[Stmt], list[Var]], count: Expr) -> list[Stmt]:
    """Return the statements that replace the scores of a block by weights, and scale its rows' sums down.

    Numbers of single rows are computed for a vector of rows at a time; rows beyond ``count`` get some numbers.

    Args:
        block: The block.
        begin: The statements at the begin of a row.
        scores: The statements that read the scores of a row, and their variables.
        count: Rows in the block.
    """
    work, width, span, tile = block.work, block.width, block.span, block.tile
    r, (read, found) = index("r"), scores
    best, safe = Var("best", work), Var("safe", work)
    never, zero = const(-math.inf, work), const(0, work)
    weights = [Var(f"weight{c}", work) for c in range(VECTORS)]
    here, total_at = tile.over(r), tile.over(r * width)
    return [
        loop(r, count, [
            *begin,
            tile.vectors([*read, *(Store("scores", tile.over(r * span, c), score) for c, score in enumerate(found)),
                          Store("part", tile.over(const(0, r.dtype)), larger(larger(found[0], found[1]),
                                                                              larger(found[2], found[3])))]),
            *fold("part", width, work, larger),
            Store("peak", r, Load("part", const(0, r.dtype), work)),
        ]),
        loop(r, ROWS, [tile.vectors([
            Let(best, larger(Load("best", here, work), Load("peak", here, work))),
            Let(safe, select(call("eq", best, never), zero, best)),
            Store("factor", here, call("exp", Load("best", here, work) - safe)),
            Store("best", here, best),
            Store("peak", here, safe)])], step=width),
        loop(r, count, [
            Let(safe, Load("peak", r, work)),
            tile.vectors([
                *(Let(weight, call("exp", Load("scores", tile.over(r * span, c), work) - safe))
                  for c, weight in enumerate(weights)),
                *(Store("scores", tile.over(r * span, c), weight) for c, weight in enumerate(weights)),
                Store("total", total_at, call("fma", Load("total", total_at, work), Load("factor", r, work),
                                              sum_of(weights)))]),
        ]),
    ]


def _finish(block: Block, places: tuple[Expr, Expr, Expr], sizes: tuple[Expr, Expr, Expr, Expr]) -> list[Stmt]:
    """Return the statements that divide a block's results by their sums and store the sums' logarithms.

    Args:
        block: The block.
        places: The offsets of the block in logarithms and in results, and the stride of the results' rows.
        sizes: Rows in the block, size of a value, the offset of the sums and the stride of their rows.
    """
    work, width, tile = block.work, block.width, block.tile
    (at, out_at, out_r), (count, size, room, pitch) = places, sizes
    r, v = index("r"), index("v")
    total, inverse, zero = Var("sum", work), Var("inverse", work), const(0, work)
    nothing, here = call("eq", total, zero), tile.over(r)
    value = Load("room", tile.over(room + r * pitch + v), work) * inverse
    return [
        loop(r, count, [
            tile.vectors([Store("part", tile.over(const(0, r.dtype)), Load("total", tile.over(r * width), work))]),
            *fold("part", width, work, lambda x, y: x + y),
            Store("factor", r, Load("part", const(0, r.dtype), work)),
        ]),
        loop(r, ROWS, [tile.vectors([
            Let(total, Load("factor", here, work)),
            Store("peak", here, select(nothing, zero, Load("best", here, work) + call("log", total))),
            Store("factor", here, select(nothing, zero, 1.0 / total))])], step=width),
        loop(r, count, [
            Store("sums", at + r, Load("peak", r, work)),
            Let(inverse, Load("factor", r, work)),
            loop(v, size, [tile.vectors([If(tile.over(v) < size, (
                Store("out", tile.over(out_at + r * out_r + v), cast(value, block.form.result)),))])], step=width),
        ]),
    ]
