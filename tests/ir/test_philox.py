"""Philox against its published test vectors and a NumPy version; uniform and normal numbers against their laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tensocket_plugins.contract.dtypes import float32, float64, int32, uint32
from tensocket_plugins.ir.decompose import decompose
from tensocket_plugins.ir.interpreter import interpret
from tensocket_plugins.ir.nodes import Buffer, Kernel, Load, LoopKind, Program, Scalar, Store, Var, loop
from tensocket_plugins.ir.philox import normal_float32, normal_float64, philox4x32, uniform_float32, uniform_float64
from tensocket_plugins.ir.target import Target
from tensocket_plugins.ir.verify import verify

I, N = Var("i", int32), Var("n", int32)


def run(formula, words, dtype, results):
    """Evaluate ``formula`` over arrays of uint32 words; returns ``results`` arrays.

    The formula gives expressions, or statements and expressions that use them.
    """
    loads = [Load(f"in{k}", I, uint32) for k in range(len(words))]
    values = formula(*loads)
    values = values if isinstance(values, tuple) else (values,)
    statements, values = values if isinstance(values[0], tuple) else ((), values)
    assert len(values) == results
    params = (*(Buffer(f"in{k}", uint32) for k in range(len(words))),
              *(Buffer(f"out{k}", dtype, True) for k in range(results)), Scalar("n", int32))
    stores = [Store(f"out{k}", I, value) for k, value in enumerate(values)]
    program = decompose(Program("p", params, (Kernel("p", (loop(I, N, [*statements, *stores], LoopKind.PARALLEL),)),)),
                        Target("interpreter"))
    verify(program)
    outs = [np.empty(len(words[0]), dtype.numpy) for _ in range(results)]
    interpret(program, [*words, *outs], [len(words[0])])
    return outs


def philox(words):
    return np.stack(run(lambda *w: philox4x32(w[:4], w[4:]), [np.array(w, np.uint32) for w in words], uint32, 4))


@pytest.mark.parametrize(("counter", "key", "expected"), [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
     (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
])
def test_published_vectors(counter, key, expected):
    assert philox([[word] for word in (*counter, *key)])[:, 0].tolist() == list(expected)


def reference(counter, key):
    """Philox 4x32-10 in Python integers."""
    a, b, c, d = counter
    for i in range(10):
        k0, k1 = ((k + i * w) & 0xFFFFFFFF for k, w in zip(key, (0x9E3779B9, 0xBB67AE85), strict=True))
        first, second = a * 0xD2511F53, c * 0xCD9E8D57
        a, b, c, d = (second >> 32) ^ b ^ k0, second & 0xFFFFFFFF, (first >> 32) ^ d ^ k1, first & 0xFFFFFFFF
    return [a, b, c, d]


def test_random_counters_and_keys(rng):
    words = rng.integers(0, 1 << 32, (6, 100), np.uint32)
    got = philox(words)
    for column in range(100):
        w = words[:, column].tolist()
        assert got[:, column].tolist() == reference(w[:4], w[4:])


def stream(n):
    """2n words of one generator."""
    counter = np.arange(n, dtype=np.uint32)
    zero = np.zeros_like(counter)
    return philox([counter, zero, zero, zero, zero + np.uint32(7), zero])


EXTREMES = np.array([0, 1, 255, 256, 0x7FFFFFFF, 0x80000000, 0xFFFFFF00, 0xFFFFFFFF], np.uint32)


def test_uniform_float32():
    (x,) = run(uniform_float32, [EXTREMES], float32, 1)
    assert x.tolist() == [(int(w) >> 8) / 2**24 for w in EXTREMES]
    (x,) = run(uniform_float32, [stream(20000).ravel()], float32, 1)
    assert ((x >= 0) & (x < 1)).all()
    assert stats.kstest(x, "uniform").pvalue > 0.01


def test_uniform_float64():
    (x,) = run(uniform_float64, [EXTREMES, EXTREMES[::-1].copy()], float64, 1)
    assert x.tolist() == [((int(a) >> 5 << 26) + (int(b) >> 6)) / 2**53
                          for a, b in zip(EXTREMES, EXTREMES[::-1], strict=True)]
    words = stream(20000)
    (x,) = run(uniform_float64, [words[0], words[1]], float64, 1)
    assert ((x >= 0) & (x < 1)).all()
    assert stats.kstest(x, "uniform").pvalue > 0.01


def test_normal_float32_follows_its_law():
    words = stream(50000)
    x, y = run(normal_float32, [words[0], words[1]], float32, 2)
    assert stats.kstest(x, "norm").pvalue > 0.01
    assert stats.kstest(y, "norm").pvalue > 0.01
    assert abs(np.corrcoef(x, y)[0, 1]) < 0.02
    assert abs(stats.kurtosis(np.concatenate((x, y)))) < 0.05


def test_normal_float32_is_finite_and_accurate_at_the_extremes(rng):
    words = np.concatenate((EXTREMES, rng.integers(0, 1 << 32, 2000, np.uint32)))
    a, b = (w.ravel() for w in np.meshgrid(words[:40], words))
    x, y = run(normal_float32, [a, b], float32, 2)
    assert np.isfinite(x).all()
    assert np.isfinite(y).all()
    u = ((a >> 1).astype(np.float32) + np.float32(0.5)).astype(np.float64) * 2.0**-31
    radius, angle = np.sqrt(-2 * np.log(u)), 2 * np.pi * (b / 2.0**32)
    assert np.abs(x - radius * np.cos(angle)).max() < 2e-6
    assert np.abs(y - radius * np.sin(angle)).max() < 2e-6
    assert max(np.abs(x).max(), np.abs(y).max()) < 6.7


def test_normal_float64_is_finite_and_accurate(rng):
    words = [np.concatenate((EXTREMES, rng.integers(0, 1 << 32, 5000, np.uint32))) for _ in range(4)]
    x, y = run(lambda a, b, c, d: normal_float64((a, b), (c, d)), words, float64, 2)
    uniform = [(np.floor(a / 2.0**5) * 2.0**26 + np.floor(b / 2.0**6)) * 2.0**-53
               for a, b in (words[:2], words[2:])]
    radius, angle = np.sqrt(-2 * np.log(1 - uniform[0])), 2 * np.pi * uniform[1]
    np.testing.assert_allclose(x, radius * np.cos(angle), rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(y, radius * np.sin(angle), rtol=1e-14, atol=1e-14)
    assert max(np.abs(x).max(), np.abs(y).max()) < 8.6
