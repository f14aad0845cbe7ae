"""Counts in bins of equal width: the kernel for processors and the composition of the reference device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket as ts
from tensocket import dispatch


def _values(dtype: str) -> Any:
    x = np.random.default_rng(0).uniform(-1.2, 3.4, 500).astype(dtype)
    x[:40] = np.linspace(0, 3, 40)  # on and beside the edges
    x[40:45] = np.nan, np.inf, -np.inf, 3.0, -0.0
    return x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("bins", [1, 3, 10, 39, 100])
def test_counts_are_those_of_the_edges(bins: int, dtype: str) -> None:
    x = _values(dtype)
    edges = ts.linspace(0, 3, bins + 1, dtype=getattr(ts, dtype), device="cpu").numpy()
    place = np.clip(np.searchsorted(edges, x, "right") - 1, 0, bins - 1)
    wanted = np.bincount(place[(x >= 0) & (x <= 3)], minlength=bins)
    for device in ("cpu", "ref"):
        assert ts.histc(ts.tensor(x, device=device), bins, 0, 3).tolist() == wanted.tolist()
        counts, found = ts.histogram(ts.tensor(x, device=device), bins, range=(0.0, 3.0))
        assert counts.tolist() == wanted.tolist()
        assert found.tolist() == edges.tolist()


def test_weights_add_in_order() -> None:
    x, w = _values("float32"), np.random.default_rng(1).standard_normal(500).astype(np.float32)
    made = [ts.histogram(ts.tensor(x, device=d), 7, range=(0.0, 3.0), weight=ts.tensor(w, device=d)).hist.tolist()
            for d in ("cpu", "ref")]
    assert made[0] == made[1]


def test_elements_themselves_give_the_range() -> None:
    x = np.random.default_rng(2).standard_normal((20, 30)).astype(np.float32)
    for device in ("cpu", "ref"):
        assert ts.histc(ts.tensor(x, device=device).T, 5).tolist() == np.histogram(x.astype(np.float64), 5)[0].tolist()
    assert ts.histc(ts.tensor(2.0), 4).tolist() == [0.0, 0.0, 1.0, 0.0]
    assert ts.histc(ts.zeros(0), 3, 0, 1).tolist() == [0.0, 0.0, 0.0]


_FEW = {"small": 1e-30, "large": 1e30, "usual": 1.0}


@pytest.mark.parametrize("bins", [1, 4, 33, 1000])
@pytest.mark.parametrize("scale", _FEW)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_elements_are_counted_as_by_the_kernel(bins: int, scale: str, dtype: str) -> None:
    x = (np.random.default_rng(3).integers(-9, 9, 70) / 4 * _FEW[scale]).astype(dtype)
    (counts, edges), served = (ts.histogram(ts.tensor(x), bins), dispatch.explain(ts.histogram, ts.tensor(x), bins)[0])
    assert served.path == "host kernel"
    composed = ts.histogram(ts.tensor(np.tile(x, 20)), bins)  # as many elements go to the kernel
    assert edges.tolist() == composed.bin_edges.tolist()
    assert (counts * 20).tolist() == composed.hist.tolist()
    assert counts.tolist() == np.histogram(x.astype(np.float64), edges.numpy().astype(np.float64))[0].tolist()


def test_one_element_has_a_range_of_one() -> None:
    counts, edges = ts.histogram(ts.tensor(0.25), 2)
    assert (counts.tolist(), edges.tolist()) == ([0.0, 1.0], [-0.25, 0.25, 0.75])


def test_bins_as_narrow_as_roundings_go_to_the_kernel() -> None:
    x = ts.tensor([1e6, 1e6 + 0.125])
    assert dispatch.explain(ts.histogram, x, 8)[0].path != "host kernel"
    assert ts.histogram(x, 8).hist.sum() == 2


@pytest.mark.parametrize("bins", [(1, 1, 1), (4, 1, 7), (2, 30, 3)])
@pytest.mark.parametrize("count", [1, 40, 700])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_points_are_counted_in_cells(bins: tuple[int, ...], count: int, dtype: str) -> None:
    x = (np.random.default_rng(4).integers(-9, 9, (count, 3)) / 4).astype(dtype)
    served = dispatch.explain(ts.histogramdd, ts.tensor(x), bins)[0].path
    assert (served == "host kernel") == (count < 700)  # NumPy counts few points, a kernel counts many
    for device in ("cpu", "ref"):
        counts, edges = ts.histogramdd(ts.tensor(x, device=device), bins)
        wanted = np.histogramdd(x.astype(np.float64), [np.array(e.tolist()) for e in edges])[0]
        assert counts.tolist() == wanted.tolist()
        assert [len(e) for e in edges] == [many + 1 for many in bins]


def test_cells_take_ranges_weights_and_density() -> None:
    rng = np.random.default_rng(5)
    x, w = rng.uniform(-1.5, 2.5, (500, 2)).astype(np.float32), rng.uniform(0, 1, 500).astype(np.float32)
    x[0] = np.nan
    for device in ("cpu", "ref"):
        counts, edges = ts.histogramdd(ts.tensor(x, device=device), [3, 5], range=[-1.0, 2.0, -1.0, 1.0],
                                       weight=ts.tensor(w, device=device), density=True)
        wanted = np.histogramdd(x[1:], [np.array(e.tolist()) for e in edges], density=True, weights=w[1:])[0]
        np.testing.assert_allclose(np.array(counts.tolist()), wanted, rtol=1e-5)


def test_points_of_many_coordinates_are_composed() -> None:
    x = np.random.default_rng(6).integers(0, 3, (300, 9)).astype(np.float32)
    counts = ts.histogramdd(ts.tensor(x), 2).hist
    assert counts.tolist() == np.histogramdd(x, 2)[0].tolist()


def test_given_edges_count_beside_bins_of_equal_width() -> None:
    x = np.random.default_rng(7).uniform(0, 1, (600, 2)).astype(np.float32)
    given = np.array([0.0, 0.1, 0.7, 1.0], np.float32)
    counts, edges = ts.histogramdd(ts.tensor(x), [4, ts.tensor(given)])
    wanted = np.histogramdd(x, [edges[0].numpy().astype(np.float64), given.astype(np.float64)])[0]
    assert counts.tolist() == wanted.tolist()
