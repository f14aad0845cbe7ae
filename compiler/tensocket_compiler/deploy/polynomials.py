"""Numbers of launches as polynomials of the sizes that change, found from runs with several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import prod
from typing import Final

#: Highest power of each size.
DEGREE: Final = 2


@dataclass(frozen=True, slots=True)
class Polynomial:
    """A sum of products of powers of sizes.

    Attributes:
        terms: Factors that are not 0, by the power of each size.
    """

    terms: tuple[tuple[tuple[int, ...], int], ...]

    @property
    def is_constant(self) -> bool:
        """Whether it has the same value for all sizes."""
        return all(not any(powers) for powers, _ in self.terms)

    def at(self, sizes: Sequence[int]) -> int:
        """Return its value for some sizes."""
        return sum(factor * prod(n**p for n, p in zip(sizes, powers, strict=True)) for powers, factor in self.terms)

    def text(self, names: Sequence[str]) -> str:
        """Return it as C, with a name for each size."""
        parts = []
        for powers, factor in self.terms:
            names_of = [name for name, p in zip(names, powers, strict=True) for _ in range(p)]
            parts.append(" * ".join([*names_of, *([str(factor)] if factor != 1 or not names_of else [])]))
        return " + ".join(parts) or "0"


def grid(points: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return all combinations of the sizes of some points, from which ``fit`` finds a polynomial."""
    return list(product(*[dict.fromkeys(axis) for axis in zip(*points, strict=True)]))


def fit(sizes: Sequence[tuple[int, ...]], values: Sequence[int]) -> Polynomial | None:
    """Return the polynomial with the given values; None if it would have fractions.

    Args:
        sizes: Those of ``grid``.
        values: Its value for each of them.
    """
    axes = [list(dict.fromkeys([point[k] for point in sizes])) for k in range(len(sizes[0]))]
    table = dict(zip(sizes, map(Fraction, values), strict=True))
    factors = _solve(axes, table)
    if any(x.denominator != 1 for x in factors.values()):
        return None
    return Polynomial(tuple((powers, int(x)) for powers, x in sorted(factors.items(), reverse=True) if x))


def _solve(axes: Sequence[list[int]], table: dict[tuple[int, ...], Fraction]) -> dict[tuple[int, ...], Fraction]:
    """Turn values at points into factors of powers, one axis at a time."""
    for k, points in enumerate(axes):
        rows: dict[tuple[int, ...], list[Fraction]] = {}
        for at, value in table.items():
            rows.setdefault(at[:k] + at[k + 1:], [Fraction(0)] * len(points))[
                points.index(at[k])] = value
        table = {(*rest[:k], p, *rest[k:]): factor for rest, values in rows.items()
                 for p, factor in enumerate(_line(points, values))}
        axes = [*axes[:k], list(range(len(points))), *axes[k + 1:]]
    return table


def _line(points: Sequence[int], values: Sequence[Fraction]) -> list[Fraction]:
    """Return the factors of the polynomial of one size through points, by Lagrange's formula."""
    found = [Fraction(0)] * len(points)
    for i, at in enumerate(points):
        basis = [values[i]]
        for j, other in enumerate(points):
            if i != j:
                basis = [(a - other * b) / (at - other)
                         for a, b in zip([Fraction(0), *basis], [*basis, Fraction(0)], strict=True)]
        found = [x + y for x, y in zip(found, basis, strict=True)]
    return found
