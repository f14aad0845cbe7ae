"""Activations."""

from __future__ import annotations

from typing import Any

import tensocket as torch
from tensocket.nn import functional as F

from .pointwise import aligned
from .table import add, operator
from .values import axis_in, text

add("Sigmoid", torch.sigmoid)
add("Softplus", F.softplus)
add("Softsign", F.softsign)
add("HardSwish", F.hardswish)
add("Mish", F.mish)


@operator("Relu")
def relu(x: Any) -> Any:
    """Return max(x, 0)."""
    return torch.relu(x)


@operator("LeakyRelu")
def leaky_relu(x: Any, alpha: float = 0.01) -> Any:
    """Return x where it is positive, and alpha x elsewhere."""
    return F.leaky_relu(x, alpha)


@operator("ThresholdedRelu")
def thresholded_relu(x: Any, alpha: float = 1.0) -> Any:
    """Return x where it is larger than alpha, and 0 elsewhere."""
    return torch.where(x > alpha, x, torch.zeros_like(x))


def prelu(x: Any, slope: Any) -> Any:
    """Return x where it is positive, and slope * x elsewhere; slopes broadcast."""
    return torch.where(x < 0, x * slope, x)


@operator("PRelu")
def prelu_of_channels(x: Any, slope: Any, consumed_inputs: Any = None) -> Any:
    """Return PRelu of the versions before 7: slopes belong to channels, the second dimension."""
    return prelu(x, aligned(x, slope, 1 if slope.dim() == 1 and slope.numel() > 1 else None))


add("PRelu", prelu, since=7)


@operator("Elu")
def elu(x: Any, alpha: float = 1.0) -> Any:
    """Return x where it is positive, and alpha (exp(x) - 1) elsewhere."""
    return torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0)))


@operator("Celu")
def celu(x: Any, alpha: float = 1.0) -> Any:
    """Return max(0, x) + min(0, alpha (exp(x / alpha) - 1))."""
    return F.celu(x, alpha)


@operator("Selu")
def selu_of_version_1(x: Any, alpha: float = 1.6732, gamma: float = 1.0507, consumed_inputs: Any = None) -> Any:
    """Return Selu with the rounded constants of version 1."""
    return selu(x, alpha, gamma)


@operator("Selu", since=6)
def selu(x: Any, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875) -> Any:
    """Return gamma x where x is positive, and gamma alpha (exp(x) - 1) elsewhere."""
    return gamma * torch.where(x > 0, x, alpha * torch.expm1(x.clamp(max=0)))


@operator("HardSigmoid")
def hard_sigmoid(x: Any, alpha: float = 0.2, beta: float = 0.5) -> Any:
    """Return alpha x + beta, limited to 0 .. 1."""
    return torch.clamp(alpha * x + beta, 0, 1)


@operator("Gelu")
def gelu(x: Any, approximate: str = "none") -> Any:
    """Return x times the normal distribution's function of x, or its approximation by tanh."""
    return F.gelu(x, approximate="tanh" if text(approximate) == "tanh" else "none")


@operator("Swish")
def swish(x: Any, alpha: float = 1.0) -> Any:
    """Return x * sigmoid(alpha x)."""
    return x * torch.sigmoid(alpha * x)


@operator("Shrink")
def shrink(x: Any, bias: float = 0.0, lambd: float = 0.5) -> Any:
    """Return x, moved by ``bias`` towards 0, where |x| is larger than ``lambd``, and 0 elsewhere."""
    return torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, torch.zeros_like(x))).to(x.dtype)


def _as_matrix(x: Any, axis: int) -> Any:
    """Return x as a matrix: dimensions before ``axis``, and the others."""
    return x.reshape(x.shape[:axis_in(axis, x.dim())].numel(), -1)


@operator("Softmax")
def softmax_of_matrix(x: Any, axis: int = 1) -> Any:
    """Return Softmax of the versions before 13: of all dimensions from ``axis`` on."""
    return torch.softmax(_as_matrix(x, axis), 1).reshape(x.shape)


@operator("LogSoftmax")
def log_softmax_of_matrix(x: Any, axis: int = 1) -> Any:
    """Return LogSoftmax of the versions before 13: of all dimensions from ``axis`` on."""
    return torch.log_softmax(_as_matrix(x, axis), 1).reshape(x.shape)


@operator("Hardmax")
def hardmax_of_matrix(x: Any, axis: int = 1) -> Any:
    """Return Hardmax of the versions before 13: of all dimensions from ``axis`` on."""
    return hardmax(_as_matrix(x, axis), 1).reshape(x.shape)


@operator("Softmax", since=13)
def softmax(x: Any, axis: int = -1) -> Any:
    """Return exp(x), divided by its sum along an axis."""
    return torch.softmax(x, axis)


@operator("LogSoftmax", since=13)
def log_softmax(x: Any, axis: int = -1) -> Any:
    """Return the logarithm of Softmax."""
    return torch.log_softmax(x, axis)


@operator("Hardmax", since=13)
def hardmax(x: Any, axis: int = -1) -> Any:
    """Return 1 at the first largest element along an axis, and 0 elsewhere."""
    places = torch.arange(x.shape[axis], device=x.device)
    shape = [1] * x.dim()
    shape[axis] = -1
    return (places.reshape(shape) == x.argmax(axis, keepdim=True)).to(x.dtype)


@operator("SwiGLU")
def swiglu(x: Any, gate: Any, alpha: float = 1.0) -> Any:
    """Return Swish of x, times the gate."""
    return swish(x, alpha) * gate
