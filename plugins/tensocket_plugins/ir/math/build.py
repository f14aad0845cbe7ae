"""Building blocks of the float32 functions: constants, polynomials, bit access, exact sums and products.

Everything here is plain float32 and integer arithmetic: no fused multiply-add, no table, no branch. So it gives the
same bits on every device that rounds + - * / correctly.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Final

from ...contract.dtypes import float32, int32, uint32
from ..nodes import Const, Expr, call, const, select

#: A number as the sum of two floats of which the second is below the first's last bit.
Pair = tuple[Expr, Expr]

SIGN: Final = 0x80000000
INFINITY: Final = float("inf")
NAN: Final = float("nan")


def number(value: float) -> Const:
    """The float32 constant nearest to ``value``."""
    return const(struct.unpack("f", struct.pack("f", value))[0], float32)


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """``c[0] + c[1] x + c[2] x^2 + ...`` by Horner's rule."""
    *rest, last = coefficients
    result: Expr = number(last)
    for c in reversed(rest):
        result = result * x + number(c)
    return result


def bits(x: Expr) -> Expr:
    """The bits of a float as int32."""
    return call("bitcast", x, dtype=int32)


def from_bits(i: Expr) -> Expr:
    """The float with the bits ``i``."""
    return call("bitcast", i, dtype=float32)


def with_sign(magnitude: Expr, x: Expr) -> Expr:
    """A non-negative ``magnitude`` with the sign of ``x``."""
    sign = call("bitcast", x, dtype=uint32) & SIGN
    return from_bits(call("bitcast", magnitude, dtype=uint32) | sign)


def power_of_two(n: Expr) -> Expr:
    """2^n for an int32 within -126 .. 127."""
    return from_bits((n + 127) << 23)


def scaled(x: Expr, n: Expr) -> Expr:
    """``x * 2^n`` rounded once, for ``x`` near 1 and an int32 within -252 .. 254."""
    half = n >> 1
    return x * power_of_two(half) * power_of_two(n - half)


#: Adding 1.5 * 2^23 leaves the nearest integer in the last bits.
_SHIFT: Final = 12582912.0
_SHIFT_BITS: Final = 0x4B400000


def nearest(x: Expr) -> tuple[Expr, Expr]:
    """The integer nearest to ``x`` (halves to even), as a float and as int32, for magnitudes below 2^22.

    Unlike a cast it gives some integer for NaN, too.
    """
    shifted = x + _SHIFT
    return shifted - _SHIFT, bits(shifted) - _SHIFT_BITS


def at_most(x: Expr, bound: float) -> Expr:
    """``x``, or ``bound`` where it is greater; NaN stays."""
    return select(x > bound, number(bound), x)


def at_least(x: Expr, bound: float) -> Expr:
    """``x``, or ``bound`` where it is less; NaN stays."""
    return select(x < bound, number(bound), x)


def fast_two_sum(a: Expr, b: Expr) -> Pair:
    """``a + b`` exactly, where ``a`` is 0 or not less than ``b`` in magnitude."""
    total = a + b
    return total, b - (total - a)


def two_sum(a: Expr, b: Expr) -> Pair:
    """``a + b`` exactly."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _split(a: Expr) -> Pair:
    """The upper 12 bits and the rest; products of such parts are exact."""
    high = from_bits(bits(a) & -4096)
    return high, a - high


def two_product(a: Expr, b: Expr) -> Pair:
    """``a * b`` exactly, barring overflow and underflow."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = _split(a), _split(b)
    rest = (a_high * b_high - product) + a_high * b_low + a_low * b_high
    return product, rest + a_low * b_low
