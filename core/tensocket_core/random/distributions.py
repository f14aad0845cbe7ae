"""Distributions: formulas that make numbers of random words, for generated kernels and for primitives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.nodes import Expr, call, cast, select
from tensocket_plugins.ir.philox import normal_float32, philox4x32, uniform_float32, uniform_float64

#: Numbers in the widest range that whole numbers are drawn from.
INT_RANGE: Final = 1 << 63


def _words(i: Expr, state: tuple[Expr, ...], per_element: int) -> tuple[Expr, ...]:
    """The words of the block that element ``i`` is made of, ``4 // per_element`` elements to a block."""
    seed_low, seed_high, offset = state
    u64, u32 = dtypes.uint64, dtypes.uint32
    block = cast(i, u64) // (4 // per_element) + offset
    zero = call("xor", seed_low, seed_low)
    return philox4x32((cast(block, u32), cast(block >> 32, u32), zero, zero), (seed_low, seed_high))


def _pick(lane: Expr, values: tuple[Expr, ...]) -> Expr:
    result = values[-1]
    for k in range(len(values) - 2, -1, -1):
        result = select(call("eq", lane, k), values[k], result)
    return result


def _uniform32(i: Expr, *state: Expr) -> Expr:
    return uniform_float32(_pick(i & 3, _words(i, state, per_element=1)))


def _uniform64(i: Expr, *state: Expr) -> Expr:
    a, b, c, d = _words(i, state, per_element=2)
    low = call("eq", i & 1, 0)
    return uniform_float64(select(low, a, c), select(low, b, d))


def _normal32(i: Expr, *state: Expr) -> Expr:
    a, b, c, d = _words(i, state, per_element=1)
    first = call("eq", i & 2, 0)
    x, y = normal_float32(select(first, a, c), select(first, b, d))
    return select(call("eq", i & 1, 0), x, y)


def _normal64(i: Expr, *state: Expr) -> Expr:
    """Box and Muller's method in float64; element 2k and 2k + 1 share two blocks' worth of words."""
    pair = i // 2 * 2
    first = _uniform64(pair, *state)
    second = _uniform64(pair + 1, *state)
    radius = call("sqrt", call("log", 1.0 - first) * -2.0)
    angle = second * (2 * math.pi)
    return radius * select(call("eq", i & 1, 0), call("cos", angle), call("sin", angle))


def bits64(i: Expr, *state: Expr) -> Expr:
    """63 random bits as int64."""
    a, b, c, d = _words(i, state, per_element=2)
    low = call("eq", i & 1, 0)
    u64 = dtypes.uint64
    word = (cast(select(low, a, c), u64) << 32) | cast(select(low, b, d), u64)
    return cast(word >> 1, dtypes.int64)


def integers64(i: Expr, *given: Expr) -> Expr:
    """``bits64`` modulo a size of the range, plus its first number."""
    *state, size, first = given
    return _modulo(bits64(i, *state), size) + first


def _modulo(x: Expr, size: Expr) -> Expr:
    """The remainder of numbers that are not negative, through quotients in float64: those of integers are no vectors.

    A quotient is wrong by 2^-51 of itself and 1 at most, so the second one, of what is left, by 1. The factor keeps the
    quotient by 1 below 2^63.
    """
    part = (1.0 - 2.0**-53) / cast(size, dtypes.float64)
    for _ in range(2):
        x = x - cast(cast(x, dtypes.float64) * part, dtypes.int64) * size
    x = select(x < 0, x + size, x)
    return select(x < size, x, x - size)


def _upper(word: Expr, bits: int, dtype: DType) -> Expr:
    """The upper bits of a word as a float, without shifts: primitives have none."""
    return cast(cast(word, dtypes.int64) // (1 << (32 - bits)), dtype)


def _plain_uniform32(word: Expr) -> Expr:
    return _upper(word, 24, dtypes.float32) * 2.0**-24


def _plain_uniform64(high: Expr, low: Expr) -> Expr:
    return (_upper(high, 27, dtypes.float64) * 2.0**26 + _upper(low, 26, dtypes.float64)) * 2.0**-53


def _plain_normal(uniform: Callable[..., Expr], words: int, trigonometric: str) -> Callable[..., Expr]:
    def formula(*bits: Expr) -> Expr:
        radius = call("sqrt", call("log", 1.0 - uniform(*bits[:words])) * -2.0)
        return radius * call(trigonometric, uniform(*bits[words:]) * (2 * math.pi))

    return formula


PLAIN_UNIFORM: Final[dict[int, Callable[..., Expr]]] = {1: _plain_uniform32, 2: _plain_uniform64}
PLAIN_NORMAL: Final = {
    1: (lambda radius, angle: normal_float32(radius, angle)[0], lambda radius, angle: normal_float32(radius, angle)[1]),
    2: (_plain_normal(_plain_uniform64, 2, "cos"), _plain_normal(_plain_uniform64, 2, "sin")),
}


def plain_bits64(high: Expr, low: Expr) -> Expr:
    """The same bits from two words, in arithmetic that primitives have."""
    return cast(high, dtypes.int64) * (1 << 31) + cast(low, dtypes.int64) // 2


UNIFORM: Final = (_uniform32, _uniform64)
NORMAL: Final = (_normal32, _normal64)
