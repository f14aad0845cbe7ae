"""Recorded sorts of small arrays: rows of several lengths, all dtypes of keys, first elements only."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tensocket as ts
from tensocket import dispatch

pytestmark = pytest.mark.native


def _replayed(run: Any) -> bool:
    for _ in range(20):
        run()
    return any("argsort" in str(step) and step.path == "replay" for step in dispatch.explain(run))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8"])
@pytest.mark.parametrize("shape", [(7,), (3, 4, 5), (3, 70), (900,)])
def test_recorded_sorts_are_stable(shape: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = (rng.standard_normal(shape) * 3).round().astype(dtype)
    for descending in (False, True):
        replayed = _replayed(lambda d=descending: ts.argsort(ts.tensor(x), -1, descending=d))
        assert replayed or (shape[-1] > 64 and x.itemsize == 8)  # those are sorted twice, by too many kernels
        for _ in range(3):  # a recording holds no values of the recorded call
            y = (rng.standard_normal(shape) * 1000).round().astype(dtype)
            wanted = np.argsort(np.flip(y, -1), -1, kind="stable")
            wanted = np.flip(shape[-1] - 1 - wanted, -1) if descending else np.argsort(y, -1, kind="stable")
            assert np.array_equal(ts.argsort(ts.tensor(y), -1, descending=descending).numpy(), wanted)


def test_recorded_selections_take_the_first_elements() -> None:
    x = np.random.default_rng(1).standard_normal((4, 9, 3)).astype(np.float32)
    assert _replayed(lambda: ts.topk(ts.tensor(x), 2, 1))
    y = -x[::-1]
    found = ts.topk(ts.tensor(y.copy()), 2, 1)
    wanted = np.argsort(-y, 1, kind="stable")[:, :2]
    assert np.array_equal(found.indices.numpy(), wanted)
    assert np.array_equal(found.values.numpy(), np.take_along_axis(y, wanted, 1))
