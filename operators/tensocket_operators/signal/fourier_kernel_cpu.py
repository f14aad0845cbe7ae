"""Short Fourier transforms along one axis, for processors: vectors hold the same element of many rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.launch.programs import launch
from tensocket_plugins.contract.dtypes import FROM_NUMPY, DType, complex64, complex128, float32, float64, int64
from tensocket_plugins.ir.build.elements import load
from tensocket_plugins.ir.build.nest import ProgramBuilder, parallel
from tensocket_plugins.ir.complex import Complex
from tensocket_plugins.ir.nodes import Expr, If, Let, LoopKind, Program, Stmt, Store, Var, const, loop

from .codelets import ZERO, Codelet, Value, conjugate, is_short
from .transforms import Values

_COMPLEX: Final = {float32: complex64, float64: complex128}
_PARTS: Final = {np.dtype(np.float32): float32, np.dtype(np.complex64): float32,
                 np.dtype(np.float64): float64, np.dtype(np.complex128): float64}
#: Adjacent rows from which on vectors hold these; else they hold rows that are further apart.
_ADJACENT: Final = 4


@dataclass(frozen=True)
class TransformForm:
    """Everything that the source of a nest depends on.

    Attributes:
        dtype: That of the parts.
        size: The number of points.
        given: How many of the points are read; the others are zero.
        source: Element type of what is read, with parts of this dtype.
        result: The values that are written. Real ones come from the first half of values that mirror each other.
        forward: Whether exponents are negative.
        lanes: Rows that one vector holds.
        adjacent: Whether these are adjacent in memory.
    """

    dtype: DType
    size: int
    given: int
    source: DType
    result: Values
    forward: bool
    lanes: int
    adjacent: bool


def transform_nest(form: TransformForm) -> Program:
    """Return the program of ``transformed``, for one axis.

    Its buffers are result and source, [outer, points, inner]; the sizes are outer, inner and the source's points; the
    number multiplies the results.
    """
    return _Transform(form).program()


class _Transform:
    """Writer of a nest."""

    def __init__(self, form: TransformForm) -> None:
        self.form = form
        self.nest = ProgramBuilder("transform", int64)
        self.nest.buffer("out0", form.dtype if form.result == "real" else _COMPLEX[form.dtype], writable=True)
        self.nest.buffer("in0", form.source)
        self.outer, self.inner, self.points = self.nest.sizes("n", 3)
        self.scale = self.nest.number("scale", form.dtype)
        self.a, self.b = Var("a", int64), Var("b", int64)

    def program(self) -> Program:
        """Return the finished nest."""
        lane, chunk = Var("lane", int64), Var("chunk", int64)
        moving, limit = (self.b, self.inner) if self.form.adjacent else (self.a, self.outer)
        vector = loop(lane, self.form.lanes, [
            Let(moving, chunk + lane), If(moving < limit, tuple(self._row()))], LoopKind.VECTOR)
        if self.form.adjacent:
            body = loop(chunk, self.inner, [vector], step=self.form.lanes)
            return self.nest.program(parallel([self.a], [self.outer], [body]))
        group, groups = Var("group", int64), (self.outer + (self.form.lanes - 1)) // self.form.lanes
        return self.nest.program(parallel([group], [groups], [
            Let(chunk, group * self.form.lanes), loop(self.b, self.inner, [vector])]))

    def _row(self) -> list[Stmt]:
        """Transform one row."""
        form = self.form
        codelet = Codelet(form.dtype, -1 if form.forward else 1)
        values = codelet.transform(self._source(codelet))
        written = form.size // 2 + 1 if form.result == "half" else form.size
        stores: list[Stmt] = []
        for k, parts in enumerate(values[:written]):
            place = (self.a * written + k) * self.inner + self.b
            zero = const(0, form.dtype)
            re, im = (zero if x is None else x * self.scale for x in parts)
            stores += [Store("out0", place, re)] if form.result == "real" else [
                Store("out0", place * 2, re), Store("out0", place * 2 + 1, im)]
        return [*codelet.statements, *stores]

    def _source(self, codelet: Codelet) -> list[Value]:
        """Return all points of a row."""
        form = self.form
        read = [self._read(codelet, j) for j in range(form.given)]
        if form.result != "real":
            return read + [ZERO] * (form.size - form.given)
        read += [ZERO] * (form.size // 2 + 1 - form.given)
        mirrored = [conjugate(x) for x in read[1:(form.size + 1) // 2]]
        own = [(x[0], None if 2 * k % form.size == 0 else x[1]) for k, x in enumerate(read)]
        return own + mirrored[::-1]

    def _read(self, codelet: Codelet, j: int) -> Value:
        place: Expr = (self.a * self.points + j) * self.inner + self.b
        value: Any = load("in0", place, self.form.source)
        parts = (value.re, value.im) if isinstance(value, Complex) else (value, None)
        return codelet.named(parts)


def transformed(state: DeviceState, x: Any, axes: Sequence[int], sizes: Sequence[int], scale: float, forward: bool,
                result: Values) -> Any:
    """Return the transform of an array along axes; None if the kernel does not suit it.

    Args:
        state: The device.
        x: Real or complex values, in float32 or float64.
        axes: Distinct; the last one is the halved one.
        sizes: The number of points along each of them: elements are left out, or zeros added, at the end.
        scale: The factor of the results.
        forward: Whether exponents are negative.
        result: The values along the last axis of the result. If they are real, ``x`` holds the first half of theirs.
    """
    if x.dtype not in _PARTS or not x.size or not all(map(is_short, sizes)):
        return None
    order = list(zip(axes, sizes, strict=True))
    for number, (axis, size) in enumerate(order if result == "real" else order[::-1]):
        last = axis == axes[-1]
        x = _along(state, x, axis, size, scale if number == 0 else 1.0, result if last else "complex", forward)
    return x


def _along(state: DeviceState, x: Any, axis: int, size: int, scale: float, result: Values, forward: bool) -> Any:
    """Transform along one axis."""
    x = x if x.flags.c_contiguous else np.ascontiguousarray(x)
    shape, points, dtype = x.shape, x.shape[axis], _PARTS[x.dtype]
    outer, inner = math.prod(shape[:axis]), math.prod(shape[axis + 1:])
    adjacent = inner >= _ADJACENT
    lanes = 8 if dtype is float64 or (inner if adjacent else outer) <= 8 else 16
    given = min(points, size // 2 + 1 if result == "real" else size)
    form = TransformForm(dtype, size, given, FROM_NUMPY[x.dtype], result, forward, lanes, adjacent)
    made = size // 2 + 1 if result == "half" else size
    out = state.runtime.empty((*shape[:axis], made, *shape[axis + 1:]), dtype if result == "real" else _COMPLEX[dtype],
                              state.stream)
    launch(state, ("short_transform", form), partial(transform_nest, form), None, [out, x],
           [outer, inner, points, scale])
    return out
