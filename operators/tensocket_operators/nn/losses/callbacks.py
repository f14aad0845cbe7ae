"""Operators that call a Python function for every element, and ``fill_diagonal_``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_core.dispatch.modes import STATE
from tensocket_core.keys import AUTOGRAD
from tensocket_plugins.contract.errors import AutogradError, ShapeError

from ... import creation
from ...kinds.composite import composite


def _called(operator: str, input: Any, function: Callable[..., Any], *others: Any) -> Any:
    """Apply a function to the elements of several tensors of one shape and write the results into the first tensor."""
    if STATE.grad_enabled and any(tensor._key & AUTOGRAD for tensor in (input, *others)):
        raise AutogradError(operator, "a tensor that requires grad", "functions of Python numbers have no gradient",
                            "call it on .detach()")
    columns = [tensor.expand(input.shape).reshape(-1).tolist() for tensor in (input, *others)]
    values = [function(*row) for row in zip(*columns, strict=True)]
    return input.copy_(creation.tensor(values, device="cpu").reshape(input.shape))


@composite("apply_(Tensor! input, any callable) -> Tensor", function=False)
def apply_(input: Any, callable: Callable[[Any], Any]) -> Any:
    """Replace each element by the result of a function of it as a Python number, in place; slow.

    Args:
        input: Any shape.
        callable: Takes a number and returns one.

    Raises:
        AutogradError: The tensor requires grad.
    """
    return _called("apply_", input, callable)


@composite("map_(Tensor! input, Tensor tensor, any callable) -> Tensor", function=False)
def map_(input: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
    """Replace each element by the result of a function of it and the other tensor's element, in place; slow.

    Args:
        input: Any shape.
        tensor: Broadcasts to that shape.
        callable: Takes two numbers and returns one.

    Raises:
        AutogradError: The tensor requires grad.
    """
    return _called("map_", input, callable, tensor)


@composite("map2_(Tensor! input, Tensor x, Tensor y, any callable) -> Tensor", function=False)
def map2_(input: Any, x: Any, y: Any, callable: Callable[[Any, Any, Any], Any]) -> Any:
    """Apply ``map_`` with two other tensors."""
    return _called("map2_", input, callable, x, y)


@composite("fill_diagonal_(Tensor! input, Scalar fill_value, bool wrap=False) -> Tensor", function=False)
def fill_diagonal_(input: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Write one value at the indices ``(i, i, ...)``, in place.

    Args:
        input: A matrix, or a tensor with equal sizes.
        fill_value: The value.
        wrap: Whether the diagonal of a tall matrix starts again below, after one row without it.

    Raises:
        ShapeError: The input has fewer than 2 dimensions, or more than 2 of different sizes.
    """
    shape = input.shape
    if len(shape) < 2:
        raise ShapeError("fill_diagonal_", f"a {len(shape)}-dimensional tensor", "a diagonal has at least 2 dimensions",
                         "unsqueeze it first")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ShapeError("fill_diagonal_", f"sizes {list(shape)}", "more than 2 dimensions have equal sizes",
                         "pass a matrix, or a cube")
    starts = range(0, shape[0], shape[1] + 1) if wrap and len(shape) == 2 else (0,)
    for start in starts:
        place = creation.arange(min(shape[0] - start, *shape[1:]), device=input.device)
        input[(place + start, *[place] * (len(shape) - 1))] = fill_value
    return input
