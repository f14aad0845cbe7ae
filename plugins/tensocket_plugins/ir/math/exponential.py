"""exp, expm1 and tanh in float32.

exp(x) = 2^n exp(r) with n = round(x / ln 2) and |r| <= ln(2) / 2. The product n ln 2 is subtracted in two parts, the
first exactly. The polynomials are minimax fits of (exp(r) - 1 - r) / r^2 and of (tanh(x) - x) / x^3 (Lawson's
iteration on Chebyshev nodes, coefficients rounded to float32 one after the other and the others refitted).
"""

from __future__ import annotations

from typing import Final

from ..nodes import Expr, select
from .build import Pair, at_least, at_most, fma, nearest, polynomial, power_of_two, scaled, with_sign

LOG2_E: Final = 1.4426950408889634
#: ln 2 in two parts; the first has nine significant bits.
LN2_HIGH: Final = 0.693359375
LN2_LOW: Final = -2.1219444e-4

_EXP: Final = (0.5, 0.1666652, 0.041666396, 0.008368836, 0.0013941207)
_EXPM1: Final = (0.5, 0.16666666, 0.041666493, 0.008333543, 0.0013932347, 0.00019764257)
_TANH: Final = (-0.3333328, 0.13331406, -0.053736515, 0.020628167, -0.0056922967)


def _reduced(x: Expr) -> tuple[Pair, Expr, Expr]:
    """The remainder before and after its correction, and n as a float and as int32."""
    n, whole = nearest(x, LOG2_E)
    high = fma(n, -LN2_HIGH, x)
    return (high, fma(n, -LN2_LOW, high)), n, whole


def _exp_reduced(r: Expr) -> Expr:
    """e^r for |r| <= ln(2) / 2."""
    # By Horner's rule all the way: rounding (e^r - 1) / r weighs less than rounding e^r - 1.
    return polynomial(r, (1.0, 1.0, *_EXP))


def exp_moderate(x: Expr) -> Expr:
    """Exponential function within -87 .. 88, where neither overflow nor underflow can happen; NaN stays."""
    (_, r), _, n = _reduced(x)
    return _exp_reduced(r) * power_of_two(n)


def exp(x: Expr) -> Expr:
    """e^x, within 1 ULP; results below 2^-126 are rounded once more."""
    (_, r), _, n = _reduced(at_least(at_most(x, 89.0), -104.0))
    return scaled(_exp_reduced(r), n)


def expm1(x: Expr) -> Expr:
    """e^x - 1, within 2 ULP."""
    (high, r), n, whole = _reduced(at_least(at_most(x, 89.0), -30.0))
    # What rounding r lost matters where the result is near r itself.
    lost = fma(n, -LN2_LOW, high - r)
    small = r + fma(r * r, polynomial(r, _EXPM1), lost)
    # Half of the result, since 2^128 is not a float.
    scale = power_of_two(whole - 1)
    result = fma(scale, small, scale - 0.5) * 2.0
    return select(abs(x) < 2.0**-25, x, result)


def tanh(x: Expr) -> Expr:
    """Hyperbolic tangent, within 2 ULP: a polynomial below 0.625, 1 - 2 / (e^2x + 1) above."""
    a = abs(x)
    square = a * a
    small = fma(a, square * polynomial(square, _TANH), a)
    large = 1.0 - 2.0 / (exp_moderate(at_most(a + a, 20.0)) + 1.0)
    return with_sign(select(a < 0.625, small, large), x)
