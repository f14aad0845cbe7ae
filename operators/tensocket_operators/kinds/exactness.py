"""The test for formulas that every correct implementation rounds alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.element_types import arithmetic_dtype

if TYPE_CHECKING:
    from tensocket_plugins.ir.nodes import Expr



def is_exact(formula: Callable[..., Any], compute: DType, kinds: tuple[DType, ...]) -> bool:
    """Whether a formula consists of correctly rounded functions, so that NumPy computes the same bits as kernels.

    Args:
        formula: ``formula(m, *operands)``; see ``ir.build.math``.
        compute: Its dtype; False for complex numbers, whose arithmetic differs between NumPy and kernels.
        kinds: Dtypes of the operands.
    """
    from tensocket_plugins.ir.build.math import ExprMath
    from tensocket_plugins.ir.nodes import Expr, Var

    if compute.category < 2:
        return True
    if compute.kind == "complex":
        return False
    m = ExprMath(arithmetic_dtype(compute), compute)
    value = m.finished(formula(m, *[Var(f"x{k}", arithmetic_dtype(dtype)) for k, dtype in enumerate(kinds)]))
    return isinstance(value, Expr) and _is_exact(value, set())


def _is_exact(expr: Expr, seen: set[int]) -> bool:
    from tensocket_plugins.ir.functions import FUNCTIONS
    from tensocket_plugins.ir.nodes import Call

    if id(expr) in seen or not isinstance(expr, Call):
        return True
    seen.add(id(expr))
    function = FUNCTIONS[expr.function]
    if function.decomposable or function.name == "fma":  # NumPy has no fma
        return False
    return all(_is_exact(x, seen) for x in expr.args)
