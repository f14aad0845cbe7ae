"""Scans, sorting, search, sets, selections and rearrangements."""

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
    """Return samples with a dimension as an argument, followed by further arguments."""
    return {"prime#0": _sample((7, 13), 1, *more), "dim#0": _sample((3, 5, 4), -2, *more),
            "transposed#0": _sample((17, 5), 0, *more, layout="transposed"),
            "step#0": _sample((5, 9), 1, *more, layout="step"), "empty#0": _sample((0, 3), 1, *more),
            "one#0": _sample((4, 1), 1, *more), "large#0": _sample((3, 4099), 1, *more)}


def _shaped(*args: Any) -> dict[str, Maker]:
    """Return samples of matrices."""
    return {"prime#0": _sample((7, 13), *args), "transposed#0": _sample((17, 5), *args, layout="transposed"),
            "offset#0": _sample((8, 6), *args, layout="offset"), "step#0": _sample((5, 9), *args, layout="step"),
            "large#0": _sample((130, 257), *args)}


def _wide(x: HostArray) -> HostArray:
    return x if x.dtype == np.float64 else x.astype(np.int64)


def _sizes(x: HostArray, dim: int) -> HostArray:
    return np.asarray(np.cumsum(np.abs(_wide(x)), dim))


def _stable(x: HostArray, dim: int) -> HostArray:
    return np.argsort(x, dim, kind="stable")


def _downwards(x: HostArray, dim: int) -> HostArray:
    """Return positions in stable descending order."""
    return np.flip(x.shape[dim] - 1 - np.argsort(np.flip(x, dim), dim, kind="stable"), dim)


def _running(accumulate: Callable[..., HostArray]) -> Callable[..., tuple[HostArray, HostArray]]:
    """Return a function to running extremes, with the last position so far that holds each of them."""

    def reference(x: HostArray, dim: int) -> tuple[HostArray, HostArray]:
        best = np.moveaxis(accumulate(x, dim), dim, -1)
        held = np.moveaxis(x, dim, -1)[..., None, :] == best[..., :, None]
        places = np.arange(x.shape[dim])
        found = np.where(held & (places <= places[:, None]), places, -1).max(-1)
        return np.moveaxis(best, -1, dim), np.moveaxis(found, -1, dim)

    return reference


def _reached() -> dict[str, Maker]:
    return {"prime#0": _sample((7, 13), 1), "dim#0": _sample((3, 5, 4), -2), "one#0": _sample((4, 1), 1),
            "transposed#0": _sample((17, 5), 0, layout="transposed"), "large#0": _sample((2, 701), 1)}


def _runs(x: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    """Return the first element of every run, the run of every element, and the lengths."""
    flat = x.reshape(-1)
    starts = [k for k in range(flat.size) if k == 0 or flat[k] != flat[k - 1]]
    lengths = np.diff([*starts, flat.size]).astype(np.int64)
    return flat[starts], np.repeat(np.arange(len(starts)), lengths).reshape(x.shape), lengths


def _sets(x: HostArray) -> tuple[HostArray, ...]:
    values, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    return values, inverse.reshape(x.shape), counts


def _grouped(short: str) -> tuple[str, ...]:
    return short, "i64", "i64"


def _ordered(short: str) -> tuple[str, ...]:
    return short, "i64"


def _search(draw: Draw) -> Sample:
    edges = np.sort(draw.values((31,)))
    return Sample((Given(edges, draw.form.short), draw.given((7, 5))))


def _search_rows(draw: Draw) -> Sample:
    edges = np.sort(draw.values((3, 31)))
    return Sample((Given(edges, draw.form.short), draw.given((3, 5))))


def _rows_of_places(edges: HostArray, values: HostArray) -> HostArray:
    return np.asarray((edges[..., None, :] < values[..., :, None]).sum(-1))


def _nowhere(draw: Draw) -> Sample:
    return Sample((draw.given((0,)), draw.given((7, 5))))


def _buckets(draw: Draw) -> Sample:
    return Sample((draw.given((7, 5)), Given(np.sort(draw.values((31,))), draw.form.short)))


def _distinct(*shape: int) -> Maker:
    return lambda draw: Sample((Given(draw.rng.integers(0, 4, shape).astype(draw.form.numpy), draw.form.short),))


def _members(*counts: int) -> Maker:
    def make(draw: Draw) -> Sample:
        values = [draw.rng.integers(0, 20, n).astype(draw.form.numpy) for n in counts]
        return Sample(tuple(Given(v, draw.form.short) for v in values))

    return make


def _counted(high: int) -> Maker:
    return lambda draw: Sample((draw.given((7, 5)), Given(draw.rng.integers(0, high, 7), "i64"), 0))


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
    Operator("cummax", ts.cummax, _running(np.maximum.accumulate), _reached(), kinds("bif"), _ordered),
    Operator("cummin", ts.cummin, _running(np.minimum.accumulate), _reached(), kinds("bif"), _ordered),
    Operator("argsort", ts.argsort, _stable, _along(), kinds("if"), int64),
    Operator("argsort_down", lambda x, dim: ts.argsort(x, dim, True), _downwards, _along(), kinds("if"), int64),
    Operator("topk", lambda x, dim: ts.topk(x, 1, dim).values, lambda x, dim: np.max(x, dim, keepdims=True),
             {"prime#0": _sample((7, 13), 1), "dim#0": _sample((5, 3), 0)}, kinds("if"), same),
    Operator("searchsorted", ts.searchsorted, np.searchsorted, {"prime#0": _search, "empty#0": _nowhere}, kinds("if"),
             int64),
    Operator("searchsorted_rows", ts.searchsorted, _rows_of_places, {"prime#0": _search_rows}, kinds("if"), int64),
    Operator("bucketize", ts.bucketize, lambda x, edges: np.digitize(x, edges, right=True), {"prime#0": _buckets},
             kinds("if"), int64),
    Operator("unique", ts.unique, np.unique, {"prime#0": _distinct(7, 13), "empty#0": _distinct(0, 3)}, kinds("if"),
             same),
    Operator("unique_groups", lambda x: ts.unique(x, return_inverse=True, return_counts=True), _sets,
             {"prime#0": _distinct(7, 13), "large#0": _distinct(1031)}, kinds("if"), _grouped),
    Operator("unique_rows", lambda x: ts.unique(x, dim=0), lambda x: np.unique(x, axis=0),
             {"prime#0": _distinct(101, 3), "empty#0": _distinct(0, 3)}, kinds("if"), same),
    Operator("unique_consecutive",
             lambda x: ts.unique_consecutive(x, return_inverse=True, return_counts=True), _runs,
             {"prime#0": _distinct(7, 13), "empty#0": _distinct(0)}, kinds("if"), _grouped),
    Operator("isin", ts.isin, np.isin, {"prime#0": _members(91, 7), "empty#0": _members(9, 0)}, kinds("if"), boolean),
    Operator("repeat_interleave", ts.repeat_interleave, np.repeat,
             {"prime#0": _counted(4), "empty#0": _counted(1)}, kinds("bif"), same, also=("i64",)),
    Operator("count_nonzero", ts.count_nonzero, np.count_nonzero, _along(), kinds("bif"), int64),
    _move("tril", ts.tril, np.tril, _shaped(-1)),
    _move("triu", ts.triu, np.triu, _shaped(1)),
    _move("diagonal", ts.diagonal, np.diagonal, _shaped(1)),
    _move("roll", ts.roll, np.roll, _shaped(3, 1)),
    _move("tile", ts.tile, np.tile, {"prime#0": _sample((3, 5), (2, 1, 3))}),
]
