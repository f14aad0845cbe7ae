"""Symbolic numbers: numbers of the observed run that know how they follow from elements of tensors.

Only code of the library that can work with them gets them, such as the step counts of optimizers. Arithmetic extends
the expression, and comparisons are noted as relations, which later runs must find again. Everything else that would
turn one into a plain number is noted as a reason why the run is no graph.
"""

from __future__ import annotations

import math
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from tensocket_core import keys

from ..memory.regions import Region

#: Functions of expressions by name.
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv, "pow": operator.pow,
    "neg": operator.neg, "max": max, "min": min, "float32": lambda x: float(np.float32(x))}
#: Comparisons by name.
COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}


#: Elements, each with the operation that had written it last when it was read; None if none had.
Reads = frozenset[tuple[Region, Any]]


@dataclass(frozen=True, slots=True)
class Relation:
    """A comparison of the observed run.

    Attributes:
        name: The comparison.
        left: An expression.
        right: An expression.
        held: Its outcome.
        reads: The elements that it depends on, as in ``SymFloat``.
    """

    name: str
    left: Any
    right: Any
    held: bool
    reads: Reads


@dataclass(slots=True)
class NumberNotes:
    """The notes that all symbolic numbers of a run share."""

    relations: list[Relation] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


class SymFloat:
    """A number of the observed run.

    Attributes:
        value: Its value.
        expression: A region (the element of a tensor without dimensions), a number, or a tuple of a function's name and
            its arguments.
        notes: The run's notes.
        reads: The elements that it follows from.
    """

    __slots__ = ("expression", "notes", "reads", "value")

    def __init__(self, value: float, expression: Any, notes: NumberNotes, reads: Reads) -> None:
        self.value = value
        self.expression = expression
        self.notes = notes
        self.reads = reads

    def __float__(self) -> float:
        self.notes.reasons.append("a step count became a plain number")
        return self.value

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        return _compare("eq", self, other)

    def __ne__(self, other: object) -> bool:
        return _compare("ne", self, other)

    def __neg__(self) -> SymFloat:
        return SymFloat(-self.value, ("neg", self.expression), self.notes, self.reads)

    def bounded(self, name: str, bound: Any) -> SymFloat:
        """Return the larger or the smaller of this and a bound: ``max(bound, self)`` or ``min(bound, self)``."""
        function = FUNCTIONS[name]
        return SymFloat(function(plain(bound), self.value), (name, _expression(bound), self.expression), self.notes,
                        self.reads | _reads(bound))

    def __repr__(self) -> str:
        return f"SymFloat({self.value})"


def _compare(name: str, one: SymFloat, other: Any) -> bool:
    if not isinstance(other, (int, float, SymFloat)):
        return name == "ne"
    held = COMPARISONS[name](one.value, plain(other))
    if one is not other:
        one.notes.relations.append(Relation(name, one.expression, _expression(other), held,
                                            one.reads | _reads(other)))
    return held


def plain(value: Any) -> Any:
    """Return the value of a symbolic number; other values unchanged."""
    return value.value if type(value) is SymFloat else value


def _expression(value: Any) -> Any:
    return value.expression if type(value) is SymFloat else float(value)


def _reads(value: Any) -> Reads:
    return value.reads if type(value) is SymFloat else frozenset()


def _define(name: str, function: Callable[[Any, Any], Any]) -> None:
    def forward(self: SymFloat, other: Any) -> Any:
        if not isinstance(other, (int, float, SymFloat)):
            return NotImplemented
        return SymFloat(function(self.value, plain(other)), (name, self.expression, _expression(other)), self.notes,
                        self.reads | _reads(other))

    def backward(self: SymFloat, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        return SymFloat(function(other, self.value), (name, float(other), self.expression), self.notes,
                        self.reads)

    setattr(SymFloat, f"__{name}__", forward)
    setattr(SymFloat, f"__r{name}__", backward)


for _name in ("add", "sub", "mul", "truediv", "pow"):
    _define(_name, FUNCTIONS[_name])
for _name in ("lt", "le", "gt", "ge"):
    setattr(SymFloat, f"__{_name}__", lambda self, other, _name=_name: _compare(_name, self, other))


@contextmanager
def symbolic_numbers() -> Iterator[None]:
    """Let operators take symbolic numbers as floats in a block."""
    with _LOCK:
        _USERS.append(None)
        for table in (keys.SCALAR, keys.SCALAR_LEFT):
            table[SymFloat] = table[float]
    try:
        yield
    finally:
        with _LOCK:
            _USERS.pop()
            if not _USERS:
                for table in (keys.SCALAR, keys.SCALAR_LEFT):
                    table.pop(SymFloat, None)


_LOCK: Final = threading.Lock()
#: One entry for each block in which there are symbolic numbers.
_USERS: Final[list[None]] = []


_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "pow": "**"}


def compiled(expression: Any, regions: list[Region]) -> Callable[..., float]:
    """Return an expression as a function of the elements of its regions."""

    def text(part: Any) -> str:
        if isinstance(part, Region):
            return f"x{regions.index(part)}"
        if isinstance(part, tuple):
            name, arguments = part[0], list(map(text, part[1:]))
            return f"({f' {_SIGNS[name]} '.join(arguments)})" if name in _SIGNS else f"{name}({', '.join(arguments)})"
        return f"({part!r})"

    source = f"lambda {', '.join(f'x{k}' for k in range(len(regions)))}: {text(expression)}"
    known = {**FUNCTIONS, "inf": math.inf, "nan": math.nan}
    function: Callable[..., float] = eval(compile(source, __file__, "eval"), known)
    return function


def regions_in(expression: Any) -> list[Region]:
    """Return the regions that an expression reads."""
    if isinstance(expression, Region):
        return [expression]
    return [x for part in expression[1:] for x in regions_in(part)] if isinstance(expression, tuple) else []


def replaced(expression: Any, others: Mapping[Region, Any]) -> Any:
    """Return an expression with others in place of its regions."""
    if isinstance(expression, Region):
        return others[expression]
    if isinstance(expression, tuple):
        return (expression[0], *[replaced(part, others) for part in expression[1:]])
    return expression
