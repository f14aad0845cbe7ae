"""Symbolic numbers: floats that know how they follow from elements of tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Final

from ..memory.regions import Region


class SymFloat(float):
    """A float of the observed run, with the expression that computes it in later runs.

    Attributes:
        expression: A region (the element of a tensor without dimensions), a number, or a tuple of a function's name and
            its arguments.
        equal: Numbers that the run compared with this one and found equal; later runs must find the same.
    """

    __slots__ = ("equal", "expression")
    expression: Any
    equal: list[Any]

    def __new__(cls, value: float, expression: Any, equal: list[Any]) -> SymFloat:
        """Make the number; ``equal`` is the list of comparisons that all numbers of a run share."""
        made = super().__new__(cls, value)
        made.expression = expression
        made.equal = equal
        return made

    def __eq__(self, other: object) -> bool:
        found = float(self) == other
        self.equal.append((self, other, found))
        return found

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(float(self))

    def __neg__(self) -> SymFloat:
        return SymFloat(-float(self), ("neg", self.expression), self.equal)


def _expression(value: Any) -> Any:
    return value.expression if isinstance(value, SymFloat) else float(value)


def _define(name: str, function: Callable[[Any, Any], Any]) -> None:
    def forward(self: SymFloat, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return SymFloat(function(float(self), float(other)), (name, self.expression, _expression(other)), self.equal)

    def backward(self: SymFloat, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return SymFloat(function(float(other), float(self)), (name, _expression(other), self.expression), self.equal)

    setattr(SymFloat, f"__{name}__", forward)
    setattr(SymFloat, f"__r{name}__", backward)


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "pow": operator.pow,
    "neg": operator.neg}
for _name, _function in FUNCTIONS.items():
    if _name != "neg":
        _define(_name, _function)


def evaluate(expression: Any, read: Callable[[Region], float]) -> float:
    """Return the value of an expression; ``read`` returns the element of a region."""
    if isinstance(expression, Region):
        return read(expression)
    if isinstance(expression, tuple):
        name, *arguments = expression
        return float(FUNCTIONS[name](*[evaluate(x, read) for x in arguments]))
    return float(expression)
