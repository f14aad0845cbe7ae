"""fma rounds once: the interpreter's arithmetic against exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tensocket_plugins.ir.scalar import NUMPY


def rounded(exact, dtype):
    """The nearest number of ``dtype``, halves to even, from its two candidates."""
    near = dtype(float(exact))
    candidates = {near, np.nextafter(near, dtype(np.inf)), np.nextafter(near, dtype(-np.inf))}
    even = lambda c: int(c.view({np.float32: np.int32, np.float64: np.int64}[dtype])) & 1
    return min(candidates, key=lambda c: (abs(Fraction(float(c)) - exact), even(c)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_result_is_the_nearest_number(dtype, rng):
    x, y = (rng.standard_normal(3000).astype(dtype) for _ in range(2))
    # Near the product, so that most of it cancels; and of every size, so that sums are near halves.
    z = np.where(rng.random(3000) < 0.5, -(x * y), rng.standard_normal(3000) * 2.0 ** rng.integers(-60, 60, 3000))
    z = z.astype(dtype)
    x[:2], y[:2], z[:2] = dtype(1 + 2**-12), dtype(1 + 2**-12), dtype([2.0**30, 2.0**-80])
    got = NUMPY["fma"](x, y, z)
    assert got.dtype == dtype
    for a, b, c, result in zip(x, y, z, got, strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        assert Fraction(float(result)) == Fraction(float(rounded(exact, dtype)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_infinities_and_nan(dtype):
    x = np.array([np.inf, np.inf, np.nan, 1, 0, 2], dtype)
    y = np.array([1, 0, 1, np.inf, 5, 3], dtype)
    z = np.array([1, 1, 1, -np.inf, -0.0, np.inf], dtype)
    with np.errstate(invalid="ignore"):
        got = NUMPY["fma"](x, y, z)
    np.testing.assert_array_equal(got, [np.inf, np.nan, np.nan, np.nan, 0, np.inf])
