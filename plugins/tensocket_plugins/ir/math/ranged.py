"""Functions with a cheap form for ordinary arguments and a costly one for the others.

A ``select`` chooses between the two or, for vectors of processors, ``rarely``: then the costly form is computed only if
an element needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..nodes import Expr, call, select

_Form = Callable[[Expr], Expr]


@dataclass(frozen=True, slots=True)
class Ranged:
    """A function of one argument; calling it gives the whole function as an expression.

    Attributes:
        name: Its name in the IR.
        ordinary: The form for ordinary arguments; gives some number for all others.
        is_rare: Whether an argument is not ordinary.
        rare: The form for these.
    """

    name: str
    ordinary: _Form
    is_rare: _Form
    rare: _Form

    def __call__(self, x: Expr) -> Expr:
        """Return the function of ``x``."""
        return select(self.is_rare(x), self.rare(x), self.ordinary(x))

    def rarely(self, x: Expr) -> Expr:
        """Return the function of ``x``, whose costly form is not written out."""
        return call("rarely", self.is_rare(x), call(self.name, x), self.ordinary(x))
