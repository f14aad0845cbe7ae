"""Tensors that a module owns: parameters, which are trained, and buffers, which are not."""

from __future__ import annotations

from typing import Any

from tensocket_core import Tensor, empty
from tensocket_core.dispatch.overrides import disabled_torch_function


class Parameter(Tensor):
    """A tensor that becomes a parameter of the module it is assigned to.

    Args:
        data: The values; the parameter shares their storage. An empty tensor if not given.
        requires_grad: Whether gradients are computed for it.
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        """A parameter that shares the storage of ``data``."""
        parameter: Parameter = cls._make_subclass(empty(0) if data is None else data.detach(), requires_grad)
        return parameter

    __torch_function__ = staticmethod(disabled_torch_function)
    _plain_repr = True

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.detach().clone(), self.requires_grad)
        copied: Parameter = memo[id(self)]
        return copied

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """A tensor that becomes a buffer of the module it is assigned to: part of its state, but not trained.

    Args:
        data: The values; the buffer shares their storage. An empty tensor if not given.
        persistent: Whether it is part of the module's ``state_dict``.
    """

    persistent: bool
    __torch_function__ = staticmethod(disabled_torch_function)
    _plain_repr = True

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        """A buffer that shares the storage of ``data``."""
        data = empty(0) if data is None else data
        buffer: Buffer = cls._make_subclass(data.detach(), data.requires_grad)
        buffer.persistent = persistent
        return buffer

    def __deepcopy__(self, memo: dict[int, Any]) -> Buffer:
        if id(self) not in memo:
            copied = type(self)(self.detach().clone(), persistent=self.persistent)
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        result: Buffer = memo[id(self)]
        return result
