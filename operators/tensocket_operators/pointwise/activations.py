"""Activations of neural networks, and their gradients."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_plugins.contract.errors import ArgumentError

from ..kinds.pointwise import Pointwise

_INV_SQRT2: Final = 1 / math.sqrt(2)
_INV_SQRT_2PI: Final = 1 / math.sqrt(2 * math.pi)


def _gelu(m: Any, x: Any, approximate: str) -> Any:
    if approximate not in ("none", "tanh"):
        raise ArgumentError(
            "gelu", f"approximate={approximate!r}", "the approximation is 'none' or 'tanh'", "pass one of these"
        )
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)
        return 0.5 * x * (1 + m.tanh(inner))
    return 0.5 * x * (1 + m.erf(x * _INV_SQRT2))


def _gelu_gradient(m: Any, grad: Any, x: Any, approximate: str) -> Any:
    if approximate == "tanh":
        scale = math.sqrt(2 / math.pi)
        t = m.tanh(scale * (x + 0.044715 * x * x * x))
        return grad * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * scale * (1 + 3 * 0.044715 * x * x))
    density = _INV_SQRT_2PI * m.exp(-0.5 * x * x)
    return grad * (0.5 * (1 + m.erf(x * _INV_SQRT2)) + x * density)


relu: Final = Pointwise(
    "relu(Tensor input) -> Tensor",
    "max(input, 0).",
    lambda m, x: m.maximum(x, 0),
    kinds="if",
    inplace=True,
    derivative=Derivative(input=lambda grad, result: grad.relu_backward(result)).on_arrays(input="relu_backward"),
)
relu_backward: Final = Pointwise(
    "relu_backward(Tensor upstream, Tensor output) -> Tensor",
    "Gradient of relu, from its output.",
    lambda m, g, y: m.where(y <= 0, 0, g),
    kinds="if",
    function=False,
    derivative=Derivative(
        upstream=lambda grad, output: grad.relu_backward(output), output=lambda grad: grad.new_zeros(grad.shape)
    ),
)
gelu: Final = Pointwise(
    "gelu(Tensor input, *, str approximate='none') -> Tensor",
    "Gaussian error linear unit: input * Phi(input); approximate='tanh' uses the tanh formula.",
    _gelu,
    kinds="f",
    derivative=Derivative(input=lambda grad, input, approximate: grad.gelu_backward(input, approximate)),
    method=False,
    namespace="nn.functional",
)
gelu_backward: Final = Pointwise(
    "gelu_backward(Tensor upstream, Tensor input, str approximate) -> Tensor",
    "Gradient of gelu.",
    _gelu_gradient,
    kinds="f",
    function=False,
    derivative=Derivative(
        upstream=lambda grad, input, approximate: grad.gelu_backward(input, approximate),
        input=lambda grad, upstream, input, approximate: grad * upstream * _gelu_curvature(input, approximate),
    ),
)


def _gelu_curvature(x: Any, approximate: str) -> Any:
    """Return the second derivative of gelu."""
    if approximate == "none":
        return _INV_SQRT_2PI * (-0.5 * x * x).exp() * (2 - x * x)
    scale, cubic = math.sqrt(2 / math.pi), 0.044715
    t = (scale * (x + cubic * x * x * x)).tanh()
    slope = scale * (1 + 3 * cubic * x * x)
    return (1 - t * t) * (slope + 0.5 * x * (6 * scale * cubic * x - 2 * t * slope * slope))


silu: Final = Pointwise(
    "silu(Tensor input) -> Tensor",
    "input * sigmoid(input).",
    lambda m, x: x / (1 + m.exp(-x)),
    kinds="fc",
    derivative=Derivative(input=lambda grad, input: grad * call(silu_slope, input)),
    method=False,
    namespace="nn.functional",
    hands_by_name=True,
)


def _silu_slope(m: Any, x: Any) -> Any:
    s = 1 / (1 + m.exp(-x))
    return s * (1 + x * (1 - s))


def _silu_curvature(x: Any) -> Any:
    """Return s (1 - s) (2 + x (1 - 2 s)) with s = sigmoid(x)."""
    s = x.sigmoid()
    return s * (1 - s) * (2 + x * (1 - 2 * s))


silu_slope: Final[Pointwise] = Pointwise(
    "silu_slope(Tensor input) -> Tensor",
    "Slope of silu, rounded once.",
    _silu_slope,
    kinds="fc",
    method=False,
    function=False,
    derivative=Derivative(input=lambda grad, input: grad * _silu_curvature(input)),
)


leaky_relu: Final = Pointwise(
    "leaky_relu(Tensor input, Scalar negative_slope=0.01) -> Tensor",
    "input where positive, else negative_slope * input.",
    lambda m, x, slope: m.where(x > 0, x, x * slope),
    kinds="f",
    method=False,
    namespace="nn.functional",
    derivative=Derivative(input=lambda grad, input, negative_slope: grad.leaky_relu_backward(input, negative_slope)),
    hands_by_name=True,
)
leaky_relu_backward: Final = Pointwise(
    "leaky_relu_backward(Tensor upstream, Tensor input, Scalar negative_slope) -> Tensor",
    "Gradient of leaky_relu.",
    lambda m, g, x, slope: m.where(x > 0, g, g * slope),
    kinds="f",
    function=False,
    derivative=Derivative(
        upstream=lambda grad, input, negative_slope: grad.leaky_relu_backward(input, negative_slope),
        input=lambda grad: grad.new_zeros(grad.shape),
    ),
)
