"""Sizes of ragged dimensions, which are symbols, because components differ in them."""

from __future__ import annotations

import itertools
from typing import Any, Final

from tensocket_operators import Tensor
from tensocket_plugins.contract.errors import ArgumentError

_NUMBERS: Final = itertools.count()
#: Lower bound of every ragged size in comparisons, as in PyTorch: it is neither 0 nor 1.
_LEAST: Final = 2


class SymInt:
    """An integer that is represented by a symbol."""

    __slots__ = ()


class NestedInt(SymInt):
    """The size of a ragged dimension: equal only to itself, times an integer.

    Attributes:
        number: Number of its ragged structure.
        factor: Its factor.
    """

    __slots__ = ("factor", "number")

    def __init__(self, number: int, factor: int = 1) -> None:
        self.number = number
        self.factor = factor

    def __repr__(self) -> str:
        return f"j{self.number}" if self.factor == 1 else f"{self.factor}*j{self.number}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NestedInt) and (self.number, self.factor) == (other.number, other.factor)

    def __hash__(self) -> int:
        return hash(("NestedInt", self.number, self.factor))

    def __mul__(self, other: Any) -> NestedInt:
        return NestedInt(self.number, self.factor * other) if isinstance(other, int) else NotImplemented

    __rmul__ = __mul__

    def __ge__(self, other: Any) -> bool:
        return self._above("ge", other, other <= _LEAST if isinstance(other, int) else self == other)

    def __gt__(self, other: Any) -> bool:
        return self._above("gt", other, isinstance(other, int) and other < _LEAST)

    def __lt__(self, other: Any) -> bool:
        return not self >= other

    def __le__(self, other: Any) -> bool:
        return not self > other

    def _above(self, operator: str, other: Any, known: bool) -> bool:
        if known or (isinstance(other, NestedInt) and self == other) or (isinstance(other, int) and other <= _LEAST):
            return known
        raise ArgumentError(operator, f"the ragged size {self} and {other}",
                            "the order of a ragged size and another size is unknown", "compare nt.offsets().diff()")

    def __int__(self) -> int:
        raise ArgumentError("int", f"the ragged size {self}", "a ragged size differs from component to component",
                            "use nt.offsets().diff()")


def size_of(source: Tensor) -> NestedInt:
    """Return the symbol of the ragged structure that a tensor of offsets or lengths describes, one for each tensor
    object.
    """
    known = source.__dict__.get("_nested_int")
    if known is None:
        known = source.__dict__["_nested_int"] = NestedInt(next(_NUMBERS))
    found: NestedInt = known
    return found


__all__ = ["NestedInt", "SymInt", "size_of"]
