"""PyTorch's attributes of overloads other than calls; the records of operators and factories have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from .schema import Schema

#: The attributes by name, as functions of a record. A package above core, which knows PyTorch's names, adds them.
ATTRIBUTES: Final[dict[str, Callable[[Any], Any]]] = {}


class OperatorName(str):
    """The name of an operator; called, as PyTorch's ``func.name()``, it is the overload's: ``aten::add.Tensor``."""

    __slots__ = ()

    def __call__(self) -> str:
        """Return the name of the overload."""
        return str(ATTRIBUTES["name"](self))


class AtenOverloads:
    """An operator, which stands for all overloads of PyTorch's operator of this name."""

    name: str
    schema: Schema

    def __repr__(self) -> str:
        return str(ATTRIBUTES["__repr__"](self))

    def __str__(self) -> str:
        return str(ATTRIBUTES["__str__"](self))

    def __getattr__(self, name: str) -> Any:
        if name in ATTRIBUTES:
            return ATTRIBUTES[name](self)
        raise AttributeError(f"{type(self).__name__} {self.__dict__.get('name', '')!r} has no attribute {name!r}")
