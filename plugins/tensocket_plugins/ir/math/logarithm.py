"""log and log1p in float32.

x = 2^k m with m between sqrt(1/2) and sqrt(2), and log(m) = f - f^2 / 2 + f^3 P(f) with f = m - 1; P is a minimax fit
(method: see ``exponential``).
"""

from __future__ import annotations

from typing import Final

from ...contract.dtypes import float32, int32
from ..nodes import Expr, call, cast, select
from .build import INFINITY, NAN, bits, fma, from_bits, number, polynomial, two_sum
from .exponential import LN2_HIGH, LN2_LOW

_LOG: Final = (0.3333333, -0.2500082, 0.20001242, -0.16623409, 0.14201581, -0.13159613, 0.12762198, -0.07636396)
#: The bits of the float nearest to sqrt(1/2).
_HALF_ROOT: Final = 0x3F3504F3


def split_exponent(x: Expr) -> tuple[Expr, Expr]:
    """``(m, k)`` with x = 2^k m, for positive normal numbers; k is int32."""
    i = bits(x)
    k = (i - _HALF_ROOT) >> 23
    return from_bits(i - (k << 23)), k


def normal(x: Expr) -> tuple[Expr, Expr]:
    """``(y, k)`` with x = 2^k y and y a normal number, for positive x; k is 0 or -23."""
    tiny = x < 2.0**-126
    return select(tiny, x * 2.0**23, x), cast(tiny, int32) * -23


def _assembled(f: Expr, k: Expr, correction: Expr | None = None) -> Expr:
    """log(1 + f) + k ln 2, and a small correction."""
    exponent = cast(k, float32)
    square = f * f
    low = fma(square * f, polynomial(f, _LOG), exponent * number(LN2_LOW))
    if correction is not None:
        low = low + correction
    return fma(exponent, LN2_HIGH, f + fma(square, -0.5, low))


def log(x: Expr) -> Expr:
    """Natural logarithm, within 1 ULP."""
    y, shift = normal(x)
    m, k = split_exponent(y)
    result = _assembled(m - 1.0, k + shift)
    positive = select(x < INFINITY, result, x)
    return select(x > 0.0, positive, select(call("eq", x, 0.0), number(-INFINITY), number(NAN)))


def log1p(x: Expr) -> Expr:
    """log(1 + x), within 1 ULP; near 0 it works on x itself, elsewhere on 1 + x and what its rounding lost."""
    u, lost = two_sum(number(1.0), x)
    m, k = split_exponent(u)
    near = call("eq", k, 0)
    correction = select(near, number(0.0), lost / u)
    result = _assembled(select(near, x, m - 1.0), k, correction)
    result = select(abs(x) < 2.0**-25, x, result)
    above = select(x < INFINITY, result, x)
    return select(x > -1.0, above, select(call("eq", x, -1.0), number(-INFINITY), number(NAN)))
