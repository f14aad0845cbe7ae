"""Running statistics of batch normalisation: moved together or one by one, and used on few and on many elements."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch

F = torch.nn.functional


@pytest.fixture
def rng():
    return np.random.default_rng(5)


def moved(mean, var, x, momentum):
    """Statistics after a batch [N, C], in float64; the variance of a batch is unbiased (Ioffe and Szegedy, 2015)."""
    return ((1 - momentum) * mean + momentum * x.mean(0, dtype=np.float64),
            (1 - momentum) * var + momentum * x.var(0, dtype=np.float64, ddof=1))


@pytest.mark.parametrize("memory", ["apart", "one", "strided"])
def test_statistics_move(rng, memory):
    both = torch.zeros(12)
    mean, var = {"apart": (torch.zeros(6), torch.zeros(6)), "one": (both[:6], both[6:]),
                 "strided": (both[::2], torch.zeros(6))}[memory]
    expected = np.zeros(6), np.zeros(6)
    for step in range(3):
        x = rng.standard_normal((9, 6)).astype(np.float32) * 3 + step
        F.batch_norm(torch.tensor(x), mean, var, training=True, momentum=0.3)
        expected = moved(*expected, x, 0.3)
        np.testing.assert_allclose(mean.numpy(), expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(var.numpy(), expected[1], rtol=1e-5, atol=1e-6)
    assert mean._version > 0
    assert var._version > 0


@pytest.mark.parametrize("rows", [1, 512, 513, 2000])
@pytest.mark.parametrize("affine", [False, True])
def test_known_statistics_on_few_and_many_elements(rng, rows, affine):
    x = rng.standard_normal((rows, 8))
    mean, var, weight, bias = (rng.standard_normal(8) for _ in range(4))
    var = np.abs(var) + 0.1
    y = (x - mean) / np.sqrt(var + 1e-5)
    parts = [torch.tensor(value, dtype=torch.float32) for value in (x, mean, var, weight, bias)]
    for input in (parts[0], parts[0].t().contiguous().t()):
        got = F.batch_norm(input, parts[1], parts[2], *(parts[3:] if affine else (None, None)))
        np.testing.assert_allclose(got.numpy(), y * weight + bias if affine else y, rtol=2e-5, atol=2e-6)
