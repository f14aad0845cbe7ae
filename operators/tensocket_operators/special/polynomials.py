"""Orthogonal polynomials: Chebyshev (four kinds, and shifted), Hermite (two kinds), Laguerre, Legendre.

All use their three-term recurrences from degrees 0 and 1; the degree may differ between elements. Degrees are
truncated to integers. Polynomials of negative degrees are 0, as are those of degrees beyond 64-bit integers. Chebyshev
polynomials of high degrees between -1 and 1 are quotients of sines and cosines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_core.dispatch.derivative import Derivative
from tensocket_plugins.contract.dtypes import int32
from tensocket_plugins.contract.errors import AutogradError

from ..kinds.pointwise import Pointwise
from ..pointwise.elementary import arc_cosine
from .series import is_wide, pick

#: Degrees above this one are clamped to it.
_HIGHEST: Final = 2.0**24
#: Degrees from this one on are not 64-bit integers.
_NO_INTEGER: Final = 2.0**63
#: Degrees above this one do not use the recurrence for Chebyshev polynomials.
_STEPS: Final = 64.0
#: Degrees from which on Hermite polynomials count as infinite, for float32 and float64.
_HERMITE: Final = (128.0, 512.0)
#: ``next(x, p, q, k)`` returns the polynomial of degree k + 1 from those of degrees k - 1 and k.
Recurrence = Callable[[Any, Any, Any, Any], Any]
#: ``closed(m, angle, n)`` returns the polynomial at cos(angle), at 1, and its magnitude at -1.
Closed = Callable[[Any, Any, Any], tuple[Any, Any, Any]]


def _polynomial(name: str, doc: str, first: Callable[[Any], Any], following: Recurrence, *, shifted: bool = False,
                hermite: bool = False, closed: Closed | None = None) -> Pointwise:
    def formula(m: Any, x: Any, n: Any) -> Any:
        argument = x + x - 1.0 if shifted else x
        degree = m.where(n < _NO_INTEGER, m.trunc(n), -1.0)
        inside = None if closed is None else (degree > _STEPS) & (m.abs(argument) <= 1.0)
        counted = m.where(m.ne(n, n), 0.0, degree if inside is None else m.where(inside, 0.0, degree))
        steps = m.cast(m.minimum(m.maximum(counted - 1.0, 0.0), _HIGHEST), int32)

        def step(k: Any, p: Any, q: Any) -> tuple[Any, Any]:
            return q, following(argument, p, q, m.cast(k, m.dtype) + 1.0)

        start = first(argument)
        _, value = m.repeat(steps, (1.0 + 0.0 * start, start), step, lambda p, q: m.eq(q, q))
        if closed is not None:
            value = m.where(inside, _at_once(m, closed, argument, degree), value)
        value = pick(m, m.ne(n, n), n, degree < 0, 0.0, degree < 1, 1.0 + 0.0 * x, value)
        return m.where(degree > _HERMITE[is_wide(m)], x * 0.0 / 0.0, value) if hermite else value

    def undefined() -> Any:
        raise AutogradError(name, "a gradient", "the derivatives of orthogonal polynomials are not defined",
                            "detach() the tensors")

    return Pointwise(
        f"special_{name}(Operand input, Operand n) -> Tensor", doc, formula, compute="float", kinds="f", method=False,
        namespace="special", derivative=Derivative(input=lambda grad: undefined(), n=lambda grad: undefined()))


def _at_once(m: Any, closed: Closed, x: Any, n: Any) -> Any:
    """Return a closed form between -1 and 1; at these ends, which angles cannot resolve, return exact values."""
    between, right, left = closed(m, arc_cosine(m, m.minimum(m.maximum(x, -1.0), 1.0)), n)
    odd = m.ne(n - 2.0 * m.floor(n * 0.5), 0.0)
    return pick(m, m.eq(x, 1.0), right, m.eq(x, -1.0), m.where(odd, -left, left), between)


def _chebyshev(x: Any, p: Any, q: Any, k: Any) -> Any:
    return (x + x) * q - p


_KINDS: Final[tuple[tuple[str, Callable[[Any], Any]], ...]] = (
    ("t", lambda x: x), ("u", lambda x: x + x), ("v", lambda x: x + x - 1.0), ("w", lambda x: x + x + 1.0))

_CLOSED: Final[dict[str, Closed]] = {
    "t": lambda m, t, n: (m.cos(n * t), 1.0 + 0.0 * n, 1.0 + 0.0 * n),
    "u": lambda m, t, n: (m.sin((n + 1.0) * t) / m.sin(t), n + 1.0, n + 1.0),
    "v": lambda m, t, n: (m.cos((n + 0.5) * t) / m.cos(0.5 * t), 1.0 + 0.0 * n, n + n + 1.0),
    "w": lambda m, t, n: (m.sin((n + 0.5) * t) / m.sin(0.5 * t), n + n + 1.0, 1.0 + 0.0 * n),
}

#: The polynomials by kind.
CHEBYSHEV: Final = {kind: _polynomial(
    f"chebyshev_polynomial_{kind}", f"Chebyshev polynomial {kind.upper()} of degree n.", first, _chebyshev,
    closed=_CLOSED[kind]) for kind, first in _KINDS}
SHIFTED: Final = {kind: _polynomial(
    f"shifted_chebyshev_polynomial_{kind}", f"Chebyshev polynomial {kind.upper()} of degree n at 2 * input - 1.", first,
    _chebyshev, shifted=True, closed=_CLOSED[kind]) for kind, first in _KINDS}
hermite_h: Final = _polynomial(
    "hermite_polynomial_h", "Physicist's Hermite polynomial of degree n.", lambda x: x + x,
    lambda x, p, q, k: (x + x) * q - (k + k) * p, hermite=True)
hermite_he: Final = _polynomial(
    "hermite_polynomial_he", "Probabilist's Hermite polynomial of degree n.", lambda x: x,
    lambda x, p, q, k: x * q - k * p, hermite=True)
laguerre: Final = _polynomial(
    "laguerre_polynomial_l", "Laguerre polynomial of degree n.", lambda x: 1.0 - x,
    lambda x, p, q, k: ((k + k + 1.0 - x) * q - k * p) / (k + 1.0))
legendre: Final = _polynomial(
    "legendre_polynomial_p", "Legendre polynomial of degree n.", lambda x: x,
    lambda x, p, q, k: ((k + k + 1.0) * x * q - k * p) / (k + 1.0))
