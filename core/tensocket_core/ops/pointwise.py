"""Pointwise operators: one record each. See ``execute.math`` for what a formula may use."""

from __future__ import annotations

import cmath
import math
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType, bool_
from tensocket_plugins.contract.errors import ArgumentError, DtypeError

from ..autograd.conjugate import wirtinger
from ..autograd.derivative import Derivative
from ..execute.pointwise import Pointwise


def _is_float(m: Any) -> bool:
    return bool(m.dtype.kind == "float")


# ------------------------------------------------------------------------------------------------------ arithmetic

add: Final = Pointwise(
    "add(Tensor input, Operand other) -> Tensor",
    "Sum: input + alpha * other.",
    lambda m, x, y: x | y if m.dtype is bool_ else x + y,
    derivative=Derivative(input=lambda grad: grad, other=lambda grad: grad),
    dunder=("__add__", "__radd__"),
    kinds="bifc",
    inplace=True,
    keywords={"alpha": ("1", "other = _arithmetic.scaled(input, other, alpha)")},
)
sub: Final = Pointwise(
    "sub(Tensor input, Operand other) -> Tensor",
    "Difference: input - alpha * other.",
    lambda m, x, y: x - y,
    kinds="ifc",
    bools=False,
    derivative=Derivative(input=lambda grad: grad, other=lambda grad: -grad),
    aliases=("subtract",),
    dunder=("__sub__", "__rsub__"),
    inplace=True,
    keywords={"alpha": ("1", "other = _arithmetic.scaled(input, other, alpha)")},
)
mul: Final = Pointwise(
    "mul(Tensor input, Operand other) -> Tensor", "Product: input * other.",
    lambda m, x, y: x & y if m.dtype is bool_ else x * y,
    derivative=Derivative(input=lambda grad, other: grad * other, other=lambda grad, input: grad * input),
    aliases=("multiply",), dunder=("__mul__", "__rmul__"), inplace=True, kinds="bifc")
div: Final = Pointwise(
    "div(Tensor input, Operand other) -> Tensor",
    "Quotient: input / other, in floating point; rounding_mode 'trunc' or 'floor' rounds it.",
    lambda m, x, y: x / y,
    compute="float",
    kinds="fc",
    derivative=Derivative(
        input=lambda grad, other: grad / other, other=lambda grad, input, other: -grad * input / (other * other)
    ),
    aliases=("divide", "true_divide"),
    dunder=("__truediv__", "__rtruediv__"),
    inplace=True,
    keywords={"rounding_mode": ("None", "return _arithmetic.div_rounded(input, other, rounding_mode)")},
)
neg: Final = Pointwise(
    "neg(Tensor input) -> Tensor",
    "Negative: -input.",
    lambda m, x: -x,
    kinds="ifc",
    derivative=Derivative(input=lambda grad: -grad),
    aliases=("negative",),
    dunder=("__neg__",),
    inplace=True,
)
abs: Final = Pointwise("abs(Tensor input) -> Tensor", "Absolute value: |input|.",
                       lambda m, x: m.abs(x) if m.dtype.is_signed else x, kinds="ifc8", result="real",
                       derivative=wirtinger(Derivative(input=lambda grad, input: grad * input.sgn())),
                       aliases=("absolute",), dunder=("__abs__",), inplace=True)


def _opposite(m: Any, remainder: Any, divisor: Any) -> Any:
    """Whether a truncating remainder must be moved to the divisor's sign."""
    return m.ne(remainder, 0) & ((remainder < 0) ^ (divisor < 0))


def _nonzero(m: Any, y: Any) -> Any:
    """A divisor that cannot trap: integer division by zero is defined as division by one."""
    return m.where(m.eq(y, 0), 1, y)


def _float_floor_divide(m: Any, x: Any, y: Any) -> Any:
    """By the exact remainder: x / y rounds up to an integer for an x just below a multiple of y."""
    rest = m.fmod(x, y)
    quotient = (x - rest) / y
    quotient = m.where(_opposite(m, rest, y), quotient - 1.0, quotient)
    floor = m.floor(quotient)
    floor = m.where(quotient - floor > 0.5, floor + 1.0, floor)
    floor = m.where(m.eq(floor, 0.0), x / y * 0.0, floor)  # a zero has the sign of the quotient
    return m.where(m.eq(y, 0.0), x / y, floor)


def _no_zero_divisor(operator: str) -> Any:
    """A guard against zero divisors of integers: Python's 0, and tensors with a 0 on a host-resident device.

    Asking another device would wait for it: there, elements that are 0 count as 1.
    """

    def guard(compute: DType, operands: Any) -> None:
        if compute.category >= 2:
            return
        divisor = operands[1]
        if not hasattr(divisor, "_key"):
            zero = divisor == 0
        else:
            zero = divisor._entry.runtime.profile.host_resident and not divisor._array.all()
        if zero:
            raise DtypeError(operator, f"{compute.name} by {0 if hasattr(divisor, '_key') else divisor!r}",
                             "integers have no quotient by zero", "convert to a floating-point dtype")

    return guard


def _floor_divide(m: Any, x: Any, y: Any) -> Any:
    if _is_float(m):
        return _float_floor_divide(m, x, y)
    y = _nonzero(m, y)
    quotient = m.idiv(x, y)
    if not m.dtype.is_signed:
        return quotient
    return quotient - m.where(_opposite(m, m.imod(x, y), y), 1, 0)


def _remainder(m: Any, x: Any, y: Any) -> Any:
    if not _is_float(m):
        y = _nonzero(m, y)
    rest = m.fmod(x, y) if _is_float(m) else m.imod(x, y)
    return m.where(_opposite(m, rest, y), rest + y, rest) if m.dtype.is_signed else rest


floor_divide: Final = Pointwise(
    "floor_divide(Tensor input, Operand other) -> Tensor",
    "Quotient rounded down: floor(input / other).",
    _floor_divide,
    kinds="if",
    guard_values=True, guard=_no_zero_divisor("floor_divide"),
    dunder=("__floordiv__", "__rfloordiv__"),
    inplace=True,
)
remainder: Final = Pointwise(
    "remainder(Tensor input, Operand other) -> Tensor",
    "Remainder with the divisor's sign: input - floor(input / other) * other.", _remainder, kinds="if",
    derivative=Derivative(input=lambda grad: grad, other=lambda grad, input, other: -grad * (input // other)),
    guard_values=True, guard=_no_zero_divisor("remainder"), dunder=("__mod__", "__rmod__"), inplace=True)
fmod: Final = Pointwise(
    "fmod(Tensor input, Operand other) -> Tensor",
    "Remainder with the dividend's sign: input - trunc(input / other) * other.",
    lambda m, x, y: m.fmod(x, y) if _is_float(m) else m.imod(x, _nonzero(m, y)),
    kinds="if",
    guard_values=True, guard=_no_zero_divisor("fmod"),
    inplace=True,
    derivative=Derivative(input=lambda grad: grad, other=lambda grad, input, other: -grad * (input / other).trunc()),
)
truncated_divide: Final = Pointwise(
    "truncated_divide(Tensor input, Operand other) -> Tensor", "Quotient rounded towards zero: trunc(input / other).",
    lambda m, x, y: m.trunc(x / y) if _is_float(m) else m.idiv(x, _nonzero(m, y)), kinds="if",
    guard_values=True, guard=_no_zero_divisor("div"), method=False, function=False)


def _natural_power(m: Any, x: Any, n: Any) -> Any:
    """Square and multiply. Beyond 63 only parity matters: bases other than -1, 0 and 1 overflow to 0 or wrap."""
    n = m.where(n > 63, (n & 1) + 62, n)
    result = m.where(m.eq(n & 1, 1), x, 1)
    for bit in range(1, 6):
        x = x * x
        result = result * m.where(m.ne(n & (1 << bit), 0), x, 1)
    return result


def _integer_power(m: Any, x: Any, n: Any) -> Any:
    """Of negative powers only those of 1 and -1 are integers; the others are 0, as if rounded towards zero."""
    if not m.dtype.is_signed:
        return _natural_power(m, x, n)
    unit = m.where(m.eq(x, -1), m.where(m.eq(n & 1, 1), x, 1), 0)
    return m.where(n < 0, m.where(m.eq(x, 1), x, unit), _natural_power(m, x, n))


def _no_negative_power(compute: DType, operands: Any) -> None:
    exponent = operands[1]
    if compute.category < 2 and not hasattr(exponent, "_key") and exponent < 0:
        raise DtypeError("pow", f"{compute.name} to the power of {exponent!r}", "integers have no negative powers",
                         "convert to a floating-point dtype")


pow: Final = Pointwise(
    "pow(Tensor input, Operand exponent) -> Tensor", "Power: input ** exponent, with the special cases of C's pow.",
    lambda m, x, y: m.pow(x, y) if m.dtype.category >= 2 else _integer_power(m, x, y), kinds="ifc",
    guard=_no_negative_power,
    derivative=Derivative(
        input=lambda grad, input, exponent: _pow_base(grad, input, exponent),
        exponent=lambda grad, input, exponent, result: _pow_exponent(grad, input, exponent, result)),
    dunder=("__pow__", "__rpow__"), inplace=True)


def _pow_base(grad: Any, base: Any, exponent: Any) -> Any:
    if not hasattr(exponent, "_key"):
        if exponent == 0:
            return grad * 0
        return grad * exponent * (base if exponent == 2 else base ** (exponent - 1))
    return (grad * exponent * base ** (exponent - 1)).masked_fill(exponent == 0, 0)


def _pow_exponent(grad: Any, base: Any, exponent: Any, result: Any) -> Any:
    if not hasattr(base, "_key"):
        if base == 0:
            return grad * 0
        if type(base) is complex or grad.is_complex():
            return grad * result * cmath.log(base)
        return grad * result * math.log(base) if base > 0 else grad * math.nan
    return grad * (result * base.log()).masked_fill((base == 0) & (exponent.real >= 0), 0)


maximum: Final = Pointwise(
    "maximum(Tensor input, Operand other) -> Tensor", "The larger of two; NaN if either is NaN.",
    lambda m, x, y: m.maximum(x, y),
    derivative=Derivative(input=lambda grad, input, other: grad * _share(input > other, input == other),
                          other=lambda grad, input, other: grad * _share(input < other, input == other)))
minimum: Final = Pointwise(
    "minimum(Tensor input, Operand other) -> Tensor", "The smaller of two; NaN if either is NaN.",
    lambda m, x, y: m.minimum(x, y),
    derivative=Derivative(input=lambda grad, input, other: grad * _share(input < other, input == other),
                          other=lambda grad, input, other: grad * _share(input > other, input == other)))


def _share(wins: Any, ties: Any) -> Any:
    """1 where an operand wins, a half where both are equal."""
    return wins.where(wins, ties * 0.5)


clamp_min: Final = Pointwise(
    "clamp_min(Tensor input, Operand min) -> Tensor",
    "Limited from below: max(input, min).",
    lambda m, x, low: m.maximum(x, low),
    kinds="if",
    inplace=True,
    derivative=Derivative(
        input=lambda grad, input, min: grad.masked_fill((input >= min).logical_not(), 0),
        min=lambda grad, input, min: grad.masked_fill((input < min).logical_not(), 0),
    ),
)
clamp_max: Final = Pointwise(
    "clamp_max(Tensor input, Operand max) -> Tensor",
    "Limited from above: min(input, max).",
    lambda m, x, high: m.minimum(x, high),
    kinds="if",
    inplace=True,
    derivative=Derivative(
        input=lambda grad, input, max: grad.masked_fill((input <= max).logical_not(), 0),
        max=lambda grad, input, max: grad.masked_fill((input > max).logical_not(), 0),
    ),
)
clamp: Final = Pointwise(
    "clamp(Tensor input, Operand min, Operand max) -> Tensor",
    "Limited to the range from min to max; max where min is larger.",
    lambda m, x, low, high: m.minimum(m.maximum(x, low), high),
    kinds="if",
    method=False,
    function=False,
    derivative=Derivative(
        input=lambda grad, input, min, max: grad.masked_fill(((input >= min) & (input <= max)).logical_not(), 0),
        min=lambda grad, input, min, max: grad.masked_fill(((min < max) & (input < min)).logical_not(), 0),
        max=lambda grad, input, min, max: grad.masked_fill(((max >= min) & (input <= max)), 0),
    ),
)
where: Final = Pointwise(
    "where(Tensor condition, Operand input, Operand other) -> Tensor",
    "input where the condition holds, else other.",
    lambda m, c, x, y: m.where(c, x, y),
    condition=True,
    kinds="bifc8",
    method=False,
    function=False,
    derivative=Derivative(
        input=lambda grad, condition: grad.where(condition, 0),
        other=lambda grad, condition: grad.masked_fill(condition, 0),
    ),
)
addcmul: Final = Pointwise(
    "addcmul(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    "input + value * tensor1 * tensor2.",
    lambda m, x, a, b, value: x + value * a * b,
    kinds="ifc",
    inplace=True,
    derivative=Derivative(
        input=lambda grad: grad,
        tensor1=lambda grad, tensor2, value: grad * tensor2 * value,
        tensor2=lambda grad, tensor1, value: grad * tensor1 * value,
    ),
)
addcdiv: Final = Pointwise(
    "addcdiv(Tensor input, Tensor tensor1, Tensor tensor2, *, Scalar value=1) -> Tensor",
    "input + value * tensor1 / tensor2.",
    lambda m, x, a, b, value: x + value * (a / b),
    kinds="fc",
    inplace=True,
    derivative=Derivative(
        input=lambda grad: grad,
        tensor1=lambda grad, tensor2, value: grad * value / tensor2,
        tensor2=lambda grad, tensor1, tensor2, value: -grad * value * tensor1 / (tensor2 * tensor2),
    ),
)
lerp: Final = Pointwise(
    "lerp(Tensor input, Tensor end, Operand weight) -> Tensor", "Linear interpolation: input + weight * (end - input).",
    lambda m, x, y, w: x + w * (y - x), kinds="fc", inplace=True,
    derivative=Derivative(input=lambda grad, weight: grad * (1 - weight), end=lambda grad, weight: grad * weight,
                          weight=lambda grad, input, end: grad * (end - input)))

# ------------------------------------------------------------------------------------------------ unary functions

_FLOAT: Final[dict[str, Any]] = {"compute": "float", "kinds": "f", "inplace": True}
_ANALYTIC: Final[dict[str, Any]] = {**_FLOAT, "kinds": "fc"}
_INV_SQRT2: Final = 1 / math.sqrt(2)
_INV_SQRT_2PI: Final = 1 / math.sqrt(2 * math.pi)

exp: Final = Pointwise("exp(Tensor input) -> Tensor", "Exponential: e ** input.", lambda m, x: m.exp(x),
                       derivative=Derivative(input=lambda grad, result: grad * result), **_ANALYTIC)
expm1: Final = Pointwise("expm1(Tensor input) -> Tensor", "exp(input) - 1, accurate near 0.", lambda m, x: m.expm1(x),
                         derivative=Derivative(input=lambda grad, result: grad * (result + 1)), **_ANALYTIC)
log: Final = Pointwise("log(Tensor input) -> Tensor", "Natural logarithm.", lambda m, x: m.log(x),
                       derivative=Derivative(input=lambda grad, input: grad / input), **_ANALYTIC)
log1p: Final = Pointwise("log1p(Tensor input) -> Tensor", "log(1 + input), accurate near 0.", lambda m, x: m.log1p(x),
                         derivative=Derivative(input=lambda grad, input: grad / (input + 1)), **_ANALYTIC)
sqrt: Final = Pointwise("sqrt(Tensor input) -> Tensor", "Square root.", lambda m, x: m.sqrt(x),
                        derivative=Derivative(input=lambda grad, result: grad / (2 * result)), **_ANALYTIC)
rsqrt: Final = Pointwise(
    "rsqrt(Tensor input) -> Tensor",
    "1 / sqrt(input).",
    lambda m, x: 1 / m.sqrt(x),
    derivative=Derivative(input=lambda grad, result: -0.5 * grad * result * result * result),
    **_ANALYTIC,
)
reciprocal: Final = Pointwise("reciprocal(Tensor input) -> Tensor", "1 / input.", lambda m, x: 1 / x,
                              derivative=Derivative(input=lambda grad, result: -grad * result * result), **_ANALYTIC)
sin: Final = Pointwise("sin(Tensor input) -> Tensor", "Sine of radians.", lambda m, x: m.sin(x),
                       derivative=Derivative(input=lambda grad, input: grad * input.cos()), **_ANALYTIC)
cos: Final = Pointwise("cos(Tensor input) -> Tensor", "Cosine of radians.", lambda m, x: m.cos(x),
                       derivative=Derivative(input=lambda grad, input: -grad * input.sin()), **_ANALYTIC)
tanh: Final = Pointwise("tanh(Tensor input) -> Tensor", "Hyperbolic tangent.", lambda m, x: m.tanh(x),
                        derivative=Derivative(input=lambda grad, result: grad * (1 - result * result)), **_ANALYTIC)
erf: Final = Pointwise(
    "erf(Tensor input) -> Tensor",
    "Error function: 2 / sqrt(pi) times the integral of exp(-t^2) from 0.",
    lambda m, x: m.erf(x),
    derivative=Derivative(input=lambda grad, input: grad * (2 / math.sqrt(math.pi)) * (-(input * input)).exp()),
    **_FLOAT,
)
sigmoid: Final = Pointwise("sigmoid(Tensor input) -> Tensor", "Logistic function: 1 / (1 + exp(-input)).",
                           lambda m, x: 1 / (1 + m.exp(-x)),
                           derivative=Derivative(input=lambda grad, result: grad * result * (1 - result)), **_ANALYTIC)
square: Final = Pointwise("square(Tensor input) -> Tensor", "input * input.", lambda m, x: x * x, kinds="ifc",
                          derivative=Derivative(input=lambda grad, input: 2 * grad * input), inplace=True)
sign: Final = Pointwise("sign(Tensor input) -> Tensor", "-1, 0 or 1; 0 for NaN.",
                        lambda m, x: x if m.dtype is bool_ else m.where(x > 0, 1, 0) - m.where(x < 0, 1, 0),
                        derivative=Derivative(input=lambda grad: grad * 0), inplace=True)


def _rounding(function: str) -> Any:
    """A formula that leaves integers alone."""
    return lambda m, x: getattr(m, function)(x) if _is_float(m) else x


_FLAT: Final[dict[str, Any]] = {"kinds": "if", "inplace": True}

floor: Final = Pointwise("floor(Tensor input) -> Tensor", "Rounded down.", _rounding("floor"),
                         derivative=Derivative(input=lambda grad: grad * 0), **_FLAT)
ceil: Final = Pointwise("ceil(Tensor input) -> Tensor", "Rounded up.", _rounding("ceil"),
                        derivative=Derivative(input=lambda grad: grad * 0), **_FLAT)
trunc: Final = Pointwise("trunc(Tensor input) -> Tensor", "Rounded towards zero.", _rounding("trunc"),
                         derivative=Derivative(input=lambda grad: grad * 0), aliases=("fix",), **_FLAT)
round: Final = Pointwise(
    "round(Tensor input) -> Tensor",
    "Rounded to the nearest integer, halves to even.",
    _rounding("rint"),
    derivative=Derivative(input=lambda grad: grad * 0),
    **_FLAT,
)

# ---------------------------------------------------------------------------------------------------- activations


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
    derivative=Derivative(input=lambda grad, result: grad.relu_backward(result)),
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
    """Second derivative of gelu."""
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
    kinds="f",
    derivative=Derivative(input=lambda grad, input: _silu_gradient(grad, input)),
    method=False,
    namespace="nn.functional",
)


def _silu_gradient(grad: Any, x: Any) -> Any:
    s = x.sigmoid()
    return grad * s * (1 + x * (1 - s))


leaky_relu: Final = Pointwise(
    "leaky_relu(Tensor input, Scalar negative_slope=0.01) -> Tensor",
    "input where positive, else negative_slope * input.",
    lambda m, x, slope: m.where(x > 0, x, x * slope),
    kinds="f",
    method=False,
    namespace="nn.functional",
    derivative=Derivative(input=lambda grad, input, negative_slope: grad.leaky_relu_backward(input, negative_slope)),
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

# ------------------------------------------------------------------------------------------ comparison and logic

_TEST: Final[dict[str, Any]] = {"result": "bool"}
_COMPARE: Final[dict[str, Any]] = {"result": "bool", "inplace": True}
_EQUALITY: Final[dict[str, Any]] = {**_COMPARE, "kinds": "bifc8"}
_LOGIC: Final[dict[str, Any]] = {**_COMPARE, "kinds": "bifc"}

eq: Final = Pointwise("eq(Tensor input, Operand other) -> Tensor", "input == other.", lambda m, x, y: m.eq(x, y),
                      dunder=("__eq__",), **_EQUALITY)
ne: Final = Pointwise("ne(Tensor input, Operand other) -> Tensor", "input != other.", lambda m, x, y: m.ne(x, y),
                      dunder=("__ne__",), aliases=("not_equal",), **_EQUALITY)
lt: Final = Pointwise("lt(Tensor input, Operand other) -> Tensor", "input < other.", lambda m, x, y: x < y,
                      dunder=("__lt__",), aliases=("less",), **_COMPARE)
le: Final = Pointwise("le(Tensor input, Operand other) -> Tensor", "input <= other.", lambda m, x, y: x <= y,
                      dunder=("__le__",), aliases=("less_equal",), **_COMPARE)
gt: Final = Pointwise("gt(Tensor input, Operand other) -> Tensor", "input > other.", lambda m, x, y: y < x,
                      dunder=("__gt__",), aliases=("greater",), **_COMPARE)
ge: Final = Pointwise("ge(Tensor input, Operand other) -> Tensor", "input >= other.", lambda m, x, y: y <= x,
                      dunder=("__ge__",), aliases=("greater_equal",), **_COMPARE)
isnan: Final = Pointwise("isnan(Tensor input) -> Tensor", "Whether elements are NaN.", lambda m, x: m.ne(x, x),
                         kinds="bifc8", **_TEST)


def _isinf(m: Any, x: Any) -> Any:
    if m.dtype.kind == "complex":
        return m.eq(m.abs(m.real(x)), math.inf) | m.eq(m.abs(m.imag(x)), math.inf)
    return m.eq(m.abs(x), math.inf) if _is_float(m) else m.ne(x, x)


def _isfinite(m: Any, x: Any) -> Any:
    if m.dtype.kind == "complex":
        return (m.abs(m.real(x)) < math.inf) & (m.abs(m.imag(x)) < math.inf)
    return m.abs(x) < math.inf if _is_float(m) else m.eq(x, x)


isinf: Final = Pointwise("isinf(Tensor input) -> Tensor", "Whether elements are infinite, or a part of them is.", _isinf,
                         kinds="bifc", **_TEST)
isfinite: Final = Pointwise("isfinite(Tensor input) -> Tensor", "Whether elements are neither infinite nor NaN.",
                            _isfinite, kinds="bifc", **_TEST)
logical_not: Final = Pointwise(
    "logical_not(Tensor input) -> Tensor", "Whether elements are zero.", lambda m, x: m.eq(x, 0), **_LOGIC
)
logical_and: Final = Pointwise("logical_and(Tensor input, Operand other) -> Tensor", "Whether both are not zero.",
                               lambda m, x, y: m.ne(x, 0) & m.ne(y, 0), **_LOGIC)
logical_or: Final = Pointwise("logical_or(Tensor input, Operand other) -> Tensor", "Whether one is not zero.",
                              lambda m, x, y: m.ne(x, 0) | m.ne(y, 0), **_LOGIC)
logical_xor: Final = Pointwise("logical_xor(Tensor input, Operand other) -> Tensor", "Whether exactly one is not zero.",
                               lambda m, x, y: m.ne(x, 0) ^ m.ne(y, 0), **_LOGIC)

_BITS: Final[dict[str, Any]] = {"kinds": "bi", "inplace": True}

bitwise_and: Final = Pointwise(
    "bitwise_and(Tensor input, Operand other) -> Tensor",
    "And of every bit.",
    lambda m, x, y: x & y,
    dunder=("__and__", "__rand__"),
    **_BITS,
)
bitwise_or: Final = Pointwise(
    "bitwise_or(Tensor input, Operand other) -> Tensor",
    "Or of every bit.",
    lambda m, x, y: x | y,
    dunder=("__or__", "__ror__"),
    **_BITS,
)
bitwise_xor: Final = Pointwise("bitwise_xor(Tensor input, Operand other) -> Tensor", "Exclusive or of every bit.",
                               lambda m, x, y: x ^ y, dunder=("__xor__", "__rxor__"), **_BITS)
bitwise_not: Final = Pointwise("bitwise_not(Tensor input) -> Tensor", "Every bit flipped; for bool: not input.",
                               lambda m, x: ~x, dunder=("__invert__",), **_BITS)
