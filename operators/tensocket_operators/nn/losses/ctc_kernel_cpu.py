"""Recurrences over the states of alignments, for processors: one pass over time with states as vector lanes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal

from tensocket_core.device import DeviceState
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract.dtypes import DType, int64
from tensocket_plugins.ir.build.math import ExprMath
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.nodes import (
    Expr,
    If,
    Let,
    Load,
    LoopKind,
    Program,
    Stmt,
    Store,
    Var,
    call,
    const,
    loop,
    select,
)

#: States that one vector computes together.
_LANES: Final = 16

Kind = Literal["scores", "flows"]


def alignment_nest(kind: Kind, dtype: DType, log_sum: Callable[..., Any], never: float) -> Program:
    """Return the program of ``along_time``; buffers: result and both operands; sizes: times, examples and states."""
    return _Alignments(kind, dtype, log_sum, never).program()


class _Alignments:
    """Writer of a nest."""

    def __init__(self, kind: Kind, dtype: DType, log_sum: Callable[..., Any], never: float) -> None:
        self.kind, self.dtype, self.log_sum = kind, dtype, log_sum
        self.never = const(never, dtype)
        self.nest = ProgramBuilder(f"alignment_{kind}", int64)
        for name, kept in (("out0", True), ("in0", False), ("in1", False)):
            self.nest.buffer(name, dtype, writable=kept)
        self.steps, self.count, self.width = self.nest.sizes("n", 3)
        self.n, self.step, self.chunk, self.lane, self.s = (
            Var(name, int64) for name in ("n", "step", "chunk", "lane", "s"))

    def program(self) -> Program:
        """Return the finished nest: one example per iteration."""
        scores = self.kind == "scores"
        edge, first = Var("edge", int64), Var("first", int64)
        outside = self.never if scores else const(0, self.dtype)
        side: Expr = const(0, int64) if scores else self.width
        borders = [Store("out0", self._row(edge) + side + k, outside) for k in range(2)]
        begin = Store("out0", self._row(const(0, int64)) + 2 + first, select(
            call("eq", first, const(0, int64)), const(0, self.dtype), self.never)) if scores else Store(
            "out0", self._row(self.steps) + first, self._grad(self.steps, first))
        inside = [Let(self.s, self.chunk + self.lane), If(self.s < self.width, tuple(
            self._score() if scores else self._flow()))]
        vectors = loop(self.chunk, self.width, [loop(self.lane, _LANES, inside, LoopKind.VECTOR)], step=_LANES)
        return self.nest.program(parallel([self.n], [self.count], [
            loop(edge, self.steps + 1, borders), loop(first, self.width, [begin]),
            loop(self.step, self.steps, [vectors])]))

    def _row(self, time: Expr) -> Expr:
        """Return the start of a row of the result, which has two extra columns."""
        return (time * self.count + self.n) * (self.width + 2)

    def _grad(self, time: Expr, state: Expr) -> Expr:
        return Load("in1", (time * self.count + self.n) * self.width + state, self.dtype)

    def _score(self) -> list[Stmt]:
        """Compute a score from those of the state itself and the two before it."""
        row = self._row(self.step) + self.s
        third, second, same = (Load("out0", row + k, self.dtype) for k in range(3))
        barred = Load("in1", self.n * self.width + self.s, self.dtype)
        emitted = Load("in0", (self.step * self.count + self.n) * self.width + self.s, self.dtype)
        value = self.log_sum(ExprMath(self.dtype), same, second, third + barred) + emitted
        return [Store("out0", self._row(self.step + 1) + 2 + self.s, call("max", value, self.never))]

    def _flow(self) -> list[Stmt]:
        """Compute a flow from those of the state itself and the two after it, one time later."""
        time = Var("time", int64)
        value: Expr = self._grad(time, self.s)
        for k in range(3):
            place = ((time * 3 + k) * self.count + self.n) * self.width + self.s
            later = Load("out0", self._row(time + 1) + self.s + k, self.dtype)
            value = value + Load("in0", place, self.dtype) * later
        return [Let(time, self.steps - 1 - self.step), Store("out0", self._row(time) + self.s, value)]


def along_time(device_state: DeviceState, kind: Kind, operands: Sequence[Any], dtype: DType, sizes: Sequence[int],
               log_sum: Callable[..., Any], never: float) -> Any:
    """Run a recurrence over times on a processor and return its result, [times + 1, examples, states + 2].

    Args:
        device_state: A device whose target is of kind ``cpu``.
        kind: ``scores``: the logarithm of the summed exponentials of the state's score and those of the two before it
            (the last one plus its bar), plus the emitted score; two columns of ``never`` come first. ``flows``: a
            gradient plus the flows of the state and the two after it, one time later, times their shares; two columns
            of 0 follow.
        operands: Handles without gaps. Emitted scores [times, examples, states] and bars [examples, states]; or
            shares [times, 3, examples, states] and gradients [times + 1, examples, states].
        dtype: Element type of all arrays.
        sizes: Times, examples and states.
        log_sum: ``(m, a, b, c)``: the logarithm of the sum of three numbers' exponentials.
        never: The number that stands for the logarithm of 0.
    """
    steps, count, width = sizes
    out = device_state.runtime.empty((steps + 1, count, width + 2), dtype, device_state.stream)
    if out.size:
        launch(device_state, ("alignments", kind, dtype), partial(alignment_nest, kind, dtype, log_sum, never), None,
               [out, *operands], sizes)
    return out
