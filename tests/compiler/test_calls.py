"""Calls of compiled functions beside other code: other arguments, turns, graphs around them, gradients in between."""

from __future__ import annotations

import types

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket_compiler.capture.layout import LAYOUT

from .test_training import compare, hits, record

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")


def test_other_arguments_may_read_other_things():
    scales = types.SimpleNamespace(small=3.0)

    def small(x):
        return x * scales.small

    def f(x):
        return small(x) if x.shape[0] == 2 else x + 1
    compiled = torch.compile(f)
    for size in (3, 3, 2, 2, 2, 2):  # the second call is observed; it does not read the scale
        np.testing.assert_array_equal(compiled(torch.ones(size)).numpy(), f(torch.ones(size)).numpy())
    scales.small = 5.0
    np.testing.assert_array_equal(compiled(torch.ones(2)).numpy(), [5.0, 5.0])


def test_calls_by_turns_have_a_graph_each():
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 2))
    compiled = torch.compile(model)
    x = torch.randn(5, 4)
    for k in range(10):
        for training in (True, False):
            model.train(training)
            with torch.set_grad_enabled(training):
                torch.manual_seed(k)
                found = compiled(x)
                torch.manual_seed(k)
                wanted = model(x)
            assert found.requires_grad is training
            np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), 1e-5, 1e-6)
    assert len(compiled._compiled.variants) == 2
    assert hits(compiled) >= 12


LOSSES = {
    "mean squares": (nn.MSELoss, lambda: torch.randn(6, 3)),
    "cross entropy": (nn.CrossEntropyLoss, lambda: torch.tensor([0, 1, 2, 0, 1, 2])),
    "a module with weights": (lambda: nn.Linear(3, 2), None),
}


@pytest.mark.parametrize("name", LOSSES)
def test_arguments_with_graphs_of_their_own(name):
    def run(compile):
        torch.manual_seed(0)
        first, last = nn.Sequential(nn.Linear(4, 3), nn.Tanh()), LOSSES[name][0]()
        f, g = (compile(first), compile(last))
        optimizer = torch.optim.Adam([*first.parameters(), *last.parameters()], lr=0.01)
        x, found = torch.randn(6, 4), []
        target = LOSSES[name][1]() if LOSSES[name][1] is not None else None
        for _ in range(8):
            optimizer.zero_grad()
            y = f(x)
            loss = g(y) if target is None else g(y, target)
            loss = loss.square().sum() if loss.ndim else loss
            loss.backward()
            optimizer.step()
            found.append(record(nn.ModuleList([first, last]), loss))
        return found, g
    plain, _ = run(lambda module: module)
    compiled, g = run(torch.compile)
    compare(plain, compiled)
    assert hits(g), g._compiled.reasons


def test_a_cell_through_time():
    def run(compile):
        torch.manual_seed(0)
        cell = nn.GRUCell(3, 4)
        step = compile(cell)
        x, found = torch.randn(6, 5, 3), []
        for _ in range(5):
            cell.zero_grad()
            h = torch.zeros(5, 4)
            for part in x:
                h = step(part, h)
            h.square().sum().backward()
            found.append(record(cell, h))
        return found, step
    plain, _ = run(lambda module: module)
    compiled, step = run(torch.compile)
    compare(plain, compiled)
    assert hits(step), step._compiled.reasons


def test_arguments_of_which_one_follows_from_the_other():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    compiled = torch.compile(lambda a, b: a * b)
    for _ in range(6):
        a = w * 3
        b = a * a
        w.grad = None
        compiled(a, b).sum().backward()  # (3 w)³
        np.testing.assert_allclose(w.grad.numpy(), 81 * np.array([1.0, 4.0]), 1e-6)
    assert hits(compiled)


def test_hooks_of_arguments_run_once_in_each_pass():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    compiled = torch.compile(lambda a: a * 2)
    for k in range(8):
        a, seen = w * 3, []
        if k > 4:
            a.register_hook(lambda grad, seen=seen: (seen.append(grad.tolist()), grad * 10)[1])
        w.grad = None
        compiled(a).sum().backward()
        assert w.grad.tolist() == ([60.0, 60.0] if k > 4 else [6.0, 6.0])
        assert seen == ([[2.0, 2.0]] if k > 4 else [])
    assert hits(compiled)


def test_gradients_between_calls_are_no_change():
    model = nn.Linear(3, 2)
    compiled = torch.compile(model)
    x = torch.randn(4, 3)
    for k in range(12):
        if k % 3 == 0:
            model.zero_grad()
        compiled(x).sum().backward()
        np.testing.assert_allclose(model.weight.grad.numpy(), (k % 3 + 1) * np.tile(x.numpy().sum(0), (2, 1)), 1e-5)
    assert hits(compiled) >= 8


def test_code_that_reads_gradients_is_guarded():
    model = nn.Linear(3, 2)
    compiled = torch.compile(lambda x: x * (1 if model.weight.grad is None else 2))
    x = torch.ones(2)
    for k in range(12):
        model.weight.grad = None if k % 2 else torch.ones(2, 3)
        assert compiled(x).tolist() == [1.0 + (not k % 2)] * 2


def test_functions_whose_calls_all_differ_are_not_observed_for_ever():
    state = types.SimpleNamespace(count=0)

    def f(x):
        return x * state.count
    compiled = torch.compile(f)
    for k in range(60):
        state.count = k
        assert compiled(torch.ones(1)).item() == k
    assert compiled._compiled._observations <= 32
    assert any("changes from call to call" in reason for reason in compiled._compiled.reasons)


def test_sizes_of_tensors_are_numbers_without_identity():
    marker, table = object(), torch.ones(1000)

    @torch.compile
    def f(x):
        return x + table[:2] if marker is not None and type(marker) is object else x
    for _ in range(6):
        np.testing.assert_array_equal(f(torch.ones(2)).numpy(), [2, 2])
    assert hits(f)


def test_results_of_frozen_tables_are_modified_in_place():
    table = nn.Embedding(10, 4)
    table.weight.requires_grad_(False)
    scale = nn.Parameter(torch.ones(4))
    ids = torch.tensor([[1, 2, 3], [4, 5, 6]])

    def f():
        found = table(ids)
        found += scale * 2
        return found.sum()
    compiled = torch.compile(f)
    for _ in range(6):
        scale.grad = None
        compiled().backward()
        assert scale.grad.tolist() == [12.0] * 4
    assert hits(compiled)


def test_parameters_that_are_assigned_through_data_stay_the_same():
    marker, model = object(), nn.Linear(3, 2)
    wanted = model.weight.detach().double().numpy().copy()

    def f(x):
        return model(x) if marker is not x else x  # identities matter
    compiled, x = torch.compile(f), torch.ones(1, 3)
    for k in range(30):
        np.testing.assert_allclose(compiled(x).detach().numpy(), f(x).detach().numpy(), 1e-6)
        model.zero_grad()
        compiled(x).sum().backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.data -= 0.125 * parameter.grad
        np.testing.assert_allclose(model.weight.detach().numpy(), wanted - 0.125 * (k + 1), 1e-5)
    assert hits(compiled) > 50
    assert not compiled._compiled.reasons


@pytest.mark.parametrize("device", ["cpu", "ref"])
@pytest.mark.parametrize(("function", "dtype", "reference"), [
    (lambda x: torch.view_as_real(x * 2), np.complex64, lambda x: np.stack([2 * x.real, 2 * x.imag], -1)),
    (lambda x: torch.view_as_real((x * 2).t()), np.complex64, lambda x: np.stack([2 * x.T.real, 2 * x.T.imag], -1)),
    (lambda x: (x.cumsum(0) + 1, x.cumsum(0).view(torch.int32)), np.float32,
     lambda x: (x.cumsum(0) + 1, x.cumsum(0).view(np.int32))),
    (lambda x: torch.cumsum(x, 0).view(torch.int16)[:, :2], np.float32, lambda x: x.cumsum(0).view(np.int16)[:, :2]),
])
def test_results_of_another_dtype_on_the_memory_of_an_operator(function, dtype, reference, device):
    compiled = torch.compile(function)
    for k in range(5):
        x = np.arange(k, k + 6).reshape(2, 3).astype(dtype) * (1 + 1j if dtype is np.complex64 else 1)
        found, wanted = compiled(torch.tensor(x, device=device)), reference(x)
        for a, b in zip(*((y if isinstance(y, tuple) else (y,)) for y in (found, wanted)), strict=True):
            np.testing.assert_array_equal(a.cpu().numpy(), b)
    assert hits(compiled)


@pytest.mark.parametrize("sizes", [(8, 64, 4, 32), (2, 300, 5, 40)])
def test_large_runs_are_copied_in_each_call(sizes):
    batch, steps, heads, width = sizes
    part = heads * width
    x = torch.randn(batch, steps, 3 * part, requires_grad=True)

    def f(x):
        first, second, third = x.split(part, dim=2)
        return torch.cat([first * second, third.tanh()], 0).view(2 * batch, steps, heads, width).transpose(1, 2)
    compiled = torch.compile(f)
    for k in range(6):
        weight = torch.randn(2 * batch, heads, steps, width)
        x.grad = None
        (compiled(x) * weight).sum().backward()
        a, b, c = np.split(x.detach().double().numpy(), 3, 2)
        u, v = np.split(weight.double().numpy().transpose(0, 2, 1, 3).reshape(2 * batch, steps, part), 2)
        wanted = np.concatenate([u * b, u * a, v * (1 - np.tanh(c) ** 2)], 2)
        np.testing.assert_allclose(x.grad.numpy(), wanted, 1e-4, 1e-5, err_msg=str(k))
    assert hits(compiled)
