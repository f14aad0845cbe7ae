"""Attention by blocks against all scores in float64, and its way back against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_cpu.device import CpuDevice
from tensocket_plugins.contract.dtypes import BY_NAME, bfloat16, float32
from tensocket_plugins.ir.scalar import bfloat16_to_float32, float32_to_bfloat16

BOUNDS = {"float32": 2e-6, "float64": 1e-14, "float16": 4e-3, "bfloat16": 3e-2}
#: A, heads, heads of keys, L, S, E, V, the mask's kind, whether it is causal.
CASES = [
    (1, 1, 1, 1, 1, 1, 1, "", False),
    (2, 4, 2, 30, 70, 20, 33, "", True),
    (2, 2, 1, 50, 130, 16, 80, "bool", False),
    (1, 3, 3, 9, 65, 32, 17, "float", False),
    (1, 2, 2, 75, 40, 64, 48, "turned", True),
]


def attend(q, k, v, mask, causal, scale):
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(2, 3) * scale
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[2:], bool)), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    largest = scores.max(-1, keepdims=True)
    weights = np.exp(scores - np.where(np.isinf(largest), 0, largest))
    total = weights.sum(-1, keepdims=True)
    return np.where(total == 0, 0, (weights @ v) / np.where(total == 0, 1, total))


def operands(case, rng):
    a, b, heads, queries, keys, depth, size, kind, _ = case
    q, k, v = (rng.standard_normal(shape) for shape in (
        (a, b, queries, depth), (a, heads, keys, depth), (a, heads, keys, size)))
    if kind == "bool":
        mask = rng.random((a, 1, queries, keys)) > 0.4
        mask[0, 0, :2] = False
    elif kind:
        mask = rng.standard_normal((queries, keys) if kind == "float" else (keys, queries))
        mask = mask if kind == "float" else mask.T
    return q, k, v, np.broadcast_to(mask, (a, b, queries, keys)) if kind else None


def stored(values, dtype):
    if values is None or values.dtype == bool:
        return values
    if dtype is not bfloat16:
        return values.astype(dtype.numpy)
    return float32_to_bfloat16(values.astype(np.float32))


def read(values, dtype):
    if values is None or values.dtype == bool:
        return values
    return (bfloat16_to_float32(values) if dtype is bfloat16 else values).astype(np.float64)


def run(device, arrays, dtype, causal):
    """Results and logarithms of sums."""
    q, k, v, mask = arrays
    work = dtype.numpy if dtype.itemsize >= 4 else np.float32
    out, sums = np.empty((*q.shape[:3], v.shape[3]), dtype.numpy), np.empty(q.shape[:3], work)
    kernel = device.kernels.find("attend", dtype.name, direct=False)
    kernel.run([out, sums], [q, k, v, mask], (causal, 0.3), device.default_stream)
    return out, sums


def gradients(device, arrays, dtype, causal, grad):
    out, sums = run(device, arrays, dtype, causal)
    outs = [np.empty(x.shape, dtype.numpy) for x in arrays[:3]]
    kernel = device.kernels.find("attend_gradients", dtype.name, direct=False)
    kernel.run(outs, [grad, *arrays, out, sums], (causal, 0.3), device.default_stream)
    return outs


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_results(case, name):
    device, dtype = CpuDevice(), BY_NAME[name]
    arrays = [stored(x, dtype) for x in operands(case, np.random.default_rng(1))]
    found, _ = run(device, arrays, dtype, case[-1])
    expected = attend(*(read(x, dtype) for x in arrays), case[-1], 0.3)
    assert np.abs(read(found, dtype) - expected).max() < BOUNDS[name] * np.abs(expected).max()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_way_back(case):
    """The difference of results along a direction is the product of gradients and this direction."""
    device, dtype = CpuDevice(), BY_NAME["float64"]
    rng = np.random.default_rng(2)
    q, k, v, mask = operands(case, rng)
    grad = rng.standard_normal((*q.shape[:3], v.shape[3]))
    outs = gradients(device, (q, k, v, mask), dtype, case[-1], grad)
    small = 1e-6
    for number, found in enumerate(outs):
        direction = rng.standard_normal(found.shape)
        ends = [float((grad * attend(*(x + sign * small * direction if n == number else x
                                       for n, x in enumerate((q, k, v))), mask, case[-1], 0.3)).sum())
                for sign in (1, -1)]
        assert (ends[0] - ends[1]) / (2 * small) == pytest.approx(float((found * direction).sum()), rel=1e-6, abs=1e-7)


def test_turned_operands_and_repeated_gradients():
    """Heads and positions in another order of memory, and a gradient that is the same everywhere."""
    device, rng = CpuDevice(), np.random.default_rng(3)
    q, k, v = (rng.standard_normal((2, 30, 3, 32)).astype(np.float32).swapaxes(1, 2) for _ in range(3))
    grad = np.broadcast_to(np.float32(0.5), q.shape)
    found = [run(device, (q, k, v, None), float32, True)[0], *gradients(device, (q, k, v, None), float32, True, grad)]
    plain = [np.ascontiguousarray(x) for x in (q, k, v)]
    other = [run(device, (*plain, None), float32, True)[0],
             *gradients(device, (*plain, None), float32, True, np.ascontiguousarray(grad))]
    assert all(np.array_equal(x, y) for x, y in zip(found, other, strict=True))
    assert np.abs(found[0] - attend(q, k, v, None, True, 0.3)).max() < 2e-6


def test_infinite_and_missing_numbers():
    """A NaN stays in its row, a score of -inf has no weight, and a row of these is zero."""
    device, rng = CpuDevice(), np.random.default_rng(4)
    q, k, v, _ = (stored(x, float32) for x in operands(CASES[1], rng))
    q[0, 0, 3, 0] = np.nan
    mask = np.zeros((2, 4, 30, 70), np.float32)
    mask[:, :, 5] = -np.inf
    out, sums = run(device, (q, k, v, mask), float32, False)
    assert np.isnan(out[0, 0, 3]).all()
    assert np.isnan(out).sum() == out.shape[3]
    assert (out[:, :, 5] == 0).all()
    assert (sums[:, :, 5] == 0).all()
    grads = gradients(device, (np.nan_to_num(q), k, v, mask), float32, False, np.ones_like(out))
    assert all(np.isfinite(x).all() for x in grads)
    assert (grads[0][:, :, 5] == 0).all()


def test_threads_change_nothing():
    results = []
    for threads in (1, 4):
        device = CpuDevice()
        device.set_num_threads(threads)
        arrays = [stored(x, float32) for x in operands(CASES[2], np.random.default_rng(5))]
        grad = np.ones((*arrays[0].shape[:3], arrays[2].shape[3]), np.float32)
        results.append([run(device, arrays, float32, False)[0], *gradients(device, arrays, float32, False, grad)])
    assert all(np.array_equal(x, y) for x, y in zip(*results, strict=True))
