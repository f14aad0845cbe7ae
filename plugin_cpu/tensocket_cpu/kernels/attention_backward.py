"""The backward pass of attention (``attention.py``), which recomputes the weights from the logarithms of sums."""

from __future__ import annotations

from tensocket_plugins.ir.nodes import (
    Buffer,
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

from .attention_blocks import KEYS, ROWS, VECTORS, Block, Form, fold, scale_of
from .tiles import Tile, index, numbers


def backward(form: Form) -> Program:
    """Return the backward pass of ``forward``: one task for each head of keys, so that sums have one order.

    Parameters: gradients of queries, keys and values (contiguous); scratch for them: [A, B, blocks * ROWS, pitch of
    keys], and per task [KEYS, pitch of keys] and [KEYS, pitch of values]; scratch of one number per query; the mask;
    queries, transposed keys, keys, transposed values, gradients of results, results (contiguous in their last
    dimension) and logarithms of sums; then the number of tasks, heads of keys, shared, L, S, E and V, blocks of
    queries, pitches of scratch and of lines of keys and values; strides (a, b, row) of mask, queries, keys, gradients
    and results; the scale.
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
                *head, loop(first, p["length"], part.accumulate_block((task, a, b, g, lead), first, j, here),
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
    return Program("attention_back", (*buffers, *scalars, scale_of(work)), (kernel,))


class _Back:
    """The parts of the backward pass."""

    def __init__(self, form: Form, parameters: dict[str, Var]) -> None:
        self.form = form
        self.p = parameters
        self.block = Block(form)
        work, span = form.work, self.block.span
        self._keys = Tile(ROWS // form.keys, form.keys, work, "key_sum")
        self._values = self._keys if form.values == form.keys else (
            Tile(ROWS // form.values, form.values, work, "value_sum"))
        tiles = {id(t): t for t in (self.block.tile, self._keys, self._values)}.values()
        self.locals = (*(array for tile in tiles for array in tile.arrays),
                       *(Local(name, work, ROWS * span + KEYS) for name in ("scores", "slopes")),
                       Local("part", work, self.block.width))

    def dots(self, lead: Expr, a: Expr, b: Expr) -> Stmt:
        """Return the statements for the dot product of each query's result and its gradient."""
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
            *fold("part", self.block.width, work, lambda x, y: x + y),
            Store("dots", lead * p["length"] + row, Load("part", const(0, v.dtype), work)),
        ])

    def accumulate_block(self, at: tuple[Expr, ...], first: Expr, j: Expr, here: Expr) -> list[Stmt]:
        """Add the contribution of a block of queries and a block of keys to the gradients."""
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
        """Return the statement that replaces scores by weights and computes the gradients of the scores."""
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
        """Return the statement that copies rows of scratch to a result, which has its own width."""
        r, v, tile = index("r"), index("v"), self.block.tile
        (at, width), (begin, pitch) = place, source
        value = cast(Load(room, tile.over(begin + r * pitch + v), self.form.work), self.form.result)
        return loop(r, rows, [loop(v, width, [tile.vectors([If(tile.over(v) < width, (
            Store(result, tile.over(at + r * width + v), value),))])], step=self.block.width)])
