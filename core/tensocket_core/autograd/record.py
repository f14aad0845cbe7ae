"""Recording: closures that run an operator and put a node behind its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..dispatch.keys import AUTOGRAD, OPTIONS
from .node import RESULT, SEQUENCE, SHAPE, UNUSED, Derivative, Node

_new = object.__new__


def edge_of(value: Any) -> Any:
    """Where the gradient of an argument goes: its node, itself for a leaf, or None."""
    key = getattr(value, "_key", 0)
    return (value._grad_fn or value) if key & AUTOGRAD else None


def attach(
    result: Any, derivative: Derivative, edges: tuple[Any, ...], args: tuple[Any, ...], positions: tuple[int, ...]
) -> None:
    """Make ``result`` the output of a new node that saves the arguments at ``positions``."""
    node = _new(Node)
    node.derivative = derivative
    node.edges = edges
    node.sequence = next(SEQUENCE)
    node.shape = result._array.shape
    node.options = result._key & OPTIONS
    node.hooks = None
    if positions:
        # The result is saved detached: a node that held its own result would be a reference cycle.
        node.saved = saved = tuple(
            [
                args[k]
                if k >= 0
                else result.detach()
                if k == RESULT
                else None
                if k == UNUSED
                else args[SHAPE - k]._array.shape
                for k in positions
            ]
        )
        node.versions = tuple([version_of(value) for value in saved])
    else:
        node.saved = node.versions = ()
    result._grad_fn = node
    result._key |= AUTOGRAD


def version_of(value: Any) -> int:
    """In-place changes of a tensor so far; -1 for other values."""
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
        edges = tuple([edge_of(args[k]) for k in tensors])
        attach(first, derivative, edges, args, derivative.needed(edges))
        return result

    return record


def _unary_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    positions = derivative.saved_positions

    def record_unary(a: Any) -> Any:
        result = below(a)
        attach(result, derivative, (a._grad_fn or a,), (a,), positions)
        return result

    return record_unary


def _binary_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    positions = derivative.saved_positions

    def record_binary_unsaved(a: Any, b: Any) -> Any:
        result = below(a, b)
        attach(result, derivative, (edge_of(a), edge_of(b)), (), ())
        return result

    def record_binary(a: Any, b: Any) -> Any:
        result = below(a, b)
        edges = edge_of(a), edge_of(b)
        both = edges[0] is not None and edges[1] is not None
        attach(result, derivative, edges, (a, b), positions if both else derivative.needed(edges))
        return result

    return record_binary if positions else record_binary_unsaved


def _list_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    def record_list(tensors: Any, *args: Any) -> Any:
        result = below(tensors, *args)
        attach(result, derivative, tuple([edge_of(t) for t in tensors]), (tensors, *args), derivative.saved_positions)
        return result

    return record_list
