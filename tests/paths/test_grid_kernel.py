"""The kernel of grid points computes the bits of the composition, which serves all other calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket as ts
import tensocket.nn.functional as F
from tensocket import dispatch
from tensocket_operators.nn.pooling import grids


def _grid(shape: tuple[int, ...], dtype: Any) -> Any:
    values = np.random.default_rng(0).uniform(-2.5, 2.5, shape)
    flat = values.reshape(-1)
    flat[::7], flat[1::11], flat[2::13] = -1.0, 1.0, 0.0
    flat[3::41], flat[4::43], flat[5::47] = np.nan, np.inf, -np.inf
    return ts.tensor(values, dtype=dtype)


@pytest.mark.parametrize("dtype", [ts.float32, ts.float64])
@pytest.mark.parametrize("align_corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("sizes", [(4, 7), (1, 3), (2, 3, 5)])
def test_kernel_and_composition_agree(sizes: tuple[int, ...], mode: str, padding: str, align_corners: bool,
                                      dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    if mode == "bicubic" and len(sizes) == 3:
        pytest.skip("bicubic is for two dimensions")
    image = ts.tensor(np.random.default_rng(1).standard_normal((2, 3, *sizes)), dtype=dtype)
    grid = _grid((2, *[6] * len(sizes), len(sizes)), dtype)
    found = [F.grid_sample(image, grid, mode, padding, align_corners) for _ in range(8)]  # the last ones are replayed
    monkeypatch.setattr(grids, "_has_kernel", lambda points: False)
    wanted = grids._sampled("grid_sample", image, grid, mode, padding, align_corners)
    for result in found:
        assert np.array_equal(np.asarray(result.tolist()), np.asarray(wanted.tolist()), equal_nan=True)


@pytest.mark.native
def test_small_grids_are_replayed() -> None:
    image, grid = ts.ones(1, 1, 3, 3), ts.zeros(1, 2, 2, 2)
    for _ in range(8):
        F.grid_sample(image, grid, align_corners=False)
    assert dispatch.explain(F.grid_sample, image, grid, align_corners=False)[0].path == "replay"
    moved = F.grid_sample(ts.arange(9.0).reshape(1, 1, 3, 3), ts.full((1, 2, 2, 2), 1.0), align_corners=True)
    assert moved.tolist() == [[[[8.0, 8.0], [8.0, 8.0]]]]
