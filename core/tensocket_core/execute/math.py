"""One mathematics, three readings.

A record's formula is a function over a namespace ``m`` and values; it is read

* as kernel IR, with ``ExprMath`` and expressions (generated kernels of every backend);
* as NumPy, with the kit's namespace and arrays (small arrays on host-resident devices);
* without a code generator, as primitives: the same expressions are evaluated call by call (``execute.primitive``).

Formulas use ``+ - * / & | ^ ~ < <= > >=`` and the functions below. ``/`` is for floats; ``m.idiv`` truncates.
"""

from __future__ import annotations

from typing import Any

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.complex import Complex, choose, convert, equal, unequal
from tensocket_plugins.ir.math import complexes
from tensocket_plugins.ir.nodes import Expr, call, const, select

_UNARY = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "sqrt", "floor", "ceil", "trunc", "rint", "abs")
_BINARY = {"minimum": "min", "maximum": "max", "fmod": "fmod", "idiv": "idiv", "imod": "imod"}


def arithmetic_dtype(dtype: DType) -> DType:
    """The dtype in which kernels compute: float32 for the narrower floats."""
    return dtypes.float32 if dtype.kind == "float" and dtype.itemsize < 4 else dtype


class ExprMath:
    """Formulas as kernel IR."""

    def __init__(self, dtype: DType) -> None:
        self.dtype = dtype

    def where(self, condition: Any, yes: Any, no: Any) -> Any:
        """``yes`` where ``condition`` holds, else ``no``; at most one of the two is a Python number."""
        if isinstance(yes, Complex) or isinstance(no, Complex):
            return choose(condition, yes, no)
        if not isinstance(yes, Expr) and not isinstance(no, Expr):
            yes = const(yes, self.dtype)
        return select(condition, yes, no)

    def cast(self, value: Any, dtype: DType) -> Any:
        """``value`` converted."""
        return convert(value, dtype)

    def eq(self, x: Any, y: Any) -> Expr:
        """Whether two values are equal."""
        x, y = (y, x) if isinstance(y, Complex) else (x, y)
        return equal(x, y) if isinstance(x, Complex) else call("eq", x, y)

    def ne(self, x: Any, y: Any) -> Expr:
        """Whether two values differ."""
        x, y = (y, x) if isinstance(y, Complex) else (x, y)
        return unequal(x, y) if isinstance(x, Complex) else call("ne", x, y)

    def pow(self, x: Any, y: Any) -> Any:
        """``x`` to the power ``y``."""
        if isinstance(x, Complex) or isinstance(y, Complex):
            like = x if isinstance(x, Complex) else y
            return complexes.pow(like.lift(x), like.lift(y))
        return call("pow", x, y)

    def real(self, x: Any) -> Any:
        """The real part."""
        return x.re if isinstance(x, Complex) else x

    def imag(self, x: Any) -> Any:
        """The imaginary part of a complex value."""
        return x.im

    def complex(self, real: Any, imag: Any) -> Any:
        """A complex value of two parts."""
        return Complex(real, imag)

    def bitcast(self, value: Expr, dtype: DType) -> Expr:
        """The same bits as ``dtype``, of equal size."""
        return call("bitcast", value, dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        if name in _UNARY or name in complexes.UNARY:
            return lambda x: complexes.UNARY[name](x) if isinstance(x, Complex) else call(name, x)
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
