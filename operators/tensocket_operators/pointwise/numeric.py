"""Angles, parts of numbers, extremes that skip NaN, common divisors, steps, and products in which 0 wins."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import AUTOGRAD, DIM0, dtype_bit
from tensocket_core.launch.numbers import check_range, plain_number
from tensocket_core.promotion import result_type
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentTypeError, DtypeError, ShapeError

from .. import creation
from ..array_paths import REAL
from ..differentiation.delayed import without_derivative
from ..kinds.composite import composite
from ..kinds.pointwise import Pointwise
from .arithmetic import check_factor, is_float

_FLOAT: Final[dict[str, Any]] = {"compute": "float", "kinds": "f", "inplace": True}
_INNER: Final[dict[str, Any]] = {"method": False, "function": False}


def is_nan(m: Any, x: Any) -> Any:
    """Whether a formula's value is NaN."""
    return m.ne(x, x)


deg2rad: Final = Pointwise(
    "deg2rad(Tensor input) -> Tensor", "Degrees as radians: input * pi / 180.", lambda m, x: x * (math.pi / 180),
    derivative=Derivative(input=lambda grad: grad * (math.pi / 180)), **_FLOAT)
rad2deg: Final = Pointwise(
    "rad2deg(Tensor input) -> Tensor", "Radians as degrees: input * 180 / pi.", lambda m, x: x * (180 / math.pi),
    derivative=Derivative(input=lambda grad: grad * (180 / math.pi)), **_FLOAT)
frac: Final = Pointwise(
    "frac(Tensor input) -> Tensor", "The part behind the point, with the number's sign: input - trunc(input).",
    lambda m, x: x - m.trunc(x), kinds="f", inplace=True, derivative=Derivative(input=lambda grad: grad))

# ------------------------------------------------------------------------------------------------- sizes and steps


def _skipping(function: str) -> Any:
    def formula(m: Any, x: Any, y: Any) -> Any:
        chosen = getattr(m, function)(x, y)
        return m.where(is_nan(m, x), y, m.where(is_nan(m, y), x, chosen)) if is_float(m) else chosen

    return formula


fmax: Final = Pointwise(
    "fmax(Tensor input, Tensor other) -> Tensor", "The larger of two; NaN only if both are NaN.", _skipping("maximum"),
    derivative=Derivative(
        input=lambda grad, input, other: grad.masked_fill(~((input >= other) | other.isnan()), 0),
        other=lambda grad, input, other: grad.masked_fill((input >= other) | other.isnan(), 0)))
fmin: Final = Pointwise(
    "fmin(Tensor input, Tensor other) -> Tensor", "The smaller of two; NaN only if both are NaN.", _skipping("minimum"),
    derivative=Derivative(
        input=lambda grad, input, other: grad.masked_fill(~((input <= other) | other.isnan()), 0),
        other=lambda grad, input, other: grad.masked_fill((input <= other) | other.isnan(), 0)))
step: Final = Pointwise(
    "step(Tensor input, Tensor values) -> Tensor", "0 below 0, values at 0, else 1.",
    lambda m, x, v: m.where(m.eq(x, 0), v, m.cast(x > 0, m.dtype)), **_INNER)


@composite("heaviside(Tensor input, Tensor values) -> Tensor")
def heaviside(input: Any, values: Any) -> Any:
    """Return 0 where input is negative or NaN, ``values`` where it is 0, else 1.

    Raises:
        DtypeError: The dtypes differ, or are complex.
    """
    _steps("heaviside", input, values)
    return without_derivative("heaviside", call(step, input.detach(), values.detach()), input, values)


@composite("heaviside_(Tensor! input, Tensor values) -> Tensor", function=False)
def heaviside_(input: Any, values: Any) -> Any:
    """Apply ``heaviside`` in place."""
    _steps("heaviside_", input, values)
    return input.copy_(call(step, input, values))


def _steps(operator: str, input: Any, values: Any) -> None:
    if input.dtype is not values.dtype:
        raise DtypeError(operator, f"dtypes {input.dtype.name} and {values.dtype.name}", "both have one dtype",
                         "convert values with .to(input.dtype)")


isposinf: Final = Pointwise(
    "isposinf(Tensor input) -> Tensor", "Whether elements are positive infinity.",
    lambda m, x: m.eq(x, math.inf) if is_float(m) else m.ne(x, x), result="bool")
isneginf: Final = Pointwise(
    "isneginf(Tensor input) -> Tensor", "Whether elements are negative infinity.",
    lambda m, x: m.eq(x, -math.inf) if is_float(m) else m.ne(x, x), result="bool")
replaced: Final = Pointwise(
    "replaced(Tensor input, Scalar nan, Scalar posinf, Scalar neginf) -> Tensor", "Finite numbers for special ones.",
    lambda m, x, nan, high, low: m.where(
        is_nan(m, x), nan, m.where(m.eq(x, math.inf), high, m.where(m.eq(x, -math.inf), low, x))), kinds="f",
    holds_extras=False,
    derivative=Derivative(input=lambda grad, input: grad.masked_fill(~input.isfinite(), 0)), **_INNER)


@composite("nan_to_num(Tensor input, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor")
def nan_to_num(input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
    """Replace NaN and infinities by finite numbers; by default 0 and the dtype's largest and smallest numbers.

    The parts of complex numbers are replaced separately.
    """
    if input.is_complex():
        return functions.complex(nan_to_num(input.real, nan, posinf, neginf),
                                 nan_to_num(input.imag, nan, posinf, neginf))
    if not input.dtype.is_floating_point:
        return input.clone()
    largest = LARGEST[input.dtype]
    return call(replaced, input, 0.0 if nan is None else nan, largest if posinf is None else posinf,
                -largest if neginf is None else neginf)


@composite("nan_to_num_(Tensor! input, float? nan=None, float? posinf=None, float? neginf=None) -> Tensor",
           function=False)
def nan_to_num_(input: Any, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Any:
    """Apply ``nan_to_num`` in place."""
    before = input.clone() if input._key & AUTOGRAD else input
    return input.copy_(nan_to_num(before, nan, posinf, neginf))


#: The largest finite number of each dtype.
LARGEST: Final[dict[DType, float]] = {
    dtypes.float16: 65504.0, dtypes.bfloat16: float.fromhex("0x1.fep127"),
    dtypes.float32: float.fromhex("0x1.fffffep127"), dtypes.float64: float.fromhex("0x1.fffffffffffffp1023")}

# -------------------------------------------------------------------------------------------------- whole numbers

#: Steps that suffice for Euclid's algorithm; adjacent Fibonacci numbers take the longest.
_EUCLID: Final = {1: 14, 2: 25, 4: 48, 8: 94}


def _gcd(m: Any, x: Any, y: Any) -> Any:
    if m.dtype.is_signed:
        x, y = m.abs(x), m.abs(y)
    return m.repeat(_EUCLID[m.dtype.itemsize], (x, y), lambda k, a, b: (b, m.imod(a, m.where(m.eq(b, 0), 1, b))),
                    lambda a, b: m.ne(b, 0))[0]


def _lcm(m: Any, x: Any, y: Any) -> Any:
    divisor = _gcd(m, x, y)
    part = m.idiv(x, m.where(m.eq(divisor, 0), 1, divisor))
    if m.dtype.itemsize < 4:  # multiplied in 32 bits, as in C: the absolute value is taken before truncation
        return m.cast(m.abs(m.cast(part, dtypes.int32) * m.cast(y, dtypes.int32)), m.dtype)
    return m.abs(part * y) if m.dtype.is_signed else part * y


gcd: Final = Pointwise("gcd(Tensor input, Tensor other) -> Tensor", "Greatest common divisor, not negative.", _gcd,
                       kinds="i", inplace=True)
lcm: Final = Pointwise("lcm(Tensor input, Tensor other) -> Tensor", "Least common multiple, not negative.", _lcm,
                       kinds="i", inplace=True)

# ------------------------------------------------------------------------------------------- exponents and logarithms


def _logit(m: Any, x: Any, eps: Any) -> Any:
    if eps is not None:
        x = m.where(x < eps, eps, m.where(x > 1.0 - eps, 1.0 - eps, x))  # the lower limit wins if eps is above 1/2
    return m.log(x / (1.0 - x))


def _logit_gradient(grad: Any, x: Any, eps: float | None) -> Any:
    slope = grad / (x * (1 - x)).masked_fill(x == 0, 0)  # not -0
    if eps is None:
        return slope.masked_fill((x < 0) | (x > 1), math.nan)
    return slope.masked_fill((x < eps) | (x > 1 - eps), 0)


logit: Final = Pointwise(
    "logit(Tensor input, Scalar? eps=None) -> Tensor",
    "log(input / (1 - input)), of input limited to the range from eps to 1 - eps if eps is given.", _logit,
    derivative=Derivative(input=lambda grad, input, eps: _logit_gradient(grad, input, eps)), **_FLOAT)


@composite("float_power(Operand input, Operand exponent) -> Tensor")
def float_power(input: Any, exponent: Any) -> Any:
    """Return the power in float64, or in complex128 if an operand is complex."""
    given = [x for x in (input, exponent) if hasattr(x, "_key")]
    if not given:
        raise ArgumentTypeError("float_power", "two Python numbers", "an operand is a tensor", "use Python's **")
    wide = dtypes.complex128 if any(_is_complex(x) for x in (input, exponent)) else dtypes.float64
    base, power = (x.to(wide) if hasattr(x, "_key") else complex(x) if wide.is_complex else float(x)
                   for x in (input, exponent))
    return base**power


@composite("float_power_(Tensor! input, Operand exponent) -> Tensor", function=False)
def float_power_(input: Any, exponent: Any) -> Any:
    """Apply ``float_power`` in place.

    Raises:
        DtypeError: The input's dtype differs from the result's.
    """
    wide = dtypes.complex128 if any(_is_complex(x) for x in (input, exponent)) else dtypes.float64
    if input.dtype is not wide:
        raise DtypeError("float_power_", f"a base of dtype {input.dtype.name}", f"the result has dtype {wide.name}",
                         "use float_power, or convert the base")
    before = input.clone() if input._key & AUTOGRAD else input
    return input.copy_(float_power(before, exponent))


def _is_complex(value: Any) -> bool:
    return bool(value.is_complex()) if hasattr(value, "_key") else type(value) is complex


# ------------------------------------------------------------------------------------ products that vanish, and sinc


def _vanishing(logarithm: str) -> Any:
    def formula(m: Any, x: Any, y: Any) -> Any:
        product = x * getattr(m, logarithm)(y)
        return m.where(is_nan(m, y), y, m.where(m.eq(x, 0), 0.0, product))

    return formula


xlogy: Final = Pointwise(
    "xlogy(Operand input, Operand other) -> Tensor",
    "input * log(other); 0 where input is 0, NaN where other is NaN.", _vanishing("log"),
    derivative=Derivative(
        input=lambda grad, input, other: grad * _logarithm(other, input),
        other=lambda grad, input, other: grad * (input / other)), **_FLOAT)
special_xlog1py: Final = Pointwise(
    "special_xlog1py(Operand input, Operand other) -> Tensor",
    "input * log1p(other); 0 where input is 0, NaN where other is NaN.", _vanishing("log1p"),
    compute="float", kinds="f", method=False, namespace="special",
    derivative=Derivative(
        input=lambda grad, input, other: grad * _logarithm(other, input, 1),
        other=lambda grad, input, other: grad * (input / (other + 1))))


def _logarithm(value: Any, factor: Any, plus: int = 0) -> Any:
    """Return the logarithm of value (+ 1), or 0 where the factor 0 excludes it."""
    if not hasattr(value, "_key"):
        value = factor.new_zeros(()) + value
    log = value.log1p() if plus else value.log()
    return log.masked_fill((factor == 0) & (value <= -plus), 0)


special_entr: Final = Pointwise(
    "special_entr(Tensor input) -> Tensor", "-input * log(input); 0 at 0, -inf below.",
    lambda m, x: m.where(is_nan(m, x), x, m.where(x > 0, -x * m.log(x), m.where(m.eq(x, 0), 0.0 * x, -math.inf))),
    compute="float", kinds="f", method=False, namespace="special",
    derivative=Derivative(input=lambda grad, input: grad * (-input.log() - 1)))


def _sinc(m: Any, x: Any) -> Any:
    turned = x * math.pi
    return m.where(m.eq(x, 0.0), 1.0, m.sin(turned) / turned)


#: Coefficients of the derivative of sin(u) / u, for u, u ** 3, ..., up to double precision for |u| < 1/2.
_SLOPES: Final = tuple((-1) ** k * 2 * k / math.factorial(2 * k + 1) for k in range(1, 8))


def _sinc_gradient(grad: Any, x: Any) -> Any:
    """Return the quotient where it is accurate, and the series of the derivative near 0."""
    near = x.abs() < 0.15
    turned = x * math.pi
    square = turned * turned
    series: Any = _SLOPES[-1]
    for slope in reversed(_SLOPES[:-1]):
        series = series * square + slope
    far = turned.masked_fill(near, 1)  # so that second derivatives divide no zeros
    quotient = (far * far.cos() - far.sin()) / (far * far)
    return grad * (functions.where(near, series * turned, quotient) * math.pi)


sinc: Final = Pointwise(
    "sinc(Tensor input) -> Tensor", "sin(pi * input) / (pi * input), 1 at 0.", _sinc, compute="float", kinds="fc",
    inplace=True, derivative=Derivative(input=lambda grad, input: _sinc_gradient(grad, input)))

# ------------------------------------------------------------------------------------------- sums and filled tensors


@composite("rsub(Tensor input, Operand other, Scalar alpha=1) -> Tensor", method=False)
def rsub(input: Any, other: Any, alpha: Any = 1) -> Any:
    """Return ``other - alpha * input``."""
    if hasattr(other, "_key"):
        return other.sub(input, alpha=alpha)
    alpha = plain_number(alpha)
    check_factor(result_type((input, other)), alpha, -1)
    return other - (input if alpha == 1 else functions.mul(input, alpha))


@composite("addr(Tensor input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor")
def addr(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Return ``beta * input + alpha * outer(vec1, vec2)``; with beta = 0, the input is ignored.

    Args:
        input: Broadcasts to [n, m].
        vec1: [n].
        vec2: [m].
        beta: Factor of the input.
        alpha: Factor of the outer product.

    Raises:
        ShapeError: A vector does not have one dimension.
        DtypeError: A factor has a higher category than the result.
        ArgumentError: The dtype of the result cannot hold a factor.
    """
    for name, vector in (("vec1", vec1), ("vec2", vec2)):
        if vector.ndim != 1:
            raise ShapeError("addr", f"{name} {list(vector.shape)}", "both vectors have one dimension",
                             "flatten() the vector")
    dtype, beta, alpha = result_type((input, vec1, vec2)), plain_number(beta), plain_number(alpha)
    _factors("addr", dtype, {"beta": beta, "alpha": alpha})
    product = vec1.unsqueeze(1) * vec2
    if dtype is dtypes.bool_:
        product = product & bool(alpha)
        return input | product if beta else product
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        return product.to(dtype)
    return (input if beta == 1 else input * beta) + product


@composite("addr_(Tensor! input, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor", function=False)
def addr_(input: Any, vec1: Any, vec2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """Apply ``addr`` in place."""
    return input.copy_(addr(input, vec1, vec2, beta=beta, alpha=alpha))


def _factors(operator: str, dtype: DType, factors: dict[str, Any]) -> None:
    for name, value in factors.items():
        if type(value) is bool and dtype is not dtypes.bool_:
            raise DtypeError(operator, f"{name}={value!r} for dtype {dtype.name}", "a bool factor is for bool results",
                             "pass a number")
        if type(value) is float and dtype.category < 2:
            raise DtypeError(operator, f"{name}={value!r} for dtype {dtype.name}",
                             "a factor of integers is an integer", "convert the tensors to a floating-point dtype")
        if dtype is not dtypes.bool_:
            check_range(operator, value, dtype)


@composite("fill_number(Tensor input, any value) -> Tensor", method=False, function=False,
           derivative=Derivative(input=lambda grad: grad.new_zeros(grad.shape)))
def fill_number(input: Any, value: Any) -> Any:
    """Apply ``fill`` to a number."""
    return input.clone().fill_(value)


@composite("fill(Tensor input, Operand value) -> Tensor", method=False)
def fill(input: Any, value: Any) -> Any:
    """Return a tensor like input with one value everywhere.

    Raises:
        ShapeError: The value is a tensor with dimensions.
    """
    if hasattr(value, "_key"):
        if value.ndim:
            raise ShapeError("fill", f"a value of shape {list(value.shape)}",
                             "the value is a number or a 0-dimensional tensor", "use copy_ to write a tensor")
        return input.clone().copy_(value)
    if input._key & ~DIM0 != input._device_state.key | dtype_bit(input.dtype):
        return call(COMPOSITES["fill_number"], input, value)
    if type(value) in (bool, int, float) and input.dtype in REAL and -1e38 < value < 1e38:
        return creation.full_like(input, value)
    return creation.empty_like(input).fill_(value)


