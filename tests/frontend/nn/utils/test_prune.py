"""Pruning: masks, their combination and their end."""

from __future__ import annotations

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.nn.utils import prune


def layer():
    made = nn.Linear(3, 2)
    with torch.no_grad():
        made.weight.copy_(torch.tensor([[1.0, -5.0, 2.0], [-3.0, 0.5, 6.0]]))
    return made


def mask_of(module):
    return module.weight_mask.int().tolist()


def test_least_magnitudes_are_pruned():
    module = layer()
    parameter = module.weight
    assert prune.l1_unstructured(module, "weight", 2) is module
    assert mask_of(module) == [[0, 1, 1], [1, 0, 1]]
    assert module.weight.tolist() == [[0, -5, 2], [-3, 0, 6]]
    assert module.weight_orig is parameter
    assert [name for name, _ in module.named_parameters()] == ["bias", "weight_orig"]
    assert "weight_mask" in module.state_dict()
    with torch.no_grad():
        module.weight_orig.add_(1)
    module(torch.ones(1, 3)).sum().backward()
    assert module.weight.tolist() == [[0, -4, 3], [-2, 0, 7]]
    assert module.weight_orig.grad.tolist() == [[0, 1, 1], [1, 0, 1]]


def test_pruning_again_goes_on():
    module = prune.l1_unstructured(layer(), "weight", 2)
    prune.l1_unstructured(module, "weight", 0.5)
    assert mask_of(module) == [[0, 1, 0], [0, 0, 1]]
    (hook,) = module._forward_pre_hooks.values()
    assert isinstance(hook, prune.PruningContainer)
    assert len(hook) == 2
    assert isinstance(hook[0], prune.L1Unstructured)
    assert list(hook) == [hook[0], hook[1]]


def test_pruning_becomes_permanent():
    module = prune.l1_unstructured(layer(), "weight", 4)
    assert prune.is_pruned(nn.Sequential(module))
    prune.remove(module, "weight")
    assert not prune.is_pruned(module)
    assert [name for name, _ in module.named_parameters()] == ["bias", "weight"]
    assert module.weight.tolist() == [[0, -5, 0], [0, 0, 6]]
    with pytest.raises(ValueError, match="the parameter is pruned"):
        prune.remove(module, "weight")


def test_slices_of_least_norm_are_pruned():
    module = prune.ln_structured(layer(), "weight", 1, n=2, dim=0)
    assert mask_of(module) == [[0, 0, 0], [1, 1, 1]]
    assert mask_of(prune.ln_structured(layer(), "weight", 1, n=1, dim=-1)) == [[0, 1, 1]] * 2
    prune.ln_structured(module, "weight", 1, n=1, dim=1)
    assert mask_of(module) == [[0, 0, 0], [1, 0, 1]]


def test_random_choices_have_the_right_number():
    module = prune.random_unstructured(layer(), "weight", 4)
    assert np.sum(mask_of(module)) == 2
    module = prune.random_structured(layer(), "weight", 2, dim=1)
    assert sorted(np.sum(mask_of(module), 0)) == [0, 0, 2]
    assert np.sum(mask_of(prune.random_unstructured(layer(), "weight", 0))) == 6


def test_masks_and_scores_are_given():
    module = prune.custom_from_mask(layer(), "weight", torch.tensor([[1, 0, 1], [0, 1, 0]]))
    assert module.weight.tolist() == [[1, 0, 2], [0, 0.5, 0]]
    scores = torch.arange(6.0).reshape(2, 3)
    assert mask_of(prune.l1_unstructured(layer(), "weight", 3, importance_scores=scores)) == [[0] * 3, [1] * 3]
    assert mask_of(prune.identity(layer(), "weight")) == [[1] * 3] * 2
    with pytest.raises(RuntimeError, match="importance_scores have the shape of the parameter"):
        prune.l1_unstructured(layer(), "weight", 3, importance_scores=scores[0])


def test_tensors_are_pruned():
    assert prune.L1Unstructured(1).prune(torch.tensor([3.0, -1.0])).tolist() == [3, 0]


def test_parameters_are_pruned_together():
    first, second = layer(), layer()
    with torch.no_grad():
        second.weight.mul_(10)
    places = [(first, "weight"), (second, "weight")]
    prune.global_unstructured(places, pruning_method=prune.L1Unstructured, amount=5)
    assert mask_of(first) == [[0, 0, 0], [0, 0, 1]]
    assert mask_of(second) == [[1, 1, 1], [1, 1, 1]]
    with pytest.raises(TypeError, match='Only "unstructured" PRUNING_TYPE is supported'):
        prune.global_unstructured(places, pruning_method=prune.LnStructured, amount=1, n=1)


class Other(prune.Identity):
    PRUNING_TYPE = "other"


@pytest.mark.parametrize(("call", "error", "rule"), [
    (lambda: prune.L1Unstructured("x"), TypeError, "amount is a number"),
    (lambda: prune.L1Unstructured(1.5), ValueError, "amount is a non-negative int or a float between 0 and 1"),
    (lambda: prune.l1_unstructured(layer(), "weight", 7), ValueError, "amount is not above the number of entries to pr"
     "une"),
    (lambda: prune.ln_structured(layer(), "bias", 1, 2, 0), ValueError,
     "Structured pruning can only be applied to multidimensional tensors"),
    (lambda: prune.ln_structured(layer(), "weight", 1, 2, 4), ValueError, "dim is a dimension of the tensor"),
    (lambda: Other.apply(prune.identity(layer(), "weight"), "weight"), ValueError,
     "a pruning type is global, unstructured or structured"),
    (lambda: prune.PruningContainer().add_pruning_method(3), TypeError, "members are pruning methods")])
def test_what_cannot_be_pruned(call, error, rule):
    with pytest.raises(error, match=rule):
        call()


def test_containers_prune_one_parameter():
    first, second = prune.Identity(), prune.Identity()
    first._tensor_name, second._tensor_name = "a", "b"
    with pytest.raises(ValueError, match="all methods prune one parameter"):
        prune.PruningContainer(first, second)
