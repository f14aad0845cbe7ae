"""Nonlinearities."""

from __future__ import annotations

from typing import Literal

from tensocket.nn import functional as F
from tensocket.nn.modules.module import Module
from tensocket_operators import Tensor

from .layers.attention import MultiheadAttention
from .layers.rectifiers import (
    CELU,
    ELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    Mish,
    PReLU,
    ReLU6,
    RReLU,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanhshrink,
    Threshold,
)


class ReLU(Module):
    """``max(input, 0)``, in place on request."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.relu(input, self.inplace)

    def extra_repr(self) -> str:
        """Whether it works in place."""
        return "inplace=True" if self.inplace else ""


class SiLU(Module):
    """``input * sigmoid(input)``, in place on request."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.silu(input, self.inplace)

    def extra_repr(self) -> str:
        """Whether it works in place."""
        return "inplace=True" if self.inplace else ""


class GELU(Module):
    """``input * Phi(input)`` with the normal distribution function, or its approximation through tanh."""

    def __init__(self, approximate: Literal["none", "tanh"] = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """Return the approximation."""
        return f"approximate={self.approximate!r}"


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.tanh(input)


class Sigmoid(Module):
    """``1 / (1 + exp(-input))``."""

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.sigmoid(input)


class Softmax(Module):
    """Exponentials along ``dim``, scaled to a sum of one."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"


class LogSoftmax(Module):
    """The logarithm of ``Softmax``, computed without overflow."""

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        """Return a tensor of the same shape."""
        return F.log_softmax(input, self.dim)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"


__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "MultiheadAttention", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid",
    "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]
