"""Pointwise operators of two operands with a simpler formula for certain numbers as the second operand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tensocket_core.device import DeviceState
from tensocket_core.keys import DTYPE_MASK, DTYPE_OF, SCALAR, SCALAR_MASK
from tensocket_core.launch.path import Signature

from .pointwise import Pointwise
from .pointwise_planner import PointwisePlanner


class PointwiseWithConstants(Pointwise):
    """A pointwise operator with separate formulas for certain second operands.

    Each formula is an operator of one operand, and takes all paths: native entries, generated kernels, in place and
    ``out=``.

    Attributes:
        numbers: These operators, by the number. They serve floats.
    """

    def __init__(self, schema: str, doc: str, formula: Callable[..., Any], *,
                 numbers: Mapping[float, Callable[..., Any]], **record: Any) -> None:
        super().__init__(schema, doc, formula, **record)
        self.numbers = {
            number: _OfOne(f"{self.name}_number{k}(Tensor input) -> Tensor", f"{self.name} with {number}.", of_one,
                           kinds="f") for k, (number, of_one) in enumerate(numbers.items())}

    def build(self, key: int, state: DeviceState) -> Callable[..., Any]:
        """Build the closure; for a tensor of floats and a number, it first looks the number up."""
        rest, dtype = super().build(key, state), DTYPE_OF.get(key & DTYPE_MASK)
        if key & SCALAR_MASK not in (SCALAR[int], SCALAR[float]) or dtype is None or dtype.kind != "float":
            return rest
        numbers, alone = self.numbers, key & ~SCALAR_MASK

        def numbered(a: Any, number: Any) -> Any:
            operator = numbers.get(number)
            if operator is None:
                return rest(a, number)
            return (operator.table.get(alone) or operator.resolve(alone))(a)

        return numbered

    def planner(self, call: Signature, extras: tuple[Any, ...] | None = None) -> PointwisePlanner | None:
        """Return the planner; None for calls with a number, which decides the formula."""
        return None if call.key & SCALAR_MASK else super().planner(call, extras)

    def run_arrays(self, state: DeviceState, compute: Any, result: Any, operands: list[Any], extras: tuple[Any, ...],
                   target: Any) -> Any:
        """Return the result's handle; see ``Pointwise.run_arrays``."""
        if compute.kind == "float" and not hasattr(operands[1], "_key"):
            found = self.numbers.get(operands[1])
            if found is not None:
                return found.run_arrays(state, compute, result, operands[:1], extras, target)
        return super().run_arrays(state, compute, result, operands, extras, target)


class _OfOne(Pointwise):
    """An operator that only ``PointwiseWithConstants`` uses."""

    def _register(self) -> None:
        """Do nothing: the operator is not in the registry."""
