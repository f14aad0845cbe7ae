"""Building blocks of the float32 functions: constants, polynomials, bit access, exact sums and products.

Everything here is float32 and integer arithmetic without tables and branches; a product and a sum are fused
only where ``fma`` says so. So it gives the same bits on every device that rounds + - * / and fma correctly.
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


def fma(x: Expr, y: Expr | float, z: Expr | float) -> Expr:
    """``x * y + z``, rounded once."""
    y, z = (number(v) if isinstance(v, float) else v for v in (y, z))
    return call("fma", x, y, z)


def polynomial(x: Expr, coefficients: Sequence[float]) -> Expr:
    """``c[0] + c[1] x + c[2] x^2 + ...`` by Horner's rule, each step rounded once."""
    *rest, last = coefficients
    result: Expr = number(last)
    for c in reversed(rest):
        result = fma(result, x, c)
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


def nearest(x: Expr, factor: float = 1.0) -> tuple[Expr, Expr]:
    """The integer nearest to ``x * factor`` (halves to even), as a float and as int32, for magnitudes below 2^22.

    Unlike a cast it gives some integer for NaN, too.
    """
    shifted = x + _SHIFT if factor == 1.0 else fma(x, factor, _SHIFT)
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


def two_product(a: Expr, b: Expr) -> Pair:
    """``a * b`` exactly, barring overflow and underflow."""
    product = a * b
    return product, call("fma", a, b, -product)
