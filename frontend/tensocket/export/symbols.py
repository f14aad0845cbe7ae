"""Sizes of a captured run: integers and floats that know how they follow from the sizes of tensors.

They are numbers with a value, so that programs compute with them as with any others. Arithmetic extends the expression,
and comparisons are noted: the graph of the run is right only for sizes with the same outcomes.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

#: Functions of expressions, by their names.
FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
    "truediv": operator.truediv, "pow": operator.pow, "neg": operator.neg, "abs": operator.abs, "sym_int": int,
    "floor": math.floor, "ceil": math.ceil, "round": round, "sym_float": float, "lshift": operator.lshift,
    "rshift": operator.rshift, "max": max, "min": min}
#: Comparisons, by their names, with their signs.
COMPARISONS: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "eq": (operator.eq, "=="), "ne": (operator.ne, "!="), "lt": (operator.lt, "<"), "le": (operator.le, "<="),
    "gt": (operator.gt, ">"), "ge": (operator.ge, ">=")}
#: The comparison that holds where another one does not.
OPPOSITE: Final = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%", "truediv": "/", "pow": "**",
                 "lshift": "<<", "rshift": ">>"}


@dataclass(frozen=True, slots=True)
class SizeOf:
    """The size of a dimension of a tensor of the run.

    Attributes:
        tensor: Number of the tensor in the run.
        dim: The dimension.
    """

    tensor: int
    dim: int


#: A size, a number, or a tuple of a function's name and its arguments.
Expression = Any


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison that the run made.

    Attributes:
        name: The comparison that held.
        left: An expression.
        right: An expression.
        place: Where the program makes it.
    """

    name: str
    left: Expression
    right: Expression
    place: str


class SymNotes:
    """The comparisons that the symbolic numbers of one run have made."""

    def __init__(self, place: Callable[[], str]) -> None:
        self.comparisons: dict[tuple[Any, ...], Comparison] = {}
        self._place = place

    def add(self, name: str, left: Expression, right: Expression, held: bool) -> None:
        """Note a comparison and its outcome."""
        name = name if held else OPPOSITE[name]
        if (name, left, right) not in self.comparisons:
            self.comparisons[name, left, right] = Comparison(name, left, right, self._place())


class SymNumber:
    """The part that symbolic integers and floats share.

    Attributes:
        expression: How the number follows from sizes.
        notes: The notes of the run.
    """

    expression: Expression
    notes: SymNotes

    def __reduce__(self) -> Any:
        """Return the plain number for copies."""
        return plain_number(self).__class__, (plain_number(self),)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class SymInt(SymNumber, int):
    """An integer that follows from sizes."""

    def __int__(self) -> int:
        return self._plain()

    def __trunc__(self) -> Any:
        return self

    def __index__(self) -> int:
        return self

    def _plain(self) -> int:
        """Return the value; from here on the run is right only for this value."""
        value = int.__index__(self)
        self.notes.add("eq", self.expression, value, True)
        return value

    def __float__(self) -> float:
        return float(self._plain())

    def __bool__(self) -> bool:
        return bool(self != 0)


class SymFloat(SymNumber, float):
    """A float that follows from sizes."""

    def __float__(self) -> float:
        value = float.__add__(self, 0.0)
        self.notes.add("eq", self.expression, value, True)
        return value

    def __bool__(self) -> bool:
        return bool(self.__ne__(0))

    def __int__(self) -> int:
        value = float.__int__(self)
        self.notes.add("eq", ("sym_int", self.expression), value, True)
        return value

    def __trunc__(self) -> Any:
        return symbolic(float.__int__(self), ("sym_int", self.expression), self.notes)


def symbolic(value: Any, expression: Expression, notes: SymNotes) -> Any:
    """Return a number with an expression."""
    kind: Any = SymInt if isinstance(value, int) else SymFloat
    made = kind.__new__(kind, value)
    made.expression, made.notes = expression, notes
    return made


def plain_number(value: Any) -> Any:
    """Return the value of a symbolic number; other values unchanged."""
    if isinstance(value, SymInt):
        return int.__index__(value)
    return float.__add__(value, 0.0) if isinstance(value, SymFloat) else value


def expression_of(value: Any) -> Expression:
    """Return the expression of a number; a plain one is its own."""
    return value.expression if isinstance(value, SymNumber) else value


def _number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _define(kind: type, name: str) -> None:
    function = FUNCTIONS[name]

    def forward(self: Any, other: Any) -> Any:
        if not _number(other):
            return NotImplemented
        return symbolic(function(plain_number(self), plain_number(other)),
                        (name, self.expression, expression_of(other)), self.notes)

    def backward(self: Any, other: Any) -> Any:
        if not _number(other):
            return NotImplemented
        return symbolic(function(plain_number(other), plain_number(self)),
                        (name, expression_of(other), self.expression), self.notes)

    setattr(kind, f"__{name}__", forward)
    setattr(kind, f"__r{name}__", backward)


def _define_unary(kind: type, name: str) -> None:
    def unary(self: Any) -> Any:
        return symbolic(FUNCTIONS[name](plain_number(self)), (name, self.expression), self.notes)

    setattr(kind, f"__{name}__", unary)


def _define_comparison(kind: type, name: str) -> None:
    function = COMPARISONS[name][0]

    def compare(self: Any, other: Any) -> Any:
        if not _number(other):
            return NotImplemented
        held = function(plain_number(self), plain_number(other))
        if self is not other:
            self.notes.add(name, self.expression, expression_of(other), held)
        return held

    setattr(kind, f"__{name}__", compare)


def _round(self: Any, digits: int | None = None) -> Any:
    value = round(plain_number(self), digits)
    return symbolic(value, ("round", self.expression, *(() if digits is None else (digits,))), self.notes)


def _divmod(self: Any, other: Any) -> Any:
    return self // other, self % other


for _kind in (SymInt, SymFloat):
    for _name in ("add", "sub", "mul", "floordiv", "mod", "truediv", "pow"):
        _define(_kind, _name)
    for _name in ("neg", "abs", "floor", "ceil"):
        _define_unary(_kind, _name)
    for _name in COMPARISONS:
        _define_comparison(_kind, _name)
    for _name, _method in (("round", _round), ("divmod", _divmod)):
        setattr(_kind, f"__{_name}__", _method)
_define(SymInt, "lshift")
_define(SymInt, "rshift")
SymInt.__hash__ = int.__hash__  # type: ignore[method-assign]
SymFloat.__hash__ = float.__hash__  # type: ignore[method-assign]


# ------------------------------------------------------------------------------------------------ expressions


def sizes_in(expression: Expression) -> Iterator[SizeOf]:
    """Yield the sizes that an expression reads."""
    if isinstance(expression, SizeOf):
        yield expression
    elif isinstance(expression, tuple):
        for part in expression[1:]:
            yield from sizes_in(part)


def evaluate(expression: Expression, size: Callable[[Any], Any]) -> Any:
    """Return the value of an expression; ``size`` returns those of its sizes.

    Raises:
        ArithmeticError: A division by zero, or a number that is too large.
        ValueError: A shift by a negative number.
    """
    if isinstance(expression, tuple):
        return FUNCTIONS[expression[0]](*[evaluate(part, size) for part in expression[1:]])
    return expression if isinstance(expression, (int, float)) else size(expression)


def substitute(expression: Expression, replace: Callable[[Any], Expression]) -> Expression:
    """Return an expression with others in place of its sizes; parts of numbers alone become numbers."""
    if isinstance(expression, tuple):
        parts = [substitute(part, replace) for part in expression[1:]]
        if all(isinstance(part, (int, float)) for part in parts):
            return FUNCTIONS[expression[0]](*parts)
        return (expression[0], *parts)
    return expression if isinstance(expression, (int, float)) else replace(expression)


def text_of(expression: Expression, name: Callable[[Any], str], parent: str = "") -> str:
    """Return an expression as Python writes it.

    Args:
        expression: The expression.
        name: Returns the names of its sizes.
        parent: The function whose argument it is, for which it may need brackets.
    """
    if not isinstance(expression, tuple):
        return str(expression) if isinstance(expression, (int, float)) else name(expression)
    function, *parts = expression
    if function in _SIGNS:
        left, right = [text_of(part, name, function) for part in parts]
        text = f"{left}*{right}" if function == "mul" else f"{left} {_SIGNS[function]} {right}"
        plain = not parent or (function == "mul" and parent in ("add", "sub", "mul"))
        return text if plain else f"({text})"
    texts = [text_of(part, name, "neg" if function == "neg" else "") for part in parts]
    if function == "neg":
        return f"(-{texts[0]})" if parent else f"-{texts[0]}"
    return f"{function}({', '.join(texts)})"


def interval(expression: Expression, span: Callable[[Any], tuple[float, float]]) -> tuple[float, float] | None:
    """Return bounds of an expression from those of its sizes; None where no simple rule gives them."""
    if not isinstance(expression, tuple):
        return (expression, expression) if isinstance(expression, (int, float)) else span(expression)
    found = [interval(part, span) for part in expression[1:]]
    parts = [each for each in found if each is not None]
    if len(parts) < len(found):
        return None
    name = expression[0]
    if name == "neg":
        return -parts[0][1], -parts[0][0]
    if name == "add":
        return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]
    if name == "sub":
        return parts[0][0] - parts[1][1], parts[0][1] - parts[1][0]
    if name == "mul" and parts[0][0] >= 0 and parts[1][0] >= 0:
        return parts[0][0] * parts[1][0], _product(parts[0][1], parts[1][1])
    if name in ("floordiv", "truediv") and parts[1][0] == parts[1][1] > 0:
        function = FUNCTIONS[name]
        return tuple([x if math.isinf(x) else function(x, parts[1][0]) for x in parts[0]])  # type: ignore[return-value]
    if name == "mod" and parts[1][0] == parts[1][1] > 0:
        return 0, parts[1][0] - 1
    return None


def _product(one: float, other: float) -> float:
    return 0 if 0 in (one, other) else one * other
