"""Removal of operations that give back an operand: products with one, and quotients by one.

``x + 0`` is not among them, because -0.0 + 0 is 0.0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensocket_operators.pointwise.arithmetic import div, mul

from ..capture.recorder import Operation
from ..memory.regions import Region
from .moves import Moves, find_fixed, find_single_writes


def remove_identities(operations: Sequence[Operation], results: Sequence[Region]) -> list[Operation]:
    """Return the operations without those whose readers may read an operand instead.

    Args:
        operations: The operations.
        results: Regions that the program reads afterwards.
    """
    movable = find_single_writes(operations) - find_fixed(operations, results)
    written = {x.buffer: number for number, operation in enumerate(operations) for x in operation.writes}
    moves = Moves()
    kept = []
    for number, recorded in enumerate(operations):
        operation = moves(recorded)
        same = _same_operand(operation)
        if same is not None and operation.results[0].buffer in movable and written.get(same.buffer, -1) < number:
            moves.add(operation.results[0], same)
        else:
            kept.append(operation)
    return kept


def _same_operand(operation: Operation) -> Region | None:
    """Return the operand that an operation gives back bit by bit, in the same layout."""
    if operation.operator not in (mul, div) or len(operation.args) != 2:
        return None
    first, second = operation.args
    if _is_one(second):
        return _same_elements(first, operation)
    return _same_elements(second, operation) if operation.operator is mul and _is_one(first) else None


def _is_one(value: Any) -> bool:
    return value.buffer.everywhere == 1 if isinstance(value, Region) else type(value) in (int, float) and value == 1


def _same_elements(operand: Any, operation: Operation) -> Region | None:
    made = operation.results[0]
    # A product of complex numbers with 1 + 0j has other NaNs.
    return operand if isinstance(operand, Region) and operand.dtype is made.dtype is operation.compute and (
        operand.dtype.kind in ("float", "int", "uint")) and (operand.shape, operand.strides) == (
            made.shape, made.strides) else None
