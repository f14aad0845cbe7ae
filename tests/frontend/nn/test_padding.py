"""Borders of images, of every mode and element type, against NumPy; their derivatives against finite differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensocket as ts

F = ts.nn.functional
MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap", "constant": "constant"}
CASES = [((3, 4, 7, 9), (2, 3, 1, 4)), ((3, 7, 9), (0, 3, 6, 0)), ((2, 50), (3, 1)),
         ((2, 3, 4, 5, 6), (1, 2, 3, 0, 2, 2)), ((2, 3, 40, 70), (1, 1, 1, 1)), ((2, 3, 5), (0, 0)),
         ((2, 3, 4, 5), (-1, 2, 1, -1))]


@pytest.fixture
def rng():
    return np.random.default_rng(20)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int16", "uint8", "bool", "complex128"])
@pytest.mark.parametrize(("shape", "pad"), CASES)
def test_borders_are_those_of_numpy(rng, mode, dtype, shape, pad):
    x = (rng.standard_normal(shape) * 5).astype(dtype)
    sides = [(0, 0)] * (len(shape) - len(pad) // 2) + [(pad[k], pad[k + 1]) for k in range(len(pad) - 2, -1, -2)]
    kept = tuple(slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(shape, sides, strict=True))
    grown = [(max(low, 0), max(high, 0)) for low, high in sides]
    given = {"constant_values": 3} if mode == "constant" else {}
    if mode == "reflect" and min(pad) < 0:
        pytest.skip("what is cut off may be reflected")
    expected = np.pad(x[kept], grown, mode=MODES[mode], **given)
    got = F.pad(ts.from_numpy(x), pad, mode, 3 if mode == "constant" else None)
    np.testing.assert_array_equal(got.numpy(), expected)


def test_a_border_around_channels_last_keeps_the_layout(rng):
    x = rng.standard_normal((2, 3, 6, 5)).astype(np.float32)
    image = ts.from_numpy(x).contiguous(memory_format=ts.channels_last)
    got = F.pad(image, (1, 2, 2, 1), "reflect")
    assert got.is_contiguous(memory_format=ts.channels_last)
    np.testing.assert_array_equal(got.numpy(), np.pad(x, ((0, 0), (0, 0), (2, 1), (1, 2)), "reflect"))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize(("shape", "pad"), [((2, 3, 4, 5), (2, 3, 1, 2)), ((2, 1, 7), (3, 0))])
def test_gradients_of_borders(rng, mode, shape, pad):
    x = ts.from_numpy(rng.standard_normal(shape)).requires_grad_()
    assert ts.autograd.gradcheck(lambda x: F.pad(x, pad, mode), (x,))
    assert ts.autograd.gradgradcheck(lambda x: F.pad(x, pad, mode) ** 2, (x,))


def test_borders_of_examples_and_tangents(rng):
    x, t = (ts.from_numpy(rng.standard_normal((4, 2, 5, 6))) for _ in range(2))
    pad = (1, 2, 1, 1)
    each = ts.func.vmap(lambda image: F.pad(image, pad, "reflect"))(x)
    np.testing.assert_array_equal(each.numpy(), np.pad(x.numpy(), ((0, 0), (0, 0), (1, 1), (1, 2)), "reflect"))
    _, tangent = ts.func.jvp(lambda image: F.pad(image, pad, "circular"), (x,), (t,))
    np.testing.assert_array_equal(tangent.numpy(), np.pad(t.numpy(), ((0, 0), (0, 0), (1, 1), (1, 2)), "wrap"))


def placed(values, pad, mode):
    """Borders by the position that each element comes from."""
    for k in range(len(pad) // 2):
        axis, n = values.ndim - 1 - k, values.shape[values.ndim - 1 - k]
        at = np.arange(-pad[2 * k], n + pad[2 * k + 1])
        at = at.clip(0, n - 1) if mode == "replicate" else n - 1 - np.abs(n - 1 - np.abs(at))
        values = np.take(values, at, axis)
    return values


@pytest.mark.parametrize("mode", ["replicate", "reflect"])
@pytest.mark.parametrize("shape", [(2, 5), (2, 3, 6), (2, 3, 5, 6), (300, 3, 5, 6)])
def test_borders_that_crop(shape, mode):
    values = np.random.default_rng(0).standard_normal(shape)
    for dims in {1, 2} & {len(shape) - 1, len(shape) - 2}:
        for pad in itertools.product((-4, -2, 0, 1, 3), repeat=2 * dims):
            if all(n + low + high > 0 <= n + min(low, 0) + min(high, 0) and max(low, high) < n
                   for n, low, high in zip(shape[::-1], pad[::2], pad[1::2], strict=False)):
                made = F.pad(ts.tensor(values), pad, mode)
                np.testing.assert_array_equal(made.numpy(), placed(values, pad, mode))


@pytest.mark.parametrize(("pad", "mode"), [((-4, 5, 0, 0), "replicate"), ((-1, 2, 1, -2), "reflect"),
                                           ((2, -1, -1, 3), "replicate"), ((-2, -1, 0, 1), "reflect")])
def test_gradients_of_borders_that_crop(pad, mode):
    x = ts.tensor(np.random.default_rng(1).standard_normal((2, 2, 4, 4)), requires_grad=True)
    assert ts.autograd.gradcheck(lambda x: F.pad(x, pad, mode), (x,))
    assert ts.autograd.gradgradcheck(lambda x: F.pad(x, pad, mode), (x,))
