"""Fused layers, layouts of weights, gradients of convolutions and older names."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, ArgumentTypeError

RNG = np.random.default_rng(13)


def t(values):
    return torch.tensor(values)


def close(one, other):
    np.testing.assert_allclose(one.detach().numpy(), other.detach().numpy(), rtol=1e-9, atol=1e-11)


def used(bn):
    """A normalisation with statistics, in evaluation."""
    for name, value in bn.state_dict().items():
        if value.is_floating_point():
            value.copy_(t(RNG.uniform(0.5, 2, size=tuple(value.shape))))
        assert name in dict(bn.named_buffers()) or name in dict(bn.named_parameters())
    return bn.double().eval()


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize(("conv", "transpose"), [
    (nn.Conv2d(3, 4, 2), False), (nn.Conv2d(3, 4, 2, bias=False), False), (nn.ConvTranspose2d(3, 4, 2), True)])
def test_convolutions_take_over_normalisations(conv, transpose, affine):
    conv, bn = conv.double().eval(), used(nn.BatchNorm2d(4, affine=affine))
    fused = nn.utils.fuse_conv_bn_eval(conv, bn, transpose)
    x = t(RNG.normal(size=(2, 3, 5, 5)))
    close(fused(x), bn(conv(x)))
    assert fused is not conv
    assert isinstance(fused.weight, nn.Parameter)


def test_linear_layers_take_over_normalisations():
    linear, bn = nn.Linear(3, 4).double().eval(), used(nn.BatchNorm1d(4))
    x = t(RNG.normal(size=(2, 3)))
    close(nn.utils.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)))
    weight, bias = nn.utils.fuse_linear_bn_weights(linear.weight, linear.bias, bn.running_mean, bn.running_var, bn.eps,
                                                   bn.weight, bn.bias)
    close(nn.functional.linear(x, weight, bias), bn(linear(x)))


@pytest.mark.parametrize(("make", "rule"), [
    (lambda: nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 2, 1), nn.BatchNorm1d(2)), "layers are fused for evaluation"),
    (lambda: nn.utils.fuse_conv_bn_eval(nn.Conv1d(1, 2, 1).eval(), nn.BatchNorm1d(2, track_running_stats=False).eval()),
     "the statistics of training are part of the fused layer"),
    (lambda: nn.utils.fuse_linear_bn_eval(nn.Linear(1, 2).eval(), nn.BatchNorm1d(3).eval()),
     "the normalisation has the layer's number of features, or one")])
def test_what_is_not_fused(make, rule):
    with pytest.raises(ArgumentError, match=rule):
        make()


def test_weights_with_channels_last():
    model = nn.Sequential(nn.Conv2d(2, 3, (2, 3)), nn.Linear(3, 3))
    expected = model[0].weight.detach().clone()
    assert nn.utils.convert_conv2d_weight_memory_format(model, torch.channels_last) is model
    assert model[0].weight.stride() == (12, 1, 6, 2)
    assert model[0].weight.equal(expected)
    volume = nn.utils.convert_conv3d_weight_memory_format(nn.ConvTranspose3d(2, 3, 2), torch.channels_last_3d)
    assert volume.weight.is_contiguous(memory_format=torch.channels_last_3d)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_gradients_of_convolutions(dims):
    x = t(RNG.normal(size=(2, 4, *[5] * dims))).requires_grad_(True)
    weight = t(RNG.normal(size=(6, 2, *[3] * dims))).requires_grad_(True)
    options = {"stride": 2, "padding": 1, "groups": 2}
    result = getattr(nn.functional, f"conv{dims}d")(x, weight, None, **options)
    upstream = t(RNG.normal(size=tuple(result.shape)))
    result.backward(upstream)
    close(getattr(nn.grad, f"conv{dims}d_input")(x.shape, weight, upstream, **options), x.grad)
    close(getattr(nn.grad, f"conv{dims}d_weight")(x, weight.shape, upstream, **options), weight.grad)
    assert nn.functional.grad is nn.grad


def test_arguments_of_factories():
    assert nn.factory_kwargs(None) == {}
    assert nn.factory_kwargs({"device": "cpu", "factory_kwargs": {"dtype": torch.float64}}) == {
        "device": "cpu", "dtype": torch.float64}
    with pytest.raises(ArgumentTypeError, match="layers are made with device, dtype and memory_format"):
        nn.factory_kwargs({"size": 1})
    with pytest.raises(ArgumentTypeError, match="an argument is specified once"):
        nn.factory_kwargs({"device": 1, "factory_kwargs": {"device": 2}})


def test_sizes_in_annotations():
    from tensocket.nn.common_types import _size_2_t
    from tensocket.nn.modules.conv import _pair

    assert _size_2_t == int | tuple[int, int]
    assert _pair(2) == (2, 2)


def test_older_names_of_initial_values():
    x = torch.zeros(3)
    with pytest.warns(FutureWarning, match=r"nn.init.constant is deprecated; use nn.init.constant_"):
        assert nn.init.constant(x, 2.0) is x
    assert x.tolist() == [2] * 3
    for name in ("uniform", "normal", "dirac", "eye", "xavier_uniform", "xavier_normal", "kaiming_uniform",
                 "kaiming_normal", "orthogonal", "sparse"):
        assert getattr(nn.init, name).__wrapped__ is getattr(nn.init, f"{name}_")


def test_examples_in_another_order():
    x = t(np.arange(6.0).reshape(2, 3))
    assert nn.modules.rnn.apply_permutation(x, t([2, 0, 1])).tolist() == [[2, 0, 1], [5, 3, 4]]
    assert nn.modules.module._addindent("a\nb", 2) == "a\n  b"


@pytest.mark.parametrize("weight_learns", [True, False])
@pytest.mark.parametrize("bias_learns", [True, False, None])
def test_fused_parameters_learn_where_those_of_the_layer_did(weight_learns, bias_learns):
    conv, bn = nn.Conv2d(3, 3, 3, bias=bias_learns is not None), nn.BatchNorm2d(3)
    conv.weight.requires_grad_(weight_learns)
    if bias_learns is not None:
        conv.bias.requires_grad_(bias_learns)
    weight, bias = nn.utils.fusion.fuse_conv_bn_weights(
        conv.weight, conv.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias)
    assert weight.requires_grad == weight_learns
    assert bias.requires_grad == (weight_learns if bias_learns is None else bias_learns)
