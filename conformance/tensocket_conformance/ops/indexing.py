"""Gathers and scatters: reads and writes at positions that a tensor holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import HostArray, Tolerance
from ..record import Draw, Given, Maker, Operator, Sample, kinds, same

_SCATTER = Tolerance(ulp=1.0, factor=16.0)


def _take(name: str, call: Callable[..., Any], reference: Callable[..., Any], samples: dict[str, Maker],
          letters: str = "bifc") -> Operator:
    return Operator(name, call, reference, samples, kinds(letters), same)


def _indexed(shape: tuple[int, ...], *indices: tuple[tuple[int, ...], int], layout: str = "plain") -> Maker:
    """Return a tensor, and an index tensor of each given shape below each given size."""
    return lambda draw: Sample((draw.given(shape, layout), *(draw.index(*row) for row in indices)))


def _negative(draw: Draw) -> Sample:
    return Sample((draw.given((7, 5)), Given(draw.rng.integers(-7, 7, (11,)), "i64")))


def _mask(shape: tuple[int, ...], layout: str = "plain") -> Maker:
    return lambda draw: Sample((draw.given(shape, layout), Given(draw.rng.integers(0, 2, shape).astype(np.bool_), "b8",
                                                                 layout)))


def _along(shape: tuple[int, ...], dim: int, index: tuple[int, ...], layout: str = "plain") -> Maker:
    return lambda draw: Sample((draw.given(shape, layout), dim, draw.index(index, shape[dim])))


def _gather(x: HostArray, dim: int, index: HostArray) -> HostArray:
    # NumPy's function requires equal sizes in the other dimensions; the operator uses a leading part of them.
    corner = tuple(slice(None) if axis == dim % x.ndim else slice(size) for axis, size in enumerate(index.shape))
    return np.take_along_axis(x[corner], index, dim)


def _scatter(shape: tuple[int, ...], dim: int, index: tuple[int, ...], layout: str = "plain") -> Maker:
    return lambda draw: Sample((draw.given(shape, layout), dim, draw.index(index, shape[dim]), draw.given(index)))


def _scatter_add(x: HostArray, dim: int, index: HostArray, source: HostArray) -> HostArray:
    result = x.copy()
    grid = list(np.ogrid[tuple(slice(size) for size in index.shape)])
    grid[dim] = index
    np.add.at(result, tuple(grid), source)
    return result


def _scatter_scale(x: HostArray, dim: int, index: HostArray, source: HostArray) -> HostArray:
    return _scatter_add(np.abs(x), dim, index, np.abs(source))


def _put(accumulate: bool) -> Callable[..., Any]:
    return lambda x, index, values: x.clone().index_put_((index,), values, accumulate=accumulate)


def _put_reference(x: HostArray, index: HostArray, values: HostArray) -> HostArray:
    result = x.copy()
    np.add.at(result, index, values)
    return result


def _set_reference(x: HostArray, index: HostArray, values: HostArray) -> HostArray:
    result = x.copy()
    result[index] = values
    return result


def _put_sample(rows: int, count: int, unique: bool) -> Maker:
    def make(draw: Draw) -> Sample:
        index = draw.rng.permutation(rows)[:count] if unique else draw.rng.integers(0, rows, count)
        return Sample((draw.given((rows, 5)), Given(index, "i64"), draw.given((count, 5))))

    return make


def _reduced(ufunc: np.ufunc) -> Callable[..., Any]:
    def reference(x: HostArray, dim: int, index: HostArray, source: HostArray) -> HostArray:
        result = x.copy()
        grid = list(np.ogrid[tuple(slice(size) for size in index.shape)])
        grid[dim] = index
        ufunc.at(result, tuple(grid), source)
        return result

    return reference


def _masked_source(draw: Draw) -> Sample:
    mask = Given(draw.rng.integers(0, 2, (7, 5)).astype(np.bool_), "b8")
    return Sample((draw.given((7, 5)), mask, draw.given((35,))))


def _masked_scatter(x: HostArray, mask: HostArray, source: HostArray) -> HostArray:
    result = x.copy()
    result[mask] = source[:int(mask.sum())]
    return result


def _table(rows: int, width: int, index: tuple[int, ...]) -> Maker:
    return lambda draw: Sample((draw.index(index, rows), draw.given((rows, width))))


def _set_item(x: Any, index: Any, values: Any) -> Any:
    result = x.clone()
    result[index] = values
    return result


#: The records of this family.
OPERATORS = [
    _take("index", lambda x, index: x[index], lambda x, index: x[index], {
        "prime#0": _indexed((7, 5), ((11,), 7)), "scalar#0": _indexed((7, 5), ((), 7)),
        "transposed#0": _indexed((7, 5), ((3, 4), 7), layout="transposed"), "empty#0": _indexed((7, 5), ((0,), 7)),
        "negative#0": _negative, "large#0": _indexed((1000, 65), ((1003,), 1000))}),
    _take("index.two", lambda x, i, j: x[i, j], lambda x, i, j: x[i, j], {
        "prime#0": _indexed((7, 5, 3), ((11,), 7), ((11,), 5)), "broadcast#0": _indexed((7, 5), ((4, 1), 7), ((3,), 5)),
        "step#0": _indexed((7, 5), ((6,), 7), ((6,), 5), layout="step")}),
    _take("index.gap", lambda x, i, j: x[i, :, j], lambda x, i, j: x[i, :, j], {
        "prime#0": _indexed((4, 5, 3), ((6,), 4), ((6,), 3))}),
    _take("index.mask", lambda x, mask: x[mask], lambda x, mask: x[mask], {
        "prime#0": _mask((7, 13)), "transposed#0": _mask((7, 5), "transposed"), "one#0": _mask((1,))}),
    _take("index_select", lambda x, dim, index: ts.index_select(x, dim, index),
          lambda x, dim, index: np.take(x, index, dim), {
        "prime#0": _along((7, 5), 0, (9,)), "dim#0": _along((7, 5), -1, (3,)),
        "step#0": _along((7, 5), 1, (8,), "step"),
        "transposed#0": _along((7, 5), 0, (9,), "transposed"), "empty#0": _along((7, 5), 0, (0,))}),
    _take("gather", lambda x, dim, index: ts.gather(x, dim, index), _gather, {
        "prime#0": _along((7, 5), 0, (4, 5)), "dim#0": _along((7, 5), 1, (7, 8)),
        "dim#1": _along((3, 4, 5), -1, (2, 4, 6)),
        "transposed#0": _along((7, 5), 0, (4, 5), "transposed"), "large#0": _along((300, 301), 1, (300, 301))}),
    _take("embedding", lambda index, table: ts.nn.functional.embedding(index, table),
          lambda index, table: table[index], {
        "prime#0": _table(11, 7, (5, 3)), "scalar#0": _table(11, 7, ()), "large#0": _table(500, 64, (33, 17))}, "f"),
    Operator("scatter_add", lambda x, dim, index, source: ts.scatter_add(x, dim, index, source), _scatter_add, {
        "prime#0": _scatter((7, 5), 0, (9, 5)), "dim#0": _scatter((7, 5), 1, (6, 11)),
        "transposed#0": _scatter((7, 5), 0, (4, 5), "transposed"), "large#0": _scatter((13, 4), 0, (5001, 4))},
        kinds("ifc"), same, _SCATTER, _scatter_scale),
    Operator("index_put", _put(False), _set_reference, {
        "prime#0": _put_sample(11, 7, True), "empty#0": _put_sample(11, 0, True)}, kinds("bifc"), same),
    Operator("index_put.accumulate", _put(True), _put_reference, {
        "prime#0": _put_sample(5, 17, False), "large#0": _put_sample(7, 1001, False)}, kinds("ifc"), same, _SCATTER,
        lambda x, index, values: _put_reference(np.abs(x), index, np.abs(values))),
    Operator("setitem.tensor", _set_item, _set_reference, {"prime#0": _put_sample(11, 7, True)}, kinds("bifc"), same),
    _take("masked_select", ts.masked_select, lambda x, mask: x[mask], {
        "prime#0": _mask((7, 13)), "transposed#0": _mask((7, 5), "transposed")}),
    _take("masked_scatter", ts.masked_scatter, _masked_scatter, {"prime#0": _masked_source}),
    Operator("index_add", lambda x, index, values: ts.index_add(x, 0, index, values), _put_reference, {
        "prime#0": _put_sample(5, 17, False)}, kinds("ifc"), same, _SCATTER,
        lambda x, index, values: _put_reference(np.abs(x), index, np.abs(values))),
    Operator("index_copy", lambda x, index, values: ts.index_copy(x, 0, index, values), _set_reference, {
        "prime#0": _put_sample(11, 7, True)}, kinds("bifc"), same),
    Operator("scatter_reduce.amax", lambda x, dim, index, source: ts.scatter_reduce(x, dim, index, source, "amax"),
             _reduced(np.maximum), {"prime#0": _scatter((7, 5), 0, (9, 5)), "dim#0": _scatter((7, 5), 1, (6, 11))},
             kinds("if"), same),
    Operator("scatter_reduce.amin", lambda x, dim, index, source: ts.scatter_reduce(x, dim, index, source, "amin"),
             _reduced(np.minimum), {"prime#0": _scatter((7, 5), 0, (9, 5))}, kinds("if"), same),
]
