"""Parameters without shapes, and modules that find them out."""

from __future__ import annotations

import copy
import pickle

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import UninitializedError, UninitializedOperator
from tensocket.nn.modules.lazy import LazyModuleMixin
from tensocket.nn.parameter import is_lazy


def test_a_parameter_is_materialized():
    parameter = nn.UninitializedParameter(dtype=torch.float64)
    assert is_lazy(parameter)
    assert isinstance(parameter, nn.Parameter)
    parameter.materialize((2, 3))
    assert type(parameter) is nn.Parameter
    assert parameter.shape == (2, 3)
    assert parameter.dtype is torch.float64
    assert parameter.requires_grad
    (parameter * 2).sum().backward()
    assert parameter.grad.tolist() == [[2.0] * 3] * 2


def test_a_buffer_is_materialized():
    buffer = nn.UninitializedBuffer()
    buffer.materialize(3, dtype=torch.int32)
    assert type(buffer) is torch.Tensor
    assert buffer.dtype is torch.int32
    assert (buffer.fill_(1) + 1).tolist() == [2, 2, 2]


@pytest.mark.parametrize(("use", "kind", "rule"), [
    (lambda p: p.shape, UninitializedError, "Can't access the shape of an uninitialized parameter or buffer"),
    (lambda p: p.share_memory_(), UninitializedError, "Can't share memory on an uninitialized parameter or buffer"),
    (lambda p: p + 1, UninitializedOperator, "Attempted to use an uninitialized parameter or buffer"),
    (lambda p: torch.sum(p), UninitializedOperator, "Attempted to use an uninitialized parameter or buffer")])
def test_what_needs_values_is_refused(use, kind, rule):
    for tensor in (nn.UninitializedParameter(), nn.UninitializedBuffer()):
        with pytest.raises(kind, match=rule):
            use(tensor)


def test_copies_stay_without_values():
    for tensor in (nn.UninitializedParameter(requires_grad=False), nn.UninitializedBuffer(persistent=False)):
        for other in (copy.deepcopy(tensor), pickle.loads(pickle.dumps(tensor))):
            assert type(other) is type(tensor)
            assert not other.requires_grad
            assert getattr(other, "persistent", None) == getattr(tensor, "persistent", None)
        assert repr(tensor) == f"<{type(tensor).__name__}>"


def test_lazy_linear_becomes_linear():
    module = nn.LazyLinear(3)
    assert module.has_uninitialized_params()
    assert repr(module) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    module.double()
    weight = module.weight
    assert module(torch.ones(4, 5, dtype=torch.float64)).shape == (4, 3)
    assert type(module) is nn.Linear
    assert module.weight is weight
    assert weight.abs().max().item() <= 1 / 5**0.5
    assert not module._forward_pre_hooks
    assert not module._load_state_dict_pre_hooks
    assert module.in_features == 5


def test_lazy_linear_without_bias():
    module = nn.Sequential(nn.LazyLinear(2, bias=False))
    assert module(torch.ones(1, 4)).shape == (1, 2)
    assert module[0].bias is None


def test_states_with_and_without_values():
    lazy, plain = nn.LazyLinear(2), nn.Linear(3, 2)
    state = lazy.state_dict()
    assert all(map(is_lazy, state.values()))
    with pytest.raises(RuntimeError, match='"weight", the checkpoint has an uninitialized one'):
        plain.load_state_dict(state)
    nn.LazyLinear(2).load_state_dict(state)
    lazy.load_state_dict(plain.state_dict())
    assert lazy.weight.tolist() == plain.weight.tolist()
    assert lazy(torch.ones(1, 3)).tolist() == plain(torch.ones(1, 3)).tolist()
    assert lazy.in_features == 3


def test_lazy_modules_define_their_initialization():
    class Nothing(LazyModuleMixin, nn.Module):
        pass

    class Half(LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.UninitializedParameter()

        def initialize_parameters(self, *args):
            pass

    with pytest.raises(NotImplementedError, match=r"a lazy module defines initialize_parameters\(\)"):
        Nothing()(1)
    with pytest.raises(UninitializedError, match="all parameters are materialized before the first call"):
        Half()(1)


def test_lazy_modules_are_pickled():
    layer = nn.LazyLinear(3)
    found = pickle.loads(pickle.dumps(layer))
    assert found.has_uninitialized_params()
    assert found(torch.ones(2, 5)).shape == (2, 3)
    assert type(found) is nn.Linear
    assert layer.has_uninitialized_params()


def test_lazy_tensors_are_not_shared():
    with pytest.raises(UninitializedError, match="memory is shared of tensors that have a shape"):
        nn.LazyLinear(3).share_memory()
