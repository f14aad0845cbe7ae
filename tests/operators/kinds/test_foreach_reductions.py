"""Reductions of every tensor of a list against NumPy in double precision."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as torch
from tensocket_operators.kinds.foreach_reductions import FINITE, NORMS

SHAPES = [(3, 4), (), (1,), (70, 5), (257,)]


def arrays(seed):
    generator = np.random.default_rng(seed)
    return [np.asarray(generator.normal(size=shape)) for shape in SHAPES]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("order", [1, 2, float("inf")])
def test_norms(device, dtype, order):
    values = [x.astype(dtype) for x in arrays(1)]
    found = NORMS[order]([torch.tensor(x, device=device) for x in values])
    if device == "plain":
        assert found is None  # without a code generator each is reduced by itself
        return
    expected = [np.linalg.norm(x.astype(np.float64).ravel(), order) for x in values]
    np.testing.assert_allclose(found.detach()._values(), expected, rtol=2e-7 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
def test_numbers_that_are_not_finite(bad):
    values = [x.astype(np.float32) for x in arrays(2)]
    values[3][17, 2] = bad
    found = FINITE([torch.tensor(x) for x in values]).detach()._values()
    assert np.isnan(found).tolist() == [False, False, False, True, False]
    assert found[0] == 0.0
    assert not np.isfinite(NORMS[2]([torch.tensor(values[3])]).detach()._values()[0])


@pytest.mark.parametrize("make", [
    list, lambda: [torch.ones(2), torch.ones(2, dtype=torch.float64)], lambda: [torch.ones(2, dtype=torch.int32)],
    lambda: [torch.ones(3, 4).t()], lambda: [torch.ones(0)], lambda: [torch.ones(2, requires_grad=True)],
    lambda: [torch.ones(2, dtype=torch.float16)]])
def test_what_is_left_to_each(make):
    assert NORMS[2](make()) is None
