"""Images of bytes are resized with whole weights, one dimension after the other, as in PyTorch on processors."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket_operators as tc
from tensocket_operators import functions as f

RNG = np.random.default_rng(7)


def cubic(x, a):
    x = abs(x)
    if x < 1:
        return (a + 2) * x ** 3 - (a + 3) * x ** 2 + 1
    return a * (x ** 3 - 5 * x ** 2 + 8 * x - 4) if x < 2 else 0.0


def line_weights(size, outputs, mode, antialias):
    """Weights of every element for every output, [outputs, size]: by the definition of the filters, in float64."""
    step = size / outputs
    stretch = max(step, 1.0) if antialias else 1.0
    radius = (1 if mode == "bilinear" else 2) * stretch
    made = np.zeros((outputs, size))
    for o in range(outputs):
        centre = (o + 0.5) * step
        for place in range(-4, size + 4):
            distance = (place + 0.5 - centre) / stretch
            if antialias and not (0 <= place < size and abs(distance) * stretch <= radius):
                continue
            weight = max(0.0, 1 - abs(distance)) if mode == "bilinear" else cubic(
                distance, -0.5 if antialias else -0.75)
            made[o, min(max(place, 0), size - 1)] += weight
    return made / made.sum(1, keepdims=True)


def resized_line(image, outputs, mode, antialias):
    weights = line_weights(image.shape[-1], outputs, mode, antialias)
    bits = 0
    while bits < 22 and int(0.5 + weights.max() * 2 ** (bits + 1)) < 1 << 15:
        bits += 1
    whole = (np.sign(weights) * np.floor(np.abs(weights) * 2 ** bits + 0.5)).astype(np.int64)
    return np.clip((image.astype(np.int64) @ whole.T + (1 << (bits - 1))) >> bits, 0, 255)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize(("given", "wanted"), [((12, 18), (5, 7)), ((6, 5), (9, 16)), ((9, 40), (20, 3)),
                                               ((4, 6), (4, 6))])
def test_bytes_are_rounded_after_each_dimension(device, mode, antialias, given, wanted):
    image = RNG.integers(0, 256, (2, 3, *given), dtype=np.uint8)
    made = f.interpolate(tc.tensor(image).to(device), wanted, mode=mode, antialias=antialias)
    rows = resized_line(image, wanted[1], mode, antialias)
    expected = resized_line(rows.swapaxes(-1, -2), wanted[0], mode, antialias).swapaxes(-1, -2)
    assert made.dtype is tc.uint8
    np.testing.assert_array_equal(made.tolist(), expected)


def test_a_resized_image_of_the_same_size_is_a_copy(device):
    image = tc.full((1, 1, 2, 2), 7, dtype=tc.uint8, device=device)
    made = f.interpolate(image, (2, 2), mode="bilinear")
    image.fill_(1)
    assert made.tolist() == [[[[7, 7], [7, 7]]]]


def test_bytes_without_data_have_the_shape_of_the_result():
    made = f.interpolate(tc.empty((1, 2, 8, 6), dtype=tc.uint8, device="meta"), (4, 9), mode="bicubic", antialias=True)
    assert (made.shape, made.dtype, made.device.type) == ((1, 2, 4, 9), tc.uint8, "meta")
