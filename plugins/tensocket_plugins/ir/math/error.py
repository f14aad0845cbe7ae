"""erf in float32: a polynomial in x^2 below 0.92, 1 - exp(Q(x)) above with Q near log(erfc(x)), 1 from 4 on.

Minimax fits; method: see ``exponential``.
"""

from __future__ import annotations

from typing import Final

from ..nodes import Expr, select
from .build import at_most, fma, polynomial, with_sign
from .exponential import exp_moderate

_SMALL: Final = (0.12837915, -0.37612498, 0.11281845, -0.026767448, 0.004994238, -0.00059957633)
_LARGE: Final = (-0.00019414931, -1.127682, -0.6371715, -0.10394106, 0.02223149, -0.003044361, 0.0001960529)


def erf(x: Expr) -> Expr:
    """Error function, within 2 ULP."""
    a = abs(x)
    small = fma(a, polynomial(a * a, _SMALL), a)
    large = 1.0 - exp_moderate(polynomial(at_most(a, 4.0), _LARGE))
    return with_sign(select(a < 0.92, small, large), x)
