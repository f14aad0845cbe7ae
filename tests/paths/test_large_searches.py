"""Searches for many values, which a kernel does, and draws that use them."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("edges", [0, 1, 2, 700])
def test_places_of_many_values(dtype: type, right: bool, edges: int) -> None:
    rng = np.random.default_rng(edges)
    bounds, values = (np.round(rng.standard_normal(n) * 50).astype(dtype) for n in (edges, 3000))
    bounds.sort()
    if dtype is not np.int64:
        values[::9], values[1::9] = np.nan, np.inf
    expected = np.searchsorted(bounds, values, "right" if right else "left")
    found = torch.searchsorted(torch.from_numpy(bounds), torch.from_numpy(values), right=right)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_rows_have_edges_of_their_own() -> None:
    rng = np.random.default_rng(5)
    bounds, values = np.sort(rng.standard_normal((40, 33)), 1), rng.standard_normal((40, 50))
    found = torch.searchsorted(torch.from_numpy(bounds), torch.from_numpy(values)).numpy()
    for row in range(40):
        np.testing.assert_array_equal(found[row], np.searchsorted(bounds[row], values[row]))


def test_categories_without_weight_are_not_drawn() -> None:
    weights = torch.zeros(300, 50)
    weights[:, 7], weights[:, 20] = 1.0, 3.0
    drawn = weights.multinomial(200, True).numpy()
    assert set(np.unique(drawn)) == {7, 20}
    assert abs((drawn == 20).mean() - 0.75) < 0.02
