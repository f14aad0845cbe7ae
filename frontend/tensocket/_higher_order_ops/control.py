"""Branches and loops as functions of functions. They run in Python, one step after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensocket.errors import ArgumentError


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """Return ``true_fn(*operands)`` where ``pred`` is true, else ``false_fn(*operands)``.

    Args:
        pred: A bool or a tensor of one element.
        true_fn: The one branch.
        false_fn: The other branch.
        operands: The arguments of both.
    """
    return (true_fn if pred else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]
               ) -> tuple[Any, ...]:
    """Return the values after the last step of a loop, which runs while ``cond_fn(*values)`` is true.

    Args:
        cond_fn: Whether another step runs.
        body_fn: One step: the values for the next one.
        carried_inputs: The values for the first step.

    Raises:
        ArgumentError: A step returns another number of values.
    """
    values = tuple(carried_inputs)
    while cond_fn(*values):
        made = body_fn(*values)
        following = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if len(following) != len(values):
            raise ArgumentError("while_loop", f"{len(following)} values of a step that took {len(values)}",
                                "every step returns the values of the next one", "return as many as there were")
        values = following
    return values
