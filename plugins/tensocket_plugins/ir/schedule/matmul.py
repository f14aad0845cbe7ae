"""Matrix products: a group computes a square tile of the result from tiles of both factors in local memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ...contract.dtypes import DType
from ..nodes import (
    Assign,
    Barrier,
    Call,
    Declare,
    Expr,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Reduce,
    Stmt,
    Store,
    Var,
    const,
    loop,
)
from ..target import Target
from .nest import Axis, Names, ceil_div, index_dtype, peel, recover, subexpressions, substitute
from .simt import groups_frame, outputs

#: Rows and columns of the result per group.
TILE: Final = 32
#: Reduction steps between two barriers.
DEPTH: Final = 16
#: Lanes along each side of the tile; every lane computes ``PER_LANE`` squared results.
SIDE: Final = 8
PER_LANE: Final = TILE // SIDE
#: Distance between the depths of the left tile: odd, so that lanes that load one row access different banks.
LEFT_PITCH: Final = TILE + 1


@dataclass(frozen=True)
class _Product:
    """A kernel of the form: for batch.., m, n: result = sum over k of left(m, k) * right(k, n); then stores."""

    batch: list[Axis]
    m: Axis
    n: Axis
    k: Axis
    reduce: Reduce
    left: Expr
    right: Expr
    after: tuple[Stmt, ...]


def _is_factor(expr: Expr) -> bool:
    """Whether ``expr`` is an element of an array, perhaps converted: zero if the element is zero."""
    while isinstance(expr, Call) and expr.function == "cast":
        expr = expr.args[0]
    return isinstance(expr, Load)


def _uses(expr: Expr) -> set[str]:
    return {part.name for part in subexpressions(expr) if isinstance(part, Var)}


def _is_sum(reduce: Reduce) -> bool:
    """Whether the reduction is one sum over one loop."""
    if len(reduce.loops) != 1 or len(reduce.results) != 1:
        return False
    names = {reduce.combine.left[0].name, reduce.combine.right[0].name}
    value = reduce.combine.values[0]
    return isinstance(value, Call) and value.function == "add" and {
        arg.name for arg in value.args if isinstance(arg, Var)} == names


def _match(kernel: Kernel) -> _Product | None:
    axes, inner = peel(kernel.body)
    if len(axes) < 2 or not inner or not isinstance(inner[0], Reduce) or not _is_sum(inner[0]):
        return None
    if not all(isinstance(statement, Let | Store) for statement in inner[1:]):
        return None
    (*batch, m, n), reduce = axes, inner[0]
    known: dict[str, Expr] = {}
    for let in reduce.body:
        known[let.var.name] = substitute(let.value, known)
    value = substitute(reduce.values[0], known)
    if not (isinstance(value, Call) and value.function == "mul" and all(map(_is_factor, value.args))):
        return None
    sides = {frozenset(_uses(arg) & {m[0].name, n[0].name}): arg for arg in value.args}
    left, right = sides.get(frozenset({m[0].name})), sides.get(frozenset({n[0].name}))
    if left is None or right is None:
        return None
    return _Product(batch, m, n, reduce.loops[0], reduce, left, right, inner[1:])


def schedule_tiles(kernel: Kernel, target: Target, names: Names) -> Kernel | None:
    """Return the tiled schedule; None if the kernel is not a matrix product or the target is too small for it."""
    product = _match(kernel)
    if product is None or target.max_group_size < SIDE * SIDE:
        return None
    locals_ = (Local(names.fresh("left_tile"), product.left.dtype, DEPTH * LEFT_PITCH),
               Local(names.fresh("right_tile"), product.right.dtype, DEPTH * TILE))
    if sum(array.size * array.dtype.itemsize for array in locals_) > target.local_bytes:
        return None
    tiles = _Tiles(product, locals_[0].name, locals_[1].name, index_dtype(kernel), names)
    frame = groups_frame(outputs(tiles.axes, tiles.dtype), SIDE * SIDE, target, names, tiles.body)
    return Kernel(kernel.name, (frame,), locals_)


class _Tiles:
    """Builder of the statements of one group."""

    def __init__(self, product: _Product, left: str, right: str, dtype: DType, names: Names) -> None:
        self._product = product
        self._left, self._right = left, right
        self._names = names
        self.dtype = dtype
        self._row, self._column = names.var("row", dtype), names.var("column", dtype)
        self._lane_row, self._lane_column = names.var("lane_row", dtype), names.var("lane_column", dtype)
        self._first, self._depth = names.var("first", dtype), names.var("depth", dtype)
        self._tile_m, self._tile_n = names.var("tile_m", dtype), names.var("tile_n", dtype)
        result = product.reduce.results[0]
        self._sums = [[names.var(f"{result.name}_{i}{j}", result.dtype) for j in range(PER_LANE)]
                      for i in range(PER_LANE)]
        #: The axes that number the groups.
        self.axes: list[Axis] = [*product.batch, (self._tile_m, ceil_div(product.m[1], TILE)),
                                 (self._tile_n, ceil_div(product.n[1], TILE))]

    def body(self, number: Expr, lane: Var) -> list[Stmt]:
        """Return the work of all lanes of group ``number``."""
        zero = self._product.reduce.identity[0]
        return [
            *recover(number, self.axes, self._names),
            Let(self._row, self._tile_m * TILE),
            Let(self._column, self._tile_n * TILE),
            Let(self._lane_row, lane // SIDE),
            Let(self._lane_column, lane % SIDE),
            *(Declare(total, zero) for line in self._sums for total in line),
            loop(self._first, self._product.k[1], [
                Barrier(),
                self._stage_left(lane),
                self._stage_right(lane),
                Barrier(),
                loop(self._depth, DEPTH, self._multiply()),
            ], step=DEPTH),
            *self._finish(),
        ]

    def _stage_left(self, lane: Var) -> Stmt:
        """Copy the left factor's tile; adjacent lanes copy adjacent steps of k."""
        slot, (m, rows) = self._names.var("slot", self.dtype), self._product.m
        where = [Let(m, self._row + slot // DEPTH), Let(self._product.k[0], self._first + slot % DEPTH)]
        place = (slot % DEPTH) * LEFT_PITCH + slot // DEPTH
        return self._stage(slot, lane, where, m < rows, self._product.left, self._left, place)

    def _stage_right(self, lane: Var) -> Stmt:
        """Copy the right factor's tile; adjacent lanes copy adjacent columns."""
        slot, (n, columns) = self._names.var("slot", self.dtype), self._product.n
        where = [Let(n, self._column + slot % TILE), Let(self._product.k[0], self._first + slot // TILE)]
        return self._stage(slot, lane, where, n < columns, self._product.right, self._right, slot)

    def _stage(self, slot: Var, lane: Var, where: list[Let], inside: Expr, value: Expr, tile: str,
               place: Expr) -> Stmt:
        """Copy a tile; elements outside of the matrix are zero, and so is their contribution to the sum."""
        k, steps = self._product.k
        staged = self._names.var("staged", value.dtype)
        return loop(slot, TILE * DEPTH, [
            *where,
            Declare(staged, const(0, value.dtype)),
            If(inside & (k < steps), (Assign(staged, value),)),
            Store(tile, place, staged),
        ], start=lane, step=SIDE * SIDE)

    def _multiply(self) -> Iterator[Stmt]:
        """Yield one step of k for this lane's results, which are ``SIDE`` rows and columns apart."""
        lefts = [self._names.var("left", self._product.left.dtype) for _ in range(PER_LANE)]
        rights = [self._names.var("right", self._product.right.dtype) for _ in range(PER_LANE)]
        for i, left in enumerate(lefts):
            yield Let(left, Load(self._left, self._depth * LEFT_PITCH + self._lane_row + SIDE * i, left.dtype))
        for j, right in enumerate(rights):
            yield Let(right, Load(self._right, self._depth * TILE + self._lane_column + SIDE * j, right.dtype))
        for line, left in zip(self._sums, lefts, strict=True):
            for total, right in zip(line, rights, strict=True):
                yield Assign(total, total + left * right)

    def _finish(self) -> Iterator[Stmt]:
        """Store this lane's results, without those beyond the edges of the matrix."""
        (m, rows), (n, columns), result = self._product.m, self._product.n, self._product.reduce.results[0]
        for i, line in enumerate(self._sums):
            for j, total in enumerate(line):
                row, column = self._row + self._lane_row + SIDE * i, self._column + self._lane_column + SIDE * j
                yield If((row < rows) & (column < columns), (
                    Let(m, row), Let(n, column), Let(result, total), *self._product.after,
                ))
