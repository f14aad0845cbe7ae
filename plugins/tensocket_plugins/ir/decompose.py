"""Replaces float32 functions that a target lacks, or has with other roundings, by the IR's own arithmetic."""

from __future__ import annotations

from ..contract.dtypes import float32
from .functions import FUNCTIONS
from .math import FLOAT32
from .nodes import Call, Expr, Program
from .rewrite import Rewrite, name_shared
from .target import Target


def decompose(program: Program, target: Target) -> Program:
    """``program`` with its decomposable float32 functions, except the target's native ones, replaced by arithmetic.

    The results are the same bits on every device, within the bounds that each function of ``ir.math`` states. float64
    functions stay. Parts that expressions share get names, so that printers write them once.
    """

    def change(e: Expr) -> Expr:
        if (isinstance(e, Call) and e.dtype is float32 and e.function not in target.native
                and FUNCTIONS[e.function].decomposable):
            return FLOAT32[e.function](*e.args)
        return e

    return name_shared(Rewrite(change).program(program))
