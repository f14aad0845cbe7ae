"""Functions that are no graph as a whole: modules and steps are, and everything happens as in the plain function."""

from __future__ import annotations

import contextlib
import copy
import gc
import pickle
import re
import sys
import threading
import weakref

import numpy as np
import pytest

import tensocket as torch
from tensocket import nn
from tensocket.utils import checkpoint as checkpoints
from tensocket_compiler.calls.function import CompiledFunction, reset
from tensocket_compiler.calls.intercept import ALONE, INTERCEPTED, THREAD
from tensocket_compiler.calls.parts import DEPTH, IDLE, MOST
from tensocket_compiler.calls.report import explain, report
from tensocket_compiler.capture.layout import LAYOUT

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")
X = torch.linspace(-1, 1, 24).reshape(6, 4)
CALLS = 26


@pytest.fixture(autouse=True)
def nothing_remains():
    """Whatever happens, no thread goes on taking over calls."""
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


# ------------------------------------------------------------------------------------------- calls inside of calls


def test_generators_inside_and_outside():
    model = block()

    def rows(x):
        for k in range(3):
            yield model(x + k)

    @torch.compile
    def inside(x):
        print(end="")
        return sum(y.sum() for y in rows(x))

    @torch.compile
    def outside(x):
        return rows(x)
    for _ in range(CALLS):
        same(inside(X), sum(model(X + k).sum() for k in range(3)))
        for k, y in enumerate(outside(X)):
            same(y, model(X + k))


def test_recursion_of_functions_and_modules():
    class Tree(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = block()

        def forward(self, x, depth):
            y = self.inner(x)
            return y if depth == 0 else self(y, depth - 1) + float(y.sum())
    tree = Tree()

    @torch.compile
    def f(x, depth):
        print(end="")
        return tree(x, 2) if depth == 0 else f(tree.inner(x), depth - 1)

    def plain(x, depth):
        return tree(x, 2) if depth == 0 else plain(tree.inner(x), depth - 1)
    for _ in range(CALLS):
        same(f(X, 2), plain(X, 2))


def test_deep_modules_do_not_run_out_of_stack():
    model = block()
    for _ in range(100):
        model = Chatty(model)
    f = torch.compile(model)
    for _ in range(2 * DEPTH):
        assert f(X).shape == (6, 4)


def test_compiled_functions_inside():
    scale = [1.0]
    model = block()

    @torch.compile
    def inner(x):
        return model(x) * scale[0] + 1

    @torch.compile
    def outer(x):
        print(end="")
        return inner(x) * 2

    @torch.compile
    def whole(x):
        return inner(x) * 2
    for k in range(CALLS):
        if k % 10 == 9:
            scale[0] += 1
        wanted = (model(X) * scale[0] + 1) * 2
        same(outer(X), wanted)
        same(whole(X), wanted)
    assert sum(variant.hits for variant in inner._compiled.variants)
    assert sum(variant.hits for variant in whole._compiled.variants)


def test_disabled_functions_are_no_parts():
    model, other = block(), block(seed=1)
    lines = []

    @torch.compiler.disable
    def quiet(x):
        lines.append(THREAD.take)
        return other(x)

    @torch.compile
    def f(x):
        return quiet(model(x))
    for _ in range(CALLS):
        same(f(X), other(model(X)))
    assert lines == [None] * CALLS
    assert list(parts_of(f)) == ["Sequential"]
    assert re.fullmatch(r".*test_parts.py:\d+: it calls a function that is not to be compiled", f._compiled.reasons[0])
    assert torch.compile(quiet)(X).equal(other(X))
    assert not hasattr(torch.compile(quiet)._compiled, "variants")


def test_disabled_modules_and_classes():
    model = block()
    disabled = torch._dynamo.disable(model)
    same(disabled(X), model(X))
    assert disabled.get_submodule("0") is model[0]
    f = torch.compile(disabled)
    same(f(X), model(X))
    assert torch.compiler.disable(Chatty) is Chatty
    assert "_torchdynamo_disable" not in vars(model)

    @torch.compiler.disable(recursive=False)
    def outer(x):
        return model(x)
    assert not hasattr(torch.compile(outer)._compiled, "variants")


def test_modes_that_see_calls_see_all_of_them():
    model = block()

    class Count(torch.utils._python_dispatch.TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    @torch.compile
    def f(x):
        print(end="")
        with Count() as mode:
            y = model(x)
        return y, mode.calls
    counts = {f(X)[1] for _ in range(CALLS)}
    assert len(counts) == 1
    assert counts.pop() > 3


def test_transforms_inside():
    model = block()

    @torch.compile
    def f(x):
        print(end="")
        return torch.func.vmap(lambda row: model(row[None])[0])(x)
    for _ in range(CALLS):
        same(f(X), model(X))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_inside(reentrant):
    model = block()

    @torch.compile
    def f(x):
        print(end="")
        return checkpoints.checkpoint(model, x, use_reentrant=reentrant).square().sum()
    wanted = None
    for _ in range(CALLS):
        model.zero_grad()
        f(X.clone().requires_grad_()).backward()
        found = model[0].weight.grad
        wanted = found if wanted is None else wanted
        same(found, wanted)


def test_other_threads_are_left_alone():
    model = block()
    seen = []

    def work(x):
        seen.append((THREAD.take, model(x)))

    @torch.compile
    def f(x):
        y = model(x)
        thread = threading.Thread(target=work, args=(x,))
        thread.start()
        thread.join()
        return y
    for _ in range(CALLS):
        same(f(X), model(X))
    for take, y in seen:
        assert take is None
        same(y, model(X))


def test_two_threads_call_the_same_function():
    model = block()
    lines = []

    @torch.compile
    def f(x, k):
        y = model(x)
        lines.append((k, float(y.detach().sum())))
        return y
    errors = []

    def work(k):
        try:
            for step in range(CALLS):
                same(f(X + k + step % 2, k), model(X + k + step % 2))
        except BaseException as error:
            errors.append(error)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    for k in range(3):
        wanted = [float(model(X + k + step % 2).sum()) for step in range(CALLS)]
        np.testing.assert_allclose([value for each, value in lines if each == k], wanted, 1e-5, 1e-5)


# ------------------------------------------------------------------------------------------- life of parts


def test_fullgraph_raises_at_the_first_refusal():
    model = block()

    @torch.compile(fullgraph=True)
    def f(x):
        print(end="")
        return model(x)
    f(X)
    for _ in range(2):
        with pytest.raises(torch.errors.CompileError, match="fullgraph=True allows no call that cannot be captured"):
            f(X)


def test_modules_that_calls_make_are_not_kept():
    made = []

    @torch.compile
    def f(x):
        print(end="")
        model = block()
        made.append(weakref.ref(model))
        return model(model(x))
    for _ in range(CALLS):
        f(X)
    gc.collect()
    assert [x() for x in made] == [None] * CALLS
    assert not f._compiled.parts.found()


def test_modules_that_are_idle_are_not_kept():
    current = [block()]
    first = weakref.ref(current[0])

    @torch.compile
    def f(x):
        print(end="")
        return current[0](x)
    for _ in range(8):
        f(X)
    current[0] = block()
    for _ in range(IDLE + 2):
        f(X)
    current[0] = block()
    f(X)
    gc.collect()
    assert first() is None


def test_reset_drops_parts():
    model = block()

    @torch.compile
    def f(x):
        print(end="")
        return model(x)
    for _ in range(8):
        f(X)
    part = weakref.ref(f._compiled.parts.found()[0][1].compiled)
    reset()
    gc.collect()
    assert part() is None
    assert not f._compiled.parts.found()
    for _ in range(8):
        same(f(X), model(X))


def test_copies_and_pickles_start_without_parts():
    f = torch.compile(Chatty())
    for _ in range(9):
        f(X)
    assert parts_of(f)
    for other in (copy.deepcopy(f), pickle.loads(pickle.dumps(f))):
        assert not parts_of(other)
        same(other(X), f(X))


def test_a_function_makes_a_limited_number_of_parts():
    models = [nn.Linear(4, 4) for _ in range(MOST + 8)]

    @torch.compile
    def f(x):
        print(end="")
        return sum(model(x).sum() for model in models)
    for _ in range(3):
        f(X)
    assert len(f._compiled.parts._table) == MOST


def test_a_value_that_changes_in_every_call_is_a_refusal_after_some_calls():
    model, count = block(), [0]

    @torch.compile
    def f(x):
        return model(x) * count[0]
    for k in range(CALLS):
        count[0] = k
        same(f(X), model(X) * k)
    assert f._compiled.reasons == ["count[0] changes from call to call"]
    assert parts_of(f)["Sequential"][1]


# ------------------------------------------------------------------------------------------- reports


def test_reports_list_parts():
    model = Chatty()

    def f(x):
        print(end="")
        return model.inner(x)
    found = explain(f, X)
    assert [(part.name, part.tier, part.hits, part.reasons) for part in found.parts] == [("Sequential", "graph", 2, [])]
    assert found.graph_count == 2  # forward and backward
    assert found.graph_break_count == 1
    line = f.__code__.co_firstlineno + 1
    assert found.break_reasons[0].startswith(f"{__file__}:{line}: it calls print()")
    assert "part Sequential: graph, 2 calls" in str(found)


def test_reasons_of_parts_name_places():
    model = nn.Sequential(Chatty())

    def f(x):
        print(end="")
        return model(x)
    compiled = CompiledFunction(f)
    for _ in range(8):
        compiled(X)
    part, *_ = report(compiled).parts
    assert part.tier == "parts"
    line = Chatty.forward.__code__.co_firstlineno + 1
    assert f"{__file__}:{line}" in part.reasons[0]
    assert str(part).startswith("part Sequential: parts, 0 calls; ")


@pytest.mark.parametrize(("function", "reason"), [
    (lambda x: x * x.sum().item(), "elements of a tensor are read at {}"),
    (lambda x: x.missing, "{}: it raised AttributeError"),
    (lambda x: print(x, end="") or x, "{}: it calls print()"),
])
def test_refusals_name_file_and_line(function, reason):
    compiled = CompiledFunction(function)
    for _ in range(3):
        with contextlib.suppress(AttributeError):
            compiled(X)
    place = f"{__file__}:{function.__code__.co_firstlineno}"
    assert compiled.reasons[0].startswith(reason.format(place))
