"""sin and cos in float32, for all arguments.

Quarter turns are x * 2/pi. Below 2^17, pi/2 in three parts is subtracted as often, the first part without error. Above,
only a part of 2/pi matters: its product with the integer mantissa of x is below four turns and above 2^-62 quarter
turns. These 96 bits are cut from a constant of 224 bits, so the remainder is accurate to 2^-62 quarter turns even for
the largest float. The polynomials are minimax fits on [0, pi/4] (method: see ``exponential``).
"""

from __future__ import annotations

import math
from typing import Final

from ...contract.dtypes import float32, int32, int64, uint32, uint64
from ..nodes import Expr, call, cast, const, select
from .build import FORMATS, INFINITY, NAN, bits, fma, from_bits, nearest_bits, number, polynomial
from .ranged import Ranged

_SIN: Final = (-0.16666655, 0.008332189, -0.00019518286)
_COS: Final = (0.041666646, -0.001388731, 2.4432327e-05)
#: 2/pi after 32 leading zero bits.
_TWO_OVER_PI: Final = (0, 0xA2F9836E, 0x4E441529, 0xFC2757D1, 0xF534DDC0, 0xDB629599, 0x3C439041, 0xFE5163AB)
#: Bound of the arguments that are reduced with ``_HALF_PI``.
_FAR: Final = 2.0**17
#: pi/2 in three parts.
_HALF_PI: Final = (1.570796251296997, 7.549789415861596e-08, 5.390302953474238e-15)


def _window(biased: Expr) -> tuple[Expr, Expr, Expr]:
    """Return three words of 2/pi, as uint64, that matter for floats with this biased exponent (uint32, 126 .. 255)."""
    start = biased - 120
    word, shift = start >> 5, cast(start & 31, uint64)

    def pick(j: int) -> Expr:
        value: Expr = const(_TWO_OVER_PI[j + 4], uint32)
        for i in (3, 2, 1, 0):
            value = select(word < i + 1, const(_TWO_OVER_PI[j + i], uint32), value)
        return cast(value, uint64)

    a, b, c, d = (pick(j) for j in range(4))

    def cut(high: Expr, low: Expr) -> Expr:
        return ((((high << 32) | low) << shift) >> 32) & 0xFFFFFFFF

    return cut(a, b), cut(b, c), cut(c, d)


def _reduced(x: Expr) -> tuple[Expr, Expr]:
    """Return ``(r, n)``: |x| = r + n pi/2 up to full turns, |r| <= pi/4, n an int32 within 0 .. 3; for |x| >= 1."""
    i = call("bitcast", abs(x), dtype=uint32)
    high, middle, low = _window(i >> 23)
    mantissa = cast((i & 0x7FFFFF) | 0x800000, uint64)
    # Turns, as a fraction of 2^64.
    turns = ((mantissa * high) << 32) + mantissa * middle + ((mantissa * low) >> 32)
    n = cast((turns + 2**61) >> 62, int32)
    return cast(call("bitcast", turns << 2, dtype=int64), float32) * number(math.pi / 2 * 2.0**-64), n


def sin_cos_reduced(r: Expr) -> tuple[Expr, Expr]:
    """Return sine and cosine for |r| <= pi/4."""
    square = r * r
    sine = fma(r, square * polynomial(square, _SIN), r)
    cosine = 1.0 - fma(square, 0.5, -(square * square * polynomial(square, _COS)))
    return sine, cosine


def turned(r: Expr, n: Expr) -> Expr:
    """Return sin(r + n pi/2) for |r| <= pi/4."""
    sine, cosine = sin_cos_reduced(r)
    value = select(call("eq", n & 1, 0), sine, cosine)
    return from_bits(call("bitcast", value, dtype=int32) ^ ((n & 2) << 30))


def _near(x: Expr, quarters: int) -> Expr:
    """Return sin(|x| + quarters pi/2) for |x| below ``_FAR``, with the sign of x if ``quarters`` is 0."""
    a = abs(x)
    n, whole = nearest_bits(a, 2 / math.pi)
    r = a
    for part in _HALF_PI:
        r = fma(n, -part, r)
    square = r * r
    sine = fma(r, square * polynomial(square, _SIN), r)
    cosine = polynomial(square, (1.0, -0.5, *_COS))
    quarter = whole + quarters if quarters else whole
    value = select(call("eq", quarter & 1, 0), sine, cosine)
    flips = quarter << 30 if quarters else (quarter << 30) ^ bits(x)
    return from_bits(bits(value) ^ (flips & -(1 << 31)))


def _is_far(x: Expr) -> Expr:
    return ~(abs(x) < _FAR)


def _far_sin(x: Expr) -> Expr:
    r, n = _reduced(x)
    sign = call("bitcast", x, dtype=uint32) & FORMATS[float32].sign
    value = from_bits(call("bitcast", turned(r, n), dtype=uint32) ^ sign)
    return select(abs(x) < INFINITY, value, number(NAN))


def _far_cos(x: Expr) -> Expr:
    r, n = _reduced(x)
    return select(abs(x) < INFINITY, turned(r, n + 1), number(NAN))


#: Sine and cosine, within 3 ULP for every finite argument.
sin: Final = Ranged("sin", lambda x: _near(x, 0), _is_far, _far_sin)
cos: Final = Ranged("cos", lambda x: _near(x, 1), _is_far, _far_cos)
