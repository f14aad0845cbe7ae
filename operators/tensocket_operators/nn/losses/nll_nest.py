"""Kernels of small classification losses: a term for each row from its label, their sum, and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract.dtypes import DType, float64, int64
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.nodes import (
    Assign,
    Declare,
    Expr,
    Let,
    Load,
    Program,
    Stmt,
    Store,
    Var,
    call,
    cast,
    const,
    loop,
    select,
)
from tensocket_plugins.ir.strategies import Strategy

_ROW: Final = Var("i0", int64)
_COLUMN: Final = Var("i1", int64)


@dataclass(frozen=True, slots=True)
class Form:
    """Everything that the source of a kernel depends on.

    Attributes:
        dtype: Element type of scores, weights and results: float32 or float64.
        weighted: Whether classes have weights.
        reduction: ``none``, ``mean`` or ``sum``.
    """

    dtype: DType
    weighted: bool
    reduction: str


class _Sum:
    """A running sum: of float32 in float64, of float64 with the rounding error of every addition (Knuth's two-sum)."""

    def __init__(self, name: str, dtype: DType) -> None:
        self.total = Var(name, float64)
        self.lost = Var(f"{name}_lost", float64) if dtype is float64 else None

    def start(self) -> list[Stmt]:
        """Return the statements that start the sum at 0."""
        return [Declare(x, const(0.0, float64)) for x in (self.total, self.lost) if x is not None]

    def add(self, value: Expr) -> list[Stmt]:
        """Return the statements that add a value, at most once in a block."""
        value, total = cast(value, float64), self.total
        if self.lost is None:
            return [Assign(total, total + value)]
        after, part = (Var(f"{total.name}_{name}", float64) for name in ("after", "part"))
        return [Let(after, total + value), Let(part, after - total),
                Assign(self.lost, self.lost + ((total - (after - part)) + (value - part))), Assign(total, after)]

    def value(self) -> Expr:
        """Return the sum; an infinite one has no rounding error to correct."""
        if self.lost is None:
            return self.total
        return select(call("eq", self.lost, self.lost), self.total + self.lost, self.total)


class _Labels:
    """Statements for a row's label: its class (the first one for an ignored label) and its factor.

    Labels are valid when a kernel starts, but other threads may change them while it runs.
    """

    def __init__(self, nest: ProgramBuilder, form: Form) -> None:
        self._form, ignored, classes = form, nest.number("ignored", int64), nest.number("classes", int64)
        label, kept = Var("label", int64), call("ne", Var("label", int64), ignored)
        self.at, self.factor = Var("at", int64), Var("factor", form.dtype)
        weight = Load("weights", self.at, form.dtype) if form.weighted else const(1.0, form.dtype)
        valid = call("min", call("max", label, const(0, int64)), classes - 1)
        self.lets: list[Stmt] = [Let(label, Load("labels", _ROW, int64)), Let(self.at, select(kept, valid, 0)),
                                 Let(self.factor, select(kept, weight, 0.0))]
        self.replayable = kept

    def weigh(self, value: Expr) -> Expr:
        """Return a row's value times its factor, 0 if the row is ignored."""
        return select(self.replayable, value * self.factor if self._form.weighted else value, 0.0)


def _nest(name: str, form: Form, result: str, inputs: Sequence[str]) -> ProgramBuilder:
    nest = ProgramBuilder(name, int64)
    nest.buffer(result, form.dtype, writable=True)
    for given in inputs:
        nest.buffer(given, form.dtype)
    nest.buffer("labels", int64)
    if form.weighted:
        nest.buffer("weights", form.dtype)
    return nest


def terms_nest(form: Form) -> Program:
    """Return the program for minus each row's value at its label, times its factor; unreduced, summed or averaged.

    The mean divides by the sum of factors. Buffers are ``out0``, values ``in0``, int64 labels and, if used, weights;
    scalars are the number of rows, the strides of the values, the ignored label, and the number of classes.
    """
    nest = _nest("class_terms", form, "out0", ["in0"])
    (rows,), (across, along), labels = nest.sizes("n", 1), nest.strides("in0", 2), _Labels(nest, form)
    term = labels.weigh(-Load("in0", _ROW * across + labels.at * along, form.dtype))
    if form.reduction == "none":
        return nest.program(parallel([_ROW], [rows], [*labels.lets, Store("out0", _ROW, term)]))
    total, factors = _Sum("total", form.dtype), _Sum("factors", form.dtype)
    mean = form.reduction == "mean"
    steps = [*labels.lets, *total.add(term), *(factors.add(labels.factor) if mean else ())]
    value = total.value() / factors.value() if mean else total.value()
    body = [*total.start(), *(factors.start() if mean else ()), loop(_ROW, rows, steps),
            Store("out0", const(0, int64), cast(value, form.dtype))]
    return nest.program(parallel([_COLUMN], [const(1, int64)], body))


def scales_nest(form: Form) -> Program:
    """Return the program of every row's factor: the upstream gradient times the row's share.

    Buffers are ``out0``, the upstream gradient ``in0``, labels and, if used, weights; scalars are the number of rows,
    the stride of the upstream gradient (0 if all rows share one), the ignored label, and the number of classes.
    """
    nest = _nest("class_scales", form, "out0", ["in0"])
    (rows,), (step,), labels = nest.sizes("n", 1), nest.strides("in0", 1), _Labels(nest, form)
    upstream: Expr = Load("in0", _ROW * step, form.dtype)
    factors, total = _Sum("factors", form.dtype), Var("divisor", form.dtype)
    before: list[Stmt] = []
    if form.reduction == "mean":
        before = [*factors.start(), loop(_ROW, rows, [*labels.lets, *factors.add(labels.factor)]),
                  Let(total, cast(factors.value(), form.dtype))]
        upstream = upstream / total
    # Rows of weight 0 stay 0 even if all weights are 0 and the mean divides by zero.
    scale = select(call("eq", labels.factor, 0.0), 0.0, labels.weigh(upstream))
    body = [*before, loop(_ROW, rows, [*labels.lets, Store("out0", _ROW, scale)])]
    return nest.program(parallel([_COLUMN], [const(1, int64)], body))


def gradient_nest(form: Form, scores: bool) -> Program:
    """Return the program for shares (probabilities, for ``scores``) times their row's scale, less it at the label.

    Buffers are ``out0``, shares ``in0`` (only for ``scores``), scales and labels, all without gaps; scalars are the
    numbers of rows and columns.
    """
    nest = ProgramBuilder("class_gradient", int64)
    nest.buffer("out0", form.dtype, writable=True)
    for name in ["in0", "scales"] if scores else ["scales"]:
        nest.buffer(name, form.dtype)
    nest.buffer("labels", int64)
    rows, columns = nest.sizes("n", 2)
    scale, label, at = Var("scale", form.dtype), Var("label", int64), _ROW * columns + _COLUMN
    start = Load("in0", at, form.dtype) * scale if scores else const(0.0, form.dtype)
    value = start - select(call("eq", _COLUMN, label), scale, 0.0)
    inner = parallel([_COLUMN], [columns], [Store("out0", at, value)])
    return nest.program(parallel([_ROW], [rows], [
        Let(scale, Load("scales", _ROW, form.dtype)), Let(label, Load("labels", _ROW, int64)), *inner]))


def class_terms(state: DeviceState, form: Form, values: Any, labels: Any, weights: Any, ignored: int) -> Any:
    """Return the loss of a matrix of log probabilities; labels, valid or ignored, and weights have no gaps."""
    out = state.runtime.empty(labels.shape if form.reduction == "none" else (), form.dtype, state.stream)
    size = form.dtype.itemsize
    launch(state, ("class_terms", form), partial(terms_nest, form), Strategy.SERIAL,
           [out, values, labels, *([weights] if form.weighted else ())],
           [labels.size, *(step // size for step in values.strides), ignored, values.shape[1]])
    return out


def class_gradient(state: DeviceState, form: Form, upstream: Any, shares: Any, shape: tuple[int, ...], labels: Any,
                   weights: Any, ignored: int) -> Any:
    """Return the gradient for such a matrix; ``shares`` are the probabilities of scores, otherwise None."""
    empty, stream = state.runtime.empty, state.stream
    scales, out = empty(labels.shape, form.dtype, stream), empty(shape, form.dtype, stream)
    step = upstream.strides[0] // form.dtype.itemsize if upstream.ndim else 0
    launch(state, ("class_scales", form), partial(scales_nest, form), Strategy.SERIAL,
           [scales, upstream, labels, *([weights] if form.weighted else ())], [labels.size, step, ignored, shape[1]])
    scores = shares is not None
    launch(state, ("class_gradient", form.dtype, scores), partial(gradient_nest, form, scores), Strategy.SERIAL,
           [out, *([shares] if scores else ()), scales, labels], [*shape])
    return out
