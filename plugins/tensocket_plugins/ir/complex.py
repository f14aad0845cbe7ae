"""Complex values in the kernel IR: pairs of real expressions.

The IR has no complex type. An element of a complex array is two floats in memory (real part first), and a complex value
is a ``Complex``, whose operators build expressions over the parts. Printers, verifier and devices work on floats only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..contract.dtypes import DType
from .element_types import COMPONENT
from .nodes import Expr, IRError, call, cast, const, select

_OF_COMPONENT: Final[dict[DType, DType]] = {part: dtype for dtype, part in COMPONENT.items()}



@dataclass(frozen=True, slots=True, eq=False)
class Complex:
    """A complex value.

    Attributes:
        re: The real part.
        im: The imaginary part, of the same dtype.
    """

    re: Expr
    im: Expr

    @property
    def dtype(self) -> DType:
        """The complex dtype."""
        return _OF_COMPONENT[self.re.dtype]

    def __add__(self, other: Complex | Expr | complex) -> Complex:
        re, im = parts(other)
        return Complex(self.re + re, self.im if im is None else self.im + im)

    __radd__ = __add__

    def __neg__(self) -> Complex:
        return Complex(-self.re, -self.im)

    def __sub__(self, other: Complex | Expr | complex) -> Complex:
        re, im = parts(other)
        return Complex(self.re - re, self.im if im is None else self.im - im)

    def __rsub__(self, other: Complex | Expr | complex) -> Complex:
        re, im = parts(other)
        return Complex(re - self.re, -self.im if im is None else im - self.im)

    def __mul__(self, other: Complex | Expr | complex) -> Complex:
        re, im = parts(other)
        if im is None:
            return Complex(self.re * re, self.im * re)
        return Complex(self.re * re - self.im * im, self.re * im + self.im * re)

    __rmul__ = __mul__

    def __truediv__(self, other: Complex | Expr | complex) -> Complex:
        re, im = parts(other)
        if im is None:
            return Complex(self.re / re, self.im / re)
        return divide(self, self.lift(other))

    def __rtruediv__(self, other: Complex | Expr | complex) -> Complex:
        return divide(self.lift(other), self)

    def lift(self, other: Complex | Expr | complex) -> Complex:
        """Return a number or a real expression as a complex value of this one's dtype."""
        if isinstance(other, Complex):
            return other
        of = self.re.dtype
        if isinstance(other, Expr):
            return Complex(other, const(0.0, of))
        number = complex(other)
        return Complex(const(number.real, of), const(number.imag, of))


def parts(value: Complex | Expr | complex) -> tuple[Expr | float, Expr | float | None]:
    """Return the real and the imaginary part; None instead of the latter for real values."""
    if isinstance(value, Complex):
        return value.re, value.im
    if isinstance(value, Expr):
        return value, None
    number = complex(value)
    return number.real, number.imag if type(value) is complex else None


def divide(x: Complex, y: Complex) -> Complex:
    """Return ``x / y`` by R. L. Smith's method (Communications of the ACM 5, 1962), which squares no magnitudes.

    With p the part of y of larger magnitude, q the other one and r = q / p, both parts are divided by p + q r.
    """
    swap = call("lt", call("abs", y.re), call("abs", y.im))
    large, small = select(swap, y.im, y.re), select(swap, y.re, y.im)
    ratio = select(call("eq", large, 0.0), 0.0, small / large)
    bottom = large + small * ratio
    first, second = select(swap, x.im, x.re), select(swap, x.re, x.im)
    im = (second - first * ratio) / bottom
    return Complex((first + second * ratio) / bottom, select(swap, -im, im))


def choose(condition: Expr, yes: Complex | Expr | complex, no: Complex | Expr | complex) -> Complex:
    """Return ``yes`` where ``condition`` holds, else ``no``; at least one of them is complex.

    Raises:
        IRError: Neither is complex.
    """
    like = next((v for v in (yes, no) if isinstance(v, Complex)), None)
    if like is None:
        raise IRError("choose of real values only; use select")
    yes, no = like.lift(yes), like.lift(no)
    return Complex(select(condition, yes.re, no.re), select(condition, yes.im, no.im))


def equal(x: Complex, y: Complex | Expr | complex) -> Expr:
    """Whether both parts are equal."""
    y = x.lift(y)
    return call("eq", x.re, y.re) & call("eq", x.im, y.im)


def unequal(x: Complex, y: Complex | Expr | complex) -> Expr:
    """Whether at least one part differs; also true if one is NaN."""
    y = x.lift(y)
    return call("ne", x.re, y.re) | call("ne", x.im, y.im)


def convert(value: Complex | Expr, dtype: DType) -> Complex | Expr:
    """Convert a value to another dtype, complex or not.

    The imaginary part is dropped or zero; bool is whether any part is non-zero.
    """
    part = COMPONENT.get(dtype)
    if isinstance(value, Complex):
        if part is not None:
            return Complex(cast(value.re, part), cast(value.im, part))
        return unequal(value, 0.0) if dtype.kind == "bool" else cast(value.re, dtype)
    if part is None:
        return cast(value, dtype)
    return Complex(cast(value, part), const(0.0, part))
