"""Error functions and the normal distribution: erfc, erfcx, erfinv, ndtr, ndtri, log_ndtr.

The tail is exp(x^2) erfc(x) as a Chebyshev series, times an exponential that knows the rounding error of x^2, so that
results stay accurate to the last bit far from 0. Quantiles come from series around the middle and, in the tails, over
sqrt(-2 log(q)); in float32, erfinv is a series over log(1 - x^2).
"""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.derivative import Derivative

from ..kinds.pointwise import Pointwise
from . import tables as tables
from .series import chebyshev, exp_of_square, is_wide

_FLOAT: Final[dict[str, Any]] = {"compute": "float", "kinds": "f"}
_SPECIAL: Final[dict[str, Any]] = {**_FLOAT, "method": False, "namespace": "special"}
_INV_SQRT2: Final = math.sqrt(0.5)
_INV_SQRT_PI: Final = 1 / math.sqrt(math.pi)


def _scaled_tail(m: Any, x: Any) -> Any:
    """Return exp(x^2) erfc(x) for x from 0, with one division."""
    inverse = 1.0 / (x + 3.75)
    finite = m.minimum(x, 1e308 if is_wide(m) else 3e38)
    return chebyshev(m, tables.ERFCX, m.fma(finite * inverse, 2.0, -1.0), -1.0, 1.0) * inverse


def erfc_of(m: Any, x: Any) -> Any:
    """Return the formula of the complementary error function."""
    tail = exp_of_square(m, x, -1.0) * _scaled_tail(m, m.abs(x))
    return m.where(x < 0, 2.0 - tail, tail)


def _erfcx(m: Any, x: Any) -> Any:
    tail = _scaled_tail(m, m.abs(x))
    return m.where(x < 0, 2.0 * exp_of_square(m, x, 1.0) - tail, tail)


def _ndtr(m: Any, x: Any) -> Any:
    tail = exp_of_square(m, x, -0.5) * _scaled_tail(m, m.abs(x) * _INV_SQRT2) * 0.5
    return m.where(x > 0, 1.0 - tail, tail)


def _log_ndtr(m: Any, x: Any) -> Any:
    size = m.abs(x)
    left = m.log(0.5 * _scaled_tail(m, size * _INV_SQRT2)) - 0.5 * size * size
    return m.where(x < -1.0, left, m.log1p(-0.5 * erfc_of(m, x * _INV_SQRT2)))


def _upper_quantile(m: Any, q: Any) -> Any:
    """Return the number that a normal variable exceeds with probability q, for q up to 0.3."""
    s = m.sqrt(-2.0 * m.log(q))
    inverse = 1.0 / s
    near = chebyshev(m, tables.NDTRI_NEAR, inverse, 0.2, 1 / 1.4)
    far = chebyshev(m, tables.NDTRI_FAR, inverse, 1 / 39, 0.2)
    return m.where(m.eq(q, 0.0), math.inf, s - (m.log(s) + m.where(s < 5.0, near, far)) * inverse)


def _central(m: Any, x: Any) -> Any:
    """Return erfinv for |x| up to 3/4."""
    return x * chebyshev(m, tables.ERFINV, x * x, 0.0, 0.5625)


def _erfinv(m: Any, x: Any) -> Any:
    size = m.abs(x)
    if not is_wide(m):
        return m.where(m.eq(size, 1.0), x * math.inf, x * _erfinv_slope(m, x))
    tail = _upper_quantile(m, (1.0 - size) * 0.5) * _INV_SQRT2
    return m.where(size <= 0.75, _central(m, x), m.where(x < 0, -tail, tail))


def _erfinv_slope(m: Any, x: Any) -> Any:
    """Return erfinv(x) / x in float32 for |x| below 1, over w = -log(1 - x^2), which grows slowly."""
    w = -m.log(m.fma(-x, x, 1.0))
    near = chebyshev(m, tables.ERFINV_NEAR, w, 0.0, 5.0)
    return m.where(w < 5.0, near, chebyshev(m, tables.ERFINV_FAR, m.sqrt(w), math.sqrt(5.0), 4.0))


def _ndtri(m: Any, p: Any) -> Any:
    middle = p - 0.5
    tail = _upper_quantile(m, m.minimum(p, 1.0 - p))
    return m.where(m.abs(middle) <= 0.375, _central(m, 2.0 * middle) * math.sqrt(2), m.where(p < 0.5, -tail, tail))


erfc: Final = Pointwise(
    "erfc(Tensor input) -> Tensor", "Complementary error function: 1 - erf(input), accurate for large numbers.",
    erfc_of, inplace=True,
    derivative=Derivative(input=lambda grad, input: grad * (-2 * _INV_SQRT_PI) * (-(input * input)).exp()), **_FLOAT)
erfinv: Final = Pointwise(
    "erfinv(Tensor input) -> Tensor", "Inverse of erf, from -1 to 1.", _erfinv, inplace=True,
    derivative=Derivative(input=lambda grad, result: grad * (math.sqrt(math.pi) / 2) * (result * result).exp()),
    **_FLOAT)
special_erfcx: Final = Pointwise(
    "special_erfcx(Tensor input) -> Tensor", "Scaled complementary error function: exp(input ** 2) * erfc(input).",
    _erfcx, derivative=Derivative(input=lambda grad, input, result: grad * (2 * input * result - 2 * _INV_SQRT_PI)),
    **_SPECIAL)
special_ndtr: Final = Pointwise(
    "special_ndtr(Tensor input) -> Tensor", "Distribution function of the standard normal distribution.", _ndtr,
    derivative=Derivative(input=lambda grad, input: grad * (
        (-0.5 * input * input).exp() * (1 / math.sqrt(2 * math.pi)))), **_SPECIAL)
special_ndtri: Final = Pointwise(
    "special_ndtri(Tensor input) -> Tensor", "Inverse of ndtr: quantiles of the standard normal distribution.", _ndtri,
    derivative=Derivative(input=lambda grad, result: grad * math.sqrt(2 * math.pi) * (0.5 * result * result).exp()),
    **_SPECIAL)
special_log_ndtr: Final = Pointwise(
    "special_log_ndtr(Tensor input) -> Tensor", "log(ndtr(input)), accurate for negative numbers.", _log_ndtr,
    derivative=Derivative(input=lambda grad, input: (
        grad * math.sqrt(2 / math.pi) / functions.special_erfcx(input * -_INV_SQRT2))), **_SPECIAL)
