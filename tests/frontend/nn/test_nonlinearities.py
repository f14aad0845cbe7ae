"""Layers of nonlinearities against their formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, AutogradError, ShapeError
from tensocket.nn import functional as F

X = np.array([-4.0, -1.5, -0.3, 0.0, 0.4, 2.5, 7.0])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(("module", "reference", "text"), [
    (nn.LeakyReLU(0.2), np.where(X > 0, X, 0.2 * X), "LeakyReLU(negative_slope=0.2)"),
    (nn.ReLU6(), np.clip(X, 0, 6), "ReLU6()"),
    (nn.RReLU(0.1, 0.3).eval(), np.where(X > 0, X, 0.2 * X), "RReLU(lower=0.1, upper=0.3)"),
    (nn.ELU(2.0), np.where(X > 0, X, 2 * np.expm1(X)), "ELU(alpha=2.0)"),
    (nn.CELU(2.0), np.maximum(X, 0) + np.minimum(0, 2 * np.expm1(X / 2)), "CELU(alpha=2.0)"),
    (nn.SELU(), 1.0507009873554805 * np.where(X > 0, X, 1.6732632423543772 * np.expm1(X)), "SELU()"),
    (nn.Hardshrink(), np.where(abs(X) > 0.5, X, 0), "Hardshrink(0.5)"),
    (nn.Softshrink(0.4), np.sign(X) * np.maximum(abs(X) - 0.4, 0), "Softshrink(0.4)"),
    (nn.Tanhshrink(), X - np.tanh(X), "Tanhshrink()"),
    (nn.Hardsigmoid(), np.clip(X / 6 + 0.5, 0, 1), "Hardsigmoid()"),
    (nn.Hardswish(), X * np.clip(X / 6 + 0.5, 0, 1), "Hardswish()"),
    (nn.Threshold(0.1, 20), np.where(X > 0.1, X, 20), "Threshold(threshold=0.1, value=20)"),
    (nn.Mish(), X * np.tanh(np.log1p(np.exp(X))), "Mish()"),
    (nn.Softplus(2.0), np.log1p(np.exp(2 * X)) / 2, "Softplus(beta=2.0, threshold=20.0)"),
    (nn.LogSigmoid(), np.log(sigmoid(X)), "LogSigmoid()"),
    (nn.Softsign(), X / (1 + abs(X)), "Softsign()"),
    (nn.Softmin(0), np.exp(-X) / np.exp(-X).sum(), "Softmin(dim=0)"),
    (nn.Hardtanh(-2.0, 3.0), np.clip(X, -2, 3), "Hardtanh(min_val=-2.0, max_val=3.0)"),
    (nn.PReLU(init=0.5), np.where(X > 0, X, 0.5 * X), "PReLU(num_parameters=1)"),
    (nn.GLU(0), X[:3] * sigmoid(X[3:6]), "GLU(dim=0)")])
def test_nonlinearities(module, reference, text):
    given = torch.tensor(X[: 2 * len(reference)], dtype=torch.float32)
    assert module(given).detach().numpy() == pytest.approx(reference, abs=1e-5)
    assert repr(module) == text


@pytest.mark.parametrize("kind", [nn.ELU, nn.LeakyReLU, nn.Hardtanh, nn.ReLU6])
def test_nonlinearities_in_place(kind):
    given = torch.tensor([-2.0, 9.0])
    module = kind(inplace=True)
    assert module(given) is given
    assert repr(module).endswith("inplace=True)")


@pytest.mark.parametrize(("name", "run"), [
    ("elu_", lambda y: F.elu_(y, -1.0)), ("elu_", nn.ELU(-1.0, inplace=True)), ("celu_", lambda y: F.celu_(y, -1.0)),
    ("leaky_relu_", lambda y: F.leaky_relu_(y, -1.0)), ("leaky_relu_", lambda y: F.leaky_relu_(y, math.nan)),
    ("rrelu_", lambda y: F.rrelu_(y, -1.5, -0.5))])
def test_negative_slopes_in_place_leave_no_way_back(name, run):
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    y = run(x * 1)
    with pytest.raises(AutogradError, match=rf"\[{name}\] a result with slope .* in place of the input — gradients in "
                                            "place take slopes from 0 — work out of place"):
        y.sum().backward()
    with torch.no_grad():
        assert not run(x * 1).requires_grad


@pytest.mark.parametrize(("run", "slope"), [
    (lambda y: F.leaky_relu(y, -0.5), -0.5), (lambda y: F.leaky_relu_(y, 0.0), 0.0),
    (lambda y: F.rrelu_(y, -0.5, -0.5, True), -0.5), (lambda y: F.elu(y, -1.0), -math.exp(-1))])
def test_other_slopes_have_gradients(run, slope):
    x = torch.tensor([-1.0, 2.0], requires_grad=True)
    run(x * 1).sum().backward()
    assert x.grad.tolist() == pytest.approx([slope, 1.0])


def test_random_slopes_are_within_bounds():
    result = nn.RReLU(0.25, 0.5)(torch.full((100,), -1.0))
    assert -0.5 <= result.min().item() < result.max().item() <= -0.25


def test_softmax_over_channels():
    given = torch.arange(8.0).reshape(2, 2, 2)
    wanted = np.exp(given.numpy()) / np.exp(given.numpy()).sum(0)
    assert nn.Softmax2d()(given).numpy() == pytest.approx(wanted)
    with pytest.raises(ShapeError, match="expected input to be 3D or 4D"):
        nn.Softmax2d()(torch.ones(2))
    with pytest.raises(ValueError, match="max_val is above min_val"):
        nn.Hardtanh(1.0, 0.0)


def test_unflatten():
    assert nn.Unflatten(1, (2, -1))(torch.ones(3, 8)).shape == (3, 2, 4)
    assert repr(nn.Unflatten(1, (2, 3))) == "Unflatten(dim=1, unflattened_size=(2, 3))"
    with pytest.raises(TypeError, match="unflattened_size is a tuple of ints"):
        nn.Unflatten(1, 3)


@pytest.mark.parametrize("name", ["celu", "elu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "mish", "relu",
                                  "relu6", "selu", "silu"])
def test_gradients_in_place_are_those_of_the_values_before(name):
    function = getattr(nn.functional, name)
    x, y = (torch.tensor(X, dtype=torch.float64, requires_grad=True) for _ in range(2))
    function(x).sum().backward()
    copy = y * 1
    assert function(copy, inplace=True) is copy
    copy.sum().backward()
    assert y.grad.tolist() == x.grad.tolist()


def test_the_gradient_of_a_threshold_in_place():
    x = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    nn.functional.threshold_(x * 1, 0.1, 20).sum().backward()
    assert x.grad.tolist() == [float(value > 0.1) for value in X]


@pytest.mark.parametrize(("name", "call"), [
    ("threshold", lambda x: F.threshold(x, 1, 70000)), ("threshold", lambda x: F.threshold_(x, 1, -65505.0)),
    ("hardtanh", lambda x: F.hardtanh(x, -1, 70000)), ("hardtanh", lambda x: F.hardtanh(x, -1e6, 1)),
    ("hardshrink", lambda x: F.hardshrink(x, 65520.0)), ("softshrink", lambda x: F.softshrink(x, 70000)),
], ids=range(6))
@pytest.mark.parametrize("count", [3, 300_000])
def test_limits_that_halves_do_not_hold_are_refused(name, call, count):
    with pytest.raises(ArgumentError, match=rf"^\[{name}\] .+ for float16 — the dtype holds numbers up to 65504"):
        call(torch.ones(count, dtype=torch.float16))
    call(torch.ones(count))


def test_what_is_compared_in_float32_may_exceed_halves():
    half = torch.tensor([1.0, 60000.0], dtype=torch.float16)
    assert F.threshold(half, 70000, 2).tolist() == [2.0, 2.0]
    assert F.threshold(half, 2, math.inf).tolist() == [math.inf, 60000.0]


def test_a_bool_is_a_limit():
    for count in (1, 300_000):
        x = torch.tensor([1.0, 3.0]).repeat(count)
        assert F.hardshrink(x, True)[:2].tolist() == [0.0, 3.0]


def test_exponential_units_with_infinite_tails_are_zero_at_zero():
    x = torch.tensor([-1.0, 0.0, 2.0])
    assert F.elu(x, math.inf).tolist() == [-math.inf, 0.0, 2.0]
    assert F.celu(x, math.inf)[1:].tolist() == [0.0, 2.0]
