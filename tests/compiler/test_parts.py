"""Functions that are no graph as a whole: modules and steps are, and everything happens as in the plain function."""

from __future__ import annotations

import copy
import re
import sys

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket_compiler.calls import parts
from tensocket_compiler.calls.intercept import ALONE, INTERCEPTED, THREAD
from tensocket_compiler.calls.report import report
from tensocket_compiler.capture.layout import LAYOUT

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
X = torch.linspace(-1, 1, 24).reshape(6, 4)
CALLS = 26


@pytest.fixture(autouse=True)
def nothing_remains(monkeypatch):
    """Small parts have graphs, too; whatever happens, no thread goes on taking over calls."""
    monkeypatch.setattr(parts, "FEWEST", 3)
    monkeypatch.setattr(parts, "FEWEST_FORWARD", 9)
    yield
    assert THREAD.take is None
    assert THREAD.depth == 0
    assert not ALONE
    assert not INTERCEPTED
    assert sys.getprofile() is None


def block(n=4, seed=0):
    """A module of some operators."""
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(n, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, n))


def parts_of(function):
    """Tiers and hits of parts by name."""
    compiled = getattr(function, "_compiled", None) or function.__dict__.get("_compiled") or function
    return {part.name: (part.tier, part.hits) for part in report(compiled).parts}


def same(found, wanted):
    np.testing.assert_allclose(found.detach().numpy(), wanted.detach().numpy(), 1e-5, 1e-6)


# ------------------------------------------------------------------------------------------- effects in order


def test_prints_happen_at_every_call_in_order(capsys):
    model = block()

    @torch.compile
    def f(x, k):
        print("before", k)
        y = model(x)
        print("after", k, tuple(y.shape))
        return y
    for k in range(CALLS):
        same(f(X, k), model(X))
    assert capsys.readouterr().out.split("\n") == [
        line for k in range(CALLS) for line in (f"before {k}", f"after {k} (6, 4)")] + [""]
    tier, hits = parts_of(f)["Sequential"]
    assert tier == "graph"
    assert hits > CALLS // 3


def test_branches_on_data_that_flips():
    model, other = block(), block(seed=1)

    def plain(x):
        y = model(x)
        return y * 2 if bool(y.sum() > 0) else other(y)
    f = torch.compile(plain)
    taken = set()
    for k in range(CALLS):
        x = X + (3 if k % 3 else -3)
        taken.add(bool(model(x).sum() > 0))
        same(f(x), plain(x))
    assert taken == {True, False}
    assert any(tier == "graph" and hits for tier, hits in parts_of(f).values())
    assert re.search(r"elements of a tensor are read at .*test_parts.py:\d+", f._compiled.reasons[0])


def test_a_whole_training_step_with_a_loss_that_is_read():
    def run(compiled):
        model = block()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        losses = []

        def step():
            optimizer.zero_grad()
            loss = model(X).square().mean()
            losses.append(loss.item())
            if losses[-1] > 1e6:
                raise ValueError("diverged")
            loss.backward()
            optimizer.step()
        f = torch.compile(step) if compiled else step
        for _ in range(CALLS):
            f()
        return losses, [x.detach().numpy() for x in model.parameters()], f
    wanted, parameters, _ = run(False)
    losses, found, f = run(True)
    np.testing.assert_allclose(losses, wanted, 1e-5)
    for x, y in zip(found, parameters, strict=True):
        np.testing.assert_allclose(x, y, 1e-4, 1e-5)
    assert {name: tier for name, (tier, _) in parts_of(f).items()} == {"Sequential": "graph", "Adam": "graph"}
    assert all(hits > CALLS // 3 for _, hits in parts_of(f).values())


@pytest.mark.parametrize("name", ["SGD", "AdamW", "Adagrad", "RAdam", "Adafactor"])
def test_steps_of_optimizers(name):
    def run(compiled):
        model = block()
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01)

        def step(k):
            optimizer.zero_grad()
            model(X).square().mean().item()
            (model(X) * (k % 3 + 1)).square().mean().backward()
            if k % 7 == 5:
                model[0].bias.grad = None
            optimizer.step()
        f = torch.compile(step) if compiled else step
        for k in range(CALLS):
            f(k)
        return [x.detach().numpy() for x in model.parameters()], f
    wanted, _ = run(False)
    found, _ = run(True)
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y, 2e-4, 2e-5)


def test_gradients_that_a_hook_replaces_in_a_step():
    model = block()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def replace(self, args, kwargs):
        for x in model.parameters():
            x.grad = torch.ones_like(x)
    optimizer.register_step_pre_hook(replace)

    @torch.compile
    def step():
        before = model[0].weight.detach().clone()
        model(X).sum().backward()
        optimizer.step()
        return (before - model[0].weight).mean().item()
    for _ in range(CALLS):
        assert step() == pytest.approx(0.1, rel=1e-3)
        assert model[0].weight.grad.equal(torch.ones_like(model[0].weight))
        optimizer.zero_grad()


def test_early_exits_and_exceptions_after_a_part():
    model = block()
    calls = []

    @torch.compile
    def f(x, k):
        y = model(x)
        calls.append(k)
        if k % 4 == 1:
            return None
        if k % 4 == 2:
            raise KeyError(k)
        print(end="")
        return y
    for k in range(CALLS):
        if k % 4 == 2:
            with pytest.raises(KeyError, match=str(k)):
                f(X, k)
        elif k % 4 == 1:
            assert f(X, k) is None
        else:
            same(f(X, k), model(X))
    assert calls == list(range(CALLS))


def test_exceptions_inside_of_a_part():
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = block()

        def forward(self, x, limit):
            y = self.inner(x)
            if limit < 0:
                raise ValueError("negative")
            return y * limit
    model = Picky()

    @torch.compile
    def f(x, limit):
        print(end="")
        try:
            return model(x, limit)
        except ValueError as error:
            return str(error)
    for k in range(CALLS):
        if k % 5 == 4:
            assert f(X, -1) == "negative"
        else:
            same(f(X, 2), model.inner(X) * 2)


# ------------------------------------------------------------------------------------------- modules


class Chatty(nn.Module):
    """A module that is no graph, around one that is."""

    def __init__(self, inner=None):
        super().__init__()
        self.inner = inner or block()
        self.seen = []

    def forward(self, x):
        self.seen.append(float(x.sum()))
        return self.inner(x) + x


def test_children_of_a_refused_module_are_tried():
    model = Chatty(Chatty())

    @torch.compile
    def f(x):
        print(end="")
        return model(x)
    for k in range(3 * CALLS):
        x = X + k
        same(f(x), model.inner.inner(x) + x + x)
    assert model.seen == model.inner.seen == pytest.approx([float((X + k).sum()) for k in range(3 * CALLS)])
    found = parts_of(f)
    assert found["Chatty"][0] == found["inner Chatty"][0] == "parts"
    assert found["inner.inner Sequential"][0] == "graph"
    assert found["inner.inner Sequential"][1] > CALLS


def test_a_compiled_module_that_is_no_graph():
    model = Chatty()
    f = torch.compile(model)
    for k in range(CALLS):
        same(f(X + k), model.inner(X + k) + X + k)
    assert list(parts_of(f)) == ["inner Sequential"]
    assert len(model.seen) == CALLS


def test_modules_whose_control_flow_depends_on_data():
    class Deep(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([block(seed=k) for k in range(3)])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
                if x.mean() > 0:
                    break
            return x
    model = Deep()
    f = torch.compile(model)
    for k in range(CALLS):
        x = X + (k % 5) - 2
        same(f(x), model(x))
    assert any(hits for _, hits in parts_of(f).values())


def test_modules_that_are_swapped_between_calls():
    models = [block(seed=k) for k in range(3)]
    current = [models[0]]

    @torch.compile
    def f(x):
        print(end="")
        return current[0](x)
    for k in range(CALLS):
        current[0] = models[k // 8 % 3]
        same(f(X), models[k // 8 % 3](X))


def test_children_that_are_swapped_between_calls():
    model = block()

    @torch.compile
    def f(x):
        print(end="")
        return model(x)
    for k in range(CALLS):
        if k % 9 == 8:
            model[1] = nn.ReLU() if k % 2 else nn.Sigmoid()
        y = model[3](model[2](model[1](model[0](X))))
        same(f(X), y)


def test_hooks_run_as_in_the_plain_function():
    model = block()
    events = []

    @torch.compile
    def f(x):
        print(end="")
        return model(x)
    handles = []
    for k in range(CALLS):
        if k == 10:
            handles.append(model.register_forward_hook(lambda m, args, y: events.append("after") or y + 1))
        if k == 14:
            handles.append(model[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,)))
        if k == 18:
            handles.append(nn.modules.module.register_module_forward_hook(lambda m, args, y: events.append(m)))
        if k == 22:
            for handle in handles:
                handle.remove()
        x = X * (2 if 14 <= k < 22 else 1)
        expected = x
        for layer in model:
            expected = layer.forward(expected)
        expected = expected + (1 if 10 <= k < 22 else 0)
        events.clear()
        same(f(X), expected)
        assert [x if x == "after" else type(x).__name__ for x in events] == (
            [*(["Linear", "Tanh", "LayerNorm", "Linear", "Sequential"] if k >= 18 else []), "after"]
            if 10 <= k < 22 else [])


def test_backward_hooks_run():
    model = block()
    events = []
    model[1].register_full_backward_hook(lambda m, grad_input, grad_output: events.append(float(grad_output[0].sum())))

    @torch.compile
    def f(x):
        print(end="")
        return model(x).square().sum()
    f(X).backward()
    wanted = events[0]
    for _ in range(CALLS):
        events.clear()
        f(X).backward()
        assert events == pytest.approx([wanted])


def test_modes_flip_between_calls():
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 4))
    plain = copy.deepcopy(model)

    @torch.compile
    def f(x):
        print(end="")
        return model(x)
    for k in range(2 * CALLS):
        if k % 7 == 6:
            model.train(not model.training)
            plain.train(not plain.training)
        torch.manual_seed(k)
        wanted = plain(X)
        position = torch.get_rng_state()
        torch.manual_seed(k)
        same(f(X), wanted)
        assert torch.get_rng_state().equal(position)
        same(model[1].running_var, plain[1].running_var)
        assert int(model[1].num_batches_tracked) == int(plain[1].num_batches_tracked)
    assert max(hits for _, hits in parts_of(f).values()) > CALLS // 2


def test_gradients_and_random_streams_are_those_of_the_plain_function():
    plain = block()
    model = copy.deepcopy(plain)

    def step(m, x):
        y = nn.functional.dropout(m(x), 0.5)
        loss = (m(y) * torch.rand(6, 4)).sum()
        print(end="")
        loss.backward()
        return loss
    f = torch.compile(lambda x: step(model, x))
    for k in range(CALLS):
        x, z = (X + k).requires_grad_(), (X + k).requires_grad_()
        torch.manual_seed(k)
        wanted = step(plain, x)
        torch.manual_seed(k)
        same(f(z), wanted)
        same(z.grad, x.grad)
        for a, b in zip(model.parameters(), plain.parameters(), strict=True):
            same(a.grad, b.grad)


def test_tiny_modules_run_as_they_are():
    tiny, flat = nn.ReLU(), nn.Sequential(nn.Flatten(0), nn.ReLU())

    @torch.compile
    def f(x):
        print(end="")
        return tiny(x).sum() + flat(x).sum()
    for _ in range(CALLS):
        same(f(X), 2 * X.relu().sum())
    assert {tier for tier, _ in parts_of(f).values()} == {"eager"}


def test_a_leaf_that_is_never_a_graph_is_not_tried_for_ever():
    class Reader(nn.Module):
        def forward(self, x):
            return x * float(x.max())
    model = Reader()

    @torch.compile
    def f(x):
        print(end="")
        return model(x)
    for _ in range(900):
        same(f(X), X * float(X.max()))
    compiled = f._compiled
    (_, part), = compiled.parts.found()
    assert part.compiled.is_exhausted()
    assert compiled.is_exhausted()
    f(X)
    assert parts_of(f) == {"Reader": ("eager", 0)}
