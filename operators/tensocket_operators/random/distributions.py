"""Distributions: formulas that turn random words into numbers, for generated kernels and for primitives.

Formulas for kernels take the four words of a block, and further numbers if they need any, and return two or four
random numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir import nodes, philox
from tensocket_plugins.ir.build import math as ir_math

if TYPE_CHECKING:
    from tensocket_plugins.ir.build.math import Computed
    from tensocket_plugins.ir.nodes import Expr, Var


#: The words of one block, as variables.
Words: TypeAlias = "tuple[Var, Var, Var, Var]"
#: A function from words, and further numbers if it needs any, to random numbers.
Formula: TypeAlias = "Callable[..., tuple[Expr, ...] | Computed]"
#: Size of the widest range from which one draw takes whole numbers.
INT_RANGE: Final = 1 << 63
#: By float dtype, the bound up to which it represents every whole number.
EXACT: Final = {dtypes.float16: 1 << 11, dtypes.bfloat16: 1 << 8, dtypes.float32: 1 << 24, dtypes.float64: 1 << 53}


def _uniform32(words: Words) -> tuple[Expr, ...]:
    return tuple(map(philox.uniform_float32, words))


def _uniform64(words: Words) -> tuple[Expr, ...]:
    a, b, c, d = words
    return philox.uniform_float64(a, b), philox.uniform_float64(c, d)


def _normal32(words: Words) -> Computed:
    """Return two pairs, computed one after the other in a loop, so that the kernel has code for one pair."""
    a, b, c, d = words
    x, y = nodes.Var("x", dtypes.float32), nodes.Var("y", dtypes.float32)
    pairs = nodes.loop(nodes.Var("pair", dtypes.int32), 2, [
        *[nodes.Let(name, value) for name, value in zip((x, y), philox.normal_float32(a, b), strict=True)],
        nodes.Assign(a, c), nodes.Assign(b, d), nodes.Assign(c, nodes.call("bitcast", x, dtype=dtypes.uint32)),
        nodes.Assign(d, nodes.call("bitcast", y, dtype=dtypes.uint32)),
    ])
    return ir_math.Computed((pairs,), tuple(nodes.call("bitcast", word, dtype=dtypes.float32) for word in words))


def _normal64(words: Words) -> tuple[Expr, ...]:
    a, b, c, d = words
    return philox.normal_float64((a, b), (c, d))


def _scaled(formula: Formula) -> Formula:
    """Return a formula whose numbers are multiplied by one argument and added to another."""

    def scaled(words: Words, scale: Expr, shift: Expr) -> Computed:
        made = _computed(formula(words))
        return ir_math.Computed(made.statements, tuple(x * scale + shift for x in made.value))

    return scaled


def _below(formula: Formula) -> Formula:
    """Return a formula that is 1 where the numbers of another are less than an argument, else 0."""

    def below(words: Words, bound: Expr) -> tuple[Expr, ...]:
        return tuple(nodes.cast(x < bound, bound.dtype) for x in _computed(formula(words)).value)

    return below


def _computed(made: tuple[Expr, ...] | Computed) -> Computed:
    return made if isinstance(made, ir_math.Computed) else ir_math.Computed((), made)


def bits64(words: Words) -> tuple[Expr, ...]:
    """Return two numbers of 63 random bits as int64."""
    u64 = dtypes.uint64
    a, b, c, d = [nodes.cast(word, u64) for word in words]
    return tuple(nodes.cast((high << 32 | low) >> 1, dtypes.int64) for high, low in ((a, b), (c, d)))


def integers64(words: Words, size: Expr, first: Expr) -> tuple[Expr, ...]:
    """Return ``bits64`` modulo the size of a range, plus its first number."""
    return tuple(_modulo(bits, size) + first for bits in bits64(words))


def _modulo(x: Expr, size: Expr) -> Expr:
    """Return the remainder of nonnegative numbers by float64 quotients, as integer quotients do not vectorize.

    The error of a quotient is at most 2^-51 of it plus 1, so that of the second one, which divides the remainder of the
    first, is at most 1. The factor keeps the quotient by 1 below 2^63.
    """
    part = (1.0 - 2.0**-53) / nodes.cast(size, dtypes.float64)
    for _ in range(2):
        x = x - nodes.cast(nodes.cast(x, dtypes.float64) * part, dtypes.int64) * size
    x = nodes.select(x < 0, x + size, x)
    return nodes.select(x < size, x, x - size)


def _upper(word: Expr, bits: int, dtype: DType) -> Expr:
    """Return the upper bits of a word as a float, without shifts, which primitives lack."""
    return nodes.cast(nodes.cast(word, dtypes.int64) // (1 << (32 - bits)), dtype)


def _plain_uniform32(word: Expr) -> Expr:
    return _upper(word, 24, dtypes.float32) * 2.0**-24


def _plain_uniform64(high: Expr, low: Expr) -> Expr:
    return (_upper(high, 27, dtypes.float64) * 2.0**26 + _upper(low, 26, dtypes.float64)) * 2.0**-53


def _plain_normal(uniform: Callable[..., Expr], words: int, trigonometric: str) -> Callable[..., Expr]:
    def formula(*bits: Expr) -> Expr:
        radius = nodes.call("sqrt", nodes.call("log", 1.0 - uniform(*bits[:words])) * -2.0)
        return radius * nodes.call(trigonometric, uniform(*bits[words:]) * (2 * math.pi))

    return formula


PLAIN_UNIFORM: Final[dict[int, Callable[..., Expr]]] = {1: _plain_uniform32, 2: _plain_uniform64}
PLAIN_NORMAL: Final = {
    1: (lambda radius, angle: philox.normal_float32(radius, angle)[0],
        lambda radius, angle: philox.normal_float32(radius, angle)[1]),
    2: (_plain_normal(_plain_uniform64, 2, "cos"), _plain_normal(_plain_uniform64, 2, "sin")),
}


def plain_bits64(high: Expr, low: Expr) -> Expr:
    """Return the number that ``bits64`` makes of two words, in arithmetic that primitives have."""
    return nodes.cast(high, dtypes.int64) * (1 << 31) + nodes.cast(low, dtypes.int64) // 2


UNIFORM: Final[tuple[Formula, Formula]] = (_uniform32, _uniform64)
NORMAL: Final[tuple[Formula, Formula]] = (_normal32, _normal64)
#: Uniform numbers times a number, plus a number.
UNIFORM_SCALED: Final[tuple[Formula, Formula]] = (_scaled(_uniform32), _scaled(_uniform64))
NORMAL_SCALED: Final[tuple[Formula, Formula]] = (_scaled(_normal32), _scaled(_normal64))
#: 1 with a given probability, else 0.
BERNOULLI: Final[tuple[Formula, Formula]] = (_below(_uniform32), _below(_uniform64))


def side_by_side(formula: Formula) -> int:
    """Return the number of blocks to interleave, whose rounds do not wait for each other; fewer for long formulas."""
    return 16 if formula in (_normal64, NORMAL_SCALED[1]) else 32
