"""Building blocks of attention and its backward pass: products of a block of queries and a block of keys."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tensocket_plugins.contract.dtypes import DType, float32, float64
from tensocket_plugins.ir.nodes import (
    Assign,
    Buffer,
    Declare,
    Expr,
    If,
    Let,
    Load,
    LoopKind,
    Scalar,
    Stmt,
    Store,
    Var,
    cast,
    const,
    loop,
    select,
)
from tensocket_plugins.ir.schedule.nest import smaller

from .tiles import Tile, index, lanes

#: The number of queries in a block: a multiple of the rows of every tile.
ROWS: Final = 24
#: The vectors of keys in a block, and the rows of the tile of their scores.
VECTORS: Final = 4
SCORES: Final = 6
#: The number of keys of a block for which the backward pass has scratch: a multiple of the rows of every tile.
KEYS: Final = 72


def columns(width: int, dtype: DType) -> int:
    """Return the number of vectors per row of a tile that wastes the fewest vectors beyond results of a given width."""
    vectors = -(-width // lanes(dtype))
    return min((4, 3, 2, 1), key=lambda c: -(-vectors // c) * c)


@dataclass(frozen=True)
class Form:
    """The case that a program is specialised for.

    Attributes:
        result: Element type of operands and results.
        work: Element type of sums and of the arrays that ``lines`` makes.
        mask: Element type of the mask; None without a mask.
        causal: Whether query i attends to keys up to i only.
        keys: Vectors per row of a tile, for results as wide as a key.
        values: Vectors per row of a tile, for results as wide as a value.
    """

    result: DType
    work: DType
    mask: DType | None
    causal: bool
    keys: int
    values: int

    def masks(self) -> list[Buffer]:
        """Return the parameter of the mask; an empty list without a mask."""
        return [] if self.mask is None else [Buffer("mask", self.mask)]


def fold(array: str, width: int, dtype: DType, combine: Callable[[Expr, Expr], Expr]) -> list[Stmt]:
    """Combine the elements of a vector into its first one."""
    lane = index("lane")
    return [loop(lane, width >> level, [
        Store(array, lane, combine(Load(array, lane, dtype), Load(array, lane + (width >> level), dtype)))],
        LoopKind.VECTOR) for level in range(1, width.bit_length())]


def larger(a: Expr, b: Expr) -> Expr:
    """Return the larger of two values; either one if one is NaN, because the sums propagate NaN."""
    return select(a < b, b, a)


class Block:
    """Statements about a block of queries and a block of keys."""

    def __init__(self, form: Form) -> None:
        self.form = form
        self.work = form.work
        self.width = lanes(form.work)
        self.span = VECTORS * self.width
        self.tile = Tile(SCORES, VECTORS, form.work)

    def limit(self, row: Expr, keys: Expr) -> Expr:
        """Return the number of keys that a query may attend to."""
        return smaller(row + 1, keys) if self.form.causal else keys

    def products(self, array: str, operands: tuple[str, Expr, Expr, str, Expr, Expr], depth: Expr, count: Expr,
                 first: Expr, last: Expr) -> Stmt:
        """Return the statement that writes the products of a block's rows and columns to a local array.

        Args:
            array: The local array.
            operands: The array of rows, the offset of its matrix and the stride of its rows; the array of transposed
                rows, the offset of the block in it and the stride of its lines.
            depth: The number of terms of a product.
            count: The number of rows in the block.
            first: The first of these rows.
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
        """Return the scaled and masked scores of a query; -inf for keys beyond ``limit``.

        The statements belong in a loop over lanes.
        """
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
        """Return the statement that adds a product to a matrix in memory, tile by tile.

        Args:
            tile: Sums in registers.
            array: The matrix.
            step: The offset of the matrix, and the stride of its rows.
            size: Its rows, tiles in a row, and the terms of a product.
            left: An array, the offset of a row in it, and the stride along a row.
            right: As in ``Tile.multiply``.
            factor: An array with a factor for each row of the matrix, which is applied before the product is added.
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


def sum_of(values: Sequence[Expr]) -> Expr:
    """Return the sum of expressions, from the first to the last."""
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def scale_of(work: DType) -> Scalar:
    """Return the parameter for the scale of the scores."""
    return Scalar("scale", float64 if work is float64 else float32)
