"""erf: a polynomial in x^2 near 0, 1 - erfc(x) elsewhere, and 1 from 4 (float64: 6) on.

In float32, erfc(x) is the fourth power of a polynomial, whose rounding errors count four times, but only for values
below 0.2; in float64 it is exp(Q(x)) with Q near log(erfc(x)). The polynomials are minimax fits (method: see
``exponential``). The fit of the fourth root weighs errors by their effect on erf.
"""

from __future__ import annotations

from typing import Final

from ...contract.dtypes import float32, float64
from ..nodes import Expr, select
from .build import at_most, fma, polynomial, with_sign
from .exponential import exp_moderate

_SMALL: Final = (0.12837915, -0.37612498, 0.11281845, -0.026767448, 0.004994238, -0.00059957633)
_LARGE: Final = (
    1.0014402, -0.29005286, -0.10055065, -0.009251439, 0.038078602, -0.01025607, 0.0001144938, 0.00027569884,
    -2.8431468e-05)
_SMALL_DOUBLE: Final = (
    0.12837916709551256, -0.3761263890318361, 0.11283791670946311, -0.02686617064300504, 0.00522397759912335,
    -0.0008548325120986103, 0.00012055247103597025, -1.4923153598224494e-05, 1.6415240687334659e-06,
    -1.5813617356537152e-07, 1.1032966657098979e-08)
_LARGE_DOUBLE: Final = (
    1.102327010822294e-08, -1.1283793229916141, -0.6366187367338532, -0.10277690247285728, 0.019140961702014913,
    0.00018202601164043534, -0.0016505454680633125, 0.0005292820409761575, 3.9376642043084324e-05,
    -0.00012128283283616692, 6.987940232482913e-05, -2.629230622004579e-05, 7.41931130875351e-06,
    -1.6293086446066378e-06, 2.7959678641656543e-07, -3.6947390285837116e-08, 3.6389356908822178e-09,
    -2.5176372822827067e-10, 1.0917253791746745e-11, -2.2315854940587985e-13)
#: End of the range of the polynomial in x^2, start of the result 1, and the coefficients of both polynomials.
_PARTS: Final = {float32: (0.92, 4.0, _SMALL, _LARGE), float64: (0.8, 5.95, _SMALL_DOUBLE, _LARGE_DOUBLE)}


def erf(x: Expr) -> Expr:
    """Return the error function, within 2 ULP."""
    a = abs(x)
    border, end, near, far = _PARTS[x.dtype]
    small = fma(a, polynomial(a * a, near), a)
    value = polynomial(at_most(a, end), far)
    large = 1.0 - (_fourth_power(value) if x.dtype is float32 else exp_moderate(value))
    return with_sign(select(a < border, small, large), x)


def _fourth_power(x: Expr) -> Expr:
    square = x * x
    return square * square
