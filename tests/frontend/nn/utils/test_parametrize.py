"""Parameters that are computed from others."""

from __future__ import annotations

import copy
import pickle

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.nn.utils import parametrize


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).t()

    def right_inverse(self, x):
        return x.triu()


class Doubled(nn.Module):
    calls = 0

    def forward(self, x):
        type(self).calls += 1
        return x * 2


class Ratio(nn.Module):
    """Of two tensors."""

    def forward(self, a, b):
        return a / b

    def right_inverse(self, x):
        return x * 2, torch.full_like(x, 2.0)


class Wrong(nn.Module):
    """Computes what it is told to."""

    def __init__(self, forward, inverse=None):
        super().__init__()
        self.forward = forward
        if inverse is not None:
            self.right_inverse = inverse


def test_accesses_compute_the_tensor():
    layer = nn.Linear(2, 2, bias=False)
    weight = layer.weight
    torch.nn.init.ones_(weight)
    assert parametrize.register_parametrization(layer, "weight", Doubled()) is layer
    assert layer.weight.tolist() == [[2.0, 2.0]] * 2
    assert layer.parametrizations.weight.original is weight
    assert [name for name, _ in layer.named_parameters()] == ["parametrizations.weight.original"]
    assert parametrize.is_parametrized(layer)
    assert parametrize.is_parametrized(layer, "weight")
    assert not parametrize.is_parametrized(layer, "bias")
    assert not parametrize.is_parametrized(nn.Linear(2, 2))
    assert type(layer).__name__ == "ParametrizedLinear"
    assert isinstance(layer, nn.Linear)
    assert parametrize.type_before_parametrizations(layer) is nn.Linear
    layer(torch.ones(1, 2)).sum().backward()
    assert weight.grad.tolist() == [[2.0, 2.0]] * 2


def test_assignment_goes_through_the_inverse():
    layer = nn.Linear(2, 2)
    parametrize.register_parametrization(layer, "weight", Symmetric())
    layer.weight = torch.tensor([[1.0, 2.0], [2.0, 3.0]])
    assert layer.weight.tolist() == [[1.0, 2.0], [2.0, 3.0]]
    assert layer.parametrizations.weight.original.tolist() == [[1.0, 2.0], [0.0, 3.0]]
    with pytest.raises(ValueError, match="parametrizations that are assigned to have a right_inverse"):
        parametrize.register_parametrization(layer, "weight", Doubled()).weight = torch.ones(2, 2)
    assert layer.weight.tolist() == [[2.0, 4.0], [4.0, 6.0]]


def test_several_originals():
    layer = nn.Linear(1, 1, bias=False)
    before = layer.weight.item()
    parametrize.register_parametrization(layer, "weight", Ratio())
    assert layer.weight.item() == pytest.approx(before)
    assert [name for name, _ in layer.named_parameters()] == [
        "parametrizations.weight.original0", "parametrizations.weight.original1"]
    layer.weight = torch.tensor([[3.0]])
    assert layer.parametrizations.weight.original0.item() == 6.0
    with pytest.raises(ValueError, match="what is computed from several tensors has no original to be left"):
        parametrize.remove_parametrizations(layer, "weight", leave_parametrized=False)
    parametrize.remove_parametrizations(layer, "weight")
    assert layer.weight.tolist() == [[3.0]]
    assert isinstance(layer.weight, nn.Parameter)


@pytest.mark.parametrize("leave", [True, False])
def test_removal(leave):
    layer = nn.Linear(1, 1)
    weight = layer.weight
    nn.init.ones_(weight)
    parametrize.register_parametrization(layer, "weight", Doubled())
    parametrize.remove_parametrizations(layer, "weight", leave_parametrized=leave)
    assert type(layer) is nn.Linear
    assert layer.weight is weight
    assert weight.item() == (2.0 if leave else 1.0)
    assert not hasattr(layer, "parametrizations")
    with pytest.raises(ValueError, match="the tensor is parametrized"):
        parametrize.remove_parametrizations(layer, "weight")


def test_values_are_computed_once_in_a_block():
    layer = nn.Linear(1, 1)
    parametrize.register_parametrization(layer, "weight", Doubled())
    before = Doubled.calls
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert Doubled.calls == before + 1
    assert layer.weight is not layer.weight


def test_buffers_and_copies():
    module = nn.Module()
    module.register_buffer("scale", torch.ones(2))
    parametrize.register_parametrization(module, "scale", Doubled())
    assert list(module.state_dict()) == ["parametrizations.scale.original"]
    other = copy.deepcopy(module)
    assert other.scale.tolist() == [2.0, 2.0]
    parametrize.remove_parametrizations(other, "scale")
    assert module.scale.tolist() == [2.0, 2.0]
    with pytest.raises(RuntimeError, match=r"parametrized modules are saved by state_dict\(\)"):
        pickle.dumps(module)


def test_states_are_loaded():
    first, second = (parametrize.register_parametrization(nn.Linear(2, 2), "weight", Symmetric()) for _ in range(2))
    second.load_state_dict(first.state_dict())
    assert second.weight.tolist() == first.weight.tolist()


def test_parametrizations_are_transferred():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    with pytest.raises(ValueError, match="the module has parametrizations"):
        parametrize.transfer_parametrizations_and_params(first, second)
    parametrize.register_parametrization(first, "weight", Symmetric())
    parametrize.transfer_parametrizations_and_params(first, second)
    assert second.weight.tolist() == first.weight.tolist()


@pytest.mark.parametrize(("module", "rule"), [
    (Wrong(lambda x: x.double()), "a parametrization keeps shape and dtype"),
    (Wrong(lambda x: x[0]), "a parametrization keeps shape and dtype"),
    (Wrong(lambda x: 3), "a parametrization returns a tensor"),
    (Wrong(lambda x: x, lambda x: x.double()), "right_inverse keeps the dtype"),
    (Wrong(lambda x: x, lambda x: 3), "right_inverse returns a tensor or a sequence of tensors"),
    (Wrong(lambda x: x, lambda x: [3]), "right_inverse returns a tensor or a sequence of tensors")])
def test_parametrizations_that_do_not_fit(module, rule):
    with pytest.raises(ValueError, match=rule):
        parametrize.register_parametrization(nn.Linear(2, 2), "weight", module)


def test_further_parametrizations_fit_too():
    layer = parametrize.register_parametrization(nn.Linear(2, 2), "weight", Doubled())
    with pytest.raises(ValueError, match="a parametrization keeps shape and dtype"):
        parametrize.register_parametrization(layer, "weight", Wrong(lambda x: x[0]))
    with pytest.raises(ValueError, match="right_inverse of a further parametrization keeps shape and dtype"):
        parametrize.register_parametrization(layer, "weight", Wrong(lambda x: x, lambda x: x[0]))
    parametrize.register_parametrization(layer, "weight", Wrong(lambda x: x[0]), unsafe=True)
    assert layer.weight.shape == (2,)
    with pytest.raises(ValueError, match="the module has a parameter, a buffer or a parametrized tensor of that name"):
        parametrize.register_parametrization(layer, "nothing", Doubled())
    with pytest.raises(ValueError, match="there is at least one parametrization"):
        parametrize.ParametrizationList([], torch.ones(1))


def test_inverses_return_as_many_tensors():
    layer = nn.Linear(2, 2)
    ratio = Ratio()
    parametrize.register_parametrization(layer, "weight", ratio)
    ratio.right_inverse = lambda x: (x, x, x)
    with pytest.raises(ValueError, match="right_inverse returns as many tensors as before"):
        layer.weight = torch.ones(2, 2)
