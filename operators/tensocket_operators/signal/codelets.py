"""Short Fourier transforms as straight-line code: one factor of the size after the other (Cooley and Tukey, 1965)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.nodes import Expr, Let, Stmt, Var, const

#: Real and imaginary part; None stands for zeros that are known.
Value = tuple[Expr | None, Expr | None]
ZERO: Final[Value] = (None, None)
#: Sizes that are transformed, and their prime factors: code is short, and values stay in registers.
_LARGEST: Final = 32
_PRIMES: Final = (2, 3, 5, 7)


def is_short(size: int) -> bool:
    """Whether there is code for a size."""
    return type(size) is int and 0 < size <= _LARGEST and all(p in _PRIMES for p in factors(size))


def factors(size: int) -> list[int]:
    """Return the prime factors of a size."""
    found = next((p for p in range(2, math.isqrt(size) + 1) if size % p == 0), size)
    return [] if size == 1 else [found, *(factors(size // found) if found < size else [])]


def conjugate(x: Value) -> Value:
    """Return the conjugate value."""
    return x[0], _negated(x[1])


class Codelet:
    """The statements of a transform.

    Args:
        dtype: That of the parts.
        sign: -1 for the transform, 1 for its inverse without a factor.

    Attributes:
        statements: One for each intermediate value.
    """

    def __init__(self, dtype: DType, sign: int) -> None:
        self.dtype, self.sign = dtype, sign
        self.statements: list[Stmt] = []

    def transform(self, values: Sequence[Value]) -> list[Value]:
        """Write the transform of values, and return the results."""
        count = len(values)
        if count == 1:
            return [*values]
        prime = factors(count)[0]
        each = count // prime
        parts = [self.transform(values[k::prime]) for k in range(prime)]
        found: list[Value] = [ZERO] * count
        for k in range(each):
            turned = [self._turned(part[k], j * k, count) for j, part in enumerate(parts)]
            found[k::each] = self._pair(turned) if prime == 2 else self._odd(turned)
        return found

    def _pair(self, values: Sequence[Value]) -> list[Value]:
        first, second = values
        return [self._sum(first, second), self._sum(first, _minus(second))]

    def _odd(self, values: Sequence[Value]) -> list[Value]:
        """Transform an odd number of values: sums and differences of mirrored ones share their products."""
        count, half = len(values), len(values) // 2
        sums = [self._sum(values[j], values[-j]) for j in range(1, half + 1)]
        differences = [self._sum(values[j], _minus(values[-j])) for j in range(1, half + 1)]
        total = values[0]
        for x in sums:
            total = self._sum(total, x)
        found = [total] * count
        for k in range(1, half + 1):
            even, odd = values[0], ZERO
            for j in range(half):
                angle = 2 * math.pi * ((j + 1) * k % count) / count
                even = self._sum(even, self._scaled(sums[j], math.cos(angle)))
                odd = self._sum(odd, self._scaled(differences[j], self.sign * math.sin(angle)))
            odd = _negated(odd[1]), odd[0]
            found[k], found[count - k] = self._sum(even, odd), self._sum(even, _minus(odd))
        return found

    def _turned(self, x: Value, step: int, count: int) -> Value:
        """Return a value times ``exp(sign 2 pi i step / count)``; multiples of quarters are exact."""
        quarters, rest = divmod(4 * (step % count), count)
        if rest == 0:
            for _ in range(quarters % 4 if self.sign > 0 else -quarters % 4):
                x = _negated(x[1]), x[0]
            return x
        angle = self.sign * 2 * math.pi * (step % count) / count
        re, im = math.cos(angle), math.sin(angle)
        return (self._named(_plus(self._times(x[0], re), _negated(self._times(x[1], im)))),
                self._named(_plus(self._times(x[0], im), self._times(x[1], re))))

    def _sum(self, x: Value, y: Value) -> Value:
        return self._named(_plus(x[0], y[0])), self._named(_plus(x[1], y[1]))

    def _scaled(self, x: Value, factor: float) -> Value:
        return self._times(x[0], factor), self._times(x[1], factor)

    def _times(self, x: Expr | None, factor: float) -> Expr | None:
        return None if x is None else x * const(factor, self.dtype)

    def named(self, x: Value) -> Value:
        """Give the parts of a value names, so that their uses share them."""
        return self._named(x[0]), self._named(x[1])

    def _named(self, x: Expr | None) -> Expr | None:
        if x is None or isinstance(x, Var):
            return x
        name = Var(f"t{len(self.statements)}", self.dtype)
        self.statements.append(Let(name, x))
        return name


def _plus(x: Expr | None, y: Expr | None) -> Expr | None:
    return y if x is None else x if y is None else x + y


def _negated(x: Expr | None) -> Expr | None:
    return None if x is None else -x


def _minus(x: Value) -> Value:
    return _negated(x[0]), _negated(x[1])
