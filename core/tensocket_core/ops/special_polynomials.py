"""Orthogonal polynomials: Chebyshev (four kinds, and shifted), Hermite (two kinds), Laguerre, Legendre.

All by their three-term recurrences from degrees 0 and 1; the degree may differ from element to element. A fraction of
the degree is cut off; below 0, polynomials are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket_plugins.contract.dtypes import int32
from tensocket_plugins.contract.errors import AutogradError

from ..autograd.derivative import Derivative
from ..execute.pointwise import Pointwise
from .special_series import is_wide, pick

#: Degrees above this one are computed as this one.
_HIGHEST: Final = 2.0**24
#: Degrees from which Hermite's polynomials count as infinite, for float32 and float64.
_HERMITE: Final = (128.0, 512.0)
#: ``next(x, p, q, k)`` is the polynomial of degree k + 1 from those of degrees k - 1 and k.
Recurrence = Callable[[Any, Any, Any, Any], Any]


def _polynomial(name: str, doc: str, first: Callable[[Any], Any], following: Recurrence, *, shifted: bool = False,
                hermite: bool = False) -> Pointwise:
    def formula(m: Any, x: Any, n: Any) -> Any:
        argument = x + x - 1.0 if shifted else x
        degree = m.trunc(n)
        steps = m.cast(m.minimum(m.maximum(m.where(m.ne(n, n), 0.0, degree) - 1.0, 0.0), _HIGHEST), int32)

        def step(k: Any, p: Any, q: Any) -> tuple[Any, Any]:
            return q, following(argument, p, q, m.cast(k, m.dtype) + 1.0)

        start = first(argument)
        _, value = m.repeat(steps, (1.0 + 0.0 * start, start), step, lambda p, q: m.eq(q, q))
        value = pick(m, m.ne(n, n), n, degree < 0, 0.0, degree < 1, 1.0 + 0.0 * x, value)
        return m.where(degree > _HERMITE[is_wide(m)], x * 0.0 / 0.0, value) if hermite else value

    def undefined() -> Any:
        raise AutogradError(name, "a gradient", "the derivatives of orthogonal polynomials are not defined",
                            "detach() the tensors")

    return Pointwise(
        f"special_{name}(Operand input, Operand n) -> Tensor", doc, formula, compute="float", kinds="f", method=False,
        namespace="special", derivative=Derivative(input=lambda grad: undefined(), n=lambda grad: undefined()))


def _chebyshev(x: Any, p: Any, q: Any, k: Any) -> Any:
    return (x + x) * q - p


_KINDS: Final[tuple[tuple[str, Callable[[Any], Any]], ...]] = (
    ("t", lambda x: x), ("u", lambda x: x + x), ("v", lambda x: x + x - 1.0), ("w", lambda x: x + x + 1.0))

#: By kind.
CHEBYSHEV: Final = {kind: _polynomial(
    f"chebyshev_polynomial_{kind}", f"Chebyshev polynomial {kind.upper()} of degree n.", first, _chebyshev)
    for kind, first in _KINDS}
SHIFTED: Final = {kind: _polynomial(
    f"shifted_chebyshev_polynomial_{kind}", f"Chebyshev polynomial {kind.upper()} of degree n at 2 * input - 1.", first,
    _chebyshev, shifted=True) for kind, first in _KINDS}
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
