"""Scans, order, selections and arrangements; many are computed on the host, which profiles declare."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Draw, Given, Maker, Operator, Sample, boolean, int64, kinds, same, summed


def _sample(shape: tuple[int, ...], *args: Any, layout: str = "plain") -> Maker:
    return lambda draw: Sample((draw.given(shape, layout), *args))


def _along(*more: Any) -> dict[str, Maker]:
    """Samples with a dimension, and further arguments behind it."""
    return {"prime#0": _sample((7, 13), 1, *more), "dim#0": _sample((3, 5, 4), -2, *more),
            "transposed#0": _sample((17, 5), 0, *more, layout="transposed"),
            "step#0": _sample((5, 9), 1, *more, layout="step"), "empty#0": _sample((0, 3), 1, *more),
            "one#0": _sample((4, 1), 1, *more), "large#0": _sample((3, 4099), 1, *more)}


def _shaped(*args: Any) -> dict[str, Maker]:
    """Samples of matrices."""
    return {"prime#0": _sample((7, 13), *args), "transposed#0": _sample((17, 5), *args, layout="transposed"),
            "offset#0": _sample((8, 6), *args, layout="offset"), "step#0": _sample((5, 9), *args, layout="step"),
            "large#0": _sample((130, 257), *args)}


def _wide(x: HostArray) -> HostArray:
    return x if x.dtype == np.float64 else x.astype(np.int64)


def _sizes(x: HostArray, dim: int) -> HostArray:
    return np.asarray(np.cumsum(np.abs(_wide(x)), dim))


def _stable(x: HostArray, dim: int) -> HostArray:
    return np.argsort(x, dim, kind="stable")


def _ordered(short: str) -> tuple[str, ...]:
    return short, "i64"


def _search(draw: Draw) -> Sample:
    edges = np.sort(draw.values((31,)))
    return Sample((Given(edges, draw.form.short), draw.given((7, 5))))


def _distinct(draw: Draw) -> Sample:
    return Sample((Given(draw.rng.integers(0, 9, (7, 13)).astype(draw.form.numpy), draw.form.short),))


def _members(draw: Draw) -> Sample:
    values = [draw.rng.integers(0, 20, n).astype(draw.form.numpy) for n in (91, 7)]
    return Sample(tuple(Given(v, draw.form.short) for v in values))


def _counted(draw: Draw) -> Sample:
    return Sample((draw.given((7, 5)), Given(draw.rng.integers(0, 4, 7), "i64"), 0))


def _move(name: str, call: Callable[..., Any], reference: Callable[..., Any], samples: dict[str, Maker]) -> Operator:
    return Operator(name, call, reference, samples, kinds("bif"), same)


#: The records of this family.
OPERATORS = [
    Operator("cumsum", ts.cumsum, lambda x, dim: np.cumsum(_wide(x), dim), _along(), kinds("bif"), summed,
             Tolerance(1.0, 24.0), _sizes),
    Operator("cumprod", lambda x, dim: ts.cumprod(x, dim), lambda x, dim: np.cumprod(_wide(x), dim),
             {"prime#0": _sample((7, 5), 1), "dim#0": _sample((5, 3), 0)}, ("f32", "f64", "i64"), summed,
             Tolerance(8.0, 0.0)),
    Operator("sort", ts.sort, lambda x, dim: (np.sort(x, dim), _stable(x, dim)), _along(), kinds("bif"), _ordered),
    Operator("argsort", ts.argsort, _stable, _along(), kinds("if"), int64),
    Operator("topk", lambda x, dim: ts.topk(x, 1, dim).values, lambda x, dim: np.max(x, dim, keepdims=True),
             {"prime#0": _sample((7, 13), 1), "dim#0": _sample((5, 3), 0)}, kinds("if"), same),
    Operator("searchsorted", ts.searchsorted, np.searchsorted, {"prime#0": _search}, kinds("if"), int64),
    Operator("unique", ts.unique, np.unique, {"prime#0": _distinct}, kinds("if"), same),
    Operator("isin", ts.isin, np.isin, {"prime#0": _members}, kinds("if"), boolean),
    Operator("repeat_interleave", ts.repeat_interleave, np.repeat, {"prime#0": _counted}, kinds("bif"), same,
             also=("i64",)),
    Operator("count_nonzero", ts.count_nonzero, np.count_nonzero, _along(), kinds("bif"), int64),
    _move("tril", ts.tril, np.tril, _shaped(-1)),
    _move("triu", ts.triu, np.triu, _shaped(1)),
    _move("diagonal", ts.diagonal, np.diagonal, _shaped(1)),
    _move("roll", ts.roll, np.roll, _shaped(3, 1)),
    _move("tile", ts.tile, np.tile, {"prime#0": _sample((3, 5), (2, 1, 3))}),
]
