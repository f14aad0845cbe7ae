"""Namespaces that read row formulas inside a fused kernel: reductions become statements of the kernel's row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tensocket_operators.kinds import normalized_row_nest, row_nest
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.build.nest import ProgramBuilder
from tensocket_plugins.ir.nodes import Expr, Stmt


class RowStatements(Protocol):
    """The part of a kernel that row formulas add to."""

    nest: ProgramBuilder
    statements: list[Stmt]


class SoftmaxRow(row_nest.RowMath):
    """Row formulas of one result, such as softmax."""

    def __init__(self, kernel: RowStatements, m: Any, size: Expr, accumulator: DType) -> None:
        super().__init__(kernel.nest, m, size, accumulator, _no_target, accumulator)
        self.statements = kernel.statements

    def keep(self, value: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return values for repeated use: they are computed again, because the kernel may not store them."""
        return value


class NormalizedRow(normalized_row_nest.RowMath):
    """Row formulas of several results, such as normalisations."""

    def __init__(self, kernel: RowStatements, m: Any, size: Expr, accumulator: DType) -> None:
        super().__init__(kernel.nest, m, (size,), accumulator)
        self.statements = kernel.statements


def _no_target(position: Any) -> Expr:
    raise AssertionError("values of fused rows are not kept")
