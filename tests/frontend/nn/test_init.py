"""Initial values: bounds and moments against the published formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

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


@pytest.mark.parametrize(("fill", "shape"), [(init.kaiming_uniform_, (0, 3)), (init.kaiming_normal_, (3, 0))])
def test_empty_tensors_stay_empty(fill, shape):
    with pytest.warns(UserWarning, match="Initializing zero-element tensors is a no-op"):
        assert fill(torch.empty(shape)).shape == shape


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


@pytest.mark.parametrize(("mean", "std", "a", "b"), [(0.0, 1.0, -2.0, 2.0), (1.0, 0.5, 1.2, 3.0), (0.0, 1.0, 1.5, 1.6)])
def test_truncated_normal_values(mean, std, a, b):
    torch.manual_seed(0)
    values = np.sort(init.trunc_normal_(torch.empty(4000), mean, std, a, b).double().numpy())
    assert a <= values[0] <= values[-1] <= b
    reference = scipy.stats.truncnorm((a - mean) / std, (b - mean) / std, mean, std)
    assert scipy.stats.kstest(values, reference.cdf).pvalue > 1e-3


def test_truncated_normal_values_far_from_the_mean_warn():
    with pytest.warns(UserWarning, match="mean is more than 2 std"):
        values = init.trunc_normal_(torch.empty(50), mean=0.0, std=1.0, a=6.0, b=7.0)
    assert values.min().item() >= 6.0
    assert init.trunc_normal_(torch.empty(3, device="meta")).is_meta


def test_identity():
    assert init.eye_(torch.ones(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(ShapeError, match="Only tensors with 2 dimensions are supported"):
        init.eye_(torch.ones(2))


def test_dirac_passes_channels_on():
    weight = init.dirac_(torch.ones(4, 2, 3, 3), groups=2)
    wanted = np.zeros((4, 2, 3, 3))
    for channel in range(4):
        wanted[channel, channel % 2, 1, 1] = 1
    assert np.array_equal(weight.numpy(), wanted)
    assert init.dirac_(torch.ones(1, 2, 5)).nonzero().tolist() == [[0, 0, 2]]
    with pytest.raises(ShapeError, match="Only tensors with 3, 4, or 5 dimensions are supported"):
        init.dirac_(torch.ones(2, 2))
    with pytest.raises(ShapeError, match="dim 0 must be divisible by groups"):
        init.dirac_(torch.ones(3, 2, 1), groups=2)


@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 5), (2, 2, 3)])
def test_orthogonal_matrices(shape):
    matrix = init.orthogonal_(torch.empty(shape), gain=2.0).numpy().reshape(shape[0], -1)
    small = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    assert small == pytest.approx(4 * np.eye(len(small)), abs=1e-5)
    with pytest.raises(ShapeError, match="Only tensors with 2 or more dimensions are supported"):
        init.orthogonal_(torch.empty(3))
    assert init.orthogonal_(torch.empty(0, 3)).shape == (0, 3)


def test_sparse_columns():
    matrix = init.sparse_(torch.empty(10, 4), sparsity=0.25).numpy()
    assert (matrix == 0).sum(0).tolist() == [3, 3, 3, 3]
    with pytest.raises(ShapeError, match="Only tensors with 2 dimensions are supported"):
        init.sparse_(torch.empty(3), 0.5)
