"""Reductions. The allowed error grows with the sum of the magnitudes of the terms, not with the result."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Draw, Given, Maker, Operator, Sample, boolean, floating, int64, kinds, same, summed

#: Pairwise or wider accumulation of n terms costs about log2(n) roundings; 24 covers 2**17 terms and the last steps.
_SUM = Tolerance(ulp=1.0, factor=24.0)

_Axes = int | tuple[int, ...] | None


def _sample(shape: tuple[int, ...], dim: Any = None, keepdim: bool = False, layout: str = "plain",
            low: float = -4.0, high: float = 4.0) -> Maker:
    return lambda draw: Sample((draw.given(shape, layout, low, high), dim, keepdim))


def _nan_sample(draw: Draw) -> Sample:
    array = draw.values((6, 7)).astype(draw.form.numpy)
    if draw.form.kind == "float":
        array[2, 3], array[4, 0], array[5, 6] = np.nan, np.inf, -np.inf
    return Sample((Given(array, draw.form.short), 1, False))


def _samples(several: bool, empty: bool, full: bool = True, low: float = -4.0, high: float = 4.0) -> dict[str, Maker]:
    """Return the samples of a reduction.

    Args:
        several: Whether it takes several dimensions at once.
        empty: Whether it has a value for no elements.
        full: Whether it can reduce all dimensions.
        low: Lower end of the values.
        high: Upper end of the values.
    """
    def row(shape: tuple[int, ...], dim: Any = None, keepdim: bool = False, layout: str = "plain") -> Maker:
        return _sample(shape, dim, keepdim, layout, low, high)

    samples = {
        "dim#0": row((7, 13), 0), "dim#1": row((7, 13), 1), "dim#2": row((3, 5, 4), -2, True),
        "transposed#0": row((17, 5), 0, False, "transposed"), "expanded#0": row((6, 9), 1, False, "expanded"),
        "offset#0": row((8, 6), 1, False, "offset"), "step#0": row((5, 31), 1, False, "step"),
        "one#0": row((4, 1), 1), "empty#0": row((0, 3), 1), "tall#0": row((4099, 3), 0), "wide#0": row((3, 4099), 1),
        "grid#0": _nan_sample,
    }
    if full:
        samples |= {"prime#0": row((7, 13)), "scalar#0": row(()), "large#0": row((65536 + 19,)),
                    "large#1": row((300, 301), None, False, "transposed")}
    if several:
        samples |= {"dims#0": row((3, 5, 7), (0, 2)), "dims#1": row((4, 3, 5), (0, 1), True)}
    if empty:
        samples |= {"empty#1": row((0, 3), 0)} | ({"empty#2": row((0,))} if full else {})
    return samples


def _call(name: str) -> Callable[..., Any]:
    function = getattr(ts, name)

    def call(x: Any, dim: Any, keepdim: bool) -> Any:
        return function(x) if dim is None else function(x, dim, keepdim)

    return call


def _reference(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim, keepdim: function(x, axis=dim, keepdims=keepdim)


def _total(x: HostArray, dim: _Axes, keepdim: bool) -> Any:
    wide = x if x.dtype.kind in "fc" else x.astype(np.int64)
    # A long sum must not add an error to the reference.
    longer = {"f": np.longdouble, "c": np.clongdouble}.get(wide.dtype.kind, np.int64)
    return np.sum(wide.astype(longer), axis=dim, keepdims=keepdim)


def _count(x: HostArray, dim: _Axes) -> int:
    axes = range(x.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
    return math.prod(x.shape[axis] for axis in axes)


def _mean(x: HostArray, dim: _Axes, keepdim: bool) -> Any:
    return _total(x, dim, keepdim) / np.float64(_count(x, dim))


def _mean_scale(x: HostArray, dim: _Axes, keepdim: bool) -> Any:
    return _total(np.abs(x), dim, keepdim) / np.float64(_count(x, dim))


def _var_scale(x: HostArray, dim: _Axes, keepdim: bool) -> Any:
    return np.var(x, axis=dim, keepdims=keepdim, ddof=1) + np.mean(np.abs(x), axis=dim, keepdims=keepdim) ** 2


def _std_scale(x: HostArray, dim: _Axes, keepdim: bool) -> Any:
    deviation = np.std(x, axis=dim, keepdims=keepdim, ddof=1)
    return _var_scale(x, dim, keepdim) / np.where(deviation == 0, 1.0, deviation)


def _prod(x: HostArray, dim: _Axes, keepdim: bool) -> Any:
    wide = x if x.dtype.kind in "fc" else x.astype(np.int64)
    return np.prod(wide, axis=dim, keepdims=keepdim)


def _prod_scale(x: HostArray, dim: _Axes, keepdim: bool) -> Any:
    return np.abs(_prod(x, dim, keepdim)) * max(1.0, _count(x, dim) / 24.0)


def _arg(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim, keepdim: function(x, axis=dim, keepdims=keepdim)


def _pair(best: Callable[..., Any], position: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim, keepdim: (best(x, axis=dim, keepdims=keepdim), position(x, axis=dim, keepdims=keepdim))


def _with_indices(short: str) -> tuple[str, ...]:
    return short, "i64"


def _prod_samples() -> dict[str, Maker]:
    samples = _samples(several=False, empty=True, low=0.9, high=1.1)
    # Integers of ten times the range would overflow to zero everywhere; a few factors are a better test.
    for label in ("tall#0", "wide#0", "large#0", "large#1"):
        del samples[label]
    return samples


def _spread() -> dict[str, Maker]:
    samples = _samples(several=True, empty=False)
    # One element has no deviation; PyTorch warns and returns NaN.
    for label in ("one#0", "scalar#0", "empty#0"):
        del samples[label]
    return samples


def _drawn_ties(draw: Draw) -> Sample:
    return Sample((Given(draw.rng.integers(0, 3, (9, 40)).astype(draw.form.numpy), draw.form.short), 1, False))


_POSITIVE_SUM: dict[str, Maker] = {
    # Terms of one sign, for which a sequential sum in the result's precision is far off.
    "large#2": _sample((1 << 17,), low=0.5, high=1.5), "large#3": _sample((2, 70001), 1, low=0.5, high=1.5),
}
_TIES: dict[str, Maker] = {"ties#0": _drawn_ties}
_FULL = tuple(short for short in kinds("if"))

#: The records of this family.
OPERATORS = [
    Operator("sum", _call("sum"), _total, _samples(True, True) | _POSITIVE_SUM, kinds("bifuc"), summed, _SUM,
             lambda x, dim, keepdim: _total(np.abs(x), dim, keepdim)),
    Operator("mean", _call("mean"), _mean, _samples(True, False) | _POSITIVE_SUM, kinds("fc"), same, _SUM, _mean_scale),
    Operator("prod", _call("prod"), _prod, _prod_samples(), kinds("ifuc"), summed, _SUM, _prod_scale),
    Operator("amax", lambda x, dim, keepdim: ts.amax(x, () if dim is None else dim, keepdim), _reference(np.max),
             _samples(True, False), kinds("bifu"), same),
    Operator("amin", lambda x, dim, keepdim: ts.amin(x, () if dim is None else dim, keepdim), _reference(np.min),
             _samples(True, False), kinds("bifu"), same),
    Operator("max", lambda x, dim, keepdim: ts.max(x), _reference(np.max), {
        "prime#0": _sample((7, 13)), "large#0": _sample((65536 + 19,)),
        "transposed#0": _sample((17, 5), layout="transposed"), "scalar#0": _sample(())}, kinds("bif"), same),
    Operator("min", lambda x, dim, keepdim: ts.min(x), _reference(np.min), {
        "prime#0": _sample((7, 13)), "large#0": _sample((65536 + 19,)),
        "transposed#0": _sample((17, 5), layout="transposed"), "scalar#0": _sample(())}, kinds("bif"), same),
    Operator("max.dim", _call("max"), _pair(np.max, np.argmax), _samples(False, False, False) | _TIES, _FULL,
             _with_indices),
    Operator("min.dim", _call("min"), _pair(np.min, np.argmin), _samples(False, False, False) | _TIES, _FULL,
             _with_indices),
    Operator("argmax", _call("argmax"), _arg(np.argmax), _samples(False, False) | _TIES, _FULL, int64),
    Operator("argmin", _call("argmin"), _arg(np.argmin), _samples(False, False) | _TIES, _FULL, int64),
    Operator("any", _call("any"), _reference(np.any), _samples(False, True), ("b8", "f32", "i64", "c64"), boolean),
    Operator("all", _call("all"), _reference(np.all), _samples(False, True), ("b8", "f32", "i64", "c64"), boolean),
    Operator("var", lambda x, dim, keepdim: ts.var(x) if dim is None else ts.var(x, dim, keepdim=keepdim),
             lambda x, dim, keepdim: np.var(x, axis=dim, keepdims=keepdim, ddof=1), _spread(), kinds("f"), floating,
             _SUM, _var_scale),
    Operator("std", lambda x, dim, keepdim: ts.std(x) if dim is None else ts.std(x, dim, keepdim=keepdim),
             lambda x, dim, keepdim: np.std(x, axis=dim, keepdims=keepdim, ddof=1), _spread(), kinds("f"), floating,
             _SUM, _std_scale),
]
