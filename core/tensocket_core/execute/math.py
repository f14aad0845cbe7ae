"""One mathematics, three readings.

A record's formula is a function over a namespace ``m`` and values; it is read

* as kernel IR, with ``ExprMath`` and expressions (generated kernels of every backend);
* as NumPy, with the kit's namespace and arrays (small arrays on host-resident devices);
* without a code generator, as primitives: the same expressions are evaluated call by call (``execute.primitive``).

Formulas use ``+ - * / & | ^ ~ < <= > >=`` and the functions below. ``/`` is for floats; ``m.idiv`` truncates.
"""

from __future__ import annotations

from typing import Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.nodes import Expr, call, cast, const, select

_UNARY = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "sqrt", "floor", "ceil", "trunc", "rint", "abs")
_BINARY = {"minimum": "min", "maximum": "max", "pow": "pow", "fmod": "fmod", "idiv": "idiv", "imod": "imod",
           "eq": "eq", "ne": "ne"}


#: Half-precision elements that are only moved are moved as bits, so that NaN payloads survive.
MOVED_AS: Final[dict[DType, DType]] = {dtypes.float16: dtypes.uint16, dtypes.bfloat16: dtypes.uint16}


def arithmetic_dtype(dtype: DType) -> DType:
    """The dtype in which kernels compute: float32 for the two half-precision types."""
    return dtypes.float32 if dtype is dtypes.float16 or dtype is dtypes.bfloat16 else dtype


class ExprMath:
    """Formulas as kernel IR."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def where(self, condition: Any, yes: Any, no: Any) -> Expr:
        """``yes`` where ``condition`` holds, else ``no``; at most one of the two is a Python number."""
        if not isinstance(yes, Expr) and not isinstance(no, Expr):
            yes = const(yes, self.dtype)
        return select(condition, yes, no)

    def cast(self, value: Expr, dtype: DType) -> Expr:
        """``value`` converted."""
        return cast(value, dtype)

    def __getattr__(self, name: str) -> Any:
        if name in _UNARY:
            return lambda x: call(name, x)
        if name in _BINARY:
            return lambda x, y: call(_BINARY[name], x, y)
        raise AttributeError(name)


class TensorMath:
    """Row formulas as calls of public operators, for devices without a code generator."""

    def __init__(self, dtype: DType, functions: Any) -> None:
        self.dtype = dtype
        self._functions = functions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._functions, name)
