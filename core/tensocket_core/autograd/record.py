"""Recording: closures that run an operator and put a node behind its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_plugins.contract.errors import AutogradError

from ..dispatch.keys import AUTOGRAD, OPTIONS
from .node import RESULT, SEQUENCE, SHAPE, Derivative, Node

_new = object.__new__


def edge_of(value: Any) -> Any:
    """Where the gradient of an argument goes: its node, itself for a leaf, or None."""
    key = getattr(value, "_key", 0)
    return (value._grad_fn or value) if key & AUTOGRAD else None


def attach(result: Any, derivative: Derivative, edges: tuple[Any, ...], args: tuple[Any, ...]) -> None:
    """Make ``result`` the output of a new node. ``result`` must not be an argument, unless it was modified in place."""
    node = _new(Node)
    node.derivative = derivative
    node.edges = edges
    node.sequence = next(SEQUENCE)
    node.shape = result._array.shape
    node.options = result._key & OPTIONS
    node.hooks = None
    positions = derivative.saved_positions
    if positions:
        # The result is saved detached: a node that held its own result would be a reference cycle.
        node.saved = saved = tuple(
            [args[k] if k >= 0 else result.detach() if k == RESULT else args[SHAPE - k]._array.shape for k in positions]
        )
        node.versions = tuple([_version(value) for value in saved])
    else:
        node.saved = node.versions = ()
    result._grad_fn = node
    result._key |= AUTOGRAD


def _version(value: Any) -> int:
    if not hasattr(value, "_key"):
        return -1
    counter = value._version_counter
    return 0 if counter is None else int(counter[0])


def recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    """``below`` with recording; specialised to operators of one and two arguments, which are most calls."""
    if derivative.joint is not None:
        return _list_recorder(derivative, below)
    if derivative.parameters == 1:
        return _unary_recorder(derivative, below)
    if derivative.parameters == 2 and len(derivative.tensors) == 2:
        return _binary_recorder(derivative, below)
    tensors = derivative.tensors

    def record(*args: Any) -> Any:
        result = below(*args)
        first = result if type(result) is not tuple else result[0]
        attach(first, derivative, tuple([edge_of(args[k]) for k in tensors]), args)
        return result

    return record


def _unary_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    def record_unary(a: Any) -> Any:
        result = below(a)
        attach(result, derivative, (a._grad_fn or a,), (a,))
        return result

    return record_unary


def _binary_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    def record_binary(a: Any, b: Any) -> Any:
        result = below(a, b)
        attach(result, derivative, (edge_of(a), edge_of(b)), (a, b))
        return result

    return record_binary


def _list_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    def record_list(tensors: Any, *args: Any) -> Any:
        result = below(tensors, *args)
        attach(result, derivative, tuple([edge_of(t) for t in tensors]), (tensors, *args))
        return result

    return record_list


def inplace_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    """Recording for an operator that modifies its first argument, which becomes the result of the new node."""
    tensors = derivative.tensors

    def record_inplace(target: Any, *args: Any) -> Any:
        if target._key & AUTOGRAD and target._grad_fn is None:
            raise AutogradError(
                derivative.operator,
                "a leaf tensor that requires grad",
                "a leaf that requires grad is not modified while gradients are recorded",
                "use torch.no_grad(), or work out of place",
            )
        if target._base is not None:
            raise AutogradError(derivative.operator, f"a view of shape {list(target.shape)}",
                                "a view is not modified in place while gradients are recorded",
                                "build the result out of place, for example with where, cat or stack")
        values = (target, *args)
        edges = tuple([edge_of(values[k]) for k in tensors])
        before = _version(target)
        below(target, *args)
        attach(target, derivative, edges, values)
        # What the rule saved of the target is its old value, which is gone: the check in backward must see that.
        node = target._grad_fn
        node.versions = tuple([before if value is target else version
                               for value, version in zip(node.saved, node.versions, strict=True)])
        return target

    return record_inplace
