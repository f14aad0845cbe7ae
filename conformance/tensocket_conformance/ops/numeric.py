"""Angles, parts of numbers, extremes that skip NaN, divisors, exponents, and products with logarithms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Operator, boolean, floating, kinds, same
from .layouts import Domain, pointwise_samples


def record(name: str, reference: Callable[..., Any], letters: str = "f", arity: int = 1, *, call: Any = None,
           result: Callable[[str], str] = same, ulp: float = 0.0, restrict: Any = None, grid: float = float("inf"),
           condition: Callable[..., Any] | None = None, dtypes: tuple[str, ...] | None = None,
           span: float = 4.0) -> Operator:
    """Return an operator that gets all pointwise samples of uniform values up to ``span``."""
    domain = Domain(((-span, span),) * arity, restrict, grid)
    return Operator(name, call or getattr(ts, name), reference, pointwise_samples(domain), dtypes or kinds(letters),
                    result, Tolerance(ulp, 1.0 if condition else 0.0, True), condition)


def _floats_and_int64() -> tuple[str, ...]:
    return (*kinds("f"), "i64")


def _unit(position: int, array: HostArray) -> HostArray:
    """Map arguments into (0, 1), away from both bounds."""
    if array.dtype.kind != "f":
        return np.abs(np.sign(array))
    size = np.where(np.isfinite(array), np.abs(array), array.dtype.type(0.5)) % 1.0
    return np.asarray(np.where(np.isnan(array), array, np.clip(size, 2.0**-6, 1 - 2.0**-6)))


def _moderate(position: int, array: HostArray) -> HostArray:
    """Map arguments to magnitudes whose products neither overflow nor underflow."""
    if array.dtype.kind != "f":
        return array
    return np.where(np.abs(array) > 100, 100 * np.sign(array), array).astype(array.dtype)


def _no_lowest(position: int, array: HostArray) -> HostArray:
    """Limit integers to those with a magnitude in their dtype and with products that fit 16 bits."""
    return np.asarray(np.clip(array, -100, 100) if array.dtype.kind == "i" else np.minimum(array, 100))


def _lcm(x: HostArray, y: HostArray) -> HostArray:
    return np.lcm(x.astype(np.int64), y.astype(np.int64)).astype(x.dtype)


def _xlogy(x: HostArray, y: HostArray) -> HostArray:
    return np.where(np.isnan(y), y, np.where(x == 0, 0.0, x * np.log(y)))


def _xlog1py(x: HostArray, y: HostArray) -> HostArray:
    return np.where(np.isnan(y), y, np.where(x == 0, 0.0, x * np.log1p(y)))


def _entr(x: HostArray) -> HostArray:
    return np.where(x > 0, -x * np.log(x), np.where(x == 0, 0.0, np.where(x < 0, -np.inf, np.nan)))


def _finite(position: int, array: HostArray) -> HostArray:
    return np.asarray(np.where(np.isfinite(array), array, 1.0).astype(array.dtype))


#: The records of this family.
OPERATORS = [
    record("deg2rad", np.deg2rad, dtypes=_floats_and_int64(), result=floating, ulp=1.0),
    record("rad2deg", np.rad2deg, dtypes=_floats_and_int64(), result=floating, ulp=1.0, grid=1e4),
    record("frac", lambda x: x - np.trunc(x)),
    record("fmax", np.fmax, "bif", 2),
    record("fmin", np.fmin, "bif", 2),
    record("heaviside", lambda x, y: np.where(x == 0, y, (x > 0).astype(y.dtype)), "if", 2),
    record("isposinf", lambda x: np.asarray(x == np.inf), "if", result=boolean),
    record("isneginf", lambda x: np.asarray(x == -np.inf), "if", result=boolean),
    record("nan_to_num", lambda x: np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-2.0), "if",
           call=lambda x: ts.nan_to_num(x, 1.0, 2.0, -2.0)),
    record("gcd", np.gcd, "i", 2, restrict=_no_lowest),
    record("lcm", _lcm, "i", 2, restrict=_no_lowest, dtypes=("i64", "i32", "i16")),
    record("frexp.mantissa", lambda x: np.frexp(x)[0], call=lambda x: ts.frexp(x).mantissa, restrict=_finite),
    record("frexp.exponent", lambda x: np.frexp(x)[1], call=lambda x: ts.frexp(x).exponent, restrict=_finite,
           result=lambda short: "i32"),
    record("logit", lambda x: np.log(x / (1 - x)), restrict=_unit, ulp=4.0, dtypes=("f32", "f64", "f16", "bf16"),
           condition=lambda x: 1 / (1 - x)),
    record("xlogy", _xlogy, "f", 2, ulp=4.0, restrict=_moderate),
    record("special.xlog1py", _xlog1py, "f", 2, ulp=4.0, restrict=_moderate, call=ts.special.xlog1py),
    record("special.entr", _entr,
           dtypes=("f32", "f64", "bf16", "i64"), result=floating, ulp=4.0, grid=1e4, call=ts.special.entr),
    record("sinc", np.sinc, dtypes=("f32", "f64", "bf16"), ulp=4.0, grid=100.0,
           condition=lambda x: 4.0 * np.ones_like(x)),
]
