"""Conversions between element types, and the promotion of mixed arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import FORMATS, HostArray
from ..record import Draw, Given, Maker, Operator, Sample, kinds
from ..subject import dtype_of
from .layouts import value_grid


def _values(target: str) -> Maker:
    """Return values that both element types can represent, and fractions, which conversions to integers truncate."""
    def make(draw: Draw) -> Sample:
        unsigned = any(short[0] == "u" for short in (draw.form.short, target))
        array = draw.values((7, 13), 0.0 if unsigned else -12.0, 12.0)
        return Sample((Given(array, draw.form.short, "transposed"),))

    return make


def _grid(target: str) -> Maker:
    """Return every special value whose conversion is specified, which excludes integers out of range."""
    def make(draw: Draw) -> Sample:
        values = value_grid(draw.form)
        if draw.form.kind == "float" and FORMATS[target].kind == "int":
            values = values[np.isfinite(values) & (np.abs(values) < 100) & (values > -1)]
        return Sample((Given(values, draw.form.short),))

    return make


def _convert(target: str) -> Callable[[HostArray], HostArray]:
    kind = FORMATS[target].kind
    if kind == "complex":
        return lambda x: x.astype(np.complex128)
    if kind == "float":
        # The comparison rounds the reference.
        return lambda x: x.real.astype(np.float64)
    if kind == "bool":
        return lambda x: x != 0
    return lambda x: (np.trunc(x.real) if x.dtype.kind in "fc" else x).astype(FORMATS[target].numpy)


#: Targets of conversions from complex numbers and wide unsigned integers; every further pair costs a kernel.
_TARGETS = ("b8", "i64", "f32", "f64", "c64", "c128")


def _to(target: str) -> Operator:
    return Operator(f"to_{target}", lambda x: x.to(dtype_of(target)), _convert(target),
                    {"values#0": _values(target), "grid#0": _grid(target)},
                    kinds("bifuc" if target in _TARGETS else "bif"), lambda short: target)


#: Result of a binary operator for two tensors of at least one dimension, as PyTorch documents it.
_PROMOTED = (
    ("b8", "u8", "u8"), ("b8", "i64", "i64"), ("b8", "f32", "f32"), ("u8", "i8", "i16"), ("u8", "i32", "i32"),
    ("i8", "i16", "i16"), ("i32", "i64", "i64"), ("i64", "f16", "f16"), ("i64", "f32", "f32"), ("i32", "f64", "f64"),
    ("f16", "bf16", "f32"), ("f16", "f32", "f32"), ("bf16", "f32", "f32"), ("f32", "f64", "f64"),
)


def _promotion(first: str, second: str, result: str) -> Operator:
    def make(draw: Draw) -> Sample:
        other = Draw(draw.rng, FORMATS[second])
        low = 0.0 if "u8" in (first, second) else -2.0
        return Sample((draw.given((5, 7), "plain", low, 2.0), other.given((7,), "plain", low, 2.0)))

    def reference(x: HostArray, y: HostArray) -> HostArray:
        wide: Any = np.float64 if FORMATS[result].kind == "float" else FORMATS[result].numpy
        return np.asarray(x.astype(wide) + y.astype(wide))

    return Operator(f"promotion_{second}", ts.add, reference, {"values#0": make}, (first,), lambda short: result,
                    also=(second,))


def _weak(name: str, value: bool | int | float, rule: Callable[[str], str]) -> Operator:
    """Return an operator by which a Python number must not widen a tensor of its own category."""
    def make(draw: Draw) -> Sample:
        return Sample((draw.given((5, 7), "plain", 0.0, 2.0), value))

    return Operator(f"promotion_{name}", ts.mul, lambda x, y: x * np.asarray(y, np.float64 if isinstance(y, float) else
                                                                            x.dtype if x.dtype != np.bool_ else
                                                                            np.int64),
                    {"values#0": make}, ("f32", "f16", "i64", "u8"), rule)


#: The records of this family.
OPERATORS = [
    *(_to(target) for target in FORMATS),
    *(_promotion(*row) for row in _PROMOTED),
    _weak("number_int", 3, lambda short: short),
    _weak("number_float", 1.5, lambda short: short if FORMATS[short].kind == "float" else "f32"),
]
