"""Random numbers in kernels: the counter-based generator Philox 4x32-10, and distributions of its bits.

The same counter and key give the same bits on every device. They give the same floats too, because everything here is
integer arithmetic and the IR's own functions. Expressions share many parts: let ``decompose`` (or ``name_shared``) name
them before a printer runs.
"""

from __future__ import annotations

import math
from typing import Final

from ..contract.dtypes import float32, float64, int32, int64, uint32, uint64
from .math import trigonometric_double as double
from .math.build import number
from .math.logarithm import log
from .math.trigonometric import sin_cos_reduced
from .nodes import Assign, Declare, Expr, Let, Stmt, Var, call, cast, loop, select

_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_ROUNDS: Final = 10

Counter = tuple[Expr, Expr, Expr, Expr]
Key = tuple[Expr, Expr]


def philox4x32(counter: Counter, key: Key) -> tuple[tuple[Stmt, ...], tuple[Var, Var, Var, Var]]:
    """Return four random words for a counter of four words and a key of two, all uint32.

    The rounds are a loop, which has a tenth of the code of unrolled ones.

    Returns:
        Statements, for one use in a block, and the words: variables, which may be used and changed after them.
    """
    words = [Var(f"word{k}", uint32) for k in range(4)]
    a, b, c, d = words
    number = Var("round", int32)
    keys = [Var(f"key{k}", uint32) for k in range(2)]
    highs = [Var(f"high{k}", uint32) for k in range(2)]
    lows = [Var(f"low{k}", uint32) for k in range(2)]
    # Lower halves are 32-bit products: vectors have instructions for either half, but not for wide products.
    rounds = loop(number, _ROUNDS, [
        *[Let(name, cast(number, uint32) * weyl + first) for name, weyl, first in zip(keys, _WEYL, key, strict=True)],
        *[Let(name, _high(word, factor)) for name, word, factor in zip(highs, (a, c), _MULTIPLIERS, strict=True)],
        *[Let(name, word * factor) for name, word, factor in zip(lows, (a, c), _MULTIPLIERS, strict=True)],
        Assign(a, highs[1] ^ b ^ keys[0]), Assign(b, lows[1]), Assign(c, highs[0] ^ d ^ keys[1]), Assign(d, lows[0]),
    ])
    return (*[Declare(word, value) for word, value in zip(words, counter, strict=True)], rounds), (a, b, c, d)


def _high(word: Expr, factor: int) -> Expr:
    """Return the upper half of a product."""
    return cast((cast(word, uint64) * factor) >> 32, uint32)


def uniform_float32(word: Expr) -> Expr:
    """Return a float32 in [0, 1): the upper 24 bits of a uint32."""
    return cast(cast(word >> 8, int32), float32) * 2.0**-24


def uniform_float64(high: Expr, low: Expr) -> Expr:
    """Return a float64 in [0, 1): the upper 27 bits of one uint32 and the upper 26 of another."""
    upper, lower = cast(cast(high >> 5, int32), float64), cast(cast(low >> 6, int32), float64)
    return (upper * 2.0**26 + lower) * 2.0**-53


def normal_float32(radius: Expr, angle: Expr) -> tuple[Expr, Expr]:
    """Return two independent normally distributed float32 values from two uint32 (Box and Muller's method).

    Both are finite: the largest magnitude is below 6.7.
    """
    # From 2**-32 to 1, so that the logarithm is finite and at most 0, and its form for ordinary arguments serves.
    u = (cast(cast(radius >> 1, int32), float32) + 0.5) * 2.0**-31
    r = call("sqrt", log.ordinary(u) * -2.0)
    # The angle's bits are a fraction of a turn, split into the nearest quarter turn and the rest.
    n = cast((angle + 2**29) >> 30, int32)
    rest = cast(call("bitcast", angle << 2, dtype=int32), float32) * number(math.pi / 2 * 2.0**-32)
    sine, cosine = sin_cos_reduced(rest)
    even = call("eq", n & 1, 0)
    return (_signed(r * select(even, cosine, sine), n + 1), _signed(r * select(even, sine, cosine), n))


def normal_float64(radius: tuple[Expr, Expr], angle: tuple[Expr, Expr]) -> tuple[Expr, Expr]:
    """Return two independent normally distributed float64 values from four uint32, by the same method.

    The largest magnitude is below 8.6. The logarithm is the device's if the IR does not decompose it.
    """
    r = call("sqrt", call("log", 1.0 - uniform_float64(*radius)) * -2.0)
    quarters = uniform_float64(*angle) * 4.0
    n = cast(quarters + 0.5, int64)
    sine, cosine = double.sin_cos_reduced((quarters - cast(n, float64)) * (math.pi / 2))
    even = call("eq", n & 1, 0)
    return (_signed(r * select(even, cosine, sine), n + 1), _signed(r * select(even, sine, cosine), n))


def _signed(x: Expr, n: Expr) -> Expr:
    """Return ``x``, negated if bit 1 of ``n`` is set; ``n`` is an integer of the same width."""
    flipped = call("bitcast", x, dtype=n.dtype) ^ ((n & 2) << (8 * n.dtype.itemsize - 2))
    return call("bitcast", flipped, dtype=x.dtype)
