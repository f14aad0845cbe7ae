"""Reductions of segments, against loops over NumPy slices."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

EMPTY = {"sum": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf, "mean": np.nan}
MODES = sorted(EMPTY)


def expected(data, reduce, lengths):
    ends = np.cumsum(lengths)
    parts = [data[end - n:end] for n, end in zip(lengths, ends, strict=True)]
    return np.stack([getattr(np, reduce)(p, axis=0) if len(p) else np.full(data.shape[1:], EMPTY[reduce])
                     for p in parts])


@pytest.mark.parametrize("reduce", MODES)
def test_segments_of_rows(reduce):
    data = np.arange(1.0, 13.0).reshape(6, 2)
    made = f.segment_reduce(tc.tensor(data), reduce, lengths=tc.tensor([2, 0, 4]))
    np.testing.assert_allclose(made.detach()._values(), expected(data, reduce, [2, 0, 4]))
    made = f.segment_reduce(tc.tensor(data), reduce, offsets=tc.tensor([0, 2, 2, 6]))
    np.testing.assert_allclose(made.detach()._values(), expected(data, reduce, [2, 0, 4]))


@pytest.mark.parametrize("reduce", MODES)
def test_lengths_of_each_row_and_lengths_that_leave_elements(reduce):
    data = np.arange(1.0, 13.0).reshape(2, 3, 2)
    made = f.segment_reduce(tc.tensor(data), reduce, lengths=tc.tensor([[1, 2], [2, 1]]), axis=1)
    rows = [expected(data[0], reduce, [1, 2]), expected(data[1], reduce, [2, 1])]
    np.testing.assert_allclose(made.detach()._values(), rows)
    made = f.segment_reduce(tc.tensor(data), reduce, lengths=tc.tensor([[1, 1], [1, 1]]), axis=1, unsafe=True)
    np.testing.assert_allclose(made.detach()._values(), data[:, :2])


def test_offsets_may_leave_elements_on_both_sides():
    data = np.arange(1.0, 9.0)
    for unsafe in (False, True):
        made = f.segment_reduce(tc.tensor(data), "sum", offsets=tc.tensor([1, 3, 3, 6]), unsafe=unsafe)
        assert made.tolist() == [data[1:3].sum(), 0.0, data[3:6].sum()]
    rows = f.segment_reduce(tc.tensor(data).reshape(2, 4), "max", offsets=tc.tensor([[0, 2], [1, 4]]), axis=-1)
    assert rows.tolist() == [[2.0], [8.0]]
    for offsets in ([1, 9], [-1, 3], [3, 1]):
        with pytest.raises(ShapeError, match="lengths are not negative and sum to the size of the axis"):
            f.segment_reduce(tc.tensor(data), "sum", offsets=tc.tensor(offsets))


def test_no_elements_at_all():
    for reduce, value in EMPTY.items():
        made = f.segment_reduce(tc.ones(0), reduce, lengths=tc.tensor([0, 0], dtype=tc.int32))
        np.testing.assert_array_equal(made.tolist(), [value] * 2)


@pytest.mark.parametrize(("reduce", "result"), [("sum", [5.0, 2.0, 14.0]), ("mean", [2.5, 2.0, 14 / 3]),
                                                ("prod", [4.0, 2.0, 120.0]), ("max", [2.0, 2.0, 5.0]),
                                                ("min", [1.0, 2.0, 2.0])])
def test_what_reductions_start_with(reduce, result):
    data = tc.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=tc.float64)
    made = f.segment_reduce(data, reduce, lengths=tc.tensor([2, 0, 3]), initial=2)
    np.testing.assert_allclose(made.detach()._values(), result)


@pytest.mark.parametrize(("reduce", "gradient"), [
    ("sum", [1.0, 1.0, 2.0, 3.0, 3.0, 3.0]), ("mean", [0.5, 0.5, 2.0, 1.0, 1.0, 1.0]),
    ("max", [0.0, 1.0, 2.0, 0.0, 0.0, 3.0]), ("prod", [2.0, 1.0, 2.0, 90.0, 72.0, 60.0])])
def test_gradients(reduce, gradient):
    x = tc.tensor([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], requires_grad=True)
    (f.segment_reduce(x, reduce, lengths=tc.tensor([2, 1, 3])) * tc.tensor([1.0, 2.0, 3.0])).sum().backward()
    np.testing.assert_allclose(x.grad.detach()._values(), gradient, rtol=1e-6)


def test_equal_extremes_share_gradients():
    nan, inf = np.nan, np.inf
    x = tc.tensor([1.0, nan, 5.0, 2.0, 5.0, 5.0, inf, 0.0], dtype=tc.float64, requires_grad=True)
    made = f.segment_reduce(x, "max", lengths=tc.tensor([2, 4, 2, 0]), initial=5)
    np.testing.assert_array_equal(made.tolist(), [nan, 5.0, inf, 5.0])
    made.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), [0, 1, 1 / 3, 0, 1 / 3, 1 / 3, 1, 0])
    third = tc.full((3,), 0.1, dtype=tc.float64)
    assert f.segment_reduce(third, "min", lengths=tc.tensor([3])).item() == 0.1


@pytest.mark.parametrize(("reduce", "initial", "result", "gradient"), [
    ("amax", None, [3.0, -np.inf, 2.0], [0.0, 1.0, 1.5, 1.5, 0.0]),
    ("amax", 9.0, [9.0, 9.0, 9.0], [0.0] * 5),
    ("amax", 2.0, [3.0, 2.0, 2.0], [0.0, 1.0, 1.5, 1.5, 0.0]),
    ("amin", None, [1.0, np.inf, 2.0], [1.0, 0.0, 1.5, 1.5, 0.0]),
    ("amin", 0.0, [0.0, 0.0, 0.0], [0.0] * 5),
])
@pytest.mark.parametrize("form", ["lengths", "offsets"])
def test_extremes_by_the_names_of_reductions(device, reduce, initial, result, gradient, form):
    """Empty segments, elements beyond all segments, and initial values above every element have no gradient."""
    x = tc.tensor([1.0, 3.0, 2.0, 2.0, 7.0], device=device, requires_grad=True)
    segments = {"lengths": [2, 0, 2], "offsets": [0, 2, 2, 4]}[form]
    made = f.segment_reduce(x, reduce, **{form: tc.tensor(segments, device=device)}, unsafe=True, initial=initial)
    assert made.tolist() == result
    made.backward(tc.tensor([1.0, 2.0, 3.0], device=device))
    assert x.grad.tolist() == gradient


def test_factors_that_cannot_be_divided_by():
    """The gradient of a factor is the product of the others, also where it is NaN or 0."""
    nan = np.nan
    data = np.array([nan, 3.0, 0.0, 4.0, nan, 0.0, 5.0, 0.0, 0.0, nan, nan])
    lengths = [2, 2, 3, 2, 2]
    x = tc.tensor(data, requires_grad=True)
    f.segment_reduce(x, "prod", lengths=tc.tensor(lengths), initial=2).sum().backward()
    ends = np.cumsum(lengths)
    expected = [2 * np.prod(np.delete(data[end - n:end], k)) for n, end in zip(lengths, ends, strict=True)
                for k in range(n)]
    np.testing.assert_array_equal(x.grad.tolist(), expected)


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"reduce": "median", "lengths": [6]}, ArgumentError, "reduce is one of sum, mean, prod, max, min, amax, amin"),
    ({}, ArgumentError, "segments are given by lengths or by offsets"),
    ({"lengths": [6], "offsets": [0, 6]}, ArgumentError, "segments are given by lengths or by offsets"),
    ({"lengths": [2, 3]}, ShapeError, "lengths are not negative and sum to the size of the axis"),
    ({"lengths": [7, -1]}, ShapeError, "lengths are not negative and sum to the size of the axis"),
    ({"lengths": [[2, 4]]}, ShapeError, "lengths have the dimensions of data before the axis, and one more"),
    ({"lengths": [6], "dtype": tc.int64}, DtypeError, "segments of floating-point numbers are reduced")])
def test_arguments_are_checked(options, error, message):
    data = tc.ones(6, dtype=options.pop("dtype", tc.float32))
    given = {name: tc.tensor(value) for name, value in options.items() if name != "reduce"}
    with pytest.raises(error, match=message):
        f.segment_reduce(data, options.get("reduce", "sum"), **given)
