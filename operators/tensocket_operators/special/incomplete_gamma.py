"""The regularised incomplete gamma functions.

For a above 200 and x near it, this is the uniform expansion (see ``tables.UNIFORM``); else the power series up
to max(a, 1) and the continued fraction above, by Lentz's algorithm. Both start from x^a exp(-x) / gamma(a + 1), written
in terms of (x - a) / a so that nothing large cancels.
"""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core.dispatch.derivative import Derivative, no_derivative

from ..kinds.pointwise import Pointwise
from . import tables as tables
from .error import erfc_of
from .gamma import log_gamma_positive, stirling_rest
from .series import is_wide, pick, polynomial

_LARGE: Final = 200.0


def _excess(m: Any, mu: Any, ratio: Any) -> Any:
    """Return mu - log(ratio) for mu = ratio - 1, near 0 by the series of the inverse hyperbolic tangent."""
    t = mu / (2.0 + mu)
    square = t * t
    near = mu * t - 2.0 * t * square * polynomial([1 / (2 * k + 3) for k in range(11)], square)
    return m.where(m.abs(mu) < 0.3, near, mu - m.log(ratio))


def _series(m: Any, a: Any, x: Any, epsilon: float, steps: int) -> Any:
    """Return 1 + x / (a + 1) + x^2 / ((a + 1) (a + 2)) + ..."""
    start = (1.0 + 0.0 * x, 1.0 + 0.0 * x, a)

    def step(k: Any, term: Any, total: Any, below: Any) -> tuple[Any, ...]:
        below = below + 1.0
        term = term * x / below
        return term, total + term, below

    return m.repeat(steps, start, step, lambda term, total, below: term > epsilon * total)[1]


def _fraction(m: Any, a: Any, x: Any, epsilon: float, steps: int) -> Any:
    """Return the continued fraction of gamma(a, x) exp(x) x^-a, from its successive ratios."""
    b = x + 1.0 - a
    start = (b, 1e30 + 0.0 * x, 1.0 / b, 1.0 / b, 2.0 + 0.0 * x)

    def step(k: Any, b: Any, c: Any, d: Any, h: Any, ratio: Any) -> tuple[Any, ...]:
        i = m.cast(k, m.dtype) + 1.0
        top, b = i * (a - i), b + 2.0
        d = 1.0 / (top * d + b)
        c = b + top / c
        return b, c, d, h * (c * d), c * d

    return m.repeat(steps, start, step, lambda b, c, d, h, ratio: m.abs(ratio - 1.0) > epsilon)[3]


def _parts(m: Any, a: Any, x: Any) -> tuple[Any, Any]:
    """Return the lower and upper function of finite positive numbers."""
    epsilon, steps = (1e-17, 220) if is_wide(m) else (1e-8, 110)
    mu = (x - a) / a
    excess = _excess(m, mu, x / a)
    exponent = a * excess
    large = m.exp(-exponent - stirling_rest(m, m.maximum(a, 3.0))) / m.sqrt(2 * math.pi * a)
    small = m.exp(a * m.log(x) - x - log_gamma_positive(m, m.minimum(a, 3.0) + 1.0))
    prefactor = m.where(a >= 3.0, large, small)
    eta = m.sqrt(2.0 * excess)
    uniform = (a > _LARGE) & (eta < 0.8)
    below = x <= m.maximum(a, 1.0)
    # Elements that another formula serves get arguments on which each loop ends at once.
    sum_x = m.where(below & ~uniform, x, 0.0)
    lower = prefactor * _series(m, a, sum_x, epsilon, steps)
    fraction_x = m.where(below | uniform, a + 1e6, x)
    upper = prefactor * a * _fraction(m, a, fraction_x, epsilon, steps)
    eta = m.where(x < a, -eta, eta)
    rest: Any = 0.0 * a
    for row in reversed(tables.UNIFORM):
        rest = rest / a + polynomial(row, eta)
    rest = rest * m.exp(-exponent) / m.sqrt(2 * math.pi * a)
    scaled = eta * m.sqrt(0.5 * a)
    return (pick(m, uniform, 0.5 * erfc_of(m, -scaled) - rest, below, lower, 1.0 - upper),
            pick(m, uniform, 0.5 * erfc_of(m, scaled) + rest, below, m.maximum(1.0 - lower, 0.0), upper))


def _limits(m: Any, a: Any, x: Any, value: Any, at_zero: float) -> Any:
    """Return the values at zeros and infinities, and NaN for negative numbers."""
    at_infinity = 1.0 - at_zero
    return pick(m, m.ne(a, a) | m.ne(x, x), a + x, (x < 0) | (a < 0), math.nan,
                m.eq(a, 0.0) & (x > 0), at_infinity, m.eq(a, 0.0), math.nan, m.eq(x, 0.0), at_zero,
                m.eq(a, math.inf) & m.eq(x, math.inf), math.nan, m.eq(a, math.inf), at_zero,
                m.eq(x, math.inf), at_infinity, value)


def _igamma(m: Any, a: Any, x: Any) -> Any:
    return _limits(m, a, x, _parts(m, a, x)[0], 0.0)


def _igammac(m: Any, a: Any, x: Any) -> Any:
    return _limits(m, a, x, _parts(m, a, x)[1], 1.0)


def _density(a: Any, x: Any) -> Any:
    return ((a - 1) * x.log() - x - a.lgamma()).exp()


igamma: Final = Pointwise(
    "igamma(Tensor input, Tensor other) -> Tensor",
    "Regularised lower incomplete gamma function: the integral of t ** (input - 1) exp(-t) from 0 to other, over "
    "gamma(input).", _igamma, kinds="f", inplace=True,
    derivative=Derivative(input=no_derivative("igamma", "input"),
                          other=lambda grad, input, other: grad * _density(input, other)))
igammac: Final = Pointwise(
    "igammac(Tensor input, Tensor other) -> Tensor",
    "Regularised upper incomplete gamma function: 1 - igamma(input, other).", _igammac, kinds="f", inplace=True,
    derivative=Derivative(input=no_derivative("igammac", "input"),
                          other=lambda grad, input, other: -grad * _density(input, other)))
