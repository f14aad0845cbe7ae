"""Layers that change only the shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tensocket.errors import ArgumentTypeError
from tensocket_operators import Tensor

from .module import Module


class Flatten(Module):
    """A layer that joins the dimensions from ``start_dim`` to ``end_dim`` (inclusive)."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return a view of ``input`` if its strides allow one, otherwise a copy."""
        result: Tensor = input.flatten(self.start_dim, self.end_dim)
        return result

    def extra_repr(self) -> str:
        """Return the two dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """A layer that splits dimension ``dim`` into several; one size may be -1.

    Args:
        dim: The dimension.
        unflattened_size: The new sizes.

    Raises:
        ArgumentTypeError: The sizes are neither a tuple nor a list of ints.
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(unflattened_size, Sequence) or not all(isinstance(size, int) for size in unflattened_size):
            raise ArgumentTypeError("Unflatten", f"unflattened_size {unflattened_size!r}", "unflattened_size is a "
                                    "tuple of ints", "pass for example (2, 5)")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Return a view of ``input``."""
        result: Tensor = input.unflatten(self.dim, self.unflattened_size)
        return result

    def extra_repr(self) -> str:
        """Return the dimension and its sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


__all__ = ["Flatten", "Unflatten"]
