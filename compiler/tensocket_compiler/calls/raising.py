"""Graphs with operators that raise an error for some elements: where one does, the function raises it itself.

Such a graph has changed nothing when the operator raises: a function that changes memory before is no graph, and what
comes behind the operator waits for it. So the function runs from its beginning, and all that it does up to the error
happens, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tensocket_operators.random.positions import positions, restore_positions
from tensocket_plugins.contract.errors import TensocketError

from ..capture.recorder import CannotRecord, Operation
from ..schedule.dependencies import changes_inputs, may_raise

if TYPE_CHECKING:
    from .variant import Variant


def has_raising(operations: Sequence[Operation]) -> bool:
    """Whether any operation of a run may raise an error for some elements.

    Raises:
        CannotRecord: An operation before it changes memory that was there before the run.
    """
    last = max([k for k, operation in enumerate(operations) if may_raise(operation)], default=-1)
    if any(changes_inputs(operation) for operation in operations[:max(last, 0)]):
        raise CannotRecord(f"it modifies a tensor that was there before, and calls {operations[last].name} later, "
                           "which raises an error for some elements")
    return last >= 0


def run_or_repeat(variant: Variant, tensors: Sequence[Any], again: Any, call: Callable[[], Any]) -> Any:
    """Run a graph; where an operator raises, call the function instead.

    Args:
        variant: The graph, which fits.
        tensors: The tensor arguments of the call.
        again: See ``Variant``.
        call: Calls the function.
    """
    began = positions()
    try:
        return variant(tensors, again)
    except TensocketError:
        restore_positions(began)
    return call()
