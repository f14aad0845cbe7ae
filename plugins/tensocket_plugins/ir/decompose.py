"""Replaces functions that a target lacks, rounds differently or cannot vectorise, by the IR's own arithmetic."""

from __future__ import annotations

from typing import TypeGuard

from ..contract.dtypes import float32, float64
from .math import ARITHMETIC
from .math.ranged import Ranged
from .nodes import Call, Expr, Program
from .rewrite import Rewrite, name_shared
from .target import Target


def decompose(program: Program, target: Target) -> Program:
    """Return ``program`` with decomposable functions replaced by arithmetic.

    These are the float32 functions, except the target's native ones, so that results have the same bits on every
    device, and the float64 functions if the target wants vectors of them. All are within the bounds that ``ir.math``
    states for each. For processors, the forms for unusual arguments are left to the printer (``rarely``). Shared parts
    of expressions get names, so that printers write them once.
    """
    known = {float32: {name: make for name, make in ARITHMETIC[float32].items() if name not in target.native}}
    if target.wide_arithmetic:
        known[float64] = ARITHMETIC[float64]
    lazy = target.kind == "cpu"

    def concerned(e: Expr) -> TypeGuard[Call]:
        return isinstance(e, Call) and e.dtype in known and e.function in known[e.dtype]

    def change(e: Expr) -> Expr:
        if not concerned(e):
            return e
        make = known[e.dtype][e.function]
        return make.rarely(*e.args) if lazy and isinstance(make, Ranged) else make(*e.args)

    return name_shared(Rewrite(change, concerned).program(program))
