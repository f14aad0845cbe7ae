"""Elementary functions: trigonometric and hyperbolic families, logarithms, signs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Operator, boolean, floating, kinds, same
from .layouts import Domain, pointwise_samples


def _within(limit: float) -> Callable[[int, HostArray], HostArray]:
    """Return a restriction of arguments to [-limit, limit], and of integers to -1, 0 and 1."""
    def restrict(position: int, array: HostArray) -> HostArray:
        if array.dtype.kind != "f":
            return np.asarray(np.sign(array))
        finite = np.where(np.isfinite(array), array, 0)
        return np.asarray(np.where(np.isnan(array), array, np.clip(finite, -limit, limit)))

    return restrict


def _at_least_one(position: int, array: HostArray) -> HostArray:
    return np.asarray(np.maximum(np.abs(array), array.dtype.type(1)))


def _positive(position: int, array: HostArray) -> HostArray:
    return np.abs(array)


def _finite(position: int, array: HostArray) -> HostArray:
    return np.where(np.isinf(array), np.ones_like(array), array)


def _record(name: str, reference: Callable[..., Any], arity: int = 1, *, letters: str = "f", ulp: float = 4.0,
            restrict: Any = None, grid: float = float("inf"), condition: Callable[..., Any] | None = None,
            result: Callable[[str], str] | None = None, dtypes: tuple[str, ...] | None = None) -> Operator:
    domain = Domain(((-4.0, 4.0),) * arity, restrict, grid)
    chosen = dtypes or ((*kinds(letters), "i64") if arity == 1 and result is None else kinds(letters))
    return Operator(name, getattr(ts, name), reference, pointwise_samples(domain), chosen, result or floating,
                    Tolerance(ulp, 1.0 if condition else 0.0, True), condition)


_UNIT = _within(1.0)

#: The records of this family.
OPERATORS = [
    _record("tan", np.tan, grid=1e4, condition=lambda x: np.abs(x) * (1 + np.tan(x) ** 2)),
    _record("asin", np.arcsin, restrict=_UNIT),
    _record("acos", np.arccos, restrict=_UNIT),
    _record("atan", np.arctan),
    _record("sinh", np.sinh, restrict=_within(80.0), dtypes=("f32", "f64", "bf16", "i64")),
    _record("cosh", np.cosh, restrict=_within(80.0), dtypes=("f32", "f64", "bf16", "i64")),
    _record("asinh", np.arcsinh),
    _record("acosh", np.arccosh, restrict=_at_least_one),
    _record("atanh", np.arctanh, restrict=_within(0.96875)),
    _record("exp2", np.exp2),
    _record("log2", np.log2, restrict=_positive),
    _record("log10", np.log10, restrict=_positive),
    _record("atan2", np.arctan2, 2, result=same),
    _record("hypot", np.hypot, 2, result=same),
    _record("logaddexp", np.logaddexp, 2, result=same, restrict=_finite, grid=1e4,
            condition=lambda x, y: np.abs(x) + np.abs(y) + 1.0),
    _record("copysign", np.copysign, 2, result=same, ulp=0.0),
    _record("signbit", np.signbit, result=boolean, ulp=0.0),
]
