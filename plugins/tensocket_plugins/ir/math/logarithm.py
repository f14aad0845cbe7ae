"""log, log1p, log2 and log10.

x = 2^k m with m between sqrt(1/2) and sqrt(2). In float32, log(m) = f - f^2 / 2 + f^3 P(f) with f = m - 1. In float64,
where P would be long, log(m) = 2 artanh(s) with s = f / (2 + f), from which 2 s = f - s f is split off: log(m) = f -
(f^2 / 2 - s (f^2 / 2 + z Q(z))) with z = s^2, as in C libraries. P and Q are minimax fits (method: see
``exponential``).
"""

from __future__ import annotations

from typing import Final

from ...contract.dtypes import float32, float64
from ..nodes import Expr, call, cast, const, select
from .build import FORMATS, INFINITY, NAN, as_float, bits, fma, from_bits, number, polynomial, two_sum, word
from .exponential import LN2
from .ranged import Ranged

_LOG: Final = (0.3333333, -0.2500082, 0.20001242, -0.16623409, 0.14201581, -0.13159613, 0.12762198, -0.07636396)
_LOG_DOUBLE: Final = (
    0.6666666666666735, 0.3999999999940935, 0.2857142874368835, 0.22222198428576442, 0.181835723862295,
    0.1531383110194161, 0.14798272129394677)
#: The bits of the float nearest to sqrt(1/2).
_HALF_ROOT: Final = {float32: 0x3F3504F3, float64: 0x3FE6A09E667F3BCD}


def split_exponent(x: Expr) -> tuple[Expr, Expr]:
    """Return ``(m, k)`` with x = 2^k m, for positive normal numbers; k is an integer of the same width."""
    i, mantissa = bits(x), FORMATS[x.dtype].mantissa
    k = (i - _HALF_ROOT[x.dtype]) >> mantissa
    return from_bits(i - (k << mantissa)), k


def normal(x: Expr) -> tuple[Expr, Expr]:
    """Return ``(y, k)`` with x = 2^k y and y a normal number, for positive x; k is 0 or minus the mantissa's bits."""
    form = FORMATS[x.dtype]
    tiny = x < form.smallest
    return select(tiny, x * 2.0**form.mantissa, x), cast(tiny, form.integer) * -form.mantissa


def _assembled(f: Expr, k: Expr | None, correction: Expr | None = None) -> Expr:
    """Return log(1 + f) + k ln 2, plus a small correction; without ``k``, log(1 + f) alone."""
    high, low = LN2[f.dtype]
    square = f * f
    exponent = None if k is None else as_float(k) if f.dtype is float64 else cast(k, float32)
    if f.dtype is float64:
        s, half = f / (f + 2.0), square * 0.5
        z = s * s
        inner = fma(z, polynomial(z, _LOG_DOUBLE), half)
        if exponent is None:
            return f - (half - s * inner)
        rest = exponent * low if correction is None else fma(exponent, low, correction)
        return fma(exponent, high, f - (half - fma(s, inner, rest)))
    if exponent is None:
        return f + fma(square, -0.5, square * f * polynomial(f, _LOG))
    small = fma(square * f, polynomial(f, _LOG), exponent * number(low))
    if correction is not None:
        small = small + correction
    return fma(exponent, high, f + fma(square, -0.5, small))


def _log_normal(x: Expr) -> Expr:
    m, k = split_exponent(x)
    return _assembled(m - 1.0, k)


def _log_anywhere(x: Expr) -> Expr:
    """Return the logarithm of any number, subnormal ones scaled."""
    y, shift = normal(x)
    m, k = split_exponent(y)
    result = _assembled(m - 1.0, k + shift)
    positive = select(x < INFINITY, result, x)
    return select(x > 0.0, positive, select(call("eq", x, 0.0), number(-INFINITY, x.dtype), number(NAN, x.dtype)))


def _is_not_normal(x: Expr) -> Expr:
    """Whether a number is not positive, not finite or subnormal."""
    form = FORMATS[x.dtype]
    smallest, infinite = 1 << form.mantissa, (2 * form.bias + 1) << form.mantissa
    return const(infinite - smallest, form.word) <= word(x) - smallest


#: The natural logarithm, within 1 ULP.
log: Final = Ranged("log", _log_normal, _is_not_normal, _log_anywhere)


def log1p(x: Expr) -> Expr:
    """log(1 + x), within 1 ULP; near 0 from x itself, elsewhere from 1 + x and its rounding error."""
    u, lost = two_sum(number(1.0, x.dtype), x)
    m, k = split_exponent(u)
    near = call("eq", k, 0)
    correction = select(near, number(0.0, x.dtype), lost / u)
    result = _assembled(select(near, x, m - 1.0), k, correction)
    result = select(abs(x) < 2.0 ** (-2 - FORMATS[x.dtype].mantissa), x, result)
    above = select(x < INFINITY, result, x)
    return select(x > -1.0, above, select(call("eq", x, -1.0), number(-INFINITY, x.dtype), number(NAN, x.dtype)))


#: log(2) / log(base) in two parts, the first with few bits, and 1 / log(base).
_BASES: Final = {
    2: {float32: (1.0, 0.0, 1.4426950408889634), float64: (1.0, 0.0, 1.4426950408889634)},
    10: {float32: (0.301025390625, 4.605038981195214e-06, 0.4342944819032518),
         float64: (0.30102999566361177, 3.694239077158931e-13, 0.4342944819032518)}}


def _logarithm(x: Expr, base: int) -> Expr:
    """Return the logarithm to a base, exact at its powers: the exponent's share is exact but for its small part."""
    y, shift = normal(x)
    m, k = split_exponent(y)
    high, low, factor = _BASES[base][x.dtype]
    n = as_float(k + shift)
    natural = _assembled(m - 1.0, None)
    result = fma(n, high, fma(natural, factor, n * number(low, x.dtype)) if low else natural * number(factor, x.dtype))
    above = select(x < INFINITY, result, x)
    return select(x > 0.0, above, select(call("eq", x, 0.0), number(-INFINITY, x.dtype), number(NAN, x.dtype)))


def log2(x: Expr) -> Expr:
    """Return the logarithm to base 2, within 2 ULP."""
    return _logarithm(x, 2)


def log10(x: Expr) -> Expr:
    """Return the logarithm to base 10, within 2 ULP."""
    return _logarithm(x, 10)
