"""``Variable``, the old name of tensors with gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from tensocket_core.autograd.engine import queue_callback
from tensocket_operators import Tensor, empty
from tensocket_plugins.contract.errors import ArgumentTypeError

__all__ = ["Variable"]


class _Engine:
    """The part of PyTorch's engine object that programs use."""

    @staticmethod
    def queue_callback(callback: Callable[[], Any]) -> None:
        """Call a function at the end of this thread's current backward pass."""
        queue_callback(callback)


class _VariableType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableType):
    """A tensor; ``Variable(data, requires_grad)`` shares memory with ``data``.

    Args:
        data: A tensor; an empty one if not given.
        requires_grad: Whether gradients are computed for it.
        volatile: The predecessor of ``no_grad``; it has no effect but a warning.

    Raises:
        ArgumentTypeError: ``data`` is not a tensor.
    """

    _execution_engine = _Engine()

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        """Return the tensor."""
        if data is None:
            data = empty(0)
        if not isinstance(data, Tensor):
            raise ArgumentTypeError("Variable", type(data).__name__, "a variable is made of a tensor",
                                    "make one with tensocket.tensor")
        if volatile:
            warnings.warn("volatile has no effect: use `with tensocket.no_grad():` instead", UserWarning, stacklevel=2)
        return data.detach().requires_grad_(requires_grad)
