"""Recurrent layers by one kernel against steps in float64, and their way back against finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from tensocket_cpu.device import CpuDevice
from tensocket_plugins.contract.dtypes import BY_NAME, bfloat16
from tensocket_plugins.ir.scalar import bfloat16_to_float32, float32_to_bfloat16

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
BOUNDS = {"float32": 2e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 2e-2}
#: Moments, examples, units: whole vectors and not, tasks that are full and not.
SIZES = [(5, 3, 20), (3, 13, 16), (1, 1, 1), (4, 7, 65)]


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def step(kind, x, sums, h, c):
    if kind == "lstm":
        i, f, g, o = np.split(x + sums, 4, -1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c
    if kind == "gru":
        (r, z, n), (rh, zh, nh) = np.split(x, 3, -1), np.split(sums, 3, -1)
        z, n = sigmoid(z + zh), np.tanh(n + sigmoid(r + rh) * nh)
        return n + z * (h - n), c
    return (np.tanh(x + sums) if kind == "rnn_tanh" else np.maximum(x + sums, 0)), c


def layer(kind, x, h, c, w, b, reverse):
    outputs, cells = np.zeros((len(x), *h.shape)), np.zeros((len(x), *h.shape))
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        h, c = step(kind, x[t], h @ w.T + b, h, c)
        outputs[t], cells[t] = h, c
    return outputs, cells


def operands(kind, size, rng):
    moments, count, units = size
    rows = GATES[kind] * units
    shapes = [(moments, count, rows), (count, units), (count, units), (rows, units), (rows,)]
    return [rng.standard_normal(shape) * 0.4 for shape in shapes]


def stored(values, dtype):
    return float32_to_bfloat16(values.astype(np.float32)) if dtype is bfloat16 else values.astype(dtype.numpy)


def read(values, dtype):
    return (bfloat16_to_float32(values) if dtype is bfloat16 else values).astype(np.float64)


def run(device, kind, arrays, dtype, *, reverse, bias=True, source=(None, None)):
    """Outputs, cells (of an LSTM) and saved; ``source`` are the weight and the bias of inputs."""
    x, h, c, w, b = arrays
    shape = (*x.shape[:2], h.shape[1])
    work = dtype.numpy if dtype.itemsize >= 4 else np.float32
    outs = [np.empty(shape, dtype.numpy) for _ in range(1 + (kind == "lstm"))]
    saved = np.empty((*shape[:2], 4 * shape[2]), work)
    states = [h, c] if kind == "lstm" else [h]
    kernel = device.kernels.find(f"{kind}_layer", dtype.name, direct=False)
    kernel.run([*outs, saved], [x, *source, *states, w, b if bias else None], (reverse,), device.default_stream)
    return [*outs, saved]


@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("kind", GATES)
def test_outputs(kind, name):
    device, dtype = CpuDevice(), BY_NAME[name]
    rng = np.random.default_rng(3)
    for number, size in enumerate(SIZES):
        arrays = [stored(x, dtype) for x in operands(kind, size, rng)]
        expected = [read(x, dtype) for x in arrays]
        bias, reverse = number % 2 == 0, number >= 2
        expected[4] = expected[4] * bias
        found = run(device, kind, arrays, dtype, reverse=reverse, bias=bias)
        for result, wanted in zip(found[:-1], layer(kind, *expected, reverse), strict=False):
            assert np.abs(read(result, dtype) - wanted).max() < BOUNDS[name] * max(1, wanted.max()), (size, reverse)


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("kind", GATES)
def test_inputs_are_multiplied_in_the_kernel(kind, name):
    device, dtype = CpuDevice(), BY_NAME[name]
    rng = np.random.default_rng(4)
    for number, size in enumerate(SIZES):
        # Half the weight, for sums of inputs are rounded, too, and every moment makes more of that.
        _, h, c, w, b = (stored(x / 2, dtype) for x in operands(kind, size, rng))
        x, weight = rng.standard_normal((*size[:2], number + 5)) * 0.4, rng.standard_normal((number + 5, len(w))) * 0.4
        x, weight, given = stored(x, dtype), stored(weight, dtype).T, stored(rng.standard_normal(len(w)), dtype)
        bias, reverse = number % 2 == 0, number >= 2
        source = weight, given if bias else None
        found = run(device, kind, [x, h, c, w, b], dtype, reverse=reverse, bias=bias, source=source)
        exact = [read(part, dtype) for part in (x, weight, given, h, c, w, b)]
        inputs = exact[0] @ exact[1].T + exact[2] * bias
        for result, wanted in zip(found[:-1], layer(kind, inputs, *exact[3:6], exact[6] * bias, reverse), strict=False):
            assert np.abs(read(result, dtype) - wanted).max() < BOUNDS[name] * max(1, wanted.max()), (size, reverse)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", GATES)
def test_way_back(kind, reverse):
    """A difference of all results along a direction is the product of gradients and this direction."""
    device, dtype = CpuDevice(), BY_NAME["float64"]
    rng = np.random.default_rng(5)
    for size in SIZES:
        x, h, c, w, b = arrays = operands(kind, size, rng)
        outputs, *cells, saved = run(device, kind, arrays, dtype, reverse=reverse)
        grads = [rng.standard_normal(outputs.shape) for _ in range(1 + len(cells))]
        states = [h, c][:1 + len(cells)]
        outs = [np.empty(x.shape) for _ in range(1 + (kind == "gru"))] + [np.empty(h.shape) for _ in states]
        kernel = device.kernels.find(f"{kind}_layer_gradients", "float64", direct=False)
        kernel.run(outs, [*grads, *states, w, outputs, *cells, saved], (reverse,), device.default_stream)
        changes, *firsts = (rng.standard_normal(part.shape) for part in (x, h, c))
        changes, small = [changes, *firsts[:len(states)]], 1e-6
        ends = []
        for sign in (1, -1):
            moved = [part + sign * small * d for part, d in zip((x, h, c), [*changes, 0 * c], strict=False)]
            found = layer(kind, *moved, w, b, reverse)
            ends.append(sum(float((g * part).sum()) for g, part in zip(grads, found, strict=False)))
        gradients = [outs[0], *outs[len(outs) - len(states):]]
        expected = sum(float((g * d).sum()) for g, d in zip(gradients, changes, strict=True))
        assert (ends[0] - ends[1]) / (2 * small) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("kind", GATES)
def test_threads_change_nothing(kind):
    results = []
    for threads in (1, 4):
        device = CpuDevice()
        device.set_num_threads(threads)
        arrays = [x.astype(np.float32) for x in operands(kind, (6, 29, 33), np.random.default_rng(7))]
        results.append(run(device, kind, arrays, BY_NAME["float32"], reverse=False)[0])
    assert np.array_equal(*results)
