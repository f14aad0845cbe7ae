"""The IR's own float functions: each maps expressions to an expression that gives the same bits on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...contract.dtypes import DType, float32, float64
from ..nodes import Call, Expr, IRError, select
from . import trigonometric_double as double
from .error import erf
from .exponential import exp, expm1, tanh
from .logarithm import log, log1p
from .power import pow
from .ranged import Ranged
from .trigonometric import cos, sin

_BOTH: Final[dict[str, Callable[..., Expr]]] = {
    "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "tanh": tanh, "erf": erf, "pow": pow,
}
#: By dtype, then by the name of the replaced scalar function.
ARITHMETIC: Final[dict[DType, dict[str, Callable[..., Expr]]]] = {
    float32: {**_BOTH, "sin": sin, "cos": cos},
    float64: {**_BOTH, "sin": double.sin, "cos": double.cos},
}



def rare_form(e: Call) -> Expr:
    """Return the form for unusual arguments of the function that a call of ``rarely`` names.

    Raises:
        IRError: The call's second argument is no such function.
    """
    called = e.args[1]
    function = ARITHMETIC.get(e.dtype, {}).get(called.function) if isinstance(called, Call) else None
    if not isinstance(called, Call) or not isinstance(function, Ranged):
        raise IRError("rarely takes a call of a function with a form for unusual arguments")
    return function.rare(*called.args)


def written_out(e: Call) -> Expr:
    """Return a call of ``rarely`` as a choice between both forms."""
    return select(e.args[0], rare_form(e), e.args[2])


__all__ = ["ARITHMETIC", "cos", "erf", "exp", "expm1", "log", "log1p", "pow", "rare_form", "sin", "tanh",
           "written_out"]
