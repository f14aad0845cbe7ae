"""Convolutions against sums over windows in NumPy."""

from __future__ import annotations

import copy
import itertools
import math

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(5)
SPACE = {1: (9,), 2: (7, 6), 3: (5, 4, 6)}
KERNEL = {1: (3,), 2: (3, 2), 3: (2, 3, 2)}
MODES = {"zeros": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def t(values):
    return torch.tensor(values)


def data(*shape):
    return RNG.normal(size=shape)


def values(tensor):
    return tensor.detach().numpy()


def convolved(x, weight, bias, stride, dilation, groups):
    """Sums of windows of padded ``x`` (N, C, *space), weighted."""
    kernel = weight.shape[2:]
    space = [(n - d * (k - 1) - 1) // s + 1
             for n, k, s, d in zip(x.shape[2:], kernel, stride, dilation, strict=True)]
    result = np.zeros((x.shape[0], weight.shape[0], *space))
    inputs, outputs = weight.shape[1], weight.shape[0] // groups
    for place in itertools.product(*map(range, space)):
        window = x[(..., *(slice(p * s, p * s + d * (k - 1) + 1, d)
                           for p, s, d, k in zip(place, stride, dilation, kernel, strict=True)))]
        for channel in range(weight.shape[0]):
            own = window[:, channel // outputs * inputs:(channel // outputs + 1) * inputs]
            result[(slice(None), channel, *place)] = (own * weight[channel]).reshape(len(x), -1).sum(1)
    return result + bias.reshape(-1, *[1] * len(kernel))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_convolutions_of_padded_inputs(dims, mode):
    kind = getattr(nn, f"Conv{dims}d")
    layer = kind(4, 6, KERNEL[dims], stride=2, padding=1, groups=2, padding_mode=mode, dtype=torch.float64)
    x = data(2, 4, *SPACE[dims])
    padded = np.pad(x, [(0, 0), (0, 0), *[(1, 1)] * dims], mode=MODES[mode])
    expected = convolved(padded, values(layer.weight), values(layer.bias), (2,) * dims, (1,) * dims, 2)
    np.testing.assert_allclose(values(layer(t(x))), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(values(layer(t(x[0]))), expected[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("kernel", "dilation", "mode"), [(3, 2, "zeros"), (4, 1, "reflect"), (2, 1, "circular")])
def test_padding_that_keeps_the_size(kernel, dilation, mode):
    layer = nn.Conv1d(2, 3, kernel, padding="same", dilation=dilation, padding_mode=mode, dtype=torch.float64)
    x = data(2, 2, 9)
    total = dilation * (kernel - 1)
    padded = np.pad(x, [(0, 0), (0, 0), (total // 2, total - total // 2)], mode=MODES[mode])
    expected = convolved(padded, values(layer.weight), values(layer.bias), (1,), (dilation,), 1)
    assert expected.shape == (2, 3, 9)
    np.testing.assert_allclose(values(layer(t(x))), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_transposed_convolutions_are_adjoint(dims):
    options = {"stride": 2, "padding": 1, "dilation": 1, "groups": 2, "bias": False, "dtype": torch.float64}
    forward = getattr(nn, f"Conv{dims}d")(6, 4, 3, **options)
    backward = getattr(nn, f"ConvTranspose{dims}d")(4, 6, 3, **options)
    backward.load_state_dict(forward.state_dict())
    x = data(2, 6, *SPACE[dims])
    image = forward(t(x))
    y = data(*image.shape)
    back = backward(t(y), output_size=SPACE[dims])
    assert back.shape == x.shape
    assert (image * t(y)).sum().item() == pytest.approx((back * t(x)).sum().item(), rel=1e-10)
    biased = getattr(nn, f"ConvTranspose{dims}d")(4, 6, 3, stride=2, dtype=torch.float64)
    zero = biased(torch.zeros(2, 4, *[3] * dims, dtype=torch.float64))
    assert values(zero).std(axis=(0, *range(2, dims + 2))).max() < 1e-15
    np.testing.assert_allclose(values(zero)[0].reshape(6, -1)[:, 0], values(biased.bias), rtol=1e-12)


def test_sizes_of_transposed_convolutions():
    layer = nn.ConvTranspose2d(2, 4, 3, stride=2)
    x = torch.zeros(1, 2, 5, 5)
    assert layer(x).shape == (1, 4, 11, 11)
    assert layer(x, [12, 11]).shape == layer(x, (1, 4, 12, 11)).shape == (1, 4, 12, 11)
    assert layer(x[0], (4, 12, 11)).shape == (4, 12, 11)
    assert nn.ConvTranspose2d(2, 4, 3, stride=2, output_padding=(1, 0))(x).shape == (1, 4, 12, 11)
    with pytest.raises(ShapeError, match=r"output_size \[13, 12\] — valid sizes range from \[11, 11\] to \[12, 12\]"):
        layer(x, (13, 12))
    with pytest.raises(ShapeError, match="output_size has a number for each dimension of space"):
        layer(x, (4, 12, 12))


@pytest.mark.parametrize(("options", "rule"), [
    ({"groups": 0}, "groups must be a positive integer"), ({"groups": 3}, "in_channels must be divisible by groups"),
    ({"groups": 2, "out_channels": 3}, "out_channels must be divisible by groups"),
    ({"padding": "full"}, "a padding string is 'valid' or 'same'"),
    ({"padding": "same", "stride": 2}, "padding='same' is not supported for strided convolutions"),
    ({"padding_mode": "mirror"}, "padding_mode must be one of zeros, reflect, replicate, circular"),
])
def test_arguments_that_exclude_each_other(options, rule):
    with pytest.raises(ArgumentError, match=rule):
        nn.Conv2d(**{"in_channels": 4, "out_channels": 4, "kernel_size": 3, **options})


def test_transposed_convolutions_pad_with_zeros():
    with pytest.raises(ValueError, match='Only "zeros" padding mode is supported for ConvTranspose1d'):
        nn.ConvTranspose1d(2, 2, 3, padding_mode="reflect")


@pytest.mark.parametrize(("layer", "text"), [
    (nn.Conv1d(2, 4, 3), "Conv1d(2, 4, kernel_size=(3,), stride=(1,))"),
    (nn.Conv2d(2, 4, 3, 2, (1, 0), 2, 2, False, "circular"),
     "Conv2d(2, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 0), dilation=(2, 2), groups=2, bias=False, "
     "padding_mode=circular)"),
    (nn.Conv2d(2, 4, 3, padding="same"), "Conv2d(2, 4, kernel_size=(3, 3), stride=(1, 1), padding=same)"),
    (nn.ConvTranspose2d(2, 4, 3, 2, 1, 1),
     "ConvTranspose2d(2, 4, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), output_padding=(1, 1))"),
])
def test_printing(layer, text):
    assert repr(layer) == repr(copy.deepcopy(layer)) == text


def test_initial_values_are_uniform():
    torch.manual_seed(0)
    layer = nn.Conv2d(8, 40, 5)
    bound = 1 / math.sqrt(8 * 25)
    for parameter in (layer.weight, layer.bias):
        assert parameter.abs().max().item() <= bound
    assert layer.weight.abs().max().item() > 0.99 * bound
    assert abs(layer.weight.std().item() - bound / math.sqrt(3)) < 0.02 * bound
    assert list(layer.state_dict()) == ["weight", "bias"]
    assert nn.ConvTranspose2d(4, 6, 3, groups=2).weight.shape == (4, 3, 3, 3)


def test_subclasses_convolve_with_other_parameters():
    class Doubled(nn.Conv1d):
        def _conv_forward(self, input, weight, bias):
            return super()._conv_forward(input, weight * 2, None if bias is None else bias * 2)

    plain = nn.Conv1d(1, 2, 3)
    doubled = Doubled(1, 2, 3)
    doubled.load_state_dict(plain.state_dict())
    x = torch.ones(1, 1, 5)
    np.testing.assert_allclose(values(doubled(x)), 2 * values(plain(x)), rtol=1e-6)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("name", ["Conv", "ConvTranspose"])
def test_lazy_convolutions_count_channels(name, dims):
    lazy = getattr(nn, f"Lazy{name}{dims}d")(6, 3, groups=2).double()
    assert lazy.in_channels == 0
    assert len(lazy.state_dict()) == 2
    x = t(data(4, *SPACE[dims]) if dims == 2 else data(2, 4, *SPACE[dims]))
    result = lazy(x)
    kind = getattr(nn, f"{name}{dims}d")
    assert type(lazy) is kind
    assert lazy.in_channels == 4
    plain = kind(4, 6, 3, groups=2, dtype=torch.float64)
    plain.load_state_dict(lazy.state_dict())
    assert plain(x).equal(result)
    assert repr(plain) == repr(lazy)


def test_what_lazy_convolutions_refuse():
    with pytest.raises(ShapeError, match=r"\[Conv2d\] input of shape \[3\] — an input has 3 or 4 dimensions"):
        nn.LazyConv2d(3, 3)(torch.zeros(3))
    with pytest.raises(ArgumentError, match="in_channels must be divisible by groups"):
        nn.LazyConv2d(3, 3, groups=3)(torch.zeros(1, 4, 5, 5))


def test_lazy_convolutions_load_states():
    plain, lazy = nn.Conv2d(2, 3, 3), nn.LazyConv2d(3, 3)
    lazy.load_state_dict(plain.state_dict())
    x = torch.ones(1, 2, 4, 4)
    assert lazy(x).equal(plain(x))
