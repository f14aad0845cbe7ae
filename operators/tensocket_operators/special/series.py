"""Parts that formulas of special functions share: Chebyshev series, squares in exponents, sines of multiples of pi."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

from tensocket_plugins.contract.dtypes import float64

from .tables import Table

#: Share of the largest coefficient below which float32 omits the rest of a series.
_SINGLE: Final = 2e-9
#: Sum of the sizes of coefficients of powers, relative to that of a series, up to which no digit is lost.
_CANCELLED: Final = 3.0


def is_wide(m: Any) -> bool:
    """Whether a formula runs in float64."""
    return bool(m.dtype is float64)


def chebyshev(m: Any, table: Table, x: Any, low: float, high: float) -> Any:
    """Return a Chebyshev series over low .. high at ``x``, to the dtype's precision.

    If its powers of t, from -1 to 1, hardly cancel, they take one fused step per term, otherwise Clenshaw's recurrence
    three steps.
    """
    if not is_wide(m):
        least = _SINGLE * max(map(abs, table))
        table = table[:max(k for k, c in enumerate(table) if abs(c) >= least) + 1]
    t = x if (low, high) == (-1.0, 1.0) else x * (2 / (high - low)) - (high + low) / (high - low)
    powers = _powers(table)
    if powers is not None:
        return horner(m, powers, t)
    double, later, last = t + t, 0.0 * t, 0.0 * t
    for coefficient in reversed(table[1:]):
        later, last = double * later - last + coefficient, later
    return t * later - last + table[0]


@lru_cache(maxsize=128)
def _powers(table: Table) -> Table | None:
    """Return the coefficients of the powers of t in a Chebyshev series; None if they are much larger than the sum."""
    polynomial, following = [1], [0, 1]
    powers = [Fraction(0)] * len(table)
    for coefficient in table:
        for power, factor in enumerate(polynomial):
            powers[power] += factor * Fraction(coefficient)
        polynomial, following = following, [
            2 * a - b for a, b in zip([0, *following], [*polynomial, 0, 0], strict=True)]
    found = tuple(map(float, powers))
    return found if sum(map(abs, found)) <= _CANCELLED * sum(map(abs, table)) else None


def horner(m: Any, coefficients: Sequence[float], x: Any) -> Any:
    """Return ``c[0] + c[1] x + c[2] x^2 + ...``, each step rounded once."""
    result: Any = coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = m.fma(x, result, coefficient)
    return result


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Return ``c[0] + c[1] x + c[2] x^2 + ...`` by Horner's rule."""
    result: Any = 0.0 * x + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def exp_of_square(m: Any, x: Any, factor: float) -> Any:
    """Return exp(factor * x^2) for a power of two as factor; the exponential's slope restores what x^2 loses."""
    x = m.minimum(m.abs(x), 64.0)
    square = x * x
    found = m.exp(square * factor)
    mended = m.fma(found, m.fma(x, x, -square) * factor, found)
    return mended if factor < 0 else m.where(found < math.inf, mended, found)


def sin_pi(m: Any, x: Any) -> Any:
    """Return sin(pi x) without its sign at odd multiples: exact at integers, NaN at infinities."""
    return m.sin((x - m.rint(x)) * math.pi)


def pick(m: Any, *cases: Any) -> Any:
    """Return the first value whose condition holds: ``pick(m, condition, value, condition, value, ..., value)``."""
    result = cases[-1]
    for position in range(len(cases) - 3, -1, -2):
        result = m.where(cases[position], cases[position + 1], result)
    return result
