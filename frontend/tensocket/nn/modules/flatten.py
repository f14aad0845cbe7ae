"""Layers that change the shape only."""

from __future__ import annotations

from tensocket.nn.modules.module import Module
from tensocket_core import Tensor


class Flatten(Module):
    """Joins the dimensions from ``start_dim`` to ``end_dim`` (inclusive) into one."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """A view of ``input`` where its strides allow one, a copy otherwise."""
        result: Tensor = input.flatten(self.start_dim, self.end_dim)
        return result

    def extra_repr(self) -> str:
        """The two dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"
