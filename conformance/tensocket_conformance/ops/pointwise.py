"""Pointwise operators: arithmetic, comparison, logic, elementary functions, activations."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Draw, Given, Maker, Operator, Sample, boolean, floating, kinds, same
from .layouts import Domain, pointwise_samples

_WIDE = (-4.0, 4.0)


def _record(name: str, reference: Callable[..., Any], letters: str, arity: int = 1, *, call: Any = None,
            dtypes: tuple[str, ...] | None = None, result: Callable[[str], str] = same, ulp: float = 0.0,
            condition: Callable[..., Any] | None = None, flush: bool = False, ranges: Any = None,
            restrict: Any = None, grid: float = float("inf"), extra: dict[str, Maker] | None = None) -> Operator:
    domain = Domain(tuple(ranges or (_WIDE,) * arity), restrict, grid)
    return Operator(
        name=name, call=call or getattr(ts, name), reference=reference, dtypes=dtypes or kinds(letters), result=result,
        samples={**pointwise_samples(domain), **(extra or {})}, condition=condition,
        tolerance=Tolerance(ulp, 1.0 if condition else 0.0, flush),
    )


def _method(name: str, reference: Callable[..., Any], letters: str, arity: int, call: Callable[..., Any],
            result: Callable[[str], str] = same) -> Operator:
    """Return a second form of a call of an operator, for which a few samples are enough."""
    def make(draw: Draw) -> Sample:
        return Sample(tuple(draw.given((7, 13)) for _ in range(arity)))

    def step(draw: Draw) -> Sample:
        return Sample(tuple(draw.given((5, 9), "step") for _ in range(arity)))

    return Operator(name, call, reference, {"prime#0": make, "step#0": step}, kinds(letters)[:1], result)


_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def _sigmoid(x: HostArray) -> HostArray:
    if x.dtype.kind == "c":
        return np.asarray(1 / (1 + np.exp(-x)))
    return np.asarray(np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))))


def _near_poles(x: HostArray) -> HostArray | float:
    """Return how much an error of a complex argument is magnified near the function's poles."""
    return np.abs(x * _sigmoid(x) * (1 - _sigmoid(x))) if x.dtype.kind == "c" else 0.0


def _silu(x: HostArray) -> HostArray:
    return np.asarray(x * _sigmoid(x))


def _gelu(x: HostArray) -> HostArray:
    return np.asarray(0.5 * x * _erfc(-x / math.sqrt(2.0)))


def _magnitude(x: HostArray) -> HostArray:
    return np.abs(x)


def _positive(position: int, array: HostArray) -> HostArray:
    return array if array.dtype.kind == "c" else np.abs(array)


def _nonzero_divisor(position: int, array: HostArray) -> HostArray:
    """Replace divisors of integers that are 0, or -1, by which the smallest integer can't be divided."""
    if position == 0 or array.dtype.kind == "f":
        return array
    one = array.dtype.type(1)
    return np.where((array == 0) | (array + one == 0), one, array)


def _finite(position: int, array: HostArray) -> HostArray:
    return np.where(np.isinf(array), np.ones_like(array), array)


def _power(position: int, array: HostArray) -> HostArray:
    return array if array.dtype.kind == "f" else np.abs(array) % (4 if position else 8)


def _clamp_samples() -> dict[str, Maker]:
    def both(draw: Draw) -> Sample:
        return Sample((draw.given((7, 13)), 1, 3))

    def low(draw: Draw) -> Sample:
        return Sample((draw.given((5, 9), "transposed"), 1, None))

    def high(draw: Draw) -> Sample:
        return Sample((draw.given((31,), "step"), None, 2))

    def nan(draw: Draw) -> Sample:
        array = draw.values((3, 5)).astype(draw.form.numpy)
        if draw.form.kind == "float":
            array[1] = np.nan
        return Sample((Given(array, draw.form.short), 1, 3))

    return {"prime#0": both, "transposed#0": low, "step#0": high, "grid#0": nan}


def _clamp(x: HostArray, low: int | None, high: int | None) -> HostArray:
    return np.asarray(np.clip(x, -np.inf if low is None else low, np.inf if high is None else high))


def _number(value: float, whole: int) -> Maker:
    """Return a tensor and a Python number as the second argument."""
    def make(draw: Draw) -> Sample:
        return Sample((draw.given((6, 11), "transposed"), value if draw.form.kind == "float" else whole))

    return make


def _where_samples() -> dict[str, Maker]:
    def make(shape: tuple[int, ...], layout: str, other: tuple[int, ...]) -> Maker:
        def build(draw: Draw) -> Sample:
            chosen = Given(draw.rng.integers(0, 2, shape).astype(np.bool_), "b8", layout)
            return Sample((chosen, draw.given(shape, layout), draw.given(other)))

        return build

    def build_nan(draw: Draw) -> Sample:
        if draw.form.kind != "float":
            return make((3, 5), "plain", (3, 5))(draw)
        nan = Given(np.full((3, 5), np.nan).astype(draw.form.numpy), draw.form.short)
        return Sample((Given(np.ones((3, 5), np.bool_), "b8"), draw.given((3, 5)), nan))

    return {"prime#0": make((7, 13), "plain", (7, 13)), "scalar#0": make((), "plain", ()),
            "empty#0": make((0, 3), "plain", (0, 3)), "transposed#0": make((17, 5), "transposed", (17, 5)),
            "step#0": make((5, 7), "step", (5, 7)), "broadcast#0": make((5, 1, 4), "plain", (3, 1)),
            "large#0": make((65536 + 19,), "plain", (1,)), "grid#0": build_nan}


def _fill_samples() -> dict[str, Maker]:
    def make(shape: tuple[int, ...], layout: str, mask: tuple[int, ...]) -> Maker:
        return lambda draw: Sample((draw.given(shape, layout),
                                    Given(draw.rng.integers(0, 2, mask).astype(np.bool_), "b8"), 1))

    return {"prime#0": make((7, 13), "plain", (7, 13)), "broadcast#0": make((4, 6), "plain", (6,)),
            "transposed#0": make((9, 5), "transposed", (9, 5))}


_ARITHMETIC = [
    _record("add", np.add, "ifuc", 2, extra={"number#0": _number(2.5, 3)}),
    _record("sub", np.subtract, "ifuc", 2, extra={"number#0": _number(0.75, 5)}),
    _record("mul", np.multiply, "ifuc", 2, extra={"number#0": _number(-1.5, 3)}),
    _record("div", np.true_divide, "f", 2, result=floating, ulp=1.0, dtypes=(*kinds("fc"), "i64", "i32"),
            extra={"number#0": _number(3.0, 3)}),
    _record("floor_divide", np.floor_divide, "ifu", 2, restrict=_nonzero_divisor, ulp=1.0, grid=1e4),
    _record("remainder", np.remainder, "ifu", 2, restrict=_nonzero_divisor, ulp=1.0, grid=1e4),
    _record("pow", np.power, "f", 2, dtypes=(*kinds("f"), "i64", "i32"), restrict=_power, ulp=4.0, flush=True,
            ranges=((0.1, 4.0), (-3.0, 3.0)), extra={"number#0": _number(2.0, 2)}),
    _record("maximum", np.maximum, "bifu", 2),
    _record("minimum", np.minimum, "bifu", 2),
    _record("neg", np.negative, "ifuc"),
    _record("abs", np.abs, "ifu"),
    _record("sign", lambda x: np.where(x == x, np.sign(x), 0), "i", grid=1e4,
            dtypes=("f32", "f64", "i64", "i32", "i8")),
    _record("square", np.square, "ifuc"),
]
_COMPARISON = [
    _record(name, reference, "bifuc" if name in ("eq", "ne") else "bifu", 2, result=boolean,
            extra={"number#0": _number(0.5, 2)} if name != "eq" else None)
    for name, reference in (("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal),
                            ("gt", np.greater), ("ge", np.greater_equal))
]
_LOGIC = [
    *(_record(name, reference, "bif", 2, result=boolean, dtypes=("b8", "f32", "i64", "c64"))
      for name, reference in (("logical_and", np.logical_and), ("logical_or", np.logical_or),
                              ("logical_xor", np.logical_xor))),
    _record("logical_not", np.logical_not, "bif", result=boolean, dtypes=("b8", "f32", "i64", "c64")),
    *(_record(name, reference, "biu", 2) for name, reference in (
        ("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor))),
    _record("bitwise_not", np.invert, "biu"),
    _record("isnan", np.isnan, "f", result=boolean, dtypes=(*kinds("f"), "i64", "c64")),
]
_FLOATS = (*kinds("f"), "i64")
#: Element types of functions that also take complex numbers.
_ANALYTIC = (*_FLOATS, *kinds("c"))
_FUNCTIONS = [
    _record("sqrt", np.sqrt, "f", dtypes=_ANALYTIC, result=floating, restrict=_positive, ulp=1.0),
    _record("rsqrt", lambda x: 1 / np.sqrt(x), "f", dtypes=_ANALYTIC, result=floating, restrict=_positive, ulp=2.0),
    _record("reciprocal", lambda x: 1 / (x if x.dtype.kind == "c" else x.astype(np.float64)), "f", dtypes=_ANALYTIC,
            result=floating, ulp=1.0),
    _record("exp", np.exp, "f", dtypes=_ANALYTIC, result=floating, ulp=4.0),
    _record("expm1", np.expm1, "f", dtypes=_FLOATS, result=floating, ulp=4.0),
    _record("log", np.log, "f", dtypes=_ANALYTIC, result=floating, ulp=4.0),
    _record("log1p", np.log1p, "f", dtypes=_FLOATS, result=floating, ulp=4.0),
    _record("sin", np.sin, "f", dtypes=_ANALYTIC, result=floating, ulp=4.0, grid=1e4,
            condition=lambda x: np.abs(x * np.cos(x))),
    _record("cos", np.cos, "f", dtypes=_ANALYTIC, result=floating, ulp=4.0, grid=1e4,
            condition=lambda x: np.abs(x * np.sin(x))),
    _record("tanh", np.tanh, "f", dtypes=_ANALYTIC, result=floating, ulp=4.0),
    _record("erf", _erf, "f", dtypes=_FLOATS, result=floating, ulp=4.0),
    _record("floor", np.floor, "if"),
    _record("ceil", np.ceil, "if"),
    _record("trunc", np.trunc, "if"),
    _record("round", np.round, "if"),
]
_ACTIVATIONS = [
    _record("sigmoid", _sigmoid, "f", dtypes=_ANALYTIC, result=floating, ulp=4.0, flush=True, condition=_near_poles),
    _record("relu", lambda x: np.maximum(x, 0), "if"),
    _record("gelu", _gelu, "f", ulp=4.0, flush=True, condition=_magnitude, call=ts.nn.functional.gelu, grid=1e4,
            restrict=_finite),
    _record("silu", _silu, "f", ulp=4.0, flush=True, call=ts.nn.functional.silu, grid=1e4, restrict=_finite),
]
_SELECTION = [
    Operator("clamp", lambda x, low, high: ts.clamp(x, low, high), _clamp, _clamp_samples(), kinds("if"), same),
    Operator("where", ts.where, np.where, _where_samples(), kinds("bifuc"), same),
    Operator("masked_fill", lambda x, mask, value: x.masked_fill(mask, value),
             lambda x, mask, value: np.where(mask, np.asarray(value, x.dtype), x), _fill_samples(), kinds("bifuc"),
             same),
]
_FORMS = [
    _method("add.operator", np.add, "f", 2, operator.add),
    _method("sub.operator", np.subtract, "f", 2, operator.sub),
    _method("mul.operator", np.multiply, "f", 2, operator.mul),
    _method("neg.operator", np.negative, "f", 1, operator.neg),
    _method("add.method", np.add, "f", 2, lambda x, y: x.add(y)),
    _method("mul.method", np.multiply, "f", 2, lambda x, y: x.mul(y)),
    _method("abs.method", np.abs, "f", 1, lambda x: x.abs()),
    _method("lt.operator", np.less, "f", 2, operator.lt, boolean),
    _method("and.operator", np.bitwise_and, "b", 2, operator.and_),
    _method("invert.operator", np.invert, "b", 1, operator.invert),
    _method("rsub.operator", lambda x: 3 - x, "f", 1, lambda x: 3 - x),
    Operator("add.alpha", lambda x, y: ts.add(x, y, alpha=2), lambda x, y: x + 2 * y,
             {"prime#0": lambda draw: Sample((draw.given((7, 13)), draw.given((7, 13))))}, ("i64",), same),
]

#: The records of this family.
OPERATORS = [*_ARITHMETIC, *_COMPARISON, *_LOGIC, *_FUNCTIONS, *_ACTIVATIONS, *_SELECTION, *_FORMS]
