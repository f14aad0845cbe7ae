"""Layers that drop values at random while training."""

from __future__ import annotations

from tensocket.errors import ArgumentError
from tensocket.nn import functional as F
from tensocket.nn.modules.module import Module
from tensocket_core import Tensor


class Dropout(Module):
    """While training, sets elements to zero with probability ``p`` and scales the rest by ``1 / (1 - p)``.

    Raises:
        ArgumentError: ``p`` is not a probability.
    """

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ArgumentError("Dropout", f"p={p!r}", "p is a probability", "pass a number from 0 to 1")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """A tensor of the same shape; ``input`` itself in evaluation."""
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """The arguments."""
        return f"p={self.p}, inplace={self.inplace}"
