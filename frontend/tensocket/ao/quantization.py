"""Modules at the borders of the quantized part of a model.

tensocket does not have quantized tensors, and no function here converts a model: it stays a model of floats, in which
both modules return their argument.
"""

from __future__ import annotations

from typing import Any

from tensocket import Tensor
from tensocket.nn import Module


class QuantStub(Module):
    """The border before the quantized part of a model."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x``."""
        return x


class DeQuantStub(Module):
    """The border after the quantized part of a model."""

    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x``."""
        return x


__all__ = ["DeQuantStub", "QuantStub"]
