"""Activations that bend, limit or shrink: one formula each, and its slope as a factor of gradients.

The slope of an activation is its own record, so that a gradient is one kernel and a product. Formulas are those of
the functions' definitions; see each record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.geometry import normalize_axis
from tensocket_core.launch.numbers import check_range, plain_number
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from ..kinds.composite import composite
from ..kinds.pointwise import Pointwise
from ..random import rand_like
from ..unrolled.recomputed import Recomputed
from .numeric import is_nan

_FUNCTION: Final[dict[str, Any]] = {"method": False, "namespace": "nn.functional"}
_INNER: Final[dict[str, Any]] = {"method": False, "function": False}


def _flat(signature: str, formula: Callable[..., Any], kinds: str = "f") -> Pointwise:
    """Return a record of a slope that is constant almost everywhere."""
    return Pointwise(f"{signature} -> Tensor", "Slope of an activation.", formula, kinds=kinds,
                     derivative=Derivative(input=lambda grad: grad.new_zeros(grad.shape)), **_INNER)


# ------------------------------------------------------------------------------------------------- exponential tails

_SELU_ALPHA: Final = 1.6732632423543772848170429916717
_SELU_SCALE: Final = 1.0507009873554804934193349852946

elu_slope: Final[Pointwise] = Pointwise(
    "elu_slope(Tensor input, Scalar alpha, Scalar scale, Scalar input_scale) -> Tensor", "Slope of elu.",
    lambda m, x, alpha, scale, steep: m.where(x <= 0, alpha * scale * steep * m.exp(x * steep), scale + 0 * alpha),
    kinds="f",
    derivative=Derivative(input=lambda grad, input, alpha, scale, input_scale: (
        grad * call(elu_slope, input, alpha, scale, input_scale) * input_scale).masked_fill(input > 0, 0)), **_INNER)
scaled_elu: Final = Pointwise(
    "scaled_elu(Tensor input, Scalar alpha, Scalar scale, Scalar input_scale) -> Tensor",
    "scale * input where positive, else scale * alpha * expm1(input * input_scale).",
    lambda m, x, alpha, scale, steep: m.where(x < 0, alpha * scale * m.expm1(x * steep), x * scale), kinds="f",
    derivative=Derivative(input=lambda grad, input, alpha, scale, input_scale: (
        grad * call(elu_slope, input, alpha, scale, input_scale))), **_INNER)


@composite("elu(Tensor input, Scalar alpha=1.0) -> Tensor", hands_by_name=True, **_FUNCTION)
def elu(input: Any, alpha: float = 1.0) -> Any:
    """Apply the exponential linear unit: input where positive, else alpha * (exp(input) - 1)."""
    return call(scaled_elu, input, float(alpha), 1.0, 1.0)


@composite("celu(Tensor input, Scalar alpha=1.0) -> Tensor", method=False)
def celu(input: Any, alpha: float = 1.0) -> Any:
    """Apply the continuously differentiable elu: max(0, input) + min(0, alpha * (exp(input / alpha) - 1)).

    Raises:
        ArgumentError: alpha is 0.
    """
    if alpha == 0:
        raise ArgumentError("celu", "alpha=0", "input is divided by alpha", "pass another alpha")
    return call(scaled_elu, input, float(alpha), 1.0, 1.0 / alpha)


@composite("selu(Tensor input) -> Tensor", method=False)
def selu(input: Any) -> Any:
    """Apply the scaled exponential linear unit: 1.0507 * elu(input, 1.67326)."""
    return call(scaled_elu, input, _SELU_ALPHA, _SELU_SCALE, 1.0)


# ---------------------------------------------------------------------------------------------------- smooth bends


def _softplus(m: Any, x: Any, beta: Any, threshold: Any) -> Any:
    steep = x * beta
    return m.where(steep > threshold, x, m.log1p(m.exp(steep)) / beta)


softplus: Final = Pointwise(
    "softplus(Tensor input, Scalar beta=1, Scalar threshold=20) -> Tensor",
    "log(1 + exp(beta * input)) / beta; input where beta * input is above the threshold.", _softplus, kinds="f",
    derivative=Derivative(input=lambda grad, input, beta, threshold: (
        grad * (input * beta).sigmoid().masked_fill(input * beta > threshold, 1))), **_FUNCTION)
logsigmoid: Final = Pointwise(
    "logsigmoid(Tensor input) -> Tensor", "log(1 / (1 + exp(-input))), without overflow.",
    lambda m, x: m.minimum(x, 0.0) - m.log1p(m.exp(-m.abs(x))), kinds="f",
    derivative=Derivative(input=lambda grad, input: grad * (-input).sigmoid()), **_FUNCTION)


def _softplus_of(m: Any, x: Any) -> Any:
    return m.maximum(x, 0.0) + m.log1p(m.exp(-m.abs(x)))


def _mish_slope(m: Any, x: Any) -> Any:
    bend = m.tanh(_softplus_of(m, x))
    return bend + x * (1.0 - bend * bend) / (1.0 + m.exp(-x))


def _mish_curvature(m: Any, x: Any) -> Any:
    """Return (1 - t**2) s (2 + x (1 - s) - 2 x t s) with t = tanh(softplus(x)) and s = sigmoid(x)."""
    bend = m.tanh(_softplus_of(m, x))
    s = 1.0 / (1.0 + m.exp(-x))
    return (1.0 - bend * bend) * s * (2.0 + x * (1.0 - s) - 2.0 * x * bend * s)


def _mish_third(grad: Any, x: Any) -> Any:
    """Return q s (g (1 - s - 2 t s) + g') with t, s as above, q = 1 - t**2 and g = 2 + x (1 - s) - 2 x t s."""
    s, bend = x.sigmoid(), functions.softplus(x).tanh()
    rest, steep = 1 - s, 1 - bend * bend
    factor = 2 + x * rest - 2 * x * bend * s
    slope = rest - x * s * rest - 2 * s * (bend + x * steep * s + x * bend * rest)
    return grad * steep * s * (factor * (rest - 2 * bend * s) + slope)


mish_curvature: Final = Pointwise(
    "mish_curvature(Tensor input) -> Tensor", "Second derivative of mish.", _mish_curvature, kinds="f",
    derivative=Derivative(input=lambda grad, input: _mish_third(grad, input)), **_INNER)
mish_slope: Final = Pointwise(
    "mish_slope(Tensor input) -> Tensor", "Slope of mish.", _mish_slope, kinds="f",
    derivative=Derivative(input=lambda grad, input: grad * call(mish_curvature, input)), **_INNER)
mish: Final = Pointwise(
    "mish(Tensor input) -> Tensor", "input * tanh(log(1 + exp(input))).",
    lambda m, x: x * m.tanh(_softplus_of(m, x)), kinds="f",
    derivative=Derivative(input=lambda grad, input: grad * call(mish_slope, input)), hands_by_name=True, **_FUNCTION)


@composite("softsign(Tensor input) -> Tensor", **_FUNCTION)
def softsign(input: Any) -> Any:
    """Return ``input / (1 + |input|)``."""
    return input / (input.abs() + 1)


tanhshrink: Final = Pointwise(
    "tanhshrink(Tensor input) -> Tensor", "input - tanh(input).", lambda m, x: x - m.tanh(x), compute="float",
    kinds="fc", bools=False, derivative=Derivative(input=lambda grad, input: grad * input.tanh().square()), **_FUNCTION)

# ------------------------------------------------------------------------------------------------ limits and shrinking

inside: Final = _flat("inside(Tensor input, Scalar low, Scalar high)",
                      lambda m, x, low, high: m.where((x <= low) | (x >= high), 0.0, 1.0))  # 1 at NaN
limited: Final = Pointwise(
    "limited(Tensor input, Scalar low, Scalar high) -> Tensor", "Limited from low to high; the slope is 0 at both.",
    lambda m, x, low, high: m.minimum(m.maximum(x, low), high), kinds="if",
    derivative=Derivative(input=lambda grad, input, low, high: grad * call(inside, input, low, high)), **_INNER)


@composite("hardtanh(Tensor input, Scalar min_val=-1.0, Scalar max_val=1.0) -> Tensor", hands_by_name=True, **_FUNCTION)
def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    """Limit elements to the range from min_val to max_val.

    Raises:
        ArgumentError: min_val is above max_val, or the dtype cannot hold one of them.
        DtypeError: The input's dtype is bool, or unsigned with a negative limit.
    """
    min_val, max_val = plain_number(min_val), plain_number(max_val)
    if min_val > max_val:
        raise ArgumentError("hardtanh", f"min_val={min_val}, max_val={max_val}", "min_val is not above max_val",
                            "exchange the limits")
    if input.dtype.kind == "uint" and int(min_val) < 0:
        raise DtypeError("hardtanh", f"min_val={min_val} for dtype {input.dtype.name}",
                         "limits of unsigned numbers are not negative", "convert to a signed dtype")
    if input.dtype.kind == "uint":
        min_val, max_val = int(min_val), int(max_val)
    if input.dtype.kind == "float":
        for limit in (min_val, max_val):
            check_range("hardtanh", limit, input.dtype)
    return call(limited, input, min_val, max_val)


@composite("relu6(Tensor input) -> Tensor", hands_by_name=True, **_FUNCTION)
def relu6(input: Any) -> Any:
    """Return min(max(input, 0), 6)."""
    return call(limited, input, 0, 6)


hardsigmoid_slope: Final = _flat("hardsigmoid_slope(Tensor input)",
                                 lambda m, x: m.where((x > -3.0) & (x < 3.0), 1.0 / 6.0, 0.0))  # 0 at NaN
hardsigmoid: Final = Pointwise(
    "hardsigmoid(Tensor input) -> Tensor", "min(max(input + 3, 0), 6) / 6.",
    lambda m, x: m.minimum(m.maximum(x + 3.0, 0.0), 6.0) / 6.0, kinds="f",
    derivative=Derivative(input=lambda grad, input: grad * call(hardsigmoid_slope, input)),
    hands_by_name=True, **_FUNCTION)
hardswish_slope: Final = Pointwise(
    "hardswish_slope(Tensor input) -> Tensor", "Slope of hardswish.",
    lambda m, x: m.where(x <= -3.0, 0.0, m.where(x < 3.0, x / 3.0 + 0.5, 1.0)), kinds="f",
    derivative=Derivative(input=lambda grad, input: grad * (call(inside, input, -3.0, 3.0) / 3)), **_INNER)
hardswish: Final = Pointwise(
    "hardswish(Tensor input) -> Tensor", "input * min(max(input + 3, 0), 6) / 6.",
    lambda m, x: x * m.minimum(m.maximum(x + 3.0, 0.0), 6.0) / 6.0, kinds="f",
    derivative=Derivative(input=lambda grad, input: grad * call(hardswish_slope, input)),
    hands_by_name=True, **_FUNCTION)


def _as_stored(m: Any, number: Any) -> Any:
    """Return a number rounded to the operand's dtype, so that elements with the same rounding equal it."""
    if type(number) is bool:
        return float(number)
    return number if m.stored is m.dtype else m.cast(m.cast(number, m.stored), m.dtype)


def _within(m: Any, x: Any, lambd: Any) -> Any:
    lambd = _as_stored(m, lambd)
    return (x >= -lambd) & (x <= lambd)


outside: Final = _flat("outside(Tensor input, Scalar lambd)",
                       lambda m, x, lambd: m.where(_within(m, x, lambd), 0.0, 1.0))
hardshrink: Final = Pointwise(
    "hardshrink(Tensor input, Scalar lambd=0.5) -> Tensor", "0 from -lambd to lambd, else input.",
    lambda m, x, lambd: m.where(_within(m, x, lambd), 0.0, x), kinds="f", stored_extras=(0,),
    derivative=Derivative(input=lambda grad, input, lambd: grad * call(outside, input, lambd)))
shrunk: Final = Pointwise(
    "shrunk(Tensor input, Scalar lambd) -> Tensor", "Moved by lambd towards 0.",
    lambda m, x, lambd: m.where(x > lambd, x - lambd, m.where(x < -lambd, x + lambd, m.where(is_nan(m, x), x, 0.0))),
    kinds="f", derivative=Derivative(input=lambda grad, input, lambd: grad * call(outside, input, lambd)), **_INNER)


@composite("softshrink(Tensor input, Scalar lambd=0.5) -> Tensor", **_FUNCTION)
def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """Move elements by lambd towards 0; those from -lambd to lambd become 0.

    Raises:
        ArgumentError: lambd is negative, or the dtype cannot hold it.
    """
    lambd = plain_number(lambd)
    if not lambd >= 0:
        raise ArgumentError("softshrink", f"lambd={lambd}", "lambd is not negative", "pass a number from 0")
    check_range("softshrink", lambd, input.dtype)
    return call(shrunk, input, lambd)


threshold: Final = Pointwise(
    "threshold(Tensor input, Scalar threshold, Scalar value) -> Tensor", "value up to the threshold, input above.",
    lambda m, x, limit, value: m.where(x <= limit, value, x), kinds="if", method=False, stored_extras=(1,),
    derivative=Derivative(input=lambda grad, input, threshold: grad.masked_fill(input <= threshold, 0)))

# ---------------------------------------------------------------------------------------------------- leaky and gated

leaking: Final = Pointwise(
    "leaking(Tensor input, Tensor weight) -> Tensor", "input where positive, else weight * input.",
    lambda m, x, w: m.where(x > 0, x, x * w), kinds="f",
    derivative=Derivative(input=lambda grad, input, weight: functions.where(input > 0, grad, grad * weight),
                          weight=lambda grad, input: (grad * input).masked_fill(input > 0, 0)), **_INNER)


@composite("prelu(Tensor input, Tensor weight) -> Tensor")
def prelu(input: Any, weight: Any) -> Any:
    """Return the input where it is positive, else ``weight * input``.

    Args:
        input: [N, C, ...], or fewer than two dimensions for one weight.
        weight: [C], [1] or [].

    Raises:
        ShapeError: The weight does not have one number for each channel.
        DtypeError: The dtypes differ.
    """
    if weight.ndim > 1:
        raise ShapeError("prelu", f"weight {list(weight.shape)}", "the weight has at most one dimension",
                         "flatten() the weight")
    if weight.dtype is not input.dtype:
        raise DtypeError("prelu", f"dtypes {input.dtype.name} and {weight.dtype.name}", "both have one dtype",
                         "convert the weight with .to(input.dtype)")
    channels = input.shape[1] if input.ndim > 1 else 1
    if weight.numel() != 1:
        if weight.numel() != channels:
            raise ShapeError("prelu", f"{weight.numel()} weights for {channels} channels",
                             "there is one weight, or one for each channel", "pass a weight of shape [1] or [C]")
        weight = weight.reshape((-1, *[1] * (input.ndim - 2)))
    return call(leaking, input, weight.reshape(()) if weight.numel() == 1 else weight)


@composite("rrelu(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False) -> Tensor",
           method=False)
def rrelu(input: Any, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False) -> Any:
    """Apply leaky relu, with a random slope per element while training, else with the mean of both bounds.

    Raises:
        ArgumentError: lower is above upper.
    """
    if not lower <= upper:
        raise ArgumentError("rrelu", f"lower={lower}, upper={upper}", "lower is not above upper", "exchange the bounds")
    if not training:
        return functions.leaky_relu(input, (lower + upper) / 2)
    return call(leaking, input, rand_like(input) * (upper - lower) + lower)


@composite("glu(Tensor input, int dim=-1) -> Tensor", hands_by_name=True, **_FUNCTION)
def glu(input: Any, dim: int = -1) -> Any:
    """Return the first half along ``dim`` times the sigmoid of the second.

    Raises:
        ShapeError: The size of the dimension is odd, or the input has no dimensions.
    """
    if not input.ndim:
        raise ShapeError("glu", "a tensor without dimensions", "the input has two halves", "pass a vector")
    axis = normalize_axis("glu", dim, input.ndim)
    size = input.shape[axis]
    if size % 2:
        raise ShapeError("glu", f"dimension {dim} of size {size}", "the size is even", "choose another dimension")
    return input.narrow(axis, 0, size // 2) * input.narrow(axis, size // 2, size // 2).sigmoid()


@composite("softmin(Tensor input, int dim, *, dtype? dtype=None) -> Tensor", **_FUNCTION,
           recomputed=Recomputed(copied=("input",)))
def softmin(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """Return ``softmax(-input)``."""
    return (-input).softmax(dim, dtype=dtype)
