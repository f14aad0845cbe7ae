"""tensocket.func with modules: per-sample gradients, ensembles, Newton's method, state as arguments."""

from __future__ import annotations

import re
from typing import Any

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import ArgumentError, ArgumentTypeError, AutogradError, ModuleAttributeError, StateDictError
from tensocket.func import functional_call, grad, hessian, jvp, stack_module_state, vmap


@pytest.fixture
def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 2)).double()


def close(actual: Any, expected: Any) -> None:
    assert actual.shape == expected.shape
    assert (actual - expected).abs().amax().item() < 1e-12


def test_gradients_of_every_sample(model: nn.Module) -> None:
    inputs, classes = torch.randn(6, 3, dtype=torch.float64), torch.tensor([0, 1, 1, 0, 1, 0])
    parameters = {name: value.detach() for name, value in model.named_parameters()}

    def loss(parameters: Any, x: Any, y: Any) -> Any:
        return nn.functional.cross_entropy(functional_call(model, parameters, (x,)), y)

    found = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, inputs, classes)
    for k in range(6):
        model.zero_grad()
        nn.functional.cross_entropy(model(inputs[k]), classes[k]).backward()
        for name, parameter in model.named_parameters():
            close(found[name][k], parameter.grad)


def test_an_ensemble_runs_as_one(model: nn.Module) -> None:
    models = [nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)) for _ in range(3)]
    parameters, buffers = stack_module_state(models)
    assert buffers == {}
    assert all(value.requires_grad and value.is_leaf for value in parameters.values())
    x = torch.randn(5, 3)
    together = vmap(lambda p, x: functional_call(models[0], p, (x,)), in_dims=(0, None))(parameters, x)
    for k, single in enumerate(models):
        assert (together[k] - single(x)).abs().amax().item() < 1e-6
    together.sum().backward()
    models[1](x).sum().backward()
    assert (parameters["0.weight"].grad[1] - models[1][0].weight.grad).abs().amax().item() < 1e-5


def test_newton_finds_the_minimum_of_a_quadratic() -> None:
    matrix = torch.tensor([[3.0, 1.0], [1.0, 2.0]], dtype=torch.float64)
    target = torch.tensor([1.0, -2.0], dtype=torch.float64)

    def value(x: Any) -> Any:
        return 0.5 * x @ matrix @ x - target @ x

    x = torch.tensor([5.0, 7.0], dtype=torch.float64)
    (a, b), (c, d) = hessian(value)(x).tolist()
    g, h = grad(value)(x).tolist()
    determinant = a * d - b * c
    step = torch.tensor([(d * g - b * h) / determinant, (a * h - c * g) / determinant], dtype=torch.float64)
    close(matrix @ (x - step), target)


def test_products_with_the_hessian_of_a_model(model: nn.Module) -> None:
    x = torch.randn(4, 3, dtype=torch.float64)
    parameters = {name: value.detach() for name, value in model.named_parameters()}
    direction = {name: torch.randn(value.shape, dtype=torch.float64) for name, value in parameters.items()}

    def loss(parameters: Any) -> Any:
        return functional_call(model, parameters, x).square().sum()

    product = jvp(grad(loss), (parameters,), (direction,))[1]
    step = 1e-5
    ahead, behind = (grad(loss)({k: v + s * direction[k] for k, v in parameters.items()}) for s in (step, -step))
    for name in parameters:
        assert ((ahead[name] - behind[name]) / (2 * step) - product[name]).abs().amax().item() < 1e-6


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.ones(1))
        self.b = self.a
        self.register_buffer("shift", torch.tensor([10.0]))

    def forward(self, x: Any, factor: float = 1.0) -> Any:
        return x * self.a * factor + self.b + self.shift


def test_other_state_for_one_call() -> None:
    module, x = Tied(), torch.ones(1)
    before = module.a
    assert functional_call(module, {"a": torch.zeros(1)}, x).item() == 10
    assert functional_call(module, {"a": torch.zeros(1)}, x, tie_weights=False).item() == 11
    assert functional_call(module, {"b": torch.full((1,), 2.0)}, (x,), {"factor": 3.0}).item() == 18
    assert functional_call(module, ({"a": torch.zeros(1)}, {"shift": torch.zeros(1)}), x).item() == 0
    assert functional_call(module, {"unknown": x}, x).item() == 12
    with pytest.raises(TypeError):
        functional_call(module, {"a": "no tensor"}, x)
    assert module.a is before
    assert module.b is before
    assert module(x).item() == 12


def test_names_that_do_not_fit() -> None:
    module, x = Tied(), torch.ones(1)
    with pytest.raises(StateDictError, match=re.escape(
            "Error(s) in reparametrizing for Tied:\n\tUnexpected key(s): 'c'.\n\tMissing key(s): 'a', 'b'.")):
        functional_call(module, {"c": x, "shift": x}, x, strict=True)
    with pytest.raises(ArgumentError, match=re.escape("2 mappings — ['a'] appeared in multiple dictionaries")):
        functional_call(module, [{"a": x}, {"a": x}], x)
    with pytest.raises(ArgumentError, match=re.escape("different tensors for ['a', 'b'] — functional_call got multiple "
                                                      "values for keys ['a', 'b'], which are tied")):
        functional_call(module, {"a": x, "b": x * 2}, x)


class Counting(nn.Module):
    """Puts another tensor in the place of its buffer, and needs an attribute that it does not have itself."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.number = 2.0

    def forward(self, x: Any) -> Any:
        self.count = self.count + 1
        return x + self.count + getattr(self, "extra", 0)


def test_what_a_module_assigns_during_the_call_is_in_the_mapping() -> None:
    module, given = Counting(), torch.tensor([5.0])
    state = {"count": given}
    assert functional_call(module, state, torch.ones(1)).item() == 7
    assert state["count"].item() == 6
    assert given.item() == 5
    assert module.count.item() == 0


def test_attributes_that_exist_during_the_call_only() -> None:
    module = Counting()
    assert functional_call(module, {"extra": torch.tensor([10.0])}, torch.ones(1)).item() == 12
    assert not hasattr(module, "extra")


@pytest.mark.parametrize(("state", "error", "rule"), [
    ({"count": 3}, ArgumentTypeError, "3 is not an instance of torch.Tensor"),
    ({"number": torch.ones(1)}, ArgumentTypeError, "attribute `number`: 2.0 is not an instance of torch.Tensor"),
    ({"number.x": torch.ones(1)}, ArgumentTypeError, "attribute `number`: 2.0 is not an instance of torch.nn.Module"),
    ({"other.x": torch.ones(1)}, ModuleAttributeError, "Counting has no attribute `other`"),
])
def test_places_that_hold_no_tensor(state: Any, error: type[Exception], rule: str) -> None:
    module = Counting()
    kept = module.count
    with pytest.raises(error, match=re.escape(rule)):
        functional_call(module, {"count": torch.ones(1), **state}, torch.ones(1))
    assert module.count is kept
    assert module.number == 2.0


def test_modules_that_contain_themselves() -> None:
    module = Counting()
    module.inner = nn.Module()
    module.inner.outer = module
    state = {"inner.outer.count": torch.tensor([4.0])}
    assert functional_call(module, state, torch.ones(1), tie_weights=False).item() == 6
    assert module.count.item() == 0


def test_scripts_are_refused() -> None:
    scripted = torch.jit.script(nn.Linear(1, 1))
    with pytest.raises(StateDictError, match="The stateless API can't be used with Jitted modules"):
        functional_call(scripted, {}, torch.ones(1))


@pytest.mark.parametrize(("models", "message"), [
    (list, "no modules — there is at least one module"),
    (lambda: [nn.Linear(2, 2), Tied()], "modules of several classes — all modules are of one class"),
    (lambda: [nn.Linear(2, 2), nn.Linear(2, 2).eval()], "modules of which some train — all modules train or none does"),
    (lambda: [nn.Linear(2, 2), nn.Linear(2, 2).requires_grad_(False)],
     "weight that requires a gradient in some modules — it does in all or none"),
])
def test_modules_that_are_not_stacked(models: Any, message: str) -> None:
    with pytest.raises(AutogradError, match=re.escape(f"[stack_module_state] {message}")):
        stack_module_state(models())


def test_names_of_the_namespace() -> None:
    assert torch.vmap is torch.func.vmap
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(2), torch.ones(2))
        assert torch.autograd.forward_ad.unpack_dual(dual * 3).tangent.tolist() == [3.0, 3.0]
