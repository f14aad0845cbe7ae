"""One formula, three readings.

A record's formula is a function over a namespace ``m`` and values. It is read

* as kernel IR, with ``ExprMath`` and expressions (generated kernels of every backend);
* as NumPy, with the kit's namespace ``ArrayMath`` and arrays (small arrays on host-resident devices);
* without a code generator, as primitives: the same expressions are evaluated call by call.

Formulas use ``+ - * / & | ^ ~ < <= > >=`` and the functions below. ``/`` is for floats; ``m.idiv`` truncates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.complex import Complex, choose, convert, equal, unequal
from tensocket_plugins.ir.math import complexes
from tensocket_plugins.ir.math.build import fma
from tensocket_plugins.ir.math.logarithm import log2, log10
from tensocket_plugins.ir.nodes import Assign, Declare, Expr, If, Let, Stmt, Var, call, const, loop, select

_UNARY = ("exp", "expm1", "log", "log1p", "sin", "cos", "tanh", "erf", "sqrt", "floor", "ceil", "trunc", "rint", "abs")
_BINARY = {"minimum": "min", "maximum": "max", "fmod": "fmod", "idiv": "idiv", "imod": "imod"}


@dataclass(frozen=True)
class Computed:
    """A formula's value together with the statements that compute its parts first."""

    statements: tuple[Stmt, ...]
    value: Any


class ExprMath:
    """Namespace that reads formulas as kernel IR.

    Args:
        dtype: Element type of the computation.
        stored: Element type to which operands and results are rounded; ``dtype`` by default.
    """

    def __init__(self, dtype: DType, stored: DType | None = None) -> None:
        self.dtype = dtype
        self.stored = stored or dtype
        self._statements: list[Stmt] = []
        self._repeats = 0

    def finished(self, value: Any) -> Any:
        """Return the formula's value, as ``Computed`` if loops precede it."""
        return Computed(tuple(self._statements), value) if self._statements else value

    def repeat(self, count: Any, state: Sequence[Any], step: Callable[..., Sequence[Any]],
               going: Callable[..., Any] | None = None) -> tuple[Any, ...]:
        """Return the state after ``state = step(k, *state)`` for k below ``count``, while ``going(*state)`` holds.

        Args:
            count: A Python int, or an int32 value for each element.
            state: First values; Python numbers have the formula's dtype.
            step: Returns the next state; ``k`` is an int32.
            going: Whether to continue; once false, the state stays.
        """
        number, self._repeats = self._repeats, self._repeats + 1
        first = [x if isinstance(x, Expr) else const(x, self.dtype) for x in state]
        held = [Var(f"state{number}_{i}", x.dtype) for i, x in enumerate(first)]
        k, outside = Var(f"k{number}", dtypes.int32), self._statements
        self._statements = []
        new = [x if isinstance(x, Expr) else const(x, v.dtype) for x, v in zip(step(k, *held), held, strict=True)]
        following = [Var(f"next{number}_{i}", x.dtype) for i, x in enumerate(new)]
        body: list[Stmt] = [*self._statements, *map(Let, following, new), *map(Assign, held, following)]
        if going is not None:
            body = [If(going(*held), tuple(body))]
        self._statements = [*outside, *map(Declare, held, first), loop(k, count, body)]
        return tuple(held)

    def where(self, condition: Any, yes: Any, no: Any) -> Any:
        """Return ``yes`` where ``condition`` holds, else ``no``; at most one of the two is a Python number."""
        if isinstance(yes, Complex) or isinstance(no, Complex):
            return choose(condition, yes, no)
        if not isinstance(yes, Expr) and not isinstance(no, Expr):
            yes = const(yes, self.dtype)
        return select(condition, yes, no)

    def cast(self, value: Any, dtype: DType) -> Any:
        """Convert ``value`` to ``dtype``."""
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
        """Return ``x`` to the power ``y``."""
        if isinstance(x, Complex) or isinstance(y, Complex):
            like = x if isinstance(x, Complex) else y
            return complexes.pow(like.lift(x), like.lift(y))
        return call("pow", x, y)

    def fma(self, x: Any, y: Any, z: Any) -> Expr:
        """Return ``x * y + z``, rounded once, for real numbers; ``x`` is an expression."""
        return fma(x, y, z)

    def log2(self, x: Any) -> Expr:
        """Return the logarithm of a real number to base 2."""
        return log2(x)

    def log10(self, x: Any) -> Expr:
        """Return the logarithm of a real number to base 10."""
        return log10(x)

    def real(self, x: Any) -> Any:
        """Return the real part."""
        return x.re if isinstance(x, Complex) else x

    def imag(self, x: Any) -> Any:
        """Return the imaginary part of a complex value."""
        return x.im

    def complex(self, real: Any, imag: Any) -> Any:
        """Return a complex value from its two parts."""
        return Complex(real, imag)

    def bitcast(self, value: Expr, dtype: DType) -> Expr:
        """Return the same bits as ``dtype``, of equal size."""
        return call("bitcast", value, dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        if name in _UNARY or name in complexes.UNARY:
            return lambda x: complexes.UNARY[name](x) if isinstance(x, Complex) else call(name, x)
        if name in _BINARY:
            return lambda x, y: call(_BINARY[name], x, y)
        raise AttributeError(name)
