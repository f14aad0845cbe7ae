"""Pooling, padding and rearrangement against NumPy."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(6)
SPACE = {1: (9,), 2: (7, 6), 3: (5, 4, 6)}
X = {dims: RNG.permutation(2 * 3 * int(np.prod(space))).reshape(2, 3, *space) / 10 for dims, space in SPACE.items()}


def close(result, expected):
    np.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-10, atol=1e-12)


def windows(x, kernel, stride):
    """(N, C, *windows, elements) of a window."""
    dims = x.ndim - 2
    space = [(n - kernel) // stride + 1 for n in x.shape[2:]]
    result = np.zeros((*x.shape[:2], *space, kernel**dims))
    for place in itertools.product(*map(range, space)):
        window = x[(..., *(slice(p * stride, p * stride + kernel) for p in place))]
        result[(slice(None), slice(None), *place)] = window.reshape(*x.shape[:2], -1)
    return result


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_pooling(dims):
    x = X[dims]
    cut = windows(x, 3, 2)
    given = torch.tensor(x)
    close(getattr(nn, f"MaxPool{dims}d")(3, 2)(given), cut.max(-1))
    close(getattr(nn, f"AvgPool{dims}d")(3, 2)(given), cut.mean(-1))
    close(getattr(nn, f"LPPool{dims}d")(3, 3, 2)(given), (cut**3).sum(-1) ** (1 / 3))
    close(getattr(nn, f"MaxPool{dims}d")(2)(given), windows(x, 2, 2).max(-1))
    padded = np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * dims])
    close(getattr(nn, f"AvgPool{dims}d")(3, 2, padding=1)(given), windows(padded, 3, 2).mean(-1))
    counts = windows(np.pad(np.ones_like(x), [(0, 0), (0, 0), *[(1, 1)] * dims]), 3, 2).sum(-1)
    close(getattr(nn, f"AvgPool{dims}d")(3, 2, 1, count_include_pad=False)(given),
          windows(padded, 3, 2).sum(-1) / counts)


def test_divisors_of_means():
    close(nn.AvgPool2d(3, 2, divisor_override=2)(torch.tensor(X[2])), windows(X[2], 3, 2).sum(-1) / 2)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_maxima_go_back_to_where_they_were(dims):
    x = X[dims]
    pooled, indices = getattr(nn, f"MaxPool{dims}d")(2, return_indices=True)(torch.tensor(x))
    back = getattr(nn, f"MaxUnpool{dims}d")(2)(pooled, indices, output_size=x.shape).numpy()
    assert back.shape == x.shape
    kept = back != 0
    assert kept.sum() == pooled.numel() - (pooled.numpy() == 0).sum()
    np.testing.assert_array_equal(back[kept], x[kept])
    np.testing.assert_array_equal(np.sort(back[kept]), np.sort(pooled.numpy()[pooled.numpy() != 0], axis=None))


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_adaptive_pooling(dims):
    x, size = X[dims], 3
    given = torch.tensor(x)
    means, largest = np.zeros((2, 3, *[size] * dims)), np.zeros((2, 3, *[size] * dims))
    for place in itertools.product(*[range(size)] * dims):
        part = x[(..., *(slice(p * n // size, -(-(p + 1) * n // size))
                         for p, n in zip(place, SPACE[dims], strict=True)))]
        means[(..., *place)] = part.mean(tuple(range(2, dims + 2)))
        largest[(..., *place)] = part.max(tuple(range(2, dims + 2)))
    close(getattr(nn, f"AdaptiveAvgPool{dims}d")(size)(given), means)
    close(getattr(nn, f"AdaptiveMaxPool{dims}d")(size)(given), largest)
    found, indices = getattr(nn, f"AdaptiveMaxPool{dims}d")(size, return_indices=True)(given)
    flat = x.reshape(2, 3, -1)
    np.testing.assert_array_equal(np.take_along_axis(flat, indices.numpy().reshape(2, 3, -1), 2).reshape(found.shape),
                                  largest)


def test_sizes_that_adaptive_pooling_keeps():
    assert nn.AdaptiveAvgPool2d((3, None))(torch.tensor(X[2])).shape == (2, 3, 3, 6)
    close(nn.AdaptiveAvgPool2d(1)(torch.tensor(X[2])), X[2].mean((2, 3), keepdims=True))


@pytest.mark.parametrize("dims", [2, 3])
def test_fractional_pooling_takes_maxima_of_windows(dims):
    kind = getattr(nn, f"FractionalMaxPool{dims}d")
    x = X[dims]
    result, indices = kind(2, output_size=3, return_indices=True)(torch.tensor(x))
    assert result.shape == (2, 3, *[3] * dims)
    taken = np.take_along_axis(x.reshape(2, 3, -1), indices.numpy().reshape(2, 3, -1), 2)
    np.testing.assert_array_equal(taken, result.flatten(2).numpy())
    assert kind(2, output_ratio=0.5)(torch.tensor(x)).shape[2:] == tuple(n // 2 for n in SPACE[dims])
    samples = torch.full((2, 3, dims), 0.25, dtype=torch.float64)
    fixed = kind(2, output_size=3, _random_samples=samples)
    assert fixed(torch.tensor(x)).equal(fixed(torch.tensor(x)))


@pytest.mark.parametrize(("options", "rule"), [
    ({}, "FractionalMaxPool2d requires specifying either an output size, or a pooling ratio"),
    ({"output_size": 2, "output_ratio": 0.5}, "only one of output_size and output_ratio may be specified"),
    ({"output_ratio": (0.5, 1.5)}, "output_ratio must be between 0 and 1")])
def test_numbers_of_fractional_windows(options, rule):
    with pytest.raises(ArgumentError, match=rule):
        nn.FractionalMaxPool2d(2, **options)


PADDING = {"Zero": {"mode": "constant"}, "Reflection": {"mode": "reflect"}, "Replication": {"mode": "edge"},
           "Circular": {"mode": "wrap"}}


@pytest.mark.parametrize("kind", PADDING)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_padding(dims, kind):
    layer = getattr(nn, f"{kind}Pad{dims}d")
    sizes = (1, 2, 2, 0, 1, 1)[:2 * dims]
    pairs = list(zip(sizes[::2], sizes[1::2], strict=True))[::-1]
    close(layer(sizes)(torch.tensor(X[dims])), np.pad(X[dims], [(0, 0), (0, 0), *pairs], **PADDING[kind]))
    close(layer(2)(torch.tensor(X[dims])), np.pad(X[dims], [(0, 0), (0, 0), *[(2, 2)] * dims], **PADDING[kind]))
    assert repr(layer(2)) == f"{kind}Pad{dims}d({(2,) * 2 * dims})"


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_padding_with_a_value(dims):
    layer = getattr(nn, f"ConstantPad{dims}d")(1, 3.5)
    close(layer(torch.tensor(X[dims])), np.pad(X[dims], [(0, 0), (0, 0), *[(1, 1)] * dims], constant_values=3.5))
    assert repr(layer) == f"ConstantPad{dims}d(padding={(1,) * 2 * dims}, value=3.5)"
    assert isinstance(getattr(nn, f"ZeroPad{dims}d")(1), getattr(nn, f"ConstantPad{dims}d"))


def test_dimensions_of_periodic_padding():
    with pytest.raises(ShapeError, match="expected 2D or 3D input"):
        nn.CircularPad1d(1)(torch.ones(3))


# ---- rearrangement and interpolation


def test_windows_as_columns_and_back():
    x = X[2]
    columns = nn.Unfold((3, 2), stride=(2, 2))(torch.tensor(x)).numpy()
    expected = [x[:, :, 2 * i:2 * i + 3, 2 * j:2 * j + 2].reshape(2, -1) for i in range(3) for j in range(3)]
    np.testing.assert_allclose(columns, np.stack(expected, 2))
    back = nn.Fold((7, 6), (3, 2), stride=2)(torch.tensor(columns))
    counts = nn.Fold((7, 6), (3, 2), stride=2)(nn.Unfold((3, 2), stride=2)(torch.ones(2, 3, 7, 6, dtype=torch.float64)))
    assert set(np.unique(counts.numpy())) == {1, 2}
    close(back / counts, x)
    assert repr(nn.Fold((4, 5), 2)) == "Fold(output_size=(4, 5), kernel_size=2, dilation=1, padding=0, stride=1)"
    assert repr(nn.Unfold(2, padding=1)) == "Unfold(kernel_size=2, dilation=1, padding=1, stride=1)"


def test_channels_and_pixels_change_places():
    x = np.arange(2 * 8 * 2 * 3.0).reshape(2, 8, 2, 3)
    larger = x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 4, 6)
    close(nn.PixelShuffle(2)(torch.tensor(x)), larger)
    close(nn.PixelUnshuffle(2)(torch.tensor(larger)), x)
    close(nn.ChannelShuffle(4)(torch.tensor(x)), x.reshape(2, 4, 2, 2, 3).swapaxes(1, 2).reshape(x.shape))
    texts = ("PixelShuffle(upscale_factor=2)", "PixelUnshuffle(downscale_factor=2)", "ChannelShuffle(groups=2)")
    for kind, text in zip((nn.PixelShuffle, nn.PixelUnshuffle, nn.ChannelShuffle), texts, strict=True):
        assert repr(kind(2)) == text


def test_upsampling():
    x = X[2]
    close(nn.UpsamplingNearest2d(scale_factor=2)(torch.tensor(x)), x.repeat(2, 2).repeat(2, 3))
    close(nn.Upsample(size=(14, 6))(torch.tensor(x)), x.repeat(2, 2))
    line = np.array([[[0.0, 2.0, 6.0]]])
    close(nn.Upsample(size=5, mode="linear", align_corners=True)(torch.tensor(line)), [[[0, 1, 2, 4, 6]]])
    corners = nn.UpsamplingBilinear2d(size=(9, 9))(torch.tensor(x)).numpy()
    np.testing.assert_allclose(corners[..., ::8, ::8], x[..., ::6, ::5], rtol=1e-12)
    assert repr(nn.Upsample(scale_factor=(2, 3))) == "Upsample(scale_factor=(2.0, 3.0), mode='nearest')"
    assert repr(nn.UpsamplingBilinear2d(4)) == "UpsamplingBilinear2d(size=4, mode='bilinear')"


@pytest.mark.parametrize(("layer", "text"), [
    (nn.MaxPool2d((2, 3), 1), "MaxPool2d(kernel_size=(2, 3), stride=1, padding=0, dilation=1, ceil_mode=False)"),
    (nn.AvgPool1d(3), "AvgPool1d(kernel_size=(3,), stride=(3,), padding=(0,))"),
    (nn.AvgPool2d(3, 2), "AvgPool2d(kernel_size=3, stride=2, padding=0)"),
    (nn.MaxUnpool2d(2), "MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))"),
    (nn.LPPool2d(2, 3), "LPPool2d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)"),
    (nn.AdaptiveMaxPool2d((3, None)), "AdaptiveMaxPool2d(output_size=(3, None))"),
    (nn.AdaptiveAvgPool1d(2), "AdaptiveAvgPool1d(output_size=2)"),
    (nn.FractionalMaxPool2d(3, 2), "FractionalMaxPool2d()"), (nn.CircularPad1d(2), "CircularPad1d((2, 2))")])
def test_printing(layer, text):
    assert repr(layer) == text


def test_windows_at_random_places_may_be_none():
    x = torch.ones(2, 3, 8, 8, requires_grad=True)
    values, places = nn.functional.fractional_max_pool2d(x, 2, output_size=(0, 1), return_indices=True)
    assert values.shape == places.shape == (2, 3, 0, 1)
    values.sum().backward()
    assert x.grad.abs().sum().item() == 0


def test_batches_without_images_are_unpooled_with_gradients():
    x = torch.ones(0, 4, 10, requires_grad=True)
    values, places = nn.functional.max_pool1d(x, 2, 2, return_indices=True)
    nn.functional.max_unpool1d(values, places, 2, 2).sum().backward()
    assert x.grad.shape == (0, 4, 10)
