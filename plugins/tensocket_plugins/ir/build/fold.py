"""The formulas of a reduction, which its record states once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensocket_plugins.contract.dtypes import DType


@dataclass(frozen=True)
class Fold:
    """A reduction's formulas over accumulators.

    Attributes:
        element: ``(m, x, position) -> values``: the contribution of an element; position counts within the reduction.
        identity: ``(dtype) -> numbers``: the neutral contributions.
        combine: ``(m, left, right) -> values`` over tuples of accumulators.
        finish: ``(m, accumulators, count, *numbers) -> results``; count is the number of elements, and numbers are
            further arguments, in the accumulator's dtype. Only results are rounded to the stored dtype, so roots and
            quotients of large sums belong here.
        positions: Accumulators (by number) that hold positions instead of values.
        relative: Whether elements are differences from the first folded element.
    """

    element: Callable[..., tuple[Any, ...]]
    identity: Callable[[DType], tuple[Any, ...]]
    combine: Callable[..., tuple[Any, ...]]
    finish: Callable[..., tuple[Any, ...]]
    positions: frozenset[int] = frozenset()
    relative: bool = False
