"""The formulas of a scan, which its record states once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.element_types import COMPONENT


@dataclass(frozen=True)
class Scan:
    """A running combination: result i combines the elements 0 to i of a row.

    Attributes:
        element: ``(m, x, position) -> values``, the contribution of an element; ``position`` counts along the row.
        combine: ``(m, left, right) -> values`` over tuples of values; associative, ``left`` comes first in the row.
        finish: ``(m, values) -> result``.
        positions: Indices of the values that are positions instead of numbers.
        identity: ``(dtype) -> numbers``, the left identity of ``combine``; None if vectors gain nothing.
    """

    element: Callable[..., tuple[Any, ...]]
    combine: Callable[..., tuple[Any, ...]]
    finish: Callable[..., Any]
    positions: frozenset[int] = frozenset()
    identity: Callable[[DType], tuple[Any, ...]] | None = None

    def types(self, accumulator: DType, index: DType) -> list[DType]:
        """Return the dtype of every value."""
        from tensocket_plugins.ir.build.math import ExprMath
        from tensocket_plugins.ir.complex import Complex
        from tensocket_plugins.ir.nodes import Var

        one = ExprMath(accumulator)
        part = COMPONENT.get(accumulator, accumulator)
        x: Any = Complex(Var("x", part), Var("x", part)) if part is not accumulator else Var("x", accumulator)
        count = len(self.element(one, x, Var("p", index)))
        return [index if k in self.positions else accumulator for k in range(count)]
