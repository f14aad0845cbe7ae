"""Nodes that a program adds to the graph itself: one that raises in backward, one that passes no gradients on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from tensocket_core.autograd.node import SEQUENCE, MultiNode
from tensocket_core.autograd.record import edge_of, make_outputs
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import STATE, as_leaf
from tensocket_core.keys import AUTOGRAD, DIFFERENTIABLE
from tensocket_plugins.contract.errors import AutogradError

_new = object.__new__


def _put_behind(values: tuple[Any, ...], edges: tuple[Any, ...], derivative: Derivative) -> tuple[Any, ...]:
    """Return detached aliases of ``values`` as the outputs of one new node; other values stay as they are."""
    results = tuple([value.detach() if hasattr(value, "_key") else value for value in values])
    node = _new(MultiNode)
    node.derivative = derivative
    node.edges = edges
    node.sequence = next(SEQUENCE)
    node.extras = None
    node.saved = node.versions = ()
    make_outputs(node, results)
    return results


class DelayedError:
    """Callable that returns its tensors with a node that raises an error in backward.

    Args:
        message: The error, as text or bytes.
        num_inputs: Number of tensors.
    """

    def __init__(self, message: str | bytes, num_inputs: int) -> None:
        self._message = message.decode() if isinstance(message, bytes) else message
        self.num_inputs = num_inputs

    def __call__(self, *values: Any) -> Any:
        """Return the values with the node: one value as it is, several as a tuple."""
        edges = tuple([edge_of(value) for value in values])
        if STATE.grad_enabled and any(edge is not None for edge in edges):
            results = _put_behind(values, edges, _refusing(self._message))
        else:
            results = values
        return results[0] if len(results) == 1 else results


def _refusing(message: str) -> Derivative:
    def refuse(grads: tuple[Any, ...]) -> NoReturn:
        raise AutogradError("backward", message, "such a function is differentiated once only",
                            "write the backward with operators and take the mark away")

    derivative = Derivative(refuse)
    derivative.name, derivative.picks = "Error", ((),)
    return derivative


def guarded(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the gradients of a function marked with ``once_differentiable``, which cannot be differentiated again."""
    leaves = tuple([as_leaf(value.detach()) if hasattr(value, "_key") and value._key & DIFFERENTIABLE else value
                    for value in values])
    results = DelayedError("a gradient of a function marked with once_differentiable", len(leaves))(*leaves)
    return results if len(leaves) > 1 else (results,)


def without_derivative(operator: str, value: Any, *sources: Any) -> Any:
    """Return a result of ``sources`` by an operator without derivative: a backward pass through its node fails."""
    edges = tuple([edge_of(source) for source in sources])
    if not STATE.grad_enabled or all(edge is None for edge in edges):
        return value
    return _put_behind((value,), edges, _underivable(operator))[0]


def _underivable(operator: str) -> Derivative:
    refuse = not_differentiable(operator)
    derivative = Derivative(lambda grads: refuse(grads))
    derivative.name, derivative.picks = "NotImplemented", ((),)
    return derivative


def not_differentiable(operator: str) -> Callable[[Any], NoReturn]:
    """Return the gradient function of an operator without derivative: a backward pass through it fails."""

    def refuse(grad: Any) -> NoReturn:
        raise AutogradError("backward", f"a result of {operator}: the derivative for {operator} is not implemented",
                            "gradients pass through operators with a derivative only",
                            f"detach() what {operator} is given")

    return refuse


def forbid_backward(operator: str, slope: float, value: Any) -> Any:
    """Give an in-place result with a negative slope a node that fails in backward, as the input's sign is lost."""

    def refuse(grads: tuple[Any, ...]) -> NoReturn:
        raise AutogradError(operator, f"a result with slope {slope} in place of the input",
                            "gradients in place take slopes from 0", "work out of place")

    if not STATE.grad_enabled or not value._key & AUTOGRAD:
        return value
    derivative = Derivative(refuse)
    derivative.name, derivative.picks = f"{operator.title().replace('_', '')}Backward0", ((),)
    return _put_behind((value,), (edge_of(value),), derivative)[0]


class UndefinedGrad:
    """Callable that returns its tensors with a node that passes no gradients on."""

    def __call__(self, *values: Any) -> Any:
        """Return the values with the node: one value as it is, several as a tuple."""
        edges = tuple([edge_of(value) for value in values])
        if STATE.grad_enabled and any(edge is not None for edge in edges):
            results = _put_behind(values, edges, _UNDEFINED)
        else:
            results = tuple([value.detach() if value._key & AUTOGRAD else value for value in values])
        return results[0] if len(results) == 1 else results


def _nothing(grads: tuple[Any, ...]) -> tuple[None, ...]:
    return (None,) * len(grads)


_UNDEFINED: Final = Derivative(_nothing)
_UNDEFINED.name, _UNDEFINED.picks = "UndefinedGradBackward", ((),)
