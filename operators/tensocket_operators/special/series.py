"""Parts that formulas of special functions share: Chebyshev series, squares in exponents, sines of multiples of pi."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from tensocket_plugins.contract.dtypes import float64

from .tables import Table

#: Share of the largest coefficient below which float32 omits the rest of a series.
_SINGLE: Final = 2e-9


def is_wide(m: Any) -> bool:
    """Whether a formula runs in float64."""
    return bool(m.dtype is float64)


def chebyshev(m: Any, table: Table, x: Any, low: float, high: float) -> Any:
    """Return a Chebyshev series over low .. high at ``x``, by Clenshaw's recurrence, to the dtype's precision."""
    if not is_wide(m):
        least = _SINGLE * max(map(abs, table))
        table = table[:max(k for k, c in enumerate(table) if abs(c) >= least) + 1]
    t = x * (2 / (high - low)) - (high + low) / (high - low)
    double, later, last = t + t, 0.0 * t, 0.0 * t
    for coefficient in reversed(table[1:]):
        later, last = double * later - last + coefficient, later
    return t * later - last + table[0]


def polynomial(coefficients: Sequence[float], x: Any) -> Any:
    """Return ``c[0] + c[1] x + c[2] x^2 + ...`` by Horner's rule."""
    result: Any = 0.0 * x + coefficients[-1]
    for coefficient in reversed(coefficients[:-1]):
        result = result * x + coefficient
    return result


def exp_of_square(m: Any, x: Any, factor: float) -> Any:
    """Return exp(factor * x^2): the square of the leading bits is exact, and the remainder is small."""
    x = m.minimum(m.abs(x), 64.0)
    lead = m.rint(x * 16.0) * 0.0625
    return m.exp(lead * lead * factor) * m.exp((x - lead) * (x + lead) * factor)


def sin_pi(m: Any, x: Any) -> Any:
    """Return sin(pi x) without its sign at odd multiples: exact at integers, NaN at infinities."""
    return m.sin((x - m.rint(x)) * math.pi)


def pick(m: Any, *cases: Any) -> Any:
    """Return the first value whose condition holds: ``pick(m, condition, value, condition, value, ..., value)``."""
    result = cases[-1]
    for position in range(len(cases) - 3, -1, -2):
        result = m.where(cases[position], cases[position + 1], result)
    return result
