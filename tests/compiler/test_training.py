"""Compiled models and whole training steps compute what plain ones do, step by step, effects and all."""

from __future__ import annotations

import copy
import types

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket_compiler.capture.layout import LAYOUT

from .test_modules_and_steps import MODULES, OPTIMIZERS

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
STEPS = 7


def record(model, loss):
    """Everything that a step may have changed."""
    values = [("loss", loss)]
    for name, parameter in model.named_parameters():
        values += [(name, parameter), (f"{name}.grad", parameter.grad)]
    values += list(model.named_buffers())
    return [(name, None if x is None else x.detach().double().numpy().copy(), None if x is None else x._version)
            for name, x in values]


def compare(plain, compiled, parameters=()):
    """Compare elements of everything, and versions of parameters."""
    for step, (wanted, found) in enumerate(zip(plain, compiled, strict=True)):
        for (name, x, version), (_, y, other) in zip(wanted, found, strict=True):
            assert (x is None) is (y is None), (step, name)
            if x is not None:
                scale = max(1.0, float(np.abs(x).max(initial=0)))
                np.testing.assert_allclose(y, x, 2e-4, 2e-5 * scale, err_msg=f"{name} of step {step}")
                assert name not in parameters or version == other, (step, name)


def hits(function):
    return sum(variant.hits for variant in function._compiled.variants)


def train_model(name, compile):
    """Records of some steps with a model that ``compile`` returned, and that model."""
    torch.manual_seed(0)
    make, x = MODULES[name][:2]
    model, found = make(), []
    f = compile(model)
    for k in range(STEPS):
        torch.manual_seed(k)
        model.zero_grad()
        y = f(x)
        y = y[0] if isinstance(y, tuple) else y
        loss = (y * y).sum() if y.requires_grad else y.sum()
        if loss.requires_grad:
            loss.backward()
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.001 * parameter.grad
        found.append(record(model, loss))
    return found, f


@pytest.mark.parametrize("name", MODULES)
def test_models(name):
    plain, _ = train_model(name, lambda model: model)
    compiled, f = train_model(name, torch.compile)
    compare(plain, compiled, dict(f._orig_mod.named_parameters() if hasattr(f, "_orig_mod") else ()))
    assert hits(f) or f._compiled.reasons


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_whole_steps(name):
    def run(compiled):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3))
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01)
        x, y = torch.randn(5, 6), torch.tensor([0, 1, 2, 1, -100])

        def step():
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss
        run_step = torch.compile(step) if compiled else step
        found = []
        for _ in range(STEPS):
            loss = run_step()
            found.append(record(model, loss))
            assert loss.requires_grad
            with pytest.raises(RuntimeError, match=r"second time|freed"):
                loss.backward()
        return found, run_step
    plain, _ = run(False)
    compiled, step = run(True)
    compare(plain, compiled)
    assert hits(step) or step._compiled.reasons


def test_gradients_that_a_program_keeps_stay():
    model = nn.Linear(3, 2)
    x = torch.randn(4, 3)

    @torch.compile
    def step():
        model.zero_grad()
        model(x).square().sum().backward()
    kept, wanted = [], []
    for _ in range(8):
        with torch.no_grad():
            model.weight.mul_(1.1)
        step()
        kept.append(model.weight.grad)
        reference = x.double().numpy()
        w, b = model.weight.detach().double().numpy(), model.bias.detach().double().numpy()
        wanted.append(2 * (reference @ w.T + b).T @ reference)
    assert hits(step)
    for found, reference in zip(kept, wanted, strict=True):
        np.testing.assert_allclose(found.numpy(), reference, 1e-4, 1e-5)


def test_labels_are_checked_in_each_call():
    logits, labels = torch.randn(3, 4), torch.tensor([0, 1, 3])
    f = torch.compile(lambda: nn.functional.cross_entropy(logits, labels))
    for _ in range(6):
        assert f().item() == pytest.approx(nn.functional.cross_entropy(logits, labels).item())
    assert hits(f)
    labels[0] = 4
    with pytest.raises(IndexError):
        f()
    labels[0] = -100
    assert f().item() == pytest.approx(nn.functional.cross_entropy(logits, labels).item())


def penalty(model, x):
    """The gradients of a penalty on gradients, as for critics."""
    model.zero_grad()
    x = x.detach().requires_grad_()
    y = model(x * 2)
    inner, = torch.autograd.grad(y.square().sum(), x, create_graph=True)
    (inner.norm() + y.sum()).backward()
    return [inner, x.grad, *[parameter.grad for parameter in model.parameters()]]


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_second_derivatives(dropout):
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(dropout), nn.Linear(4, 2))
    other, x = copy.deepcopy(model), torch.randn(5, 3)
    compiled = torch.compile(model)
    for k in range(STEPS):
        torch.manual_seed(k)
        wanted = penalty(other, x + k)
        position = torch.get_rng_state()
        torch.manual_seed(k)
        for found, one in zip(penalty(compiled, x + k), wanted, strict=True):
            np.testing.assert_allclose(found.detach().numpy(), one.detach().numpy(), 1e-4, 1e-5)
        assert torch.get_rng_state().equal(position)
        for found, one in zip(model.buffers(), other.buffers(), strict=True):
            np.testing.assert_allclose(found.numpy(), one.numpy(), 1e-5)
    assert hits(compiled)


def test_second_derivatives_after_a_change_say_what_to_do():
    model = nn.Sequential(nn.Linear(3, 2), nn.Tanh())
    compiled = torch.compile(model)
    for _ in range(STEPS):
        x = torch.randn(4, 3, requires_grad=True)
        y = compiled(x).square().sum()
    model[1] = nn.Sigmoid()
    rule = (r"\[backward\] create_graph=True behind a compiled function, and a change of what it read — gradients of "
            "gradients call the function again, as it was — change it after the backward pass, or call the function "
            "without compile")
    with pytest.raises(torch.errors.AutogradError, match=rule):
        torch.autograd.grad(y, x, create_graph=True)


def test_a_parameter_modified_before_backward_is_noticed():
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    f = torch.compile(model)
    x = torch.randn(4, 3)
    for _ in range(5):
        f(x).sum().backward()
    y = f(x).sum()
    with torch.no_grad():
        model[1].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified"):
        y.backward()


def test_gradients_of_slices_of_a_leaf():
    torch.manual_seed(0)
    weight = torch.randn(6, 9, requires_grad=True)

    def gradient(x):
        a, b, c = weight.split(3, 1)
        loss = (((x @ a).tanh() + x @ b) @ c.t()).square().sum() + weight[2:4].square().sum()
        loss = loss + weight.unbind(0)[5].sum()
        return torch.autograd.grad(loss, weight)[0]
    compiled = torch.compile(gradient)
    for x in torch.randn(STEPS, 4, 6):
        np.testing.assert_allclose(compiled(x).numpy(), gradient(x).numpy(), 1e-5, 1e-5)
    assert hits(compiled)
    assert not compiled._compiled.reasons


@pytest.mark.parametrize("captured", [False, True])
def test_sparse_tensors_run_eagerly(captured):
    indices, values = torch.tensor([[0, 1, 1], [2, 0, 2]]), torch.tensor([3.0, 4.0, 5.0])
    sparse = torch.sparse_coo_tensor(indices, values, (2, 3))
    x = torch.arange(6.0).reshape(3, 2)
    f = torch.compile((lambda: sparse @ x) if captured else lambda matrix: matrix @ x)
    for _ in range(5):
        found = f() if captured else f(sparse)
        np.testing.assert_array_equal(found.numpy(), np.array([[0.0, 0, 3], [4, 0, 5]]) @ x.numpy())
    assert not hits(f)
    assert any("wraps other" in reason for reason in f._compiled.reasons)


def test_fullgraph_names_the_break():
    @torch.compile(fullgraph=True)
    def f(x):
        return x * x.sum().item()
    for _ in range(2):
        f(torch.ones(2))
    with pytest.raises(torch.errors.CompileError, match="fullgraph=True allows no call that cannot be captured"):
        f(torch.ones(2))


@pytest.mark.parametrize("calls", [1, 3])
def test_arguments_that_the_same_weights_made(calls):
    torch.manual_seed(0)
    model, inputs = nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(STEPS, 3, 4)

    def gradients(f):
        found = []
        for x in inputs:
            model.zero_grad()
            y = model(x)
            for _ in range(calls):
                y = f(y)
            y.sum().backward()
            found.append(model[0].weight.grad.numpy().copy())
        return found
    compiled = torch.compile(model)
    for found, wanted in zip(gradients(compiled), gradients(model), strict=True):
        np.testing.assert_allclose(found, wanted, 1e-5, 1e-6)
    assert hits(compiled)


def test_tensors_with_a_graph_are_assigned():
    class Normed(nn.Module):
        """A linear layer whose weight follows from a direction and a length at each call."""

        def __init__(self):
            super().__init__()
            self.v, self.g = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.ones(2, 1))
            self.weight = None

        def forward(self, x):
            self.weight = self.v * (self.g / self.v.norm(dim=1, keepdim=True))
            return x @ self.weight.t()

    layer = Normed()
    compiled, x, kept = torch.compile(layer), torch.randn(5, 3), []
    for k in range(8):
        layer.zero_grad()
        compiled(x * (k + 1)).sum().backward()
        v, g = layer.v.detach().double().numpy(), layer.g.detach().double().numpy()
        length = np.linalg.norm(v, axis=1, keepdims=True)
        total = (x.double().numpy() * (k + 1)).sum(0)
        np.testing.assert_allclose(layer.weight.detach().numpy(), v * g / length, 1e-5)
        np.testing.assert_allclose(layer.g.grad.numpy(), (v / length) @ total[:, None], 1e-4, 1e-5)
        wanted = g / length * (total - v * ((v @ total)[:, None] / length ** 2))
        np.testing.assert_allclose(layer.v.grad.numpy(), wanted, 1e-4, 1e-4)
        assert layer.weight.requires_grad
        assert all(layer.weight is not each for each in kept)
        kept.append(layer.weight)
        with torch.no_grad():
            layer.v.add_(0.25)
    assert hits(compiled)


def test_gradients_through_assigned_tensors():
    scale, box = torch.tensor([2.0, 3.0], requires_grad=True), types.SimpleNamespace(square=None)

    @torch.compile
    def f():
        box.square = scale * scale
    for k in range(8):
        f()
        gradient, = torch.autograd.grad((box.square * (k + 1)).sum(), scale)
        assert gradient.tolist() == [4.0 * (k + 1), 6.0 * (k + 1)]
    assert hits(f)


def test_graphs_that_a_program_looks_at():
    model, x = nn.Linear(3, 2), torch.randn(4, 3)

    def f(x):
        y = model(x) * 2
        assert type(y.grad_fn).__name__ == "MulBackward0"
        return y.tanh()
    compiled = torch.compile(f)
    for _ in range(6):
        model.zero_grad()
        compiled(x).sum().backward()
        found = model.weight.grad
        model.zero_grad()
        f(x).sum().backward()
        np.testing.assert_allclose(found.numpy(), model.weight.grad.numpy(), 1e-5, 1e-6)
    assert hits(compiled)
