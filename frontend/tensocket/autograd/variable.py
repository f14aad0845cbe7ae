"""``Variable``, as tensors with gradients were called once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_core import Tensor
from tensocket_core.autograd.engine import queue_callback

__all__ = ["Variable"]


class _Engine:
    """What programs use of PyTorch's engine object."""

    @staticmethod
    def queue_callback(callback: Callable[[], Any]) -> None:
        """Call a function at the end of the backward pass that this thread is in."""
        queue_callback(callback)


class _VariableType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_VariableType):
    """A tensor; ``Variable(data, requires_grad)`` shares memory with ``data``.

    Args:
        data: A tensor.
        requires_grad: Whether gradients are computed for it.
    """

    _execution_engine = _Engine()

    def __new__(cls, data: Tensor, requires_grad: bool = False) -> Any:
        """The tensor."""
        return data.detach().requires_grad_(requires_grad)
