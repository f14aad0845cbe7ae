"""Removal of operations whose results nothing needs, such as what an operator saves for a derivative of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tensocket_operators.kinds.inplace import InPlace
from tensocket_operators.kinds.normalized_row import RowOperator
from tensocket_operators.kinds.pointwise import Pointwise
from tensocket_operators.kinds.reduction import Reduction
from tensocket_operators.kinds.row import SoftmaxLike
from tensocket_operators.linalg.kind import MatMul

from ..capture.recorder import Operation
from ..memory.regions import Region
from ..schedule.forms import COPIES

#: Kinds of operators that do nothing but compute their results; others may draw random numbers or raise.
_PURE: Final = (Pointwise, Reduction, RowOperator, SoftmaxLike, MatMul)


def remove_unused(operations: Sequence[Operation], results: Sequence[Region]) -> list[Operation]:
    """Return the operations that results, memory from outside, or calls with other effects depend on.

    Args:
        operations: The operations of a run.
        results: Regions that the run returns.
    """
    needed = {region.buffer for region in results}
    kept = []
    for operation in reversed(operations):
        if is_pure(operation) and not any(x.buffer in needed or x.buffer.kind == "input" for x in operation.writes):
            continue
        needed.update(x.buffer for x in (*operation.reads, *operation.number_reads))
        kept.append(operation)
    return kept[::-1]


def is_pure(operation: Operation) -> bool:
    """Whether an operation does nothing but compute its results from its operands."""
    record = operation.operator.origin if isinstance(operation.operator, InPlace) else operation.operator
    if isinstance(record, Pointwise):
        return record.guard is None
    return isinstance(record, _PURE) or operation.name in COPIES
