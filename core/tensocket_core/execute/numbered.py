"""Pointwise operators of two operands that take a simpler formula where the second one is a certain number."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ..device import DeviceEntry
from ..dispatch.keys import dtype_bit
from . import dense
from .dense import Launcher
from .math import ExprMath, arithmetic_dtype
from .pointwise import Pointwise


class Numbered(Pointwise):
    """A pointwise operator with kernels of their own for certain second operands.

    Attributes:
        numbers: Formulas over the first operand, by the number. They serve arrays of floats.
    """

    def __init__(self, schema: str, doc: str, formula: Callable[..., Any], *,
                 numbers: Mapping[float, Callable[..., Any]], **record: Any) -> None:
        super().__init__(schema, doc, formula, **record)
        self.numbers = numbers

    def _dense(self, key: int, entry: DeviceEntry, general: Callable[..., Any]) -> Callable[..., Any] | None:
        made, found = super()._dense(key, entry, general), self.launcher(key, entry)
        if made is None or found is None or found.numbers is None:
            return made
        rest, result, closures = made, entry.key | dtype_bit(found.result), dict[float, Callable[..., Any]]()

        def numbered(a: Any, number: Any) -> Any:
            try:
                closure = closures[number]
            except KeyError:
                if number not in self.numbers:
                    return rest(a, number)
                closure = closures[number] = dense.out_of_place(
                    self._on_one(found, number), result, 1, lambda x: general(x, number))
            return closure(a)

        return numbered

    def _on_one(self, launcher: Launcher, number: float) -> Launcher:
        def formula(x: Any) -> Any:
            m = ExprMath(arithmetic_dtype(launcher.compute))
            return m.finished(self.numbers[number](m, x))

        return replace(launcher, name=(*launcher.name, number), formula=formula, numbers=None)
