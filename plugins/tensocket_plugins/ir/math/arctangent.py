"""atan2 in float32 and float64, from arithmetic alone.

The quotient of the smaller and the larger magnitude is in [0, 1]. There atan(t) = atan(c) + atan((t - c) / (1 + t c))
with c the nearest of 0, 1/2 and 1, so the Taylor series is needed only up to 1/4.
"""

from __future__ import annotations

import math
import struct
from typing import Final

from ...contract.dtypes import DType, float32, uint32, uint64
from ..nodes import Expr, call, const, select

#: Number of terms of atan's series for an error below a quarter of a unit in the last place at 1/4.
_TERMS: Final = {"float32": 6, "float64": 13}


def split(value: float, dtype: DType) -> tuple[float, float]:
    """Return a number as the nearest float of ``dtype`` and the remainder, to the precision of float64."""
    high = float(struct.unpack("f", struct.pack("f", value))[0]) if dtype is float32 else value
    return high, value - high


#: Remainders of pi, atan(1/2) and atan(1) after rounding to float64.
_PI_REST: Final = 1.2246467991473532e-16
_REST: Final = {0.5: 2.2698777452961687e-17, 1.0: 3.061616997868383e-17}


def copysign(magnitude: Expr, x: Expr) -> Expr:
    """Return a non-negative value with the sign of ``x``, also if that is zero or NaN."""
    of = magnitude.dtype
    word, sign = (uint32, 1 << 31) if of is float32 else (uint64, 1 << 63)
    return call("bitcast", call("bitcast", magnitude, dtype=word) | (call("bitcast", x, dtype=word) & sign), dtype=of)


def is_negative(x: Expr) -> Expr:
    """Whether the sign bit is set."""
    word, sign = (uint32, 1 << 31) if x.dtype is float32 else (uint64, 1 << 63)
    return call("ne", call("bitcast", x, dtype=word) & sign, 0)


def _atan_unit(t: Expr) -> Expr:
    """Return the arc tangent for t within 0 .. 1."""
    of = t.dtype
    small, middle = t < 0.25, t < 0.75

    def pick(at_half: float, at_one: float) -> Expr:
        return select(small, const(0.0, of), select(middle, const(at_half, of), const(at_one, of)))

    centre = pick(0.5, 1.0)
    r = (t - centre) / (centre * t + 1.0)
    square = r * r
    terms = _TERMS[of.name]
    series: Expr = const((-1) ** terms / (2 * terms + 1), of)
    for k in range(terms - 1, 0, -1):
        series = series * square + (-1) ** k / (2 * k + 1)
    highs, lows = zip(*(split(math.atan(c), of) for c in (0.5, 1.0)), strict=True)
    rest = [low + _REST[c] for low, c in zip(lows, (0.5, 1.0), strict=True)]
    return pick(*highs) + (r + (r * (square * series) + pick(*rest)))


def atan2(y: Expr, x: Expr) -> Expr:
    """Return the angle of the point (x, y), within -pi .. pi, to 2 ULP; C's rules for zeros and infinities."""
    of = x.dtype
    a, b = call("abs", x), call("abs", y)
    swap = a < b
    low, high = select(swap, a, b), select(swap, b, a)
    quotient = select(call("eq", high, 0.0), const(0.0, of), low / high)
    quotient = select(call("eq", low, math.inf), const(1.0, of), quotient)
    angle = _atan_unit(quotient)
    half, half_rest = split(math.pi / 2, of)
    angle = select(swap, (half - angle) + (half_rest + _PI_REST / 2), angle)
    whole, whole_rest = split(math.pi, of)
    angle = select(is_negative(x), (whole - angle) + (whole_rest + _PI_REST), angle)
    return select(call("ne", x, x) | call("ne", y, y), x + y, copysign(angle, y))
