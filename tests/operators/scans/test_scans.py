"""Running sums, products and extremes, and differences, against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f
from tensocket_plugins.contract.errors import ArgumentError, DimensionError, DtypeError, ShapeError

NAN = math.nan
X = np.array([[3.0, 1.0, 2.0, 1.0], [0.5, NAN, -2.0, 4.0], [-1.0, -1.0, math.inf, 0.0]])
WHOLE = np.array([[3, 1, 2], [-4, 0, 5]])


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


@pytest.mark.parametrize("shape", [(70,), (2, 5000), (3, 130, 2)])
def test_scans_of_long_rows_are_divided(shape, place, host):
    """Rows are scanned block by block, and the totals of many blocks likewise."""
    values = np.random.default_rng(1).integers(-9, 9, shape)
    for name, accumulate in (("cummax", np.maximum), ("cummin", np.minimum)):
        best, found = getattr(f, name)(tc.tensor(values), 1 % len(shape))
        np.testing.assert_array_equal(host(best), accumulate.accumulate(values, 1 % len(shape)))
        np.testing.assert_array_equal(np.take_along_axis(values, host(found), 1 % len(shape)), host(best))
    np.testing.assert_array_equal(host(f.cumsum(tc.tensor(values), 1 % len(shape))), values.cumsum(1 % len(shape)))
    numbers = values + 1j * values[..., ::-1]
    np.testing.assert_allclose(host(f.cumsum(tc.tensor(numbers), 0)), numbers.cumsum(0))
    factors = np.exp(1j * values)
    np.testing.assert_allclose(host(f.cumprod(tc.tensor(factors), 0)), factors.cumprod(0), rtol=1e-9)


def test_differences(place, near):
    near(f.diff(tc.tensor(WHOLE)), np.diff(WHOLE))
    near(f.diff(tc.tensor(WHOLE), 2, 1, tc.tensor([[9], [9]])), np.diff(WHOLE, 2, 1, [[9], [9]]))
    assert f.diff(tc.tensor([True, False, False])).tolist() == [True, False]
    assert f.diff(tc.tensor([1, 2]), 5).tolist() == []
    with pytest.raises(ShapeError, match=r"\[diff\] a 0-dimensional tensor — neighbours lie along a dimension"):
        f.diff(tc.tensor(1.0))
    with pytest.raises(ArgumentError, match=r"\[diff\] n=-1 — the number of differences is not negative"):
        f.diff(tc.tensor([1.0]), -1)
