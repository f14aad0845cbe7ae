"""Initial values: bounds and moments against the published formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket as torch
from tensocket.errors import ArgumentError, ShapeError
from tensocket.nn import init

SHAPE = (400, 250)


def drawn(function, *args, **kwargs):
    torch.manual_seed(5)
    tensor = torch.empty(*SHAPE)
    assert function(tensor, *args, **kwargs) is tensor
    return tensor.numpy().astype(np.float64)


def check_uniform(values, low, high):
    assert values.min() >= low - 1e-6
    assert values.max() <= high + 1e-6
    # With 100,000 values the standard error of the mean is below 0.4 % of half the range.
    assert abs(values.mean() - (low + high) / 2) < 0.01 * (high - low)
    assert abs(values.std() - (high - low) / math.sqrt(12)) < 0.01 * (high - low)


def check_normal(values, mean, std):
    assert abs(values.mean() - mean) < 0.02 * std
    assert abs(values.std() - std) < 0.02 * std
    # A share of 0.0455 of normal values lies beyond two standard deviations.
    assert abs((abs(values - mean) > 2 * std).mean() - 0.0455) < 0.005


def test_uniform():
    check_uniform(drawn(init.uniform_, -2.0, 3.0), -2.0, 3.0)


def test_normal():
    check_normal(drawn(init.normal_, 1.5, 0.5), 1.5, 0.5)


def test_constants():
    assert (drawn(init.constant_, 2.5) == 2.5).all()
    assert (drawn(init.ones_) == 1).all()
    assert (drawn(init.zeros_) == 0).all()


def test_xavier():
    bound = 2.0 * math.sqrt(6 / (400 + 250))
    check_uniform(drawn(init.xavier_uniform_, gain=2.0), -bound, bound)
    check_normal(drawn(init.xavier_normal_), 0, math.sqrt(2 / (400 + 250)))


def test_kaiming():
    bound = math.sqrt(2 / (1 + 5)) * math.sqrt(3 / 250)
    check_uniform(drawn(init.kaiming_uniform_, a=math.sqrt(5)), -bound, bound)
    check_normal(drawn(init.kaiming_normal_, mode="fan_out", nonlinearity="relu"), 0, math.sqrt(2 / 400))


def test_linear_starts_within_one_over_the_root_of_its_inputs():
    torch.manual_seed(1)
    layer = torch.nn.Linear(400, 300)
    check_uniform(layer.weight.detach().numpy().astype(np.float64), -0.05, 0.05)
    bias = layer.bias.detach().numpy()
    assert abs(bias).max() <= 0.05
    assert abs(bias).max() > 0.045


def test_fans_count_the_receptive_field():
    assert init.calculate_fans(torch.empty(8, 4, 3, 3)) == (36, 72)


def test_values_come_from_the_generator():
    first, second = (init.normal_(torch.empty(50), generator=torch.Generator().manual_seed(3)) for _ in range(2))
    assert first.tolist() == second.tolist()


def test_no_gradient_is_recorded():
    parameter = torch.nn.Parameter(torch.empty(3, 3))
    init.xavier_uniform_(parameter)
    assert parameter.is_leaf
    assert parameter.requires_grad


def test_empty_tensors_stay_empty():
    assert init.kaiming_uniform_(torch.empty(0, 3)).shape == (0, 3)
    assert init.kaiming_normal_(torch.empty(3, 0)).shape == (3, 0)


@pytest.mark.parametrize(("name", "param", "gain"), [
    ("linear", None, 1), ("conv2d", None, 1), ("sigmoid", None, 1), ("tanh", None, 5 / 3), ("relu", None, math.sqrt(2)),
    ("leaky_relu", None, math.sqrt(2 / (1 + 1e-4))), ("leaky_relu", 0.5, math.sqrt(1.6)), ("selu", None, 0.75)])
def test_gains(name, param, gain):
    assert init.calculate_gain(name, param) == pytest.approx(gain, rel=1e-12)


def test_unknown_gains():
    with pytest.raises(ArgumentError, match=r"\[calculate_gain\] nonlinearity 'relo' — a gain is known for conv1d"):
        init.calculate_gain("relo")
    with pytest.raises(ArgumentError, match=r"\[calculate_gain\] negative slope 'x' — the slope is a number"):
        init.calculate_gain("leaky_relu", "x")


def test_fans_need_two_dimensions():
    with pytest.raises(ShapeError, match=r"\[init\] a tensor of shape \(3,\) — "
                                         "fan in and fan out need at least two dimensions"):
        init.xavier_uniform_(torch.empty(3))


def test_unknown_mode():
    with pytest.raises(ArgumentError, match=r"\[init\] mode 'fan' — mode is 'fan_in' or 'fan_out'"):
        init.kaiming_uniform_(torch.empty(3, 3), mode="fan")
