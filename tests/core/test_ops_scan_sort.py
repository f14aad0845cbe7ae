"""Scans, sorting, search, sets against NumPy."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

import tensocket_core as tc
from tensocket_core import functions as f
from tensocket_core.device import open_entry
from tensocket_core.dispatch.registry import OPERATORS
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimensionError,
    DtypeError,
    ShapeError,
    UnsupportedOperator,
)
from tensocket_plugins.kit.host_operators import HOST_OPERATORS, SEQUENCE_OPERATORS

NAN = math.nan
X = np.array([[3.0, 1.0, 2.0, 1.0], [0.5, NAN, -2.0, 4.0], [-1.0, -1.0, math.inf, 0.0]])
WHOLE = np.array([[3, 1, 2], [-4, 0, 5]])


@pytest.fixture(params=["ref", "cpu"])
def place(request):
    """The interpreter device, which runs kernels, and the host itself."""
    if request.param == "cpu":
        pytest.importorskip("tensocket_cpu")
    tc.set_default_device(request.param)
    return request.param


def test_profiles_can_declare_every_host_operator():
    names = {kind: {name for name, operator in OPERATORS.items() if operator.kind == kind}
             for kind in ("host", "sequence")}
    assert names["host"] == HOST_OPERATORS
    assert names["sequence"] | {"randperm"} == SEQUENCE_OPERATORS


def test_the_host_is_used_only_where_it_is_declared(monkeypatch):
    runtime = open_entry("plain").runtime
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


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize(("name", "reference"), [("cumsum", np.cumsum), ("cumprod", np.cumprod)])
def test_running_sums_and_products(name, reference, dim, place, near):
    with np.errstate(all="ignore"):
        expected = reference(X, dim)
    near(getattr(f, name)(tc.tensor(X), dim), expected)
    result = getattr(f, name)(tc.tensor(WHOLE, dtype=tc.int8), dim)
    near(result, reference(WHOLE, dim), dtype="int64")
    near(getattr(f, name)(tc.tensor(WHOLE > 0), dim), reference(WHOLE > 0, dim), dtype="int64")
    assert getattr(f, name)(tc.tensor(WHOLE), dim, dtype=tc.float64).dtype is tc.float64


def test_long_sums_are_accumulated_in_a_wider_type(place, host):
    values = np.full(200_001, 0.1, np.float32)
    last = host(f.cumsum(tc.tensor(values), 0))[-1]
    assert abs(last - values.astype(np.float64).sum()) < 1e-2 * np.spacing(np.float32(20000)) * 100


def test_scans_of_numbers_without_dimensions(place):
    assert f.cumsum(tc.tensor(2.5), 0).item() == 2.5
    assert f.cummax(tc.tensor(2.5), 0).indices.item() == 0
    with pytest.raises(DimensionError, match=r"\[cumsum\] dim 1"):
        f.cumsum(tc.tensor(2.5), 1)
    with pytest.raises(DtypeError, match=r"\[cumprod\] dtype bool — cumprod is defined for numbers"):
        f.cumprod(tc.tensor([1.0]), 0, dtype=tc.bool_)


def test_running_extremes_take_the_last_of_equals_and_nan(place):
    values, indices = f.cummax(tc.tensor([1.0, 2.0, 2.0, NAN, 5.0]), 0)
    assert indices.tolist() == [0, 1, 2, 3, 3]
    assert values.tolist()[:3] == [1.0, 2.0, 2.0]
    assert f.cummin(tc.tensor([[3, 1, 1], [2, 4, 0]]), 1).indices.tolist() == [[0, 1, 2], [0, 0, 2]]


def test_differences(place, near):
    near(f.diff(tc.tensor(WHOLE)), np.diff(WHOLE))
    near(f.diff(tc.tensor(WHOLE), 2, 1, tc.tensor([[9], [9]])), np.diff(WHOLE, 2, 1, [[9], [9]]))
    assert f.diff(tc.tensor([True, False, False])).tolist() == [True, False]
    assert f.diff(tc.tensor([1, 2]), 5).tolist() == []
    with pytest.raises(ShapeError, match=r"\[diff\] a 0-dimensional tensor — neighbours lie along a dimension"):
        f.diff(tc.tensor(1.0))
    with pytest.raises(ArgumentError, match=r"\[diff\] n=-1 — the number of differences is not negative"):
        f.diff(tc.tensor([1.0]), -1)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("descending", [False, True])
def test_sorting_is_stable_and_nan_is_the_largest(dim, descending, place, host):
    values, indices = f.sort(tc.tensor(X), dim, descending)
    expected = np.flip(np.sort(X, dim), dim) if descending else np.sort(X, dim)
    np.testing.assert_array_equal(host(values), expected)
    np.testing.assert_array_equal(np.take_along_axis(X, host(indices), dim), expected)
    assert f.argsort(tc.tensor([1, 1, 0, 1]), descending=descending).tolist() == (
        [0, 1, 3, 2] if descending else [2, 0, 1, 3])


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
    with pytest.raises(ArgumentTypeError, match=r"\[isin\] two numbers — one of both is a tensor"):
        f.isin(1, 2)
