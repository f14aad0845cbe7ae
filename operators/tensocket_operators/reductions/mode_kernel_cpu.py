"""The most frequent element of short rows, for processors: each element is compared with all others."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.geometry import contiguous
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.ir.build.short_rows import ShortRows, suits_short_rows
from tensocket_plugins.ir.nodes import Assign, Declare, Expr, Let, Stmt, Var, call, const, loop, select

#: The longest rows: comparisons grow with the square of their length.
_LONGEST: Final = 32


class _Modes(ShortRows):
    """Writer of the nest, whose result is the last position of the most frequent element, the smallest of several.

    NaN equals nothing, and is larger than numbers.
    """

    def __init__(self, dtype: DType) -> None:
        super().__init__("mode", dtype, dtype, int64)
        self.q = Var("q", int64)
        self.value, self.best = Var("value", dtype), Var("best", dtype)
        self.count, self.last, self.most, self.place = (Var(name, int64) for name in ("count", "last", "most", "place"))

    def folded(self, element: Callable[[Expr], Expr]) -> list[Stmt]:
        """Count the occurrences of each element."""
        zero, one = const(0, int64), const(1, int64)
        same = call("eq", element(self.q), self.value)
        smaller: Any = self.value < self.best
        if self.accumulator.kind == "float":
            smaller = smaller | (call("ne", self.best, self.best) & call("eq", self.value, self.value))
        count = call("max", self.count, one)  # NaN does not even equal itself
        better = Var("better", smaller.dtype)
        return [
            Declare(self.best, element(zero)), Declare(self.most, zero), Declare(self.place, zero),
            loop(self.t, self.length, [
                Let(self.value, element(self.t)), Declare(self.count, zero), Declare(self.last, self.t),
                loop(self.q, self.length, [
                    Assign(self.count, self.count + select(same, one, zero)),
                    Assign(self.last, select(same, self.q, self.last))]),
                Let(better, (self.most < count) | (call("eq", self.most, count) & smaller)),
                Assign(self.best, select(better, self.value, self.best)),
                Assign(self.most, select(better, count, self.most)),
                Assign(self.place, select(better, self.last, self.place))])]

    def finished(self) -> Any:
        """Return the position."""
        return self.place


def mode_places(state: DeviceState, source: Any, axis: int, dtype: DType) -> Any:
    """Return the last positions of the most frequent elements along an axis, which stays with size 1; None if the
    kernel does not suit the array.
    """
    shape = source.shape
    parts = math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:])
    if dtype.kind not in ("float", "int") or dtype.itemsize < 4 or shape[axis] > _LONGEST or not (
            contiguous(source) and suits_short_rows(state.runtime.target, *parts, few=True)):
        return None
    out = state.runtime.empty((*shape[:axis], 1, *shape[axis + 1:]), int64, state.stream)
    launch(state, ("mode", dtype), lambda: _Modes(dtype).program(), None, [out, source], parts)
    return out
