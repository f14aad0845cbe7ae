"""Elementary functions: trigonometric and hyperbolic functions, logarithms in other bases, signs and adjacent floats.

Formulas are composed of the functions of ``ir.build.math``. The polynomials of arcsine and arctangent interpolate
``(asin(x) / x - 1) / x**2`` and ``(atan(x) / x - 1) / x**2`` as functions of ``x**2`` in Chebyshev points: relative
errors below 2e-9 for float32 and 1e-18 for float64, before rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_core.dispatch.derivative import Derivative
from tensocket_plugins.contract.dtypes import DType, bfloat16, float16, float32, float64, int32, int64

from ..kinds.pointwise import Pointwise

_FLOAT: Final[dict[str, Any]] = {"compute": "float", "kinds": "f", "inplace": True}
_ANY_FLOAT: Final[dict[str, Any]] = {"compute": "float", "kinds": "fc", "inplace": True}
_LN2: Final = math.log(2)
_SQRT_EPS: Final = {True: 2.0**-26, False: 2.0**-12}

#: Coefficients for x**2 up to 1/4.
_ASIN32: Final = (0.16666666333430908, 0.07500094543497424, 0.04459940152851218, 0.03110066273549457,
                  0.017149238357677253, 0.03369084720283012)
_ASIN64: Final = (0.16666666666666666, 0.07500000000000118, 0.044642857142551895, 0.03038194447553234,
                  0.02237215744350722, 0.017352816540325496, 0.01396378001220357, 0.011566459612121669,
                  0.009621842970100282, 0.009319560794767446, 0.0030448799094556773, 0.019554513336123378,
                  -0.01924167174674304, 0.02961201126495512)
#: Coefficients for x up to tan(pi / 8).
_ATAN32: Final = (-0.333333332792548, 0.19999977258688387, -0.14284151193628614, 0.11071365021884794,
                  -0.08624676145249494, 0.050481385120797445)
_ATAN64: Final = (-0.3333333333333333, 0.19999999999999993, -0.14285714285711518, 0.11111111110754729,
                  -0.0909090906700999, 0.07692306736000173, -0.06666642020055166, 0.058819252531928636,
                  -0.05258041554297779, 0.04719395030027433, -0.04104436265755082, 0.030635704112969498,
                  -0.01391822929102443)
_TAN_PI_8: Final = math.sqrt(2) - 1


def _real_or(name: str, formula: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a formula that uses the given one for real numbers and the function ``name`` for complex ones."""
    return lambda m, x: getattr(m, name)(x) if m.dtype.is_complex else formula(m, x)


def _wide(m: Any) -> bool:
    return bool(m.dtype is float64)


def _split(m: Any, value: float, rest: float) -> tuple[float, float]:
    """Return a constant as two numbers of the formula's dtype; ``rest`` is the part that float64 loses."""
    if _wide(m):
        return value, rest
    high = float.fromhex(_single(value))
    return high, value - high


def _single(value: float) -> str:
    """Return the hexadecimal digits of the nearest float32 value."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(round(mantissa * (1 << 24)), exponent - 24).hex()


def _polynomial(coefficients: Sequence[float], z: Any) -> Any:
    result: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = result * z + coefficient
    return result


_PI_2: Final = (math.pi / 2, 6.123233995736766e-17)
_PI_4: Final = (math.pi / 4, 3.061616997868383e-17)


# -------------------------------------------------------------------------------------------------- trigonometric


def _is_negative(m: Any, x: Any) -> Any:
    """Return the sign bit, also that of zeros and NaN."""
    if m.dtype.kind != "float":
        return x < 0 if m.dtype.is_signed else m.ne(x, x)
    return m.bitcast(x, int64 if _wide(m) else int32) < 0


def _with_sign(m: Any, size: Any, x: Any) -> Any:
    return m.where(_is_negative(m, x), -size, size)


def _folded_asin(m: Any, size: Any, x: Any) -> Any:
    """Return the arcsine of x for ``size`` = |x| up to 1/2, else that of sqrt((1 - size) / 2), from one polynomial."""
    near = size <= 0.5
    z = m.where(near, x * x, (1.0 - size) * 0.5)
    root = m.where(near, x, m.sqrt(z))
    return root + root * z * _polynomial(_ASIN64 if _wide(m) else _ASIN32, z)


def _asin(m: Any, x: Any) -> Any:
    """Return the arcsine; above 1/2 it is pi/2 - 2 asin(sqrt((1 - |x|) / 2))."""
    size = m.abs(x)
    high, low = _split(m, *_PI_2)
    folded = _folded_asin(m, size, x)
    return m.where(size <= 0.5, folded, _with_sign(m, high - (2.0 * folded - low), x))


def arc_cosine(m: Any, x: Any) -> Any:
    """Return the formula of ``acos`` for real numbers."""
    size = m.abs(x)
    high, low = _split(m, *_PI_2)
    folded = _folded_asin(m, size, x)
    twice = 2.0 * folded
    return m.where(size <= 0.5, high - (folded - low), m.where(x < 0, 2 * high - (twice - 2 * low), twice))


def _atan_unit(m: Any, x: Any) -> Any:
    """Return the arctangent for x from 0 to 1; above tan(pi / 8) it is pi/4 + atan((x - 1) / (x + 1))."""
    high, low = _split(m, *_PI_4)
    upper = x > _TAN_PI_8
    t = m.where(upper, (x - 1.0) / (x + 1.0), x)
    z = t * t
    rest = t * z * _polynomial(_ATAN64 if _wide(m) else _ATAN32, z)
    return m.where(upper, high + (t + (rest + low)), t + rest)


def _atan(m: Any, x: Any) -> Any:
    """Return the arctangent with one division: as in ``_atan_unit`` up to tan(3 pi / 8), then pi/2 - atan(1 / x)."""
    size = m.abs(x)
    upper, beyond = size > _TAN_PI_8, size > 1 / _TAN_PI_8
    high, low = (m.where(beyond, half, m.where(upper, quarter, 0.0))
                 for half, quarter in zip(_split(m, *_PI_2), _split(m, *_PI_4), strict=True))
    t = m.where(beyond, -1.0, m.where(upper, size - 1.0, size)) / m.where(beyond, size, m.where(upper, size + 1.0, 1.0))
    z = t * t
    rest = t * z * _polynomial(_ATAN64 if _wide(m) else _ATAN32, z)
    return _with_sign(m, high + (t + (rest + low)), x)


def _atan2(m: Any, y: Any, x: Any) -> Any:
    """Return the angle from the quotient of the smaller by the larger size, octant by octant; signs of zeros count."""
    tall = m.abs(y) > m.abs(x)
    large, small = m.maximum(m.abs(x), m.abs(y)), m.minimum(m.abs(x), m.abs(y))
    ratio = m.where(m.eq(large, small), m.where(m.eq(large, 0.0), large, 1.0), small / large)
    unit = _atan_unit(m, ratio)
    high, low = _split(m, *_PI_2)
    angle = m.where(tall, high - (unit - low), unit)
    angle = m.where(_is_negative(m, x), 2 * high - (angle - 2 * low), angle)
    angle = _with_sign(m, angle, y)
    return m.where(m.ne(x, x) | m.ne(y, y), x + y, angle)


tan: Final = Pointwise(
    "tan(Tensor input) -> Tensor", "Tangent of radians.", _real_or("tan", lambda m, x: m.sin(x) / m.cos(x)),
    derivative=Derivative(input=lambda grad, result: grad * (1 + result * result)), **_ANY_FLOAT)
asin: Final = Pointwise(
    "asin(Tensor input) -> Tensor", "Arcsine in radians, from -pi/2 to pi/2.", _real_or("asin", _asin),
    aliases=("arcsin",),
    derivative=Derivative(input=lambda grad, input: grad * (1 - input * input).rsqrt()), **_ANY_FLOAT)
acos: Final = Pointwise(
    "acos(Tensor input) -> Tensor", "Arccosine in radians, from 0 to pi.", _real_or("acos", arc_cosine),
    aliases=("arccos",),
    derivative=Derivative(input=lambda grad, input: -grad * (1 - input * input).rsqrt()), **_ANY_FLOAT)
atan: Final = Pointwise(
    "atan(Tensor input) -> Tensor", "Arctangent in radians, from -pi/2 to pi/2.", _real_or("atan", _atan),
    aliases=("arctan",),
    derivative=Derivative(input=lambda grad, input: grad / (1 + input * input)), **_ANY_FLOAT)
atan2: Final = Pointwise(
    "atan2(Tensor input, Tensor other) -> Tensor",
    "Angle of the point (other, input) in radians, from -pi to pi.", _atan2, aliases=("arctan2",),
    derivative=Derivative(
        input=lambda grad, input, other: grad * _per_square(other, input, other),
        other=lambda grad, input, other: -grad * _per_square(input, input, other)),
    **_FLOAT)


def _per_square(top: Any, x: Any, y: Any) -> Any:
    """Return ``top / (x**2 + y**2)``; 0 at the origin."""
    square = x * x + y * y
    return (top / square).masked_fill(square == 0, 0)


# ----------------------------------------------------------------------------------------------------- hyperbolic


def _half_exp(m: Any, size: Any) -> Any:
    """Return exp(size) / 2, without overflow if the result fits."""
    root = m.exp(0.5 * size)
    return 0.5 * root * root


def _sinh(m: Any, x: Any) -> Any:
    size = m.abs(x)
    grown = m.expm1(size)
    small = 0.5 * (grown + grown / (grown + 1.0))
    return _with_sign(m, m.where(size < 9.0 if not _wide(m) else size < 20.0, small, _half_exp(m, size)), x)


def _cosh(m: Any, x: Any) -> Any:
    size = m.abs(x)
    grown = m.exp(size)
    return m.where(size < 20.0, 0.5 * grown + 0.5 / grown, _half_exp(m, size))


def _asinh(m: Any, x: Any) -> Any:
    """Return log(|x| + sqrt(x**2 + 1)), with log1p near 0."""
    size = m.abs(x)
    square = size * size
    small = m.log1p(size + square / (1.0 + m.sqrt(1.0 + square)))
    return _with_sign(m, m.where(size < 1 / _SQRT_EPS[_wide(m)], small, m.log(size) + _LN2), x)


def _acosh(m: Any, x: Any) -> Any:
    above = x - 1.0
    small = m.log1p(above + m.sqrt(above * (above + 2.0)))
    found = m.where(x < 1 / _SQRT_EPS[_wide(m)], small, m.log(x) + _LN2)
    return m.where(x < 1.0, math.nan, found)


def _acosh_slope(x: Any) -> Any:
    """Return 1 / sqrt(x * x - 1) without overflow; also below -1, where masks multiply slopes of NaN by 0."""
    size = x if x.is_complex() else x.abs()
    return (size - 1).rsqrt() * (size + 1).rsqrt()


def _atanh(m: Any, x: Any) -> Any:
    size = m.abs(x)
    return _with_sign(m, 0.5 * m.log1p(2.0 * size / (1.0 - size)), x)


sinh: Final = Pointwise(
    "sinh(Tensor input) -> Tensor", "Hyperbolic sine: (exp(input) - exp(-input)) / 2.", _real_or("sinh", _sinh),
    derivative=Derivative(input=lambda grad, input: grad * input.cosh()), **_ANY_FLOAT)
cosh: Final = Pointwise(
    "cosh(Tensor input) -> Tensor", "Hyperbolic cosine: (exp(input) + exp(-input)) / 2.", _real_or("cosh", _cosh),
    derivative=Derivative(input=lambda grad, input: grad * input.sinh()), **_ANY_FLOAT)
asinh: Final = Pointwise(
    "asinh(Tensor input) -> Tensor", "Inverse of sinh.", _real_or("asinh", _asinh), aliases=("arcsinh",),
    derivative=Derivative(input=lambda grad, input: grad * (input * input + 1).rsqrt()), **_ANY_FLOAT)
acosh: Final = Pointwise(
    "acosh(Tensor input) -> Tensor", "Inverse of cosh, from 0; NaN below 1.", _real_or("acosh", _acosh),
    aliases=("arccosh",),
    derivative=Derivative(input=lambda grad, input: grad * _acosh_slope(input)), **_ANY_FLOAT)
atanh: Final = Pointwise(
    "atanh(Tensor input) -> Tensor", "Inverse of tanh; NaN beyond -1 and 1.", _real_or("atanh", _atanh),
    aliases=("arctanh",),
    derivative=Derivative(input=lambda grad, input: grad / (1 - input * input)), **_ANY_FLOAT)

# ----------------------------------------------------------------------------------------- exponents and logarithms


def _log_base(m: Any, x: Any, base: int) -> Any:
    """Return log(x) / log(base), exact at integer powers of the base."""
    if not m.dtype.is_complex:
        return getattr(m, f"log{base}")(x)
    natural, factor = m.log(x), 1 / math.log(base)
    return m.complex(m.real(natural) * factor, m.imag(natural) * factor)  # a complex product would be NaN at infinity


exp2: Final = Pointwise(
    "exp2(Tensor input) -> Tensor", "2 ** input.",
    lambda m, x: m.exp(x * _LN2) if m.dtype.is_complex else m.pow(2.0, x),
    derivative=Derivative(input=lambda grad, result: grad * result * _LN2), **_ANY_FLOAT)
log2: Final = Pointwise(
    "log2(Tensor input) -> Tensor", "Logarithm to base 2.", lambda m, x: _log_base(m, x, 2),
    derivative=Derivative(input=lambda grad, input: grad / (input * _LN2)), **_ANY_FLOAT)
log10: Final = Pointwise(
    "log10(Tensor input) -> Tensor", "Logarithm to base 10.", lambda m, x: _log_base(m, x, 10),
    derivative=Derivative(input=lambda grad, input: grad / (input * math.log(10))), **_ANY_FLOAT)


def added_logarithms(m: Any, x: Any, y: Any) -> Any:
    """Return log(exp(x) + exp(y)) of complex numbers, on the branch of the larger real part; NaN if either is NaN."""
    swapped = m.real(x) < m.real(y)
    large, small = m.where(swapped, y, x), m.where(swapped, x, y)
    nothing = m.eq(m.real(large), -math.inf)
    added = m.where(nothing, large, large + m.log(1.0 + m.exp(small - m.where(nothing, 0.0, large))))
    return m.where(m.ne(x, x) | m.ne(y, y), x * y, added)  # both parts of the product are NaN


def _logaddexp(m: Any, x: Any, y: Any) -> Any:
    if m.dtype.is_complex:
        return added_logarithms(m, x, y)
    top = m.maximum(x, y)
    return m.where(m.eq(x, y), top + _LN2, top + m.log1p(m.exp(-m.abs(x - y))))


def _logaddexp2(m: Any, x: Any, y: Any) -> Any:
    top = m.maximum(x, y)
    rest = m.log1p(m.exp(m.abs(x - y) * -_LN2)) * (1 / _LN2)
    return m.where(m.eq(x, y), top + 1.0, top + rest)


logaddexp: Final = Pointwise(
    "logaddexp(Tensor input, Tensor other) -> Tensor", "log(exp(input) + exp(other)), without overflow.",
    _logaddexp, kinds="fc",
    derivative=Derivative(input=lambda grad, input, other: grad / (1 + (other - input).exp()),
                          other=lambda grad, input, other: grad / (1 + (input - other).exp())))
logaddexp2: Final = Pointwise(
    "logaddexp2(Tensor input, Tensor other) -> Tensor", "log2(2 ** input + 2 ** other), without overflow.",
    _logaddexp2, kinds="f",
    derivative=Derivative(input=lambda grad, input, other: grad / (1 + (other - input).exp2()),
                          other=lambda grad, input, other: grad / (1 + (input - other).exp2())))

# --------------------------------------------------------------------------------------------- lengths and signs


#: For each dtype: step between adjacent floats in the bits of the arithmetic dtype, smallest number, and its bits.
_NEIGHBOURS: Final[dict[DType, tuple[int, float, int]]] = {
    float64: (1, 2.0**-1074, 1), float32: (1, 2.0**-149, 1), bfloat16: (1 << 16, 2.0**-133, 1 << 16),
    float16: (1 << 13, 2.0**-24, 127 - 24 << 23)}


def _nextafter(m: Any, x: Any, y: Any) -> Any:
    """Step to the next float by its bits, which are ordered by magnitude; narrow floats step within float32's bits."""
    whole = int64 if _wide(m) else int32
    step, tiny, tiny_bits = _NEIGHBOURS[m.stored]
    bits = m.bitcast(x, whole)
    away = (x < y) ^ (x < 0)
    moved = m.bitcast(m.where(away, bits + step, bits - step), m.dtype)
    if m.stored is float16:  # float16's subnormals are normal in float32, its largest has a finite successor
        size = m.abs(x)
        below = m.where(m.eq(size, math.inf), 65504.0, m.where(away, size + tiny, size - tiny))
        small = (size < m.where(away, 2.0**-14, 2.0**-14 + tiny)) | m.eq(size, math.inf)
        moved = m.where(small, m.where(x < 0, -below, below), moved)
    moved = m.where(m.eq(x, 0.0), m.where(y < 0, m.bitcast(bits * 0 + tiny_bits, m.dtype) * -1.0, tiny), moved)
    return m.where(m.ne(x, x) | m.ne(y, y), x + y, m.where(m.eq(x, y), y, moved))


hypot: Final = Pointwise(
    "hypot(Tensor input, Tensor other) -> Tensor", "sqrt(input ** 2 + other ** 2), without overflow.",
    lambda m, x, y: m.abs(m.complex(x, y)),
    kinds="f", inplace=True,
    derivative=Derivative(input=lambda grad, input, result: grad * (input / result),
                          other=lambda grad, other, result: grad * (other / result)))
signbit: Final = Pointwise(
    "signbit(Tensor input) -> Tensor", "Whether the sign is minus, of zeros and NaN too.", _is_negative, result="bool")
copysign: Final = Pointwise(
    "copysign(Tensor input, Operand other) -> Tensor", "The size of input with the sign of other.",
    lambda m, x, y: m.where(_is_negative(m, x) ^ _is_negative(m, y), -x, x),
    derivative=Derivative(input=lambda grad, input, result: grad * (result / input).masked_fill(input == 0, 0),
                          other=lambda grad: grad.new_zeros(grad.shape)), **_FLOAT)
nextafter: Final = Pointwise(
    "nextafter(Tensor input, Tensor other) -> Tensor",
    "The next representable number from input towards other.", _nextafter, kinds="f", inplace=True, stored=True,
    derivative=Derivative(input=lambda grad, input, other: grad.masked_fill(input == other, 0),
                          other=lambda grad: grad.new_zeros(grad.shape)))
