"""pow in float32: 2^(y log2|x|) with the logarithm and the product as pairs of floats, and C's special cases.

log2(x) = k + 2/ln(2) artanh(s) with s = (m - 1) / (m + 1) and artanh(s) = s (1 + z/3 + z^2 T(z)), z = s^2. T and the
polynomial of 2^r are minimax fits (method: see ``exponential``).
"""

from __future__ import annotations

import math
from typing import Final

from ...contract.dtypes import float32, uint32
from ..nodes import Expr, call, cast, const, select
from .build import (
    INFINITY,
    NAN,
    SIGN,
    Pair,
    at_least,
    at_most,
    fast_two_sum,
    fma,
    from_bits,
    nearest,
    number,
    polynomial,
    scaled,
    two_product,
    two_sum,
)
from .logarithm import normal, split_exponent

_TAIL: Final = (0.20000076, 0.14273539, 0.1171007)
_EXP2: Final = (0.6931472, 0.24022648, 0.0555036, 0.009618506, 0.0013390812, 0.00015326496)


def _constant(value: float) -> Pair:
    high = number(value)
    return high, number(value - float(high.value))


_THIRD: Final = _constant(1.0 / 3.0)
_TWO_OVER_LN2: Final = _constant(2.0 / math.log(2.0))


def _product(a: Pair, b: Pair) -> Pair:
    high, low = two_product(a[0], b[0])
    return fast_two_sum(high, low + (a[0] * b[1] + a[1] * b[0]))


def _log2(x: Expr) -> Pair:
    """log2 of a positive finite number, to about 2^-40."""
    y, shift = normal(x)
    m, k = split_exponent(y)
    f = m - 1.0
    g, g_low = two_sum(m, number(1.0))
    s = f / g
    high, low = two_product(s, g)
    s_low = ((f - high) - low - s * g_low) / g
    z, z_low = two_product(s, s)
    z_low = z_low + 2.0 * (s * s_low)
    u, u_low = _product((z, z_low), _THIRD)
    u_low = u_low + z * z * polynomial(z, _TAIL)
    v, v_low = fast_two_sum(number(1.0), u)
    high, low = _product(_product((s, s_low), (v, v_low + u_low)), _TWO_OVER_LN2)
    total, rest = fast_two_sum(cast(k + shift, float32), high)
    return fast_two_sum(total, rest + low)


def _exp2(high: Expr, low: Expr) -> Expr:
    """2^(high + low)."""
    n, whole = nearest(high)
    r = (high - n) + low
    return scaled(fma(r, polynomial(r, _EXP2), 1.0), whole)


def _magnitude(x: Expr, y: Expr) -> Expr:
    """|x|^y for x neither 0 nor infinite."""
    # Beyond 2^40 all results are 0, 1 or infinite, and nothing here must overflow.
    high, low = two_product(y, (logarithm := _log2(x))[0])
    high, low = fast_two_sum(high, low + y * logarithm[1])
    bounded = at_least(at_most(high, 140.0), -160.0)
    return _exp2(bounded, select(call("eq", bounded, high), low, number(0.0)))


def pow(x: Expr, y: Expr) -> Expr:
    """Power, within 2 ULP; results below 2^-126 are rounded once more. Special cases are those of C."""
    a = abs(x)
    zero, infinite = call("eq", a, 0.0), call("eq", a, INFINITY)
    extreme = zero | infinite
    ordinary = _magnitude(select(extreme, number(1.0), a), at_least(at_most(y, 2.0**40), -(2.0**40)))
    magnitude = select(extreme, select(call("eq", zero, y < 0.0), number(INFINITY), number(0.0)), ordinary)
    whole = call("eq", call("floor", y), y)
    half = y * 0.5
    odd = whole & call("ne", call("floor", half), half)
    negative = call("ne", call("bitcast", x, dtype=uint32) & SIGN, 0)
    sign = select(negative & odd, const(SIGN, uint32), const(0, uint32))
    result = from_bits(call("bitcast", magnitude, dtype=uint32) ^ sign)
    root = (x < 0.0) & ~whole & ~infinite
    unknown = root | call("ne", x, x) | call("ne", y, y)
    result = select(unknown, number(NAN), result)
    one = call("eq", x, 1.0) | call("eq", y, 0.0)
    return select(one, number(1.0), result)
