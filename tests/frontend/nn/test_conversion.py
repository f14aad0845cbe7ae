"""How conversions and loading change parameters: by their data, by new parameters, or by swapping."""

from __future__ import annotations

import re
from contextlib import contextmanager

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import StateDictError


@contextmanager
def swapping():
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        assert torch.__future__.get_swap_module_params_on_conversion()
        yield
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)


@contextmanager
def overwriting():
    torch.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        assert torch.__future__.get_overwrite_module_params_on_conversion()
        yield
    finally:
        torch.__future__.set_overwrite_module_params_on_conversion(False)


def layer():
    made = nn.Linear(2, 1)
    made.weight.grad = torch.tensor([[1.0, 2.0]])
    return made


def test_parameters_and_gradients_stay_the_same_objects():
    made = layer()
    weight, gradient = made.weight, made.weight.grad
    made.double()
    assert made.weight is weight
    assert weight.grad is gradient
    assert (weight.dtype, gradient.dtype, gradient.tolist()) == (torch.float64, torch.float64, [[1.0, 2.0]])


def test_new_parameters_take_the_place_of_the_old_ones():
    made = layer()
    weight, gradient = made.weight, made.weight.grad
    with overwriting():
        made.double()
    assert made.weight is not weight
    assert type(made.weight) is nn.Parameter
    assert (weight.dtype, gradient.dtype) == (torch.float32, torch.float32)
    assert (made.weight.dtype, made.weight.grad.dtype) == (torch.float64, torch.float64)
    assert made.weight.grad.tolist() == [[1.0, 2.0]]


def test_swapping_keeps_the_objects():
    made = layer()
    weight, gradient = made.weight, made.weight.grad
    with swapping():
        made.double()
    assert made.weight is weight
    assert weight.grad is gradient
    assert (weight.dtype, weight.requires_grad, gradient.dtype) == (torch.float64, True, torch.float64)
    made(torch.tensor([[3.0, 4.0]], dtype=torch.float64)).sum().backward()
    assert weight.grad.tolist() == [[4.0, 6.0]]


def test_swapping_between_forward_and_backward_is_refused():
    made = nn.Linear(2, 1)
    out = made(torch.ones(1, 2)).sum()
    with swapping():
        made.half()
    with pytest.raises(RuntimeError, match="Trying to execute AccumulateGrad node that was poisoned by swap_tensors"):
        out.backward()


def test_what_cannot_be_swapped_is_named():
    made = layer()
    view = made.weight.view(-1)
    with swapping(), pytest.raises(StateDictError, match=r"_apply\(\): Couldn't swap Linear\.weight"):
        made.double()
    assert view.shape == (2,)
    assert made.weight.grad.tolist() == [[1.0, 2.0]]


def test_functions_are_given_the_parameter_itself():
    seen = []
    made = nn.Linear(2, 1)
    made._apply(lambda tensor: seen.append(tensor) or tensor)
    assert seen[0] is made.weight
    version = made.weight._version
    made._apply(lambda tensor: tensor.add_(1))
    assert made.weight._version > version


class Tagged(torch.Tensor):
    """A class that decides what loading into it and from it makes."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.Tensor.module_load:
            first, second = args
            with torch._C.DisableTorchFunctionSubclass():
                if kwargs.get("assign"):
                    return second.detach().as_subclass(cls)
                return first.copy_(second).detach().as_subclass(cls)
        return super().__torch_function__(func, types, args, kwargs)


@pytest.mark.parametrize("assign", [False, True])
def test_loading_swaps_what_module_load_makes(assign):
    made = nn.Linear(2, 1, bias=False)
    made.weight = nn.Parameter(torch.zeros(1, 2).as_subclass(Tagged))
    weight = made.weight
    with swapping():
        made.load_state_dict({"weight": torch.tensor([[1.0, 2.0]])}, assign=assign)
    assert made.weight is weight
    assert type(weight) is Tagged
    assert isinstance(weight, nn.Parameter)
    assert weight.tolist() == [[1.0, 2.0]]


class Broken(torch.Tensor):
    def module_load(self, other, assign=False):
        return other


def test_module_load_returns_a_new_object():
    made = nn.Linear(2, 1, bias=False)
    made.weight = nn.Parameter(torch.zeros(1, 2).as_subclass(Broken))
    with swapping(), pytest.raises(StateDictError, match="module_load returned one of self or other"):
        made.load_state_dict({"weight": torch.ones(1, 2)})


class Plain(torch.Tensor):
    """A class that keeps its own type out of ``detach``."""

    def detach(self):
        return torch.Tensor.detach(self).as_subclass(torch.Tensor)


def test_parameters_keep_the_class_of_their_tensor():
    parameter = nn.Parameter(torch.ones(2).as_subclass(Tagged))
    assert type(parameter) is Tagged
    assert isinstance(parameter, nn.Parameter)
    assert parameter.requires_grad
    assert not isinstance(torch.ones(2).as_subclass(Tagged), nn.Parameter)
    module = nn.Module()
    module.weight = parameter
    assert list(module.parameters()) == [parameter]
    assert repr(parameter) == "Parameter(Tagged([1., 1.], requires_grad=True))"
    with pytest.raises(RuntimeError, match=re.escape(
            "Creating a Parameter from an instance of type Plain requires that detach() returns an instance of the "
            "same type")):
        nn.Parameter(torch.ones(2).as_subclass(Plain))


def test_buffers_keep_the_class_of_their_tensor():
    buffer = nn.Buffer(torch.ones(2).as_subclass(Tagged), persistent=False)
    assert type(buffer) is Tagged
    assert isinstance(buffer, nn.Buffer)
    assert not isinstance(torch.ones(2), nn.Buffer)
    module = nn.Module()
    module.scale = buffer
    assert module.scale is buffer
    assert list(module.state_dict()) == []


def test_values_that_only_look_like_tensors_are_copied():
    class Like:
        shape = torch.Size([1, 2])

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            assert func is torch.Tensor.copy_
            return args[0].fill_(3)

    made = nn.Linear(2, 1, bias=False)
    made.load_state_dict({"weight": Like()})
    assert made.weight.tolist() == [[3.0, 3.0]]


def test_parameters_of_another_layout_take_the_place_of_the_old_ones():
    made = layer()
    weight, gradient = made.weight, made.weight.grad
    made._apply(lambda tensor: tensor.to_sparse())
    assert made.weight is not weight
    assert (made.weight.layout, made.weight.grad.layout) == (torch.sparse_coo, torch.sparse_coo)
    assert (weight.layout, gradient.layout) == (torch.strided, torch.strided)


@pytest.mark.parametrize("args", [("cpu", True), (None, True), ("cpu", torch.float64, True, False, True), ([],)])
def test_arguments_of_to_come_in_their_order(args):
    with pytest.raises(TypeError):
        nn.Linear(1, 1).to(*args)
    assert nn.Linear(1, 1).to("cpu", torch.float64, True).weight.dtype is torch.float64
    assert nn.Linear(1, 1).to(torch.float64, False, False).weight.dtype is torch.float64


def test_modules_are_not_copied_by_to():
    with pytest.raises(RuntimeError, match=re.escape("to() changes a module in place and has no form that copies")):
        nn.Linear(1, 1).to("cpu", copy=True)


def test_complex_modules_warn():
    with pytest.warns(UserWarning, match="Complex modules are a new feature"):
        assert nn.Linear(1, 1).to(torch.complex64).weight.dtype is torch.complex64
