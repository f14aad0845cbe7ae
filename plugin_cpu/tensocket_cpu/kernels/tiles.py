"""Tiles of sums in vector registers, the building block of products on a CPU.

Each sum is a local array of one vector. Only VECTOR loops with constant indices touch it, so the compiler keeps it in a
register.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.ir.nodes import (
    Expr,
    Let,
    Load,
    Local,
    LoopKind,
    Operand,
    Scalar,
    Stmt,
    Store,
    Var,
    call,
    const,
    loop,
)

#: The bytes of a vector.
VECTOR_BYTES: Final = 64


def lanes(dtype: DType) -> int:
    """Return the number of elements of a vector."""
    return VECTOR_BYTES // dtype.itemsize


def index(name: str) -> Var:
    """Return an index variable."""
    return Var(name, int64)


def numbers(names: str) -> tuple[list[Scalar], Iterator[Var]]:
    """Return integer parameters with these names, and their variables."""
    return [Scalar(name, int64) for name in names.split()], (index(name) for name in names.split())


def named(names: str, **known: int | None) -> tuple[list[Scalar], dict[str, Expr]]:
    """Return integer parameters with these names, and by name their variables, or their values if ``known``."""
    scalars, variables = numbers(names)
    values: dict[str, Expr] = {var.name: var for var in variables}
    return scalars, values | {name: const(value, int64) for name, value in known.items() if value is not None}


class Tile:
    """Sums in registers: ``rows`` times ``columns`` vectors.

    Args:
        rows: The number of rows.
        columns: The number of vectors in a row.
        dtype: The element type.
        name: The prefix of the local arrays' names.
    """

    def __init__(self, rows: int, columns: int, dtype: DType, name: str = "sum") -> None:
        self._places = [(row, column) for row in range(rows) for column in range(columns)]
        self._begin = name
        self.rows = rows
        self.columns = columns
        self.dtype = dtype
        self._lane = index("lane")
        self.arrays = tuple(Local(self._name(*place), dtype, lanes(dtype)) for place in self._places)

    def _name(self, row: int, column: int) -> str:
        return f"{self._begin}{row}_{column}"

    def at(self, row: int, column: int) -> Load:
        """Return one lane of a vector."""
        return Load(self._name(row, column), self._lane, self.dtype)

    def put(self, row: int, column: int, value: Expr) -> Store:
        """Return the store to one lane of a vector; it belongs in a loop over lanes."""
        return Store(self._name(row, column), self._lane, value)

    def vectors(self, body: Sequence[Stmt]) -> Stmt:
        """Return the loop of ``body`` over lanes."""
        return loop(self._lane, lanes(self.dtype), body, LoopKind.VECTOR)

    def zero(self) -> Stmt:
        """Return the statement that sets all sums to zero."""
        return self.vectors([self.put(*place, const(0, self.dtype)) for place in self._places])

    def add(self, left: Sequence[Expr], right: Sequence[Expr], columns: Sequence[int] | None = None) -> list[Stmt]:
        """Return the statements that add the products of ``left``, by row, and ``right``, by column.

        They belong in a loop over lanes.

        Args:
            left: A factor for each row.
            right: A factor for each of ``columns``.
            columns: The columns to which the products are added; all columns by default.
        """
        into = range(self.columns) if columns is None else columns
        return [self.put(row, column, call("fma", left[row], factor, self.at(row, column)))
                for row in range(self.rows) for column, factor in zip(into, right, strict=True)]

    def multiply(self, depth: Expr, left: tuple[str, Sequence[Expr], Operand], right: tuple[str, Expr, Operand],
                 right_pitch: Operand | None = None, columns: Sequence[int] | None = None) -> Stmt:
        """Return the statement that adds a product of matrices: rows of the left, adjacent columns of the right.

        Args:
            depth: The number of terms.
            left: An array, the offset of each row in it, and the stride along a row.
            right: An array, the offset of the first row that takes part, and the stride of its rows.
            right_pitch: The stride from one vector of a row to the next; vectors are adjacent by default.
            columns: The columns to which the product is added; all columns by default.
        """
        k, at = index("k"), index("right_at")
        array, rows, step = left
        other, first, pitch = right
        hop = lanes(self.dtype) if right_pitch is None else right_pitch
        factors = [Var(f"factor{row}", self.dtype) for row in range(self.rows)]
        values = [Var(f"value{column}", self.dtype) for column in (columns or range(self.columns))]
        places = [row + k * step for row in rows]
        return loop(k, depth, [
            *(Let(factor, Load(array, place, self.dtype)) for factor, place in zip(factors, places, strict=True)),
            Let(at, first + k * pitch),
            self.vectors([
                *(Let(value, Load(other, at + (self._lane + hop * column), self.dtype))
                  for column, value in enumerate(values)),
                *self.add(factors, values, columns)]),
        ])

    def over(self, first: Expr, column: int = 0) -> Expr:
        """Return the position of this lane in vector ``column`` of the adjacent elements from ``first`` on."""
        return first + (self._lane + column * lanes(self.dtype))
