"""pow: 2^(y log2|x|) with the logarithm and the product as pairs of floats, and C's special cases.

log2(x) = k + 2/ln(2) artanh(s) with s = (m - 1) / (m + 1) and artanh(s) = s (1 + z/3 + z^2 T(z)), z = s^2. T and the
polynomial of 2^r are minimax fits (method: see ``exponential``).
"""

from __future__ import annotations

import math
from typing import Final

from ...contract.dtypes import DType, float32, float64
from ..nodes import Const, Expr, call, cast, const, select
from .build import (
    FORMATS,
    INFINITY,
    NAN,
    Pair,
    as_float,
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
    word,
)
from .logarithm import normal, split_exponent

_TAIL: Final = {
    float32: (0.20000076, 0.14273539, 0.1171007),
    float64: (0.2, 0.14285714285714188, 0.11111111111145534, 0.0909090908458793, 0.07692308380107811, 0.066666200272883,
              0.05884343040775692, 0.05211344091723711, 0.05507453512143325)}
_EXP2: Final = {
    float32: (0.6931472, 0.24022648, 0.0555036, 0.009618506, 0.0013390812, 0.00015326496),
    float64: (0.6931471805599453, 0.24022650695910072, 0.055504108664821625, 0.00961812910762848, 0.0013333558146406436,
              0.00015403530393370715, 1.5252733841601815e-05, 1.3215486808727859e-06, 1.0178057064573359e-07,
              7.054897292691627e-09, 4.455822025014915e-10, 2.5729344553786755e-11)}
#: Exponents from which all results are 0, 1 or infinite, and binary logarithms of infinite and zero results.
_LIMITS: Final = {float32: (2.0**40, 140.0, -160.0), float64: (2.0**70, 1100.0, -1200.0)}


def _constant(value: float, rest: float, dtype: DType) -> Pair:
    """Return a number from a float64 and its remainder."""
    high = number(value, dtype)
    return high, number(value - float(high.value) + rest, dtype)


def _third(dtype: DType) -> Pair:
    return _constant(1.0 / 3.0, 1.850371707708594e-17, dtype)


def _two_over_ln2(dtype: DType) -> Pair:
    return _constant(2.0 / math.log(2.0), 4.0710547481862066e-17, dtype)


def _product(a: Pair, b: Pair) -> Pair:
    high, low = two_product(a[0], b[0])
    return fast_two_sum(high, low + (a[0] * b[1] + a[1] * b[0]))


def _log2(x: Expr) -> Pair:
    """log2 of a positive finite number, to about 2^-40 (float64: 2^-66)."""
    y, shift = normal(x)
    m, k = split_exponent(y)
    f = m - 1.0
    g, g_low = two_sum(m, number(1.0, x.dtype))
    s = f / g
    high, low = two_product(s, g)
    s_low = ((f - high) - low - s * g_low) / g
    z, z_low = two_product(s, s)
    z_low = z_low + 2.0 * (s * s_low)
    u, u_low = _product((z, z_low), _third(x.dtype))
    u_low = u_low + z * z * polynomial(z, _TAIL[x.dtype])
    v, v_low = fast_two_sum(number(1.0, x.dtype), u)
    high, low = _product(_product((s, s_low), (v, v_low + u_low)), _two_over_ln2(x.dtype))
    total, rest = fast_two_sum(as_float(k + shift) if x.dtype is float64 else cast(k + shift, float32), high)
    return fast_two_sum(total, rest + low)


def _exp2(high: Expr, low: Expr) -> Expr:
    """Return 2^(high + low)."""
    n, whole = nearest(high)
    r = (high - n) + low
    return scaled(fma(r, polynomial(r, _EXP2[r.dtype]), 1.0), whole)


def _magnitude(x: Expr, y: Expr) -> Expr:
    """|x|^y for x neither 0 nor infinite."""
    _, highest, lowest = _LIMITS[x.dtype]
    high, low = two_product(y, (logarithm := _log2(x))[0])
    high, low = fast_two_sum(high, low + y * logarithm[1])
    bounded = at_least(at_most(high, highest), lowest)
    return _exp2(bounded, select(call("eq", bounded, high), low, number(0.0, x.dtype)))


def pow(x: Expr, y: Expr) -> Expr:
    """Return the power, within 2 ULP; subnormal results are rounded once more. Special cases are those of C.

    The constant 2 as base needs no logarithm.
    """
    if isinstance(x, Const) and x.value == 2.0:
        _, highest, lowest = _LIMITS[x.dtype]
        return _exp2(at_least(at_most(y, highest), lowest), number(0.0, x.dtype))
    a, form = abs(x), FORMATS[x.dtype]
    # Intermediate results must not overflow.
    bound = _LIMITS[x.dtype][0]
    zero, infinite = call("eq", a, 0.0), call("eq", a, INFINITY)
    extreme = zero | infinite
    ordinary = _magnitude(select(extreme, number(1.0, x.dtype), a), at_least(at_most(y, bound), -bound))
    end = select(call("eq", zero, y < 0.0), number(INFINITY, x.dtype), number(0.0, x.dtype))
    magnitude = select(extreme, end, ordinary)
    whole = call("eq", call("floor", y), y)
    half = y * 0.5
    odd = whole & call("ne", call("floor", half), half)
    negative = call("ne", word(x) & form.sign, 0)
    sign = select(negative & odd, const(form.sign, form.word), const(0, form.word))
    result = from_bits(word(magnitude) ^ sign)
    root = (x < 0.0) & ~whole & ~infinite
    unknown = root | call("ne", x, x) | call("ne", y, y)
    result = select(unknown, number(NAN, x.dtype), result)
    one = call("eq", x, 1.0) | call("eq", y, 0.0)
    return select(one, number(1.0, x.dtype), result)
