"""The IR's own float functions: each maps expressions to an expression that gives the same bits on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...contract.dtypes import DType, float32, float64
from ..nodes import Expr
from . import trigonometric_double as double
from .error import erf
from .exponential import exp, expm1, tanh
from .logarithm import log, log1p
from .power import pow
from .trigonometric import cos, sin

_BOTH: Final[dict[str, Callable[..., Expr]]] = {
    "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "tanh": tanh, "erf": erf, "pow": pow,
}
#: By dtype, then by the name of the replaced scalar function.
ARITHMETIC: Final[dict[DType, dict[str, Callable[..., Expr]]]] = {
    float32: {**_BOTH, "sin": sin, "cos": cos},
    float64: {**_BOTH, "sin": double.sin, "cos": double.cos},
}

__all__ = ["ARITHMETIC", "cos", "erf", "exp", "expm1", "log", "log1p", "pow", "sin", "tanh"]
