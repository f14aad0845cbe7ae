"""The IR's own float32 functions: each takes expressions and returns an expression of the same bits on every device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..nodes import Expr
from .error import erf
from .exponential import exp, expm1, tanh
from .logarithm import log, log1p
from .power import pow
from .trigonometric import cos, sin

#: By the name of the scalar function that it replaces.
FLOAT32: Final[dict[str, Callable[..., Expr]]] = {
    "exp": exp, "expm1": expm1, "log": log, "log1p": log1p, "sin": sin, "cos": cos, "tanh": tanh, "erf": erf,
    "pow": pow,
}

__all__ = ["FLOAT32", "cos", "erf", "exp", "expm1", "log", "log1p", "pow", "sin", "tanh"]
