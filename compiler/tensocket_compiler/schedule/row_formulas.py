"""Namespaces that read row formulas inside a fused kernel: reductions become statements of the kernel's row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tensocket_operators.kinds import normalized_row_nest, row_nest
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.nodes import Expr, Load, Stmt, Store, Var


class RowStatements(Protocol):
    """The part of a kernel that row formulas add to."""

    nest: ProgramBuilder
    statements: list[Stmt]


class SoftmaxRow(row_nest.RowMath):
    """Row formulas of one result, such as softmax.

    Args:
        kernel: The kernel.
        m: The namespace of formulas.
        size: Elements of a row.
        accumulator: Dtype of sums.
        place: The name of an array with an element for each of the row, which the kernel may write to before it reads
            its operands for the last time, and the function to its addresses; None if there is none.
    """

    def __init__(self, kernel: RowStatements, m: Any, size: Expr, accumulator: DType,
                 place: tuple[str, Callable[[Expr], Expr]] | None) -> None:
        super().__init__(kernel.nest, m, size, accumulator, _no_target, accumulator)
        self.statements = kernel.statements
        self._place = place

    def keep(self, value: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return values for repeated use: stored if the kernel has a place for them, else computed again."""
        if self._place is None:
            return value
        name, address = self._place
        j = Var(f"k{len(self.statements)}", self._nest.index)
        self.statements += parallel([j], [self._size], [Store(name, address(j), value(j))])
        return lambda position: Load(name, address(position), self.m.dtype)


class NormalizedRow(normalized_row_nest.RowMath):
    """Row formulas of several results, such as normalisations."""

    def __init__(self, kernel: RowStatements, m: Any, size: Expr, accumulator: DType) -> None:
        super().__init__(kernel.nest, m, (size,), accumulator)
        self.statements = kernel.statements


def _no_target(position: Any) -> Expr:
    raise AssertionError("values of fused rows are not kept")
