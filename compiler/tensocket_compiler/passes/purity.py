"""Purity: which operations do nothing but compute their results, and which compute the same from the same operands."""

from __future__ import annotations

from typing import Final

from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.normalized_row import RowOperator
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_operators.kinds.reduction import Reduction
from tensocket_operators.kinds.row import SoftmaxLike
from tensocket_operators.linalg.kind import MatMul

from ..capture.recorder import Operation
from ..schedule.forms import COPIES

#: Kinds of operators that do nothing but compute their results; others may draw random numbers or raise.
_PURE: Final = (Pointwise, Reduction, RowOperator, SoftmaxLike, MatMul)
#: Further operators that draw no random numbers; they may raise.
_DETERMINISTIC: Final = frozenset({"cat", "gather_valid", "scatter_valid", "embed_index"})


def is_pure(operation: Operation) -> bool:
    """Whether an operation does nothing but compute its results from its operands."""
    record = operation.operator.origin if isinstance(operation.operator, InPlace) else operation.operator
    if isinstance(record, Pointwise):
        return record.guard is None
    return isinstance(record, _PURE) or operation.name in COPIES


def is_repeatable(operation: Operation) -> bool:
    """Whether an operation modifies nothing, and gives the same results for the same operands.

    Where it raises an error, an equal operation before it has raised the same one.
    """
    operator = operation.operator
    if operator.schema.is_mutable:
        return False
    return is_pure(operation) or isinstance(operator, Pointwise) or operation.name in _DETERMINISTIC or bool(
        getattr(operator, "replayable", False))
