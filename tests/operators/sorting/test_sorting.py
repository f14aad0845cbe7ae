"""Sorting, search and sets against NumPy; which kernels run where."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_core.device import open_device
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_operators import functions as f
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimensionError,
    DtypeError,
    IndexOutOfRange,
    ShapeError,
    UnsupportedOperator,
)
from tensocket_plugins.contract.registry import registry
from tensocket_plugins.ir.target import Target
from tensocket_plugins.kit.host_operators import HOST_OPERATORS, SEQUENCE_OPERATORS

NAN = math.nan
X = np.array([[3.0, 1.0, 2.0, 1.0], [0.5, NAN, -2.0, 4.0], [-1.0, -1.0, math.inf, 0.0]])


def test_profiles_can_declare_every_host_operator():
    names = {kind: {name for name, operator in OPERATORS.items() if operator.kind == kind}
             for kind in ("host", "sequence")}
    assert names["host"] == HOST_OPERATORS
    assert names["sequence"] | {"randperm"} == SEQUENCE_OPERATORS


def test_the_host_is_used_only_where_it_is_declared(monkeypatch):
    runtime = open_device("plain").runtime
    monkeypatch.setattr(runtime, "profile", dataclasses.replace(runtime.profile, host_kernels=frozenset()))
    with pytest.raises(UnsupportedOperator, match=r"\[argsort\] float32 on plain:0 — the backend neither runs"):
        f.sort(tc.tensor([2.0, 1.0], device="plain"))
    tc.reset_fallback_ledger()
    assert f.sort(tc.tensor([2.0, 1.0], device="ref")).values.tolist() == [1.0, 2.0]
    assert tc.fallback_ledger() == []
    monkeypatch.undo()
    assert f.sort(tc.tensor([2.0, 1.0], device="plain")).values.tolist() == [1.0, 2.0]
    (row,) = tc.fallback_ledger()
    assert (row.operator, row.kind, row.count, row.bytes) == ("argsort", "host_kernel", 1, 8)


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "argsort", "sort"])
def test_rows_without_elements(name, place):
    for shape, dim in (((0,), 0), ((2, 0), 1), ((2, 0), 0), ((0, 3), 1)):
        result = getattr(f, name)(tc.ones(*shape), dim)
        for part in result if isinstance(result, tuple) else (result,):
            assert tuple(part.shape) == shape


@pytest.fixture(params=["simt", "cpu"])
def scheduled_device(request, make_plain):
    """A device whose kernels are scheduled for few small groups or for loops, and then interpreted."""
    target = Target(kind=request.param, group_size=8, max_groups=3, local_bytes=4096, float64=request.param == "cpu")
    name = f"scheduled_{request.param}"
    registry().add(make_plain(name, target=target), name=name, distribution="the tests of core")
    yield name
    registry().remove(name)


def test_kernels_mean_the_same_on_every_target(scheduled_device, host):
    values = np.random.default_rng(3).integers(-30, 30, (3, 130))
    given = tc.tensor(values.astype(np.float32), device=scheduled_device)
    tc.reset_fallback_ledger()
    np.testing.assert_array_equal(host(f.argsort(given, 1)), np.argsort(values, 1, kind="stable"))
    np.testing.assert_array_equal(host(f.cumsum(given, 1)), values.cumsum(1))
    np.testing.assert_array_equal(host(f.cummax(given, 0).values), np.maximum.accumulate(values, 0))
    expected = np.unique(values, return_counts=True)
    for mine, theirs in zip(f.unique(given, return_counts=True), expected, strict=True):
        np.testing.assert_array_equal(host(mine), theirs)
    assert tc.fallback_ledger() == []


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_stable_and_nan_is_the_largest(dim, descending, place, host):
    values, indices = f.sort(tc.tensor(X), dim, descending)
    expected = np.flip(np.sort(X, dim), dim) if descending else np.sort(X, dim)
    np.testing.assert_array_equal(host(values), expected)
    np.testing.assert_array_equal(np.take_along_axis(X, host(indices), dim), expected)
    assert f.argsort(tc.tensor([1, 1, 0, 1]), descending=descending).tolist() == (
        [0, 1, 3, 2] if descending else [2, 0, 1, 3])


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int64", "uint64", "uint32", "float16", "float32", "float64"])
def test_sorting_of_rows_of_many_sizes(dtype, place, host):
    draw = np.random.default_rng(2)
    for size in (1, 2, 7, 8, 9, 64, 100):
        if dtype.startswith("float"):
            values = (draw.integers(-4, 4, (2, size)) / 2).astype(dtype)
            values.reshape(-1)[::5] = [-0.0, np.inf, -np.inf, np.nan][size % 4]
        else:
            info = np.iinfo(dtype)
            values = draw.choice(np.array([info.min, info.max, 1, 2, info.max // 2 + 1], dtype), (2, size))
        found = host(f.argsort(tc.tensor(values)))
        np.testing.assert_array_equal(found, np.argsort(values, -1, kind="stable"))
        backwards = size - 1 - np.flip(np.argsort(np.flip(values, -1), -1, kind="stable"), -1)
        np.testing.assert_array_equal(host(f.argsort(tc.tensor(values), descending=True)), backwards)


def test_rows_are_not_longer_than_keys_count():
    with pytest.raises(ShapeError, match="2147483648 elements along dim 0 — a row has at most 2147483647 elements"):
        f.argsort(tc.ones(1, device="ref").expand(1 << 31))


def test_sorting_of_other_dtypes(place):
    assert f.sort(tc.tensor([True, False])).values.tolist() == [False, True]
    assert f.sort(tc.tensor([2.0, 1.0], dtype=tc.bfloat16)).values.dtype is tc.bfloat16
    assert f.sort(tc.tensor(3.0)).indices.item() == 0
    with pytest.raises(DtypeError, match=r"\[sort\] dtype complex64 — sort is not defined for this dtype"):
        f.sort(tc.tensor([1j]))


def test_topk(place):
    values, indices = f.topk(tc.tensor([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]]), 2)
    assert values.tolist() == [[3, 2], [5, 4]]
    assert indices.tolist() == [[0, 2], [1, 2]]
    assert f.topk(tc.tensor([3.0, 1.0, 2.0]), 1, largest=False).indices.tolist() == [1]
    with pytest.raises(ArgumentError, match=r"\[topk\] k=4 of 3 elements"):
        f.topk(tc.tensor([3.0, 1.0, 2.0]), 4)


def test_search_in_sorted_sequences(place, near):
    edges, values = np.array([1.0, 2.0, 2.0, 5.0]), np.array([[0.0, 2.0], [5.0, 9.0]])
    for right, side in ((False, "left"), (True, "right")):
        expected = np.searchsorted(edges, values, side)
        near(f.searchsorted(tc.tensor(edges), tc.tensor(values), right=right), expected)
        near(f.searchsorted(tc.tensor(edges), tc.tensor(values), side=side), expected)
        near(f.bucketize(tc.tensor(values), tc.tensor(edges), right=right), expected)
    rows = f.searchsorted(tc.tensor([[1, 3], [2, 4]]), tc.tensor([[2, 5], [1, 4]]), out_int32=True)
    assert rows.tolist() == [[1, 2], [0, 1]]
    assert rows.dtype is tc.int32
    unordered = tc.tensor([5.0, 1.0, 2.0])
    assert f.searchsorted(unordered, 2.0, sorter=unordered.argsort()).item() == 1
    with pytest.raises(ArgumentError, match=r"\[searchsorted\] side='left', right=True"):
        f.searchsorted(unordered, 2.0, right=True, side="left")
    with pytest.raises(ShapeError, match=r"\[searchsorted\] a sequence of shape \[2, 2\] for values of shape \[3\]"):
        f.searchsorted(tc.ones(2, 2), tc.ones(3))
    with pytest.raises(ShapeError, match=r"\[searchsorted\] a sorter of shape \[1\]"):
        f.searchsorted(unordered, 2.0, sorter=tc.tensor([0]))


def test_search_without_elements(place):
    assert f.searchsorted(tc.ones(0), tc.ones(3)).tolist() == [0, 0, 0]
    assert f.searchsorted(tc.ones(2, 0), tc.ones(2, 1)).tolist() == [[0], [0]]
    assert tuple(f.searchsorted(tc.ones(2, 3), tc.ones(2, 0)).shape) == (2, 0)
    assert tuple(f.searchsorted(tc.ones(0, 3), tc.ones(0, 2)).shape) == (0, 2)
    assert f.searchsorted(tc.tensor([1.0, NAN]), tc.tensor([NAN, 2.0])).tolist() == [1, 1]
    assert f.searchsorted(tc.tensor([1, 2]), tc.tensor([1.5, 0.5])).tolist() == [1, 0]
    with pytest.raises(IndexOutOfRange, match=r"\[searchsorted\] index 2 of a dimension of size 2"):
        f.searchsorted(tc.ones(2), tc.ones(1), sorter=tc.tensor([0, 2]))


@pytest.mark.parametrize("find", [f.unique, f.unique_consecutive])
def test_distinct_elements_of_nothing(find, place):
    for shape, dim in (((0,), None), ((2, 0), None), ((0, 3), 0), ((2, 0), 1), ((0,), 0)):
        values, inverse, counts = find(tc.ones(*shape), return_inverse=True, return_counts=True, dim=dim)
        assert tuple(values.shape) == ((0,) if dim is None else shape)
        assert tuple(inverse.shape) == (shape if dim is None else (0,))
        assert counts.tolist() == []
        assert inverse.dtype is counts.dtype is tc.int64
    for shape, dim in (((3, 0), 0), ((0, 0), 0)):
        with pytest.raises(ShapeError, match="slices that are compared have elements"):
            find(tc.ones(*shape), dim=dim)
    assert find(tc.tensor(3.0)).tolist() == [3.0]
    with pytest.raises(DimensionError, match="dim 0 of a 0-dimensional tensor — slices lie along a dim"):
        find(tc.tensor(3.0), dim=0)


@pytest.mark.parametrize("columns", [1, 2, 3, 5])
def test_distinct_slices_are_ordered_from_the_first_column_on(columns, place, host):
    values = np.random.default_rng(columns).integers(-1, 2, (40, columns))
    for dim, given in ((0, values), (1, values.T)):
        expected = np.unique(given, return_inverse=True, return_counts=True, axis=dim)
        found = f.unique(tc.tensor(np.ascontiguousarray(given)), return_inverse=True, return_counts=True, dim=dim)
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(host(mine), theirs.reshape(tuple(mine.shape)))


def test_distinct_elements(place):
    values, inverse, counts = f.unique(tc.tensor([[3, 1], [1, 1]]), return_inverse=True, return_counts=True)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([1, 3], [[1, 0], [0, 0]], [3, 1])
    assert len(f.unique(tc.tensor([NAN, NAN, 1.0]))) == 3
    rows, counts = f.unique(tc.tensor([[1, 1], [0, 2], [1, 1]]), dim=0, return_counts=True)
    assert (rows.tolist(), counts.tolist()) == ([[0, 2], [1, 1]], [1, 2])
    values, counts = f.unique_consecutive(tc.tensor([1, 1, 2, 1]), return_counts=True)
    assert (values.tolist(), counts.tolist()) == ([1, 2, 1], [2, 1, 1])
    assert f.unique(tc.tensor([2j, 1j, 2j])).tolist() == [1j, 2j]
    assert f.unique(tc.empty(0)).tolist() == []


def test_membership(place):
    assert f.isin(tc.tensor([[1, 2], [3, 4]]), tc.tensor([2, 3])).tolist() == [[False, True], [True, False]]
    assert f.isin(tc.tensor([1, 2]), 2, invert=True).tolist() == [True, False]
    assert f.isin(1, tc.tensor([1, 2])).item() is True
    assert f.isin(tc.tensor([1.0, NAN]), tc.tensor([NAN, 1.0])).tolist() == [True, False]
    assert f.isin(tc.tensor([1, 2]), tc.ones(0)).tolist() == [False, False]
    assert f.isin(tc.ones(0), tc.tensor([1.0])).tolist() == []
    with pytest.raises(DtypeError, match=r"\[isin\] dtype complex64"):
        f.isin(tc.tensor([1j]), tc.tensor([1j]))
    with pytest.raises(ArgumentTypeError, match=r"\[isin\] two numbers — one of both is a tensor"):
        f.isin(1, 2)
