"""Recording: closures that run an operator and attach a node to its result."""

from __future__ import annotations

import weakref
from typing import Any, Final

from ..dispatch.derivative import RESULT, RESULTS, SHAPE, UNUSED, WANTED, Derivative
from ..keys import AUTOGRAD, DIFFERENTIABLE, OPTIONS
from ..recording import RECORDING_SLOW_PATHS
from .hooks import extras_of
from .node import SEQUENCE, MultiNode, Node, Output, gradient_place
from .saved import complete

_new = object.__new__
#: Version counter of a value that is not a tensor.
_NO_COUNTER: Final = (-1,)


def edge_of(value: Any) -> Any:
    """Return the target of an argument's gradient: its node, the leaf itself, or None."""
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
    node.extras = None
    if positions:
        saved, versions = [], []
        for k in positions:
            if k >= 0:
                value = args[k]
            elif k == UNUSED:
                value = None
            elif k == RESULT:  # detached: a node that held its own result would be a reference cycle
                value = result._cut()
            else:
                value = tuple([edge is not None for edge in edges]) if k == WANTED else args[SHAPE - k]._array.shape
            counter = getattr(value, "_version_counter", _NO_COUNTER)
            saved.append(value)
            versions.append(0 if counter is None else counter[0])
        node.saved, node.versions = tuple(saved), tuple(versions)
    else:
        node.saved = node.versions = ()
    if RECORDING_SLOW_PATHS:
        complete(node)
    result._grad_fn = node
    result._key |= AUTOGRAD


def attach_all(
    results: Any, derivative: Derivative, edges: tuple[Any, ...], args: tuple[Any, ...], positions: tuple[int, ...]
) -> None:
    """Make all tensors of ``results`` that can have a gradient outputs of one new node."""
    node = _new(MultiNode)
    node.derivative = derivative
    node.edges = edges
    node.sequence = next(SEQUENCE)
    node.extras = None
    saved, versions = [], []
    for k in positions:
        if k >= 0:
            value = args[k]
        elif k <= RESULTS:
            value = None if (result := results[RESULTS - k]) is None else result._cut()
        elif k == UNUSED:
            value = None
        else:
            value = tuple([edge is not None for edge in edges]) if k == WANTED else args[SHAPE - k]._array.shape
        counter = getattr(value, "_version_counter", _NO_COUNTER)
        saved.append(value)
        versions.append(0 if counter is None else counter[0])
    node.saved, node.versions = tuple(saved), tuple(versions)
    if RECORDING_SLOW_PATHS:
        complete(node)
    make_outputs(node, results)


def make_outputs(node: MultiNode, results: Any) -> None:
    """Make ``results`` outputs of this node, except those of dtypes without gradients."""
    outputs: list[tuple[tuple[int, ...], int] | None] = []
    for index, result in enumerate(results):
        if result is None or not result._key & DIFFERENTIABLE:
            outputs.append(None)
            continue
        key = result._key
        outputs.append((result._array.shape, key & OPTIONS))
        if index:
            output = _new(Output)
            output.node, output.index = node, index
            result._grad_fn = output
        else:
            result._grad_fn = node
        result._key = key | AUTOGRAD
    node.outputs = tuple(outputs)


def retained_by(tensor: Any) -> dict[int, weakref.ref[Any]] | None:
    """Return the table through which a tensor's node retains its gradient; None if it does not retain it."""
    if tensor._grad_fn is None:
        return None
    node, index = gradient_place(tensor._grad_fn)
    table: dict[int, weakref.ref[Any]] | None = None if node.extras is None else node.extras.retained
    return table if table is not None and index in table and table[index]() is tensor else None


def keep_gradient(tensor: Any) -> None:
    """Let a tensor's node store its gradient in ``grad``, without keeping the tensor alive."""
    node, index = gradient_place(tensor._grad_fn)
    extras = extras_of(node, "extras")
    if extras.retained is None:
        extras.retained = {}
    extras.retained[index] = weakref.ref(tensor)


def transfer_retained_grad(tensor: Any, before: dict[int, weakref.ref[Any]]) -> None:
    """Let a tensor retain the gradient of its new value instead of that from before an in-place change."""
    for index in [k for k, owner in before.items() if owner() is tensor]:
        del before[index]
    keep_gradient(tensor)


def version_of(value: Any) -> int:
    """Return the number of in-place changes of a tensor so far; -1 for other values."""
    if not hasattr(value, "_key"):
        return -1
    counter = value._version_counter
    return 0 if counter is None else counter[0]
