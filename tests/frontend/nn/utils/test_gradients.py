"""Clipping of gradients, and parameters as vectors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.nn import utils


def with_gradients():
    first, second, without = (nn.Parameter(torch.zeros(size)) for size in (2, 1, 3))
    first.grad, second.grad = torch.tensor([3.0, 0.0]), torch.tensor([-4.0])
    return [first, second, without]


@pytest.mark.parametrize(("order", "norm"), [(2.0, 5.0), (1, 7.0), (math.inf, 4.0), ("inf", 4.0)])
def test_norms_of_all_gradients_are_limited(order, norm):
    given = with_gradients()
    assert utils.clip_grad_norm_(given, 1.0, norm_type=order).item() == pytest.approx(norm)
    factor = 1 / (norm + 1e-6)
    assert given[0].grad.tolist() == pytest.approx([3 * factor, 0.0])
    assert given[1].grad.tolist() == pytest.approx([-4 * factor])
    assert given[2].grad is None


def test_small_gradients_stay():
    given = with_gradients()
    utils.clip_grad_norm_(iter(given), 10.0)
    assert given[0].grad.tolist() == [3.0, 0.0]
    assert utils.clip_grad_norm_(given[0], 1.5).item() == 3.0
    assert given[0].grad.tolist() == pytest.approx([1.5, 0.0])


def test_norms_of_tensors():
    assert utils.get_total_norm([torch.tensor([3.0]), torch.tensor([[4.0]])]).item() == 5.0
    assert utils.get_total_norm([]).item() == 0.0
    assert utils.clip_grad_norm_([nn.Parameter(torch.ones(1))], 1.0).item() == 0.0
    with pytest.raises(RuntimeError, match="The total norm for gradients is finite"):
        utils.get_total_norm(torch.tensor([math.nan]), error_if_nonfinite=True)


def test_values_of_gradients_are_limited():
    given = with_gradients()
    utils.clip_grad_value_(given, 3.5)
    assert given[0].grad.tolist() == [3.0, 0.0]
    assert given[1].grad.tolist() == [-3.5]


def test_parameters_as_a_vector_and_back():
    model = nn.Linear(2, 2)
    vector = utils.parameters_to_vector(model.parameters())
    assert np.array_equal(vector.detach().numpy(),
                          np.concatenate([p.detach().numpy().ravel() for p in model.parameters()]))
    utils.vector_to_parameters(torch.arange(6.0), model.parameters())
    assert model.weight.tolist() == [[0.0, 1.0], [2.0, 3.0]]
    assert model.bias.tolist() == [4.0, 5.0]
    vector.sum().backward()
    with pytest.raises(TypeError, match="the vector is a tensor"):
        utils.vector_to_parameters([1.0], model.parameters())
    with pytest.raises(RuntimeError, match="all parameters are on one device"):
        utils.parameters_to_vector([torch.zeros(1), torch.zeros(1, device="meta")])


def test_modules_without_initial_values():
    module = utils.skip_init(nn.Linear, 3, 2, bias=False)
    assert module.weight.device.type == "cpu"
    assert module.weight.shape == (2, 3)
    with pytest.raises(ValueError, match="Module must support a 'device' arg to skip initialization"):
        utils.skip_init(nn.ReLU)
    with pytest.raises(ValueError, match="the class is a module's"):
        utils.skip_init(int)


def test_stateless_calls_warn():
    module = nn.Linear(1, 1, bias=False)
    with pytest.warns(FutureWarning, match="func.functional_call"):
        result = utils.stateless.functional_call(module, {"weight": torch.tensor([[3.0]])}, torch.tensor([2.0]))
    assert result.tolist() == [6.0]
