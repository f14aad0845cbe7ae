"""Constraints between sizes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=True, repr=False)
class Equality:
    """Two sizes that are the same: numbers, variables or symbols."""

    lhs: object
    rhs: object

    def __repr__(self) -> str:
        return f"{self.lhs} = {self.rhs}"

    __hash__ = None  # type: ignore[assignment]
