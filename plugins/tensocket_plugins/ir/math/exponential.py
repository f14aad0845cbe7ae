"""exp, expm1 and tanh.

exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2. The product n ln 2 is subtracted in two parts, the
first exactly. The float32 polynomials are minimax fits of (exp(r) - 1 - r) / r^2 and of (tanh(x) - x) / x^3 (Lawson's
iteration on Chebyshev nodes, coefficients rounded to float32 one after the other and the others refitted). Those of
float64, here and in the other modules, are interpolations at Chebyshev nodes or fits by Remez' exchange of nodes, made
with 240 bits and then rounded.
"""

from __future__ import annotations

from typing import Final

from ...contract.dtypes import float32, float64
from ..nodes import Expr, const, select
from .build import (
    FORMATS,
    Pair,
    at_least,
    at_most,
    bits,
    fma,
    from_bits,
    nearest,
    nearest_bits,
    polynomial,
    power_of_two,
    scaled,
    with_sign,
)
from .ranged import Ranged

LOG2_E: Final = 1.4426950408889634
#: ln 2 in two parts; the first has 9 (float32) or 41 (float64) significant bits.
LN2: Final = {float32: (0.693359375, -2.1219444e-4), float64: (0.693147180559663, 2.8235290563031577e-13)}

_EXP: Final = (0.5, 0.1666652, 0.041666396, 0.008368836, 0.0013941207)
_EXPM1: Final = (0.5, 0.16666666, 0.041666493, 0.008333543, 0.0013932347, 0.00019764257)
_EXPM1_DOUBLE: Final = (
    0.5, 0.1666666666666667, 0.04166666666666667, 0.008333333333326136, 0.0013888888888883748, 0.00019841269874820627,
    2.4801587325547743e-05, 2.7557255400206422e-06, 2.75572736431103e-07, 2.5105217004720745e-08,
    2.0914686968086876e-09)
#: Coefficients of (exp(r) - 1 - r) / r^2, for exp and for expm1.
_EXP_TAIL: Final = {float32: (_EXP, _EXPM1), float64: (_EXPM1_DOUBLE, _EXPM1_DOUBLE)}
#: Bounds beyond which e^x is infinite or 0.
_RANGE: Final = {float32: (89.0, -104.0), float64: (710.0, -746.0)}
#: Bounds of the magnitudes for which e^x and its rounded terms are normal numbers.
_MODERATE: Final = {float32: 87.0, float64: 708.0}
_TANH: Final = (-0.3333328, 0.13331406, -0.053736515, 0.020628167, -0.0056922967)
#: Coefficients of 2^r for |r| <= 1/2, within 2^-23.
_EXP2_ROUGH: Final = (1.0, 0.693147, 0.24022247, 0.05550711, 0.009671293, 0.0013269555)


def _reduced(x: Expr) -> tuple[Pair, Expr, Expr]:
    """Return the remainder before and after its correction, and n as a float and as an integer."""
    n, whole = nearest(x, LOG2_E)
    ln2_high, ln2_low = LN2[x.dtype]
    high = fma(n, -ln2_high, x)
    return (high, fma(n, -ln2_low, high)), n, whole


def _exp_reduced(r: Expr) -> Expr:
    """e^r for |r| <= ln(2) / 2."""
    # Horner's rule for all terms: rounding (e^r - 1) / r matters less than rounding e^r - 1.
    return polynomial(r, (1.0, 1.0, *_EXP_TAIL[r.dtype][0]))


def _moderate(x: Expr) -> tuple[Expr, Expr]:
    """Return e^r, and n before the bits of the mantissa, for e^x = 2^n e^r."""
    n, shifted = nearest_bits(x, LOG2_E)
    ln2_high, ln2_low = LN2[x.dtype]
    return _exp_reduced(fma(n, -ln2_low, fma(n, -ln2_high, x))), shifted << FORMATS[x.dtype].mantissa


def exp_moderate(x: Expr) -> Expr:
    """Return e^x without a check of the range, for -87 .. 88 (float64: -708 .. 709); NaN stays."""
    value, n = _moderate(x)
    form = FORMATS[x.dtype]
    return value * from_bits(n + (form.bias << form.mantissa))


def _vanishes(x: Expr) -> Expr:
    """Whether e^x rounds to 0."""
    return x < _RANGE[x.dtype][1]


def _exp_ordinary(x: Expr) -> Expr:
    """e^x; all numbers are normal, so that a sum of integers can change the exponent, or 0, as for masked scores."""
    value, n = _moderate(x)
    return select(_vanishes(x), const(0, x.dtype), from_bits(bits(value) + n))


def _exp_anywhere(x: Expr) -> Expr:
    """e^x; subnormal results are rounded once more, which takes processors long: no others may become subnormal."""
    (_, r), _, n = _reduced(at_most(select(_vanishes(x), const(0, x.dtype), x), _RANGE[x.dtype][0]))
    return select(_vanishes(x), const(0, x.dtype), scaled(_exp_reduced(r), n))


#: e^x, within 1 ULP.
exp: Final = Ranged("exp", _exp_ordinary, lambda x: ~((abs(x) < _MODERATE[x.dtype]) | _vanishes(x)), _exp_anywhere)


def expm1(x: Expr) -> Expr:
    """e^x - 1, within 2 ULP."""
    (high, r), n, whole = _reduced(at_least(at_most(x, _RANGE[x.dtype][0]), -30.0 if x.dtype is float32 else -50.0))
    # The rounding error of r matters if the result is close to r itself.
    lost = fma(n, -LN2[x.dtype][1], high - r)
    small = r + fma(r * r, polynomial(r, _EXP_TAIL[x.dtype][1]), lost)
    # Half of the scale, since 2^128 (2^1024) is not a float.
    scale = power_of_two(whole - 1)
    result = fma(scale, small, scale - 0.5) * 2.0
    return select(abs(x) < 2.0 ** (-2 - FORMATS[x.dtype].mantissa), x, result)


def _grown(a: Expr) -> Expr:
    """Return e^2a in float32 for a from 0 to 10, to a few ULP; for NaN some number.

    From 0.625 on, less than half of a relative error reaches the hyperbolic tangent.
    """
    n, shifted = nearest_bits(a, 2.0 * LOG2_E)
    value = polynomial(fma(a, 2.0 * LOG2_E, -n), _EXP2_ROUGH)
    return from_bits(bits(value) + (shifted << FORMATS[float32].mantissa))


def tanh(x: Expr) -> Expr:
    """Return the hyperbolic tangent, within 2 ULP (float64: 3).

    In float32 a polynomial below 0.625 and 1 - 2 / (e^2x + 1) above; in float64 (e^2x - 1) / (e^2x + 1) everywhere.
    """
    a = abs(x)
    if x.dtype is float64:
        grown = expm1(at_most(a + a, 44.0))
        return with_sign(grown / (grown + 2.0), x)
    square = a * a
    small = fma(a, square * polynomial(square, _TANH), a)
    large = 1.0 - 2.0 / (_grown(at_most(a, 10.0)) + 1.0)
    # NaN takes the small form: the other one adds to its bits.
    return with_sign(select(a >= 0.625, large, small), x)
