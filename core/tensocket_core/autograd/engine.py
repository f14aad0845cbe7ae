"""Reverse mode: visit nodes from the newest to the oldest, add up gradients, pass them on.

The loop is iterative. A heap by sequence number orders nodes (a consumer is always newer than what it consumes); a
node is ready when it is popped, because everything that could add to its gradient came before it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tensocket_plugins.contract.errors import AutogradError, ShapeError

from ..device import BY_KEY
from ..dispatch.keys import AUTOGRAD, DEVICE_MASK, DTYPE_MASK, DTYPE_OF, OPTIONS
from ..dispatch.modes import set_grad_enabled
from .node import Node

if TYPE_CHECKING:
    from ..tensors import Tensor


def sum_to(grad: Any, shape: tuple[int, ...]) -> Any:
    """``grad`` summed over the dimensions along which ``shape`` was broadcast."""
    if grad.shape == shape:
        return grad
    lead = grad.ndim - len(shape)
    axes = [*range(lead), *(k + lead for k, n in enumerate(shape) if n == 1 and grad.shape[k + lead] != 1)]
    return grad.sum(axes, True).reshape(shape) if axes else grad.reshape(shape)


class _Pass:
    """One backward pass: gradients that wait for their node, and where results go."""

    def __init__(self, inputs: Sequence[Tensor] | None, create_graph: bool) -> None:
        self.create_graph = create_graph
        self.heap: list[int] = []
        self.nodes: dict[int, Node] = {}
        self.grads: dict[int, Any] = {}
        #: Wanted tensors by the identity of their edge target; None means: accumulate into all leaves.
        self.wanted = None if inputs is None else {id(t._grad_fn or t): t for t in inputs}
        self.captured: dict[int, Any] = {}

    def give(self, target: Any, grad: Any) -> None:
        """Add to the gradient of an edge's target."""
        leaf = not isinstance(target, Node)
        shape, options = (target._array.shape, target._key & OPTIONS) if leaf else (target.shape, target.options)
        if grad._array.shape != shape:
            grad = sum_to(grad, shape)
        if grad._key & OPTIONS != options:
            grad = grad.to(BY_KEY[options & DEVICE_MASK].device, DTYPE_OF[options & DTYPE_MASK])
        if leaf:
            self._leaf(target, grad)
            return
        sequence = target.sequence
        if sequence in self.grads:
            self.grads[sequence] = self.grads[sequence] + grad
        else:
            self.grads[sequence] = grad
            self.nodes[sequence] = target
            heapq.heappush(self.heap, -sequence)

    def _leaf(self, leaf: Any, grad: Any) -> None:
        if self.wanted is None:
            accumulate(leaf, grad, self.create_graph)
        elif id(leaf) in self.wanted:
            old = self.captured.get(id(leaf))
            self.captured[id(leaf)] = grad if old is None else old + grad

    def run(self, retain_graph: bool) -> None:
        """Visit all nodes that have a gradient."""
        while self.heap:
            sequence = -heapq.heappop(self.heap)
            node, grad = self.nodes.pop(sequence), self.grads.pop(sequence)
            if node.hooks is not None:
                for hook in node.hooks:
                    replaced = hook(grad)
                    grad = grad if replaced is None else replaced
            if self.wanted is not None and id(node) in self.wanted:
                self.captured[id(node)] = grad
            outputs = node.apply(grad)
            if node.saved and not retain_graph:
                node.saved = None
            for edge, output in zip(node.edges, outputs, strict=True):
                if edge is not None and output is not None:
                    self.give(edge, output)


def accumulate(leaf: Any, grad: Any, create_graph: bool) -> None:
    """Add ``grad`` to ``leaf.grad``. The first gradient is copied unless nobody else holds it."""
    hooks = leaf._hooks
    if hooks:
        for hook in hooks:
            replaced = hook(grad)
            grad = grad if replaced is None else replaced
    old = leaf._grad
    if old is None:
        leaf._grad = grad if create_graph else grad.clone()
    elif create_graph:
        leaf._grad = old + grad
    else:
        old.add_(grad)


def _first_gradient(root: Tensor, gradient: Any) -> Any:
    if not root._key & AUTOGRAD:
        raise AutogradError("backward", f"a tensor of shape {list(root.shape)} without grad_fn",
                            "backward starts from a tensor that requires grad",
                            "set requires_grad=True on an input, and do not compute under no_grad")
    if gradient is None:
        if math.prod(root.shape) != 1:
            raise AutogradError("backward", f"a tensor of shape {list(root.shape)}",
                                "a gradient is created implicitly for one element only",
                                "pass gradient=, or reduce with .sum()")
        return root.new_ones(root.shape)
    if tuple(gradient.shape) != tuple(root.shape):
        raise ShapeError(
            "backward",
            f"gradient of shape {list(gradient.shape)} for a tensor of shape {list(root.shape)}",
            "a gradient has its tensor's shape",
            "pass a gradient of that shape",
        )
    return gradient


def _run(roots: Sequence[Tensor], gradients: Sequence[Any], inputs: Sequence[Tensor] | None,
         retain_graph: bool | None, create_graph: bool) -> _Pass:
    state = _Pass(inputs, create_graph)
    with set_grad_enabled(create_graph):
        for root, gradient in zip(roots, gradients, strict=True):
            state.give(root._grad_fn or root, _first_gradient(root, gradient))
        state.run(create_graph if retain_graph is None else retain_graph)
    return state


def _sequence(values: Any) -> tuple[Any, ...]:
    return tuple(values) if isinstance(values, (tuple, list)) else (values,)


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False,
             inputs: Any = None) -> None:
    """Compute gradients of ``tensors`` and add them to the leaves' ``grad``.

    Args:
        tensors: A tensor or several.
        grad_tensors: Gradients of the same shapes; None for tensors of one element.
        retain_graph: Whether to keep saved tensors for another backward; default is ``create_graph``.
        create_graph: Whether to record the gradient computation itself.
        inputs: Leaves to accumulate into; None for all.

    Raises:
        AutogradError: A tensor does not require grad, has several elements and no gradient, or the graph was freed.
        ShapeError: A gradient's shape is not its tensor's.
    """
    roots = _sequence(tensors)
    gradients = _sequence(grad_tensors) if grad_tensors is not None else (None,) * len(roots)
    if inputs is None:
        _run(roots, gradients, None, retain_graph, create_graph)
        return
    leaves = _sequence(inputs)
    state = _run(roots, gradients, leaves, retain_graph, create_graph)
    for leaf in leaves:
        grad = state.captured.get(id(leaf._grad_fn or leaf))
        if grad is not None:
            with set_grad_enabled(create_graph):
                accumulate(leaf, grad, create_graph)


def grad(outputs: Any, inputs: Any, grad_outputs: Any = None, retain_graph: bool | None = None,
         create_graph: bool = False, allow_unused: bool = False, materialize_grads: bool = False) -> tuple[Any, ...]:
    """Gradients of ``outputs`` with respect to ``inputs``, without touching ``grad`` attributes.

    Args:
        outputs: A tensor or several.
        inputs: A tensor or several that require grad.
        grad_outputs: Gradients of the outputs; None for outputs of one element.
        retain_graph: Whether to keep saved tensors; default is ``create_graph``.
        create_graph: Whether the gradients can be differentiated.
        allow_unused: Return None for inputs that the outputs do not depend on.
        materialize_grads: Return zeros for them.

    Raises:
        AutogradError: As in ``backward``, or an input was not used and ``allow_unused`` is False.
    """
    roots, wanted = _sequence(outputs), _sequence(inputs)
    if not all(t._key & AUTOGRAD for t in wanted):
        raise AutogradError(
            "grad",
            "an input without requires_grad",
            "gradients are taken with respect to tensors that require grad",
            "set requires_grad=True on it before computing the output",
        )
    gradients = _sequence(grad_outputs) if grad_outputs is not None else (None,) * len(roots)
    state = _run(roots, gradients, wanted, retain_graph, create_graph)
    results = [state.captured.get(id(t._grad_fn or t)) for t in wanted]
    if materialize_grads:
        results = [t.new_zeros(t.shape) if g is None else g for t, g in zip(wanted, results, strict=True)]
    elif not allow_unused and any(g is None for g in results):
        raise AutogradError("grad", "an input that the outputs do not depend on", "every input is used in the outputs",
                            "pass allow_unused=True to get None for it")
    return tuple(results)
