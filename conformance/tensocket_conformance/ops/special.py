"""Special functions.

References are integrals by the trapezoidal rule (which converges exponentially for these), Python's functions,
NumPy's polynomials, and sums with many terms.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Operator, floating
from .layouts import Domain, pointwise_samples

#: Sample classes, only some because the formulas are long; other operators test all memory layouts.
_CLASSES: Final = ("prime#0", "scalar#0", "empty#0", "step#0", "broadcast#0", "large#0")
_ANGLES: Final = (np.arange(240) + 0.5) * (math.pi / 240)
_TIMES: Final = np.arange(-700, 701) * 0.01


def _each(function: Callable[..., float]) -> Callable[..., HostArray]:
    vectorized: Callable[..., HostArray] = np.vectorize(function, otypes=[np.float64])
    return vectorized


def _mean(x: HostArray, integrand: Callable[[HostArray], HostArray]) -> HostArray:
    """Return the mean over 0 .. pi, block by block."""
    flat = np.asarray(x).reshape(-1, 1)
    blocks = [integrand(flat[k:k + 4096]).mean(1) for k in range(0, max(len(flat), 1), 4096)]
    return np.asarray(np.concatenate(blocks).reshape(np.shape(x)))


def _bessel_j(order: int) -> Callable[[HostArray], HostArray]:
    return lambda x: _mean(x, lambda c: np.cos(order * _ANGLES - c * np.sin(_ANGLES)))


def _bessel_i(order: int, scaled: bool) -> Callable[[HostArray], HostArray]:
    def integrand(c: HostArray) -> HostArray:
        return np.asarray(np.exp(c * np.cos(_ANGLES) - (np.abs(c) if scaled else 0)) * np.cos(order * _ANGLES))

    return lambda x: _mean(x, integrand)


def _bessel_k(order: int) -> Callable[[HostArray], HostArray]:
    growth = np.cosh(order * _TIMES)
    return lambda x: _mean(x, lambda c: np.exp(-c * np.cosh(_TIMES)) * growth * (0.005 * len(_TIMES)))


def _digamma(x: HostArray) -> HostArray:
    x = x.astype(np.longdouble)
    total = np.zeros_like(x)
    for _ in range(30):
        total, x = total - 1 / x, x + 1
    square = 1 / (x * x)
    rest = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    return np.asarray(total + np.log(x) - 0.5 / x - rest, np.float64)


def _lower_gamma(a: HostArray, x: HostArray) -> HostArray:
    a, x = np.broadcast_arrays(a, x)
    term = np.exp(a * np.log(x) - x - _each(math.lgamma)(a + 1))
    total = term.copy()
    for k in range(1, 120):
        term = term * x / (a + k)
        total += term
    return np.asarray(total)


def _polynomial(evaluate: Callable[..., Any]) -> Callable[[HostArray, HostArray], HostArray]:
    def reference(x: HostArray, n: HostArray) -> HostArray:
        return _each(lambda v, k: float(evaluate(v, [0.0] * int(k) + [1.0])))(x, n)

    return reference


def _positive(position: int, array: HostArray) -> HostArray:
    return np.asarray(np.abs(array) + array.dtype.type(0.125))


def _degrees(position: int, array: HostArray) -> HostArray:
    return np.asarray(np.trunc(np.abs(array)) if position else array)


def _unit(position: int, array: HostArray) -> HostArray:
    return np.asarray(array * array.dtype.type(0.24))


def _record(name: str, reference: Callable[..., Any], *, arity: int = 1, call: Any = None, restrict: Any = None,
            ulp: float = 8.0, span: float = 4.0, condition: Callable[..., Any] | None = None) -> Operator:
    domain = Domain(((-span, span),) * arity, restrict)
    samples = {label: maker for label, maker in pointwise_samples(domain).items() if label in _CLASSES}
    return Operator(f"special.{name}", call or getattr(ts.special, name), reference, samples, ("f32", "f64"), floating,
                    Tolerance(ulp, 1.0 if condition else 0.0, True), condition)


def _ones(*arguments: HostArray) -> HostArray:
    return np.asarray(4 + sum(np.abs(a) for a in arguments))


def _inverse(x: HostArray) -> HostArray:
    """Return the inverse of erf by Newton's method on erf."""
    y = np.zeros_like(x)
    for _ in range(60):
        y = y - (_each(math.erf)(y) - x) * (math.sqrt(math.pi) / 2) * np.exp(y * y)
    return y


#: The records of this family.
OPERATORS = [
    _record("erfc", _each(math.erfc)),
    _record("erfcx", lambda x: np.exp(x * x) * _each(math.erfc)(x), ulp=32.0),
    _record("erfinv", _inverse, restrict=_unit),
    _record("ndtr", lambda x: 0.5 * _each(math.erfc)(-x * math.sqrt(0.5)),
            condition=lambda x: x * x * _each(math.erfc)(-x * math.sqrt(0.5))),
    _record("gammaln", _each(math.lgamma), restrict=_positive, condition=lambda x: 4 * _ones(x)),
    _record("digamma", _digamma, restrict=_positive, condition=_ones),
    _record("i0", _bessel_i(0, False)), _record("i0e", _bessel_i(0, True)),
    _record("i1", _bessel_i(1, False), condition=_ones), _record("i1e", _bessel_i(1, True), condition=_ones),
    _record("modified_bessel_k0", _bessel_k(0), restrict=_positive, condition=_ones),
    _record("modified_bessel_k1", _bessel_k(1), restrict=_positive, condition=_ones),
    _record("bessel_j0", _bessel_j(0), span=12.0, condition=_ones),
    _record("bessel_j1", _bessel_j(1), span=12.0, condition=_ones),
    _record("spherical_bessel_j0", lambda x: np.sinc(x / math.pi), condition=_ones),
    _record("gammainc", _lower_gamma, arity=2, restrict=_positive, condition=_ones, ulp=32.0),
    _record("gammaincc", lambda a, x: 1 - _lower_gamma(a, x), arity=2, restrict=_positive, ulp=32.0,
            condition=lambda a, x: 4 * _ones(a, x)),
    _record("chebyshev_polynomial_t", _polynomial(np.polynomial.chebyshev.chebval), arity=2, restrict=_degrees,
            condition=lambda x, n: 8 * (1 + np.abs(x)) ** n),
    _record("hermite_polynomial_h", _polynomial(np.polynomial.hermite.hermval), arity=2, restrict=_degrees,
            condition=lambda x, n: 8 * (2 + 2 * np.abs(x)) ** n),
    _record("laguerre_polynomial_l", _polynomial(np.polynomial.laguerre.lagval), arity=2, restrict=_degrees,
            condition=lambda x, n: 8 * (1 + np.abs(x)) ** n),
    _record("legendre_polynomial_p", _polynomial(np.polynomial.legendre.legval), arity=2, restrict=_degrees,
            condition=lambda x, n: 8 * (1 + np.abs(x)) ** n),
]
