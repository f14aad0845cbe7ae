"""Recorders: ``below`` with recording, specialised by the arguments and saved values of operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ..dispatch.derivative import RESULT, SHAPE, UNUSED, Derivative
from ..dispatch.layers import RECORDERS
from ..keys import AUTOGRAD, OPTIONS, SCALAR_MASK
from ..recording import RECORDING_SLOW_PATHS
from .conjugate import for_key
from .node import SEQUENCE, Node
from .record import attach, attach_all, edge_of
from .saved import complete

_new = object.__new__


def recorder(derivative: Derivative, below: Callable[..., Any], key: int) -> Callable[..., Any]:
    """Return ``below`` with recording, for a key; specialised for one and two arguments, which are most calls."""
    derivative = for_key(derivative, key)
    if derivative.joint is not None:
        return _list_recorder(derivative, below) if derivative.lists else _joint_recorder(derivative, below)
    if derivative.parameters == 1 and not derivative.multiple:
        return _unary_recorder(derivative, below)
    if derivative.parameters == 2 and len(derivative.tensors) == 2 and not derivative.multiple:
        return _binary_recorder(derivative, below, bool(key & SCALAR_MASK))
    tensors, positions = derivative.tensors, derivative.saved_positions
    if tensors == (0,) and not derivative.multiple:
        return _first_recorder(derivative, below)
    if derivative.parameters == 3 == len(tensors) and not derivative.multiple and min(positions, default=0) >= 0:
        return _ternary_recorder(derivative, below)

    def record(*args: Any) -> Any:
        result = below(*args)
        first = result if type(result) is not tuple else result[0]
        edges = tuple([
            (x._grad_fn or x) if getattr(x, "_key", 0) & AUTOGRAD else None for x in [args[k] for k in tensors]
        ])
        attach(first, derivative, edges, args, derivative.needed(edges))
        return result

    def record_all(*args: Any) -> Any:
        results = below(*args)
        edges = tuple([edge_of(args[k]) for k in tensors])
        attach_all(results, derivative, edges, args, derivative.needed(edges))
        return results

    return record_all if derivative.multiple else record


RECORDERS.append(recorder)


def _ternary_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    """Return a recorder for three tensors (or numbers, or None), with only arguments saved."""
    needed, plans = derivative.needed, derivative.plans

    def record_ternary(a: Any, b: Any, c: Any = None) -> Any:
        result = below(a, b, c)
        node = _new(Node)
        node.derivative = derivative
        node.edges = edges = (
            (a._grad_fn or a) if getattr(a, "_key", 0) & AUTOGRAD else None,
            (b._grad_fn or b) if getattr(b, "_key", 0) & AUTOGRAD else None,
            (c._grad_fn or c) if getattr(c, "_key", 0) & AUTOGRAD else None,
        )
        node.sequence = next(SEQUENCE)
        node.shape = result._array.shape
        node.options = result._key & OPTIONS
        args = (a, b, c)
        wanted = plans.get((edges[0] is not None, edges[1] is not None, edges[2] is not None)) or needed(edges)
        saved, versions = [], []
        for position in wanted:
            value = None if position < 0 else args[position]
            counter = getattr(value, "_version_counter", _NO_COUNTER)
            saved.append(value)
            versions.append(0 if counter is None else counter[0])
        node.saved, node.versions = tuple(saved), tuple(versions)
        node.extras = None
        if RECORDING_SLOW_PATHS:
            complete(node)
        result._grad_fn = node
        result._key |= AUTOGRAD
        return result

    return record_ternary


def _first_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    """Return a recorder for one tensor and other arguments."""
    positions = derivative.saved_positions

    def record_first(a: Any, *args: Any) -> Any:
        result = below(a, *args)
        first = result if type(result) is not tuple else result[0]
        attach(first, derivative, (a._grad_fn or a,), (a, *args), positions)
        return result

    return record_first


# The recorders below inline ``attach``, as they make most nodes: a call costs as much as setting one or two fields.


def _unary_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    positions = derivative.saved_positions
    form = _NO_FORM

    def record_unary(a: Any) -> Any:
        nonlocal form
        result = below(a)
        key = result._key
        known = form
        if known[0] is not key:
            known = form = (key, key & OPTIONS, key | AUTOGRAD)
        node = _new(Node)
        node.derivative = derivative
        node.edges = (a._grad_fn or a,)
        node.sequence = next(SEQUENCE)
        node.shape = result._array.shape
        node.options = known[1]
        if saves_argument:
            counter = a._version_counter
            node.saved = (a,)
            node.versions = _UNCHANGED if counter is None else (counter[0],)
        elif saves_result:
            node.saved = (cut := result._cut(),)
            counter = cut._version_counter
            node.versions = _UNCHANGED if counter is None else (counter[0],)
        elif saves_shape:
            node.saved = (a._array.shape,)
            node.versions = _NO_TENSOR
        else:
            node.saved = node.versions = ()
        node.extras = None
        if RECORDING_SLOW_PATHS:
            complete(node)
        result._grad_fn = node
        result._key = known[2]
        return result

    def record_any(a: Any) -> Any:
        result = below(a)
        attach(result, derivative, (a._grad_fn or a,), (a,), positions)
        return result

    saves_argument, saves_result, saves_shape = positions == (0,), positions == (RESULT,), positions == (SHAPE,)
    return record_unary if saves_argument or saves_result or saves_shape or not positions else record_any


_UNCHANGED: Final = (0,)
_BOTH_UNCHANGED: Final = (0, 0)
_NO_TENSOR: Final = (-1,)


def _binary_recorder(derivative: Derivative, below: Callable[..., Any], number: bool) -> Callable[..., Any]:
    """Return a recorder for two tensors; ``number``: one of them may be a Python number."""
    if number:
        return _number_recorder(derivative, below)
    positions = derivative.saved_positions
    both_saved = positions == (0, 1)
    # Which argument each gradient needs: in a product, the gradient of each needs the other one.
    (a_for_a, b_for_a), (a_for_b, b_for_b) = [[k in pick for k in (0, 1)] for pick in derivative.picks]
    form = _NO_FORM

    def record_binary(a: Any, b: Any) -> Any:
        nonlocal form
        result = below(a, b)
        left = (a._grad_fn or a) if a._key & AUTOGRAD else None
        right = (b._grad_fn or b) if b._key & AUTOGRAD else None
        if positions and not both_saved:
            edges = (left, right)
            attach(result, derivative, edges, (a, b), derivative.needed(edges))
            return result
        key = result._key
        known = form
        if known[0] is not key:
            known = form = (key, key & OPTIONS, key | AUTOGRAD)
        node = _new(Node)
        node.derivative = derivative
        node.edges = (left, right)
        node.sequence = next(SEQUENCE)
        node.shape = result._array.shape
        node.options = known[1]
        if positions:
            x = a if (a_for_a and left is not None) or (a_for_b and right is not None) else None
            y = b if (b_for_a and left is not None) or (b_for_b and right is not None) else None
            node.saved = (x, y)
            first = _NO_COUNTER if x is None else x._version_counter
            second = _NO_COUNTER if y is None else y._version_counter
            node.versions = _BOTH_UNCHANGED if first is None is second else (
                0 if first is None else first[0], 0 if second is None else second[0])
        else:
            node.saved = node.versions = ()
        node.extras = None
        if RECORDING_SLOW_PATHS:
            complete(node)
        result._grad_fn = node
        result._key = known[2]
        return result

    return record_binary


def _number_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    """Return a recorder for a tensor and a Python number, on either side."""
    positions, picks = derivative.saved_positions, derivative.picks
    # Values that the gradient of the tensor needs, by the tensor's side.
    needed = [tuple(p if k in pick else UNUSED for k, p in enumerate(positions)) for pick in picks]
    only_number = [set(wanted) <= {1 - side, UNUSED} for side, wanted in enumerate(needed)]
    form = _NO_FORM

    def record_number(a: Any, b: Any) -> Any:
        nonlocal form
        result = below(a, b)
        side = 0 if hasattr(a, "_key") else 1
        tensor = b if side else a
        edge = tensor._grad_fn or tensor
        edges = (None, edge) if side else (edge, None)
        if positions and not only_number[side]:
            attach(result, derivative, edges, (a, b), needed[side])
            return result
        key = result._key
        known = form
        if known[0] is not key:
            known = form = (key, key & OPTIONS, key | AUTOGRAD)
        node = _new(Node)
        node.derivative = derivative
        node.edges = edges
        node.sequence = next(SEQUENCE)
        node.shape = result._array.shape
        node.options = known[1]
        if positions:
            node.saved = tuple([None if p < 0 else a if side else b for p in needed[side]])
            node.versions = _NUMBERS[len(positions)]
        else:
            node.saved = node.versions = ()
        node.extras = None
        if RECORDING_SLOW_PATHS:
            complete(node)
        result._grad_fn = node
        result._key = known[2]
        return result

    return record_number


#: Initial form of a result: its key, its options, and its key when recorded.
_NO_FORM: Final = (-1, 0, 0)
#: Versions of zero, one or two saved values that are not tensors.
_NUMBERS: Final = ((), (-1,), (-1, -1))
#: Version counter of a value that is not a tensor.
_NO_COUNTER: Final = (-1,)


def _joint_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    """Return a recorder for derivatives with one function for the gradients of all tensor arguments."""
    tensors, positions = derivative.tensors, derivative.saved_positions
    made = attach_all if derivative.multiple else attach

    def record_joint(*args: Any) -> Any:
        result = below(*args)
        edges = tuple([
            (x._grad_fn or x) if getattr(x, "_key", 0) & AUTOGRAD else None for x in [args[k] for k in tensors]
        ])
        made(result, derivative, edges, args, positions)
        return result

    return record_joint


def _list_recorder(derivative: Derivative, below: Callable[..., Any]) -> Callable[..., Any]:
    def record_list(tensors: Any, *args: Any) -> Any:
        # A list may grow before the backward pass.
        tensors = tuple(tensors)
        result = below(tensors, *args)
        edges = tuple([edge_of(t) for t in tensors])
        (attach_all if derivative.multiple else attach)(
            result, derivative, edges, (tensors, *args), derivative.saved_positions
        )
        return result

    return record_list
