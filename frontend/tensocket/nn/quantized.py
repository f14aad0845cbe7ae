"""Operators as modules, for models that PyTorch can quantize; here, they compute with floats."""

from __future__ import annotations

from collections.abc import Sequence

import tensocket as torch
from tensocket.errors import ArgumentTypeError

from .modules import Identity, Module


class FloatFunctional(Module):
    """Operators whose results pass through ``activation_post_process``, where PyTorch's tools observe them."""

    def __init__(self) -> None:
        super().__init__()
        self.activation_post_process: Module = Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Refuse a call of the module itself.

        Raises:
            ArgumentTypeError: Always.
        """
        raise ArgumentTypeError("FloatFunctional", "a call of the module", "FloatFunctional is not intended to use the "
                                "'forward'. Please use the underlying operation", "call add, mul, cat, ...")

    def add(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return ``x + y``."""
        return self._observed(torch.add(x, y))

    def add_scalar(self, x: torch.Tensor, y: float) -> torch.Tensor:
        """Return ``x + y`` for a number; it is not observed."""
        return torch.add(x, y)

    def mul(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return ``x * y``."""
        return self._observed(torch.mul(x, y))

    def mul_scalar(self, x: torch.Tensor, y: float) -> torch.Tensor:
        """Return ``x * y`` for a number; it is not observed."""
        return torch.mul(x, y)

    def cat(self, x: Sequence[torch.Tensor], dim: int = 0) -> torch.Tensor:
        """Return tensors one after the other."""
        return self._observed(torch.cat(list(x), dim=dim))

    def add_relu(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return ``relu(x + y)``."""
        return self._observed(torch.relu(torch.add(x, y)))

    def matmul(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Return the matrix product."""
        return self._observed(torch.matmul(x, y))

    def _observed(self, result: torch.Tensor) -> torch.Tensor:
        made: torch.Tensor = self.activation_post_process(result)
        return made


__all__ = ["FloatFunctional"]
