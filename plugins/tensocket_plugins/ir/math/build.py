"""Building blocks of the IR's own functions: constants, polynomials, bit access, exact sums and products.

Everything here is arithmetic on floats and integers of one width, without tables and branches; only an explicit ``fma``
fuses a product and a sum. So it gives the same bits on every device that rounds + - * / and fma correctly.
Functions work in the dtype of their first argument, float32 or float64.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...contract.dtypes import DType, float32, float64, int32, int64, uint32, uint64
from ..nodes import Const, Expr, call, const, select

#: A number as the sum of two floats, the second below the last bit of the first.
Pair = tuple[Expr, Expr]

INFINITY: Final = float("inf")
NAN: Final = float("nan")


@dataclass(frozen=True, slots=True)
class Format:
    """The layout of a float's bits.

    Attributes:
        integer: The signed integer of the same width.
        word: The unsigned integer of the same width.
        mantissa: Number of stored mantissa bits.
        bias: Bias of the exponent.
    """

    integer: DType
    word: DType
    mantissa: int
    bias: int

    @property
    def sign(self) -> int:
        """The sign bit of a word."""
        return 1 << (8 * self.word.itemsize - 1)

    @property
    def smallest(self) -> float:
        """The smallest normal number."""
        return 2.0 ** (1 - self.bias)

    @property
    def shift(self) -> float:
        """A number whose addition leaves the nearest integer in the last bits."""
        return 1.5 * 2.0**self.mantissa

    @property
    def shift_bits(self) -> int:
        """The bits of ``shift``."""
        return (self.bias + self.mantissa << self.mantissa) + (1 << self.mantissa - 1)


FORMATS: Final = {float32: Format(int32, uint32, 23, 127), float64: Format(int64, uint64, 52, 1023)}
_FLOATS: Final = {form.integer: dtype for dtype, form in FORMATS.items()} | {
    form.word: dtype for dtype, form in FORMATS.items()}


def number(value: float, dtype: DType = float32) -> Const:
    """Return the constant of ``dtype`` nearest to ``value``."""
    return const(struct.unpack("f", struct.pack("f", value))[0] if dtype is float32 else value, dtype)


def fma(x: Expr, y: Expr | float, z: Expr | float) -> Expr:
    """Return ``x * y + z``, rounded once."""
    y, z = (number(v, x.dtype) if isinstance(v, float) else v for v in (y, z))
    return call("fma", x, y, z)


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """Return ``c[0] + c[1] x + c[2] x^2 + ...`` by Horner's rule, each step rounded once."""
    *rest, last = coefficients
    result: Expr = number(last, x.dtype)
    for c in reversed(rest):
        result = fma(result, x, c)
    return result


def bits(x: Expr) -> Expr:
    """Return the bits of a float as a signed integer."""
    return call("bitcast", x, dtype=FORMATS[x.dtype].integer)


def word(x: Expr) -> Expr:
    """Return the bits of a float as an unsigned integer."""
    return call("bitcast", x, dtype=FORMATS[x.dtype].word)


def from_bits(i: Expr) -> Expr:
    """Return the float with the bits ``i``."""
    return call("bitcast", i, dtype=_FLOATS[i.dtype])


def with_sign(magnitude: Expr, x: Expr) -> Expr:
    """Return a non-negative ``magnitude`` with the sign of ``x``."""
    return from_bits(word(magnitude) | (word(x) & FORMATS[x.dtype].sign))


def power_of_two(n: Expr) -> Expr:
    """Return 2^n for an integer n in the exponent range of normal numbers."""
    form = FORMATS[_FLOATS[n.dtype]]
    return from_bits((n + form.bias) << form.mantissa)


def scaled(x: Expr, n: Expr) -> Expr:
    """Return ``x * 2^n`` rounded once, for ``x`` near 1 and n within twice the exponent range of normal numbers."""
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


def nearest(x: Expr, factor: float = 1.0) -> tuple[Expr, Expr]:
    """Return the integer nearest to ``x * factor`` (halves to even), as a float and as an integer.

    The magnitude must be below 2^22 (float32) or 2^51 (float64). Unlike a cast, it gives some integer for NaN too.
    """
    n, whole = nearest_bits(x, factor)
    return n, whole - FORMATS[x.dtype].shift_bits


def nearest_bits(x: Expr, factor: float = 1.0) -> tuple[Expr, Expr]:
    """Return the same, but the integer with other bits before its last 22 (float64: 51), which cost nothing here."""
    form = FORMATS[x.dtype]
    shifted = x + form.shift if factor == 1.0 else fma(x, factor, form.shift)
    return shifted - form.shift, bits(shifted)


def as_float(i: Expr) -> Expr:
    """Return an integer below 2^22 (32 bits) or 2^51 (64 bits) in magnitude as a float of its width, without a cast.

    Many processors convert vectors of 64-bit integers one by one.
    """
    form = FORMATS[_FLOATS[i.dtype]]
    return from_bits(i + form.shift_bits) - form.shift


def at_most(x: Expr, bound: float) -> Expr:
    """Return the smaller of ``x`` and ``bound``; NaN stays."""
    return select(x > bound, number(bound, x.dtype), x)


def at_least(x: Expr, bound: float) -> Expr:
    """Return the greater of ``x`` and ``bound``; NaN stays."""
    return select(x < bound, number(bound, x.dtype), x)


def fast_two_sum(a: Expr, b: Expr) -> Pair:
    """Return ``a + b`` exactly, if ``a`` is 0 or not less than ``b`` in magnitude."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: Expr, b: Expr) -> Pair:
    """Return ``a + b`` exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def two_product(a: Expr, b: Expr) -> Pair:
    """Return ``a * b`` exactly, unless it overflows or underflows."""
    product = a * b
    return product, call("fma", a, b, -product)
