"""Recording of operators that modify their first argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_plugins.contract.errors import AutogradError

from ..dispatch.derivative import Derivative
from ..dispatch.modes import ACTIVE, STATE
from ..keys import AUTOGRAD, DIFFERENTIABLE
from .node import PACKED
from .record import attach, edge_of, retained_by, transfer_retained_grad, version_of
from .view_history import adopt_views, reattach_hooked_view, reattach_view, record_change, unrecorded

MADE_BY_FUNCTION: Final = ("a view made by a custom function",
                          "changes of such a view would go around the function's backward",
                          "clone() it first, or let the function return a copy")


def one_of_many(function: str) -> tuple[str, str, str]:
    """Return the reason why an output of a function with several views must not be modified."""
    return (f"an output of {function}, which returns multiple views",
            "such functions do not allow the output views to be modified inplace while gradients are recorded",
            f"clone() it first, or use unsafe_{function} where there is one")


def fix_views(views: tuple[Any, ...], function: str) -> tuple[Any, ...]:
    """Mark views from a function with several results: recorded calls must not modify them."""
    if ACTIVE and STATE.tracer is not None:
        return STATE.tracer.helper(_fix_views, (views, function))  # type: ignore[no-any-return]
    return _fix_views(views, function)


def _fix_views(views: tuple[Any, ...], function: str) -> tuple[Any, ...]:
    reason = one_of_many(function)
    for view in views:
        if view._fixed_view is None:
            view._fixed_view = reason
    return views


def inplace_recorder(operator: str, derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``below`` with recording: its first argument, with base and views, becomes the new node's result."""
    tensors, overwrites = derivative.tensors, derivative.overwrites

    def record_inplace(target: Any, *args: Any) -> Any:
        if not target._key & DIFFERENTIABLE:
            return below(target, *args)
        check_no_leaf(operator, target)
        hooked = target._base is not None and reattach_hooked_view(target)
        values = (target, *args)
        edges = tuple([edge_of(values[k]) for k in tensors])
        if overwrites and _is_reached_elsewhere(edges):
            edges = (None, *edges[1:])
        positions = derivative.needed(edges)
        if any(k >= 0 and values[k] is target for k in positions):
            # The rule needs the old value, which the call overwrites.
            before = target.clone()
            values = tuple([before if value is target else value for value in values])
        versions = [version_of(values[k]) if k >= 0 else None for k in positions]
        base = unrecorded(target)
        below(target, *args)
        if base is not None:
            adopt_views(base, target)
        keeping = retained_by(target)
        attach(target, derivative, edges, values, positions)
        if keeping is not None:
            transfer_retained_grad(target, keeping)
        node = target._grad_fn
        node.versions = tuple(
            [now if then is None or now == PACKED else then for then, now in zip(versions, node.versions, strict=True)]
        )
        record_change(target)
        if hooked:
            reattach_view(target)
        return target

    return record_inplace


def _is_reached_elsewhere(edges: tuple[Any, ...]) -> bool:
    """Whether another edge leads to the value that an operator overwrites, like that of ``f`` in ``x.copy_(f(x))``."""
    source = edges[1] if len(edges) > 1 else None
    return source is not None and any(edge is edges[0] for edge in getattr(source, "edges", ()))


def check_no_leaf(operator: str, target: Any) -> None:
    """Raise for leaves that require grad, views of them, and views that must not be modified.

    Raises:
        AutogradError: The target is one of these.
    """
    if target._base is not None and target._fixed_view is not None:
        raise AutogradError(operator, *target._fixed_view)
    if not target._key & AUTOGRAD:
        return
    for tensor, what in ((target._base, "a view of a leaf tensor"), (target, "a leaf tensor")):
        if tensor is not None and tensor._grad_fn is None:
            raise AutogradError(operator, f"{what} that requires grad",
                                "a leaf that requires grad is not modified while gradients are recorded",
                                "use torch.no_grad(), or work out of place")
