"""sin and cos in float64, for all arguments.

As in float32 (``trigonometric``), quarter turns are x * 2/pi, and only 192 bits of 2/pi matter, whose product with the
integer mantissa is below a whole turn. The bits of the exponent select them from a constant, and they are multiplied 32
bits at a time. The fraction of a turn has 128 bits, so a remainder in two floats is accurate to 2^-115 even if an
argument is as close to a multiple of pi/2 as 64-bit floats can be (about 2^-61). The polynomials are minimax fits on
[0, pi/4] (method: see ``exponential``).
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from ...contract.dtypes import float64, int64, uint64
from ..nodes import Expr, call, const, select
from .build import INFINITY, NAN, Pair, as_float, fast_two_sum, fma, from_bits, number, polynomial, with_sign, word

_SIN: Final = (-0.16666666666666632, 0.008333333333322457, -0.00019841269829815118, 2.755731368817355e-06,
               -2.505075680533682e-08, 1.5896686867404916e-10)
_COS: Final = (0.0416666666666666, -0.0013888888888874441, 2.4801587289636368e-05, -2.7557314387505565e-07,
               2.0875727066479845e-09, -1.1359802977718617e-11)
#: 2/pi after 55 leading zero bits, in words of 64 bits.
_TWO_OVER_PI: Final = (
    0x145, 0xF306DC9C882A53F8, 0x4EAFA3EA69BB81B6, 0xC52B3278872083FC, 0xA2C757BD778AC36E, 0x48DC74849BA5C00C,
    0x925DD413A32439FC, 0x3BD63962534E7DD1, 0x046BEA5D768909D3, 0x38E04D68BEFC8273, 0x23AC7306A673E939,
    0x08BF177BF250763F, 0xF12FFFBC0B301FDE, 0x5E2316B414DA3EDA, 0x6CFD9E4F96136E9E, 0x8C7ECD3CBFD45AEA,
    0x4F758FD7CBE2F67A, 0x0E73EF14A525D4D7, 0xF6BF623F1ABA10AC, 0x06608DF8F6D757E1)
#: The biased exponent of 1/2; smaller numbers are their own remainders.
_HALF: Final = 1022
_LOW: Final = 0xFFFFFFFF
#: pi/2 in two floats, in units of 2^-64.
_HALF_PI: Final = math.pi / 2 * 2.0**-64
_HALF_PI_REST: Final = 6.123233995736766e-17 * 2.0**-64


def _window(start: Expr) -> list[Expr]:
    """Return 192 bits of the constant, starting at bit ``start`` (a uint64 up to 1024), in words of 32 bits."""
    words: list[Expr] = [const(value, uint64) for value in _TWO_OVER_PI]
    index = start >> 6
    # Each bit of the index halves the number of words that may still be needed.
    for bit, needed in ((16, 19), (8, 11), (4, 7), (2, 5), (1, 4)):
        further = call("ne", index & bit, 0)
        words = [select(further, words[j + bit], words[j]) if j + bit < len(words) else words[j]
                 for j in range(needed)]
    left = start & 63
    right = 63 - left
    cut = [(high << left) | ((low >> 1) >> right) for high, low in pairwise(words)]
    return [half for value in cut for half in (value >> 32, value & _LOW)]


def _turns(mantissa: Expr, window: list[Expr]) -> Pair:
    """Return the fractional part, 128 bits, of the product of a 53-bit integer and a fraction of 192 bits."""
    high, low = mantissa >> 32, mantissa & _LOW
    second, third = high * window[3], low * window[2]
    fourth, fifth = high * window[4], low * window[3]
    last = ((low * window[4]) >> 32) + ((high * window[5]) >> 32) + (fourth & _LOW) + (fifth & _LOW)
    middle = (second & _LOW) + (third & _LOW) + (fourth >> 32) + (fifth >> 32) + (last >> 32)
    whole = ((low * window[0] + high * window[1]) << 32) + low * window[1] + high * window[2]
    return whole + (second >> 32) + (third >> 32) + (middle >> 32), (middle << 32) | (last & _LOW)


def _signed(i: Expr) -> Expr:
    return call("bitcast", i, dtype=int64)


def _reduced(x: Expr) -> tuple[Expr, Expr, Expr]:
    """Return ``(r, rest, n)``: |x| = r + rest + n pi/2 up to full turns, |r| <= pi/4, n a uint64 within 0 .. 3."""
    a = abs(x)
    i = word(a)
    exponent = i >> 52
    start = select(exponent < _HALF, const(0, uint64), exponent - _HALF)
    high, low = _turns((i & (1 << 52) - 1) | 1 << 52, _window(start))
    n = (high + (1 << 61)) >> 62
    fraction = (high << 2) | (low >> 62)
    upper = as_float(_signed(fraction) >> 32) * 2.0**32
    total, rest = fast_two_sum(upper, as_float(_signed(fraction & _LOW)))
    total, rest = fast_two_sum(total, rest + as_float(_signed((low << 2) >> 14)) * 2.0**-50)
    r = total * _HALF_PI
    rest = fma(total, _HALF_PI, -r) + fma(total, _HALF_PI_REST, rest * _HALF_PI)
    small = a < math.pi / 4
    zero = const(0.0, float64)
    return select(small, a, r), select(small, zero, rest), select(small, const(0, uint64), n)


def sin_cos_reduced(r: Expr) -> tuple[Expr, Expr]:
    """Return sine and cosine for |r| <= pi/4, within 2 ULP."""
    square = r * r
    half = square * 0.5
    near = 1.0 - half
    cosine = near + (((1.0 - near) - half) + square * square * polynomial(square, _COS))
    return r + r * square * polynomial(square, _SIN), cosine


def _turned(r: Expr, rest: Expr, n: Expr) -> Expr:
    """Return sin(r + rest + n pi/2) for |r| <= pi/4."""
    square = r * r
    half = square * 0.5
    sine = r + fma(r * square, polynomial(square, _SIN), fma(-half, rest, rest))
    near = 1.0 - half
    cosine = near + (((1.0 - near) - half) + fma(square * square, polynomial(square, _COS), -(r * rest)))
    value = select(call("eq", n & 1, 0), sine, cosine)
    return from_bits(word(value) ^ ((n & 2) << 62))


def sin(x: Expr) -> Expr:
    """Return the sine, within 1 ULP for every finite argument."""
    value = _turned(*_reduced(x))
    value = from_bits(word(value) ^ word(with_sign(number(0.0, float64), x)))
    return select(abs(x) < INFINITY, value, number(NAN, float64))


def cos(x: Expr) -> Expr:
    """Return the cosine, within 1 ULP for every finite argument."""
    r, rest, n = _reduced(x)
    return select(abs(x) < INFINITY, _turned(r, rest, n + 1), number(NAN, float64))
