"""Functions with a custom backward."""

from __future__ import annotations

from typing import Any

from tensocket_operators.differentiation.function import Function, FunctionCtx, once_differentiable

#: A name from before functions could declare which arguments they change.
InplaceFunction = Function

def _nested_map(condition: Any, fn: Any, condition_msg: str | None = None) -> Any:
    """Return a function that replaces the leaves of containers which meet a condition.

    Args:
        condition: Whether a leaf is replaced.
        fn: Returns the replacement.
        condition_msg: The condition in words; accepted as in PyTorch.
    """

    def replace(thing: Any) -> Any:
        if condition(thing):
            return fn(thing)
        if thing is None:
            return None
        if isinstance(thing, (list, tuple)):
            parts = [replace(each) for each in thing]
            return type(thing)(*parts) if hasattr(thing, "_fields") else type(thing)(parts)
        if isinstance(thing, dict):
            return {key: replace(each) for key, each in thing.items()}
        return thing

    return replace


__all__ = ["Function", "FunctionCtx", "once_differentiable"]
