"""Weights of fixed norm and orthogonal weights: hooks and parametrizations."""

from __future__ import annotations

import copy
import re

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.nn import utils
from tensocket.nn.utils import parametrizations


def named(module):
    return [name for name, _ in module.named_parameters()]


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_hook(dim):
    layer = nn.Linear(3, 2)
    weight = layer.weight.detach().numpy().copy()
    assert utils.weight_norm(layer, dim=dim) is layer
    assert named(layer) == ["bias", "weight_g", "weight_v"]
    norms = np.linalg.norm(weight) if dim is None else np.linalg.norm(weight, axis=1 - dim, keepdims=True)
    assert layer.weight_g.detach().numpy() == pytest.approx(norms)
    assert layer.weight.detach().numpy() == pytest.approx(weight)
    with torch.no_grad():
        layer.weight_g.mul_(2)
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.weight.detach().numpy() == pytest.approx(2 * weight)
    # The gradient of the direction is orthogonal to it.
    inner = (layer.weight_v.grad * layer.weight_v).sum().item()
    assert inner == pytest.approx(0, abs=1e-5)
    other = copy.deepcopy(utils.remove_weight_norm(layer))
    assert named(other) == ["bias", "weight"]
    assert other.weight.detach().numpy() == pytest.approx(2 * weight)


def test_weight_norm_parametrization():
    layer = nn.Linear(3, 2)
    hooked = utils.weight_norm(nn.Linear(3, 2))
    weight = layer.weight.detach().numpy().copy()
    parametrizations.weight_norm(layer)
    assert named(layer) == ["bias", "parametrizations.weight.original0", "parametrizations.weight.original1"]
    assert layer.parametrizations.weight.original0.shape == (2, 1)
    assert layer.weight.detach().numpy() == pytest.approx(weight)
    layer.load_state_dict(hooked.state_dict())
    assert layer.weight.detach().numpy() == pytest.approx(hooked.weight.detach().numpy())


def largest(weight):
    return np.linalg.svd(weight.detach().numpy().reshape(weight.shape[0], -1), compute_uv=False)[0]


def test_spectral_norm_hook():
    torch.manual_seed(0)
    layer = nn.Linear(4, 3)
    weight = layer.weight
    utils.spectral_norm(layer, n_power_iterations=50)
    assert named(layer) == ["bias", "weight_orig"]
    assert [name for name, _ in layer.named_buffers()] == ["weight_u", "weight_v"]
    layer(torch.ones(1, 4)).sum().backward()
    assert largest(layer.weight) == pytest.approx(1, abs=1e-4)
    assert layer.weight_orig is weight
    assert weight.grad is not None
    layer.eval()
    before = layer.weight_u.tolist()
    layer(torch.ones(1, 4))
    assert layer.weight_u.tolist() == before
    utils.remove_spectral_norm(layer)
    assert named(layer) == ["bias", "weight"]
    assert largest(layer.weight) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("dim", [0, 1])
def test_spectral_norm_parametrization(dim):
    torch.manual_seed(0)
    layer = nn.Linear(4, 3)
    parametrizations.spectral_norm(layer, n_power_iterations=20, dim=dim)
    assert largest(layer.weight) == pytest.approx(1, abs=1e-3)
    layer.weight.sum().backward()
    assert layer.parametrizations.weight.original.grad is not None
    vector = nn.Linear(1, 3)
    parametrizations.spectral_norm(vector, "bias")
    assert np.linalg.norm(vector.bias.detach().numpy()) == pytest.approx(1)
    layer.weight = torch.eye(3, 4)
    assert layer.eval().parametrizations.weight.original.tolist() == torch.eye(3, 4).tolist()


@pytest.mark.parametrize("shape", [(3, 3), (5, 2), (2, 5)])
@pytest.mark.parametrize(("kind", "trivialization"), [
    ("matrix_exp", True), ("cayley", True), ("householder", True), ("householder", False), (None, True)])
def test_orthogonal_weights(shape, kind, trivialization):
    torch.manual_seed(0)
    layer = nn.Linear(shape[1], shape[0], bias=False)
    parametrizations.orthogonal(layer, orthogonal_map=kind, use_trivialization=trivialization)
    original = next(layer.parameters())
    with torch.no_grad():
        original.add_(0.1 * torch.randn(original.shape).tril(-1))
    weight = layer.weight.detach().numpy()
    small = weight @ weight.T if shape[0] <= shape[1] else weight.T @ weight
    assert small == pytest.approx(np.eye(len(small)), abs=1e-5)
    layer.weight.sum().backward()
    assert np.isfinite(original.grad.numpy()).all()


@pytest.mark.parametrize(("shape", "trivialization"), [
    ((4, 4), True), ((4, 2), False), ((2, 4), False), ((3, 3), False)])
def test_orthogonal_values_are_assigned(shape, trivialization):
    torch.manual_seed(1)
    layer = nn.Linear(shape[1], shape[0], bias=False)
    parametrizations.orthogonal(layer, orthogonal_map="householder", use_trivialization=trivialization)
    value = nn.init.orthogonal_(torch.empty(*shape))
    layer.weight = value
    assert layer.weight.detach().numpy() == pytest.approx(value.numpy(), abs=1e-5)
    layer.weight = torch.eye(*shape)
    assert layer.weight.detach().numpy() == pytest.approx(np.eye(*shape), abs=1e-6)
    with pytest.raises(ValueError, match="what is assigned has the shape of the weight"):
        layer.weight = torch.eye(7)


@pytest.mark.parametrize(("call", "rule"), [
    (lambda m: utils.weight_norm(utils.weight_norm(m)), "a parameter has one weight_norm hook"),
    (lambda m: utils.remove_weight_norm(m), "the parameter has a weight_norm hook"),
    (lambda m: utils.spectral_norm(utils.spectral_norm(m)), "a parameter has one spectral_norm hook"),
    (lambda m: utils.remove_spectral_norm(m), "the parameter has a spectral_norm hook"),
    (lambda m: utils.spectral_norm(nn.Linear(1, 1, bias=False), "bias"), "the parameter has a value"),
    (lambda m: utils.spectral_norm(m, n_power_iterations=0), "Expected n_power_iterations to be positive"),
    (lambda m: parametrizations.spectral_norm(m, n_power_iterations=0), "Expected n_power_iterations to be positive"),
    (lambda m: parametrizations.spectral_norm(m, dim=3), "dim is a dimension of the weight"),
    (lambda m: parametrizations.spectral_norm(m, "x"), "the module has a parameter or buffer of that name"),
    (lambda m: parametrizations.orthogonal(m, "x"), "the module has a parameter or buffer of that name"),
    (lambda m: parametrizations.orthogonal(m, "bias"), "Expected a matrix or batch of matrices"),
    (lambda m: parametrizations.orthogonal(m, orthogonal_map="x"),
     'orthogonal_map is one of "matrix_exp", "cayley", "householder"')])
def test_what_cannot_be_normalized(call, rule):
    with pytest.raises(ValueError, match=rule):
        call(nn.Linear(2, 2))


def test_orthogonal_maps_without_inverse():
    layer = nn.Linear(2, 2)
    parametrizations.orthogonal(layer, use_trivialization=False)
    assert layer.weight.detach().numpy() @ layer.weight.detach().numpy().T == pytest.approx(np.eye(2), abs=1e-5)
    rule = ("It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
            "use_trivialization=False")
    with pytest.raises(NotImplementedError, match=rule):
        layer.weight = torch.eye(2)
    module = nn.Module()
    module.weight = nn.Parameter(torch.ones(2, 2, dtype=torch.complex64))
    with pytest.raises(ValueError, match="The householder parametrization does not support complex tensors"):
        parametrizations.orthogonal(module, orthogonal_map="householder")


def test_spectral_norm_of_complex_weights():
    layer = torch.nn.Linear(2, 2, dtype=torch.complex64)
    with torch.no_grad():
        layer.weight.copy_(torch.diag(torch.tensor([3 + 4j, 1j])))
        parametrizations.spectral_norm(layer)
        # The largest singular value of a diagonal matrix is its largest absolute value.
        expected = np.diag([(3 + 4j) / 5, 1j / 5])
        np.testing.assert_allclose(layer.weight.numpy(), expected, atol=1e-6)


def test_spectral_norm_of_lazy_weights():
    with pytest.raises(ValueError, match=re.escape(
            "The module passed to `SpectralNorm` can't have uninitialized parameters.")):
        utils.spectral_norm(nn.LazyLinear(7))
