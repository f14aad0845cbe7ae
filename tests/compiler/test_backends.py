"""Backends of programs: the graphs that they get compute what plain functions do, effects and gradients included."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import tensocket as torch
from tensocket import _dynamo, nn
from tensocket._dynamo.testing import CompileCounter, CompileCounterWithBackend, EagerAndRecordGraphs, same
from tensocket_compiler.capture.layout import LAYOUT

from .test_modules_and_steps import MODULES
from .test_training import STEPS, compare, hits, train_model

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")


@pytest.fixture(autouse=True)
def _fresh():
    torch.compiler.reset()
    _dynamo.utils.counters.clear()


@pytest.mark.parametrize("name", MODULES)
def test_models(name):
    plain, _ = train_model(name, lambda model: model)
    compiled, f = train_model(name, lambda model: torch.compile(model, backend="eager"))
    compare(plain, compiled, dict(f._orig_mod.named_parameters()))
    assert hits(f) >= STEPS - 2 or f._compiled.reasons


def test_a_backend_gets_a_graph_and_its_inputs():
    seen = []

    def backend(gm, example_inputs):
        seen.append((gm, example_inputs))
        return gm.forward

    weight = torch.randn(3, requires_grad=True)

    @torch.compile(backend=backend)
    def f(x, scale):
        y = x[0] * weight
        y += scale
        return y.relu(), x

    x = torch.ones(2, 3)
    result = f(x, 2.0)
    (gm, inputs), = seen
    assert isinstance(gm, torch.fx.GraphModule)
    assert [node.op for node in gm.graph.nodes] == ["placeholder"] * 2 + ["call_function"] * 2 + ["call_method",
                                                                                            "call_function", "output"]
    assert [node.name for node in gm.graph.find_nodes(op="placeholder")] == ["l_x_", "l_weight_"]
    assert inputs[0] is x
    assert inputs[1] is weight
    nodes = list(gm.graph.nodes)
    assert nodes[2].target is operator.getitem
    assert nodes[4].target == "add_"
    assert nodes[5].meta["val"].shape == nodes[5].meta["example_value"].shape == (3,)
    assert nodes[5].meta["val"].requires_grad
    assert 'test_backends.py' in nodes[5].meta["stack_trace"]
    assert result[1] is x
    for k in range(3):
        result = f(torch.full((2, 3), float(k)), 2.0)
        np.testing.assert_allclose(result[0].detach().numpy(), np.maximum(k * weight.detach().numpy() + 2, 0), 1e-6)
    assert hits(f) == 3
    assert len(seen) == 1
    result[0].sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), 2.0 * (2 * weight.detach().numpy() + 2 > 0), 1e-6)


def test_counting_backends():
    def fn(x):
        return torch.sin(x) + torch.cos(x)

    counter = CompileCounter()
    f = torch.compile(fn, backend=counter)
    x = torch.randn(3)
    assert same(fn(x), f(x))
    assert same(fn(x), f(x))
    assert (counter.frame_count, counter.op_count) == (1, 3)
    f(torch.randn(4))
    assert (counter.frame_count, counter.op_count) == (2, 6)
    assert _dynamo.utils.counters["stats"] == {"unique_graphs": 2, "calls_captured": 6}
    assert sum(_dynamo.utils.counters["recompiles"].values()) == 1
    counter.clear()
    assert (counter.frame_count, counter.op_count) == (0, 0)
    for backend in ("eager", "aot_eager", "inductor"):
        stored = CompileCounterWithBackend(backend)
        f = torch.compile(fn, backend=stored)
        for _ in range(6):
            assert same(fn(x), f(x))
        assert len(stored.graphs) == stored.frame_count == 1
        stored.clear()
        assert not stored.graphs
    recorder = EagerAndRecordGraphs()
    torch.compile(fn, backend=recorder)(x)
    assert same(recorder.graphs[0](x), (fn(x),))


def test_gradients_modes_and_functions_of_programs():
    class Triple(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    def fn(x):
        with torch.no_grad():
            fixed = x.exp()
        first, second = Triple.apply(x).chunk(2)
        return first * second + fixed[:2], fixed

    recorder = EagerAndRecordGraphs()
    f = torch.compile(fn, backend=recorder)
    for k in range(3):
        x = torch.full((4,), 0.5 + k, requires_grad=True)
        y, fixed = f(x)
        assert not fixed.requires_grad
        y.sum().backward()
        # each half's gradient is the other half, 2 x, times the 3 of the function's own backward pass
        np.testing.assert_allclose(x.grad.numpy(), np.full(4, 6 * (0.5 + k)), 1e-6)
    assert hits(f) == 2
    modes = [node.args for node in recorder.graphs[0].graph.nodes if node.target is torch._C._set_grad_enabled]
    assert modes == [(False,), (True,)]
    before = len(recorder.graphs[0].graph.nodes)
    recorder.graphs[0].graph.eliminate_dead_code()
    assert len(recorder.graphs[0].graph.nodes) == before


class Log:
    def __init__(self):
        self.sum = torch.zeros(())


def test_the_run_that_makes_a_graph_is_undone():
    state = torch.zeros(3)
    log = Log()
    cached = []

    def fn(x):
        if not cached:
            cached.append(1.0)
        x.add_(1)
        state.add_(x)
        log.sum = x.sum() + torch.rand(())
        return x * cached[0]

    def run(function):
        torch.manual_seed(0)
        state.zero_()
        cached.clear()
        found = []
        for _ in range(4):
            x = torch.ones(3)
            y = function(x)
            found.append([v.clone() for v in (x, y, state, log.sum)] + [x._version])
        return found

    f = torch.compile(fn, backend="eager")
    assert same(run(fn), run(f))
    assert hits(f) == 3, f._compiled.reasons


def test_graphs_see_changes():
    factor = {"value": 2.0}

    class Scale(nn.Module):
        def forward(self, x):
            return x * factor["value"]

    model = Scale()
    f = torch.compile(model, backend="eager")
    assert [f(torch.ones(1)).item() for _ in range(3)] == [2, 2, 2]
    factor["value"] = 5.0
    assert [f(torch.ones(1)).item() for _ in range(3)] == [5, 5, 5]
    assert hits(f) == 4


def test_errors_leave_the_mode_of_gradients():
    def fn(x, index):
        with torch.no_grad():
            return x[index]

    f = torch.compile(fn, backend="eager")
    x = torch.arange(3.0)
    for _ in range(2):
        assert f(x, torch.tensor([1])).item() == 1
    assert hits(f) == 1
    with pytest.raises(IndexError):
        f(x, torch.tensor([7]))
    assert torch.is_grad_enabled()
    assert hits(f) == 2


def test_compiled_functions_in_compiled_functions():
    factor = {"value": 2.0}
    x = torch.ones(2)
    for inside, outside in (("eager", "tensocket"), ("tensocket", "eager"), ("eager", "eager")):
        factor["value"] = 2.0
        inner = torch.compile(lambda x: x * factor["value"], backend=inside)
        for _ in range(5):
            inner(x)
        outer = torch.compile(lambda x, inner=inner: inner(x) + 1, backend=outside)
        for value in (2.0, 5.0):
            factor["value"] = value
            for _ in range(6):
                assert outer(x).tolist() == [value + 1] * 2


REFUSED = {
    "item": (lambda x: x * x.sum().item(), "elements of a tensor are read at"),
    "branch": (lambda x: x if x.sum() > 0 else -x, "elements of a tensor are read at"),
    "shape": (lambda x: x.nonzero(), "elements of a tensor are read at"),
    "backward": (lambda x: (x * _LEAF).sum().backward(), "it runs a backward pass at"),
    "autocast": (lambda x: _autocast(x), "it changes how operators behave, as autocast does at"),
    "print": (lambda x: print(end="") or x + 1, "it calls print()"),
    "break": (lambda x: (_dynamo.graph_break(), x + 1)[1], "it calls graph_break()"),
    "disabled": (lambda x: _disabled(x) + 1, "torch.compiler.disable() keeps out of graphs"),
    "requires_grad": (lambda x: _sets(x, "requires_grad", True), "it assigns requires_grad or data of a tensor"),
    "data": (lambda x: _sets(x, "data", x.detach() * 5), "it assigns requires_grad or data of a tensor"),
    "grad": (lambda x: _sets(x, "grad", x.detach() * 5), "it assigns gradients"),
    "property": (lambda x: _sets(_LEAF, "grad", x * 5), "it assigns gradients"),
    "attribute": (lambda x: _sets(x, "label", 5), "it gives attributes to a tensor that it made"),
    "hook": (lambda x: _hooked(x), "it sets hooks in its graph of gradients"),
}


_LEAF = torch.ones(2, 2, requires_grad=True)


def _sets(x, name, value):
    y = x if x is _LEAF else x * 3
    setattr(y, name, value)
    return y * 2


def _autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return x + 1


@torch.compiler.disable
def _disabled(x):
    assert not torch.compiler.is_compiling()
    return x * 2


def _hooked(x):
    y = x * _LEAF
    y.register_hook(lambda grad: grad * 2)
    return y


@pytest.mark.parametrize("name", REFUSED)
def test_calls_without_a_graph_run_eagerly(name):
    fn, reason = REFUSED[name]
    counter = CompileCounter()
    f = torch.compile(fn, backend=counter)
    x = torch.ones(2, 2)
    for _ in range(3):
        assert same(fn(x), f(x))
    assert counter.frame_count == 0
    assert reason in f._compiled.reasons[0]
    with pytest.raises(_dynamo.exc.Unsupported, match="fullgraph=True allows no call that cannot be captured"):
        torch.compile(fn, backend=counter, fullgraph=True)(x)


def test_backends_that_fail():
    def three(gm, example_inputs):
        return 3

    def fails(gm, example_inputs):
        raise KeyError("lost")

    f = torch.compile(lambda x: x + 1, backend=three)
    with pytest.raises(_dynamo.exc.BackendCompilerFailed, match="backend='three' returned a int — compiler_fn did "
                       "not return callable: a backend returns a function that computes its graph"):
        f(torch.ones(1))
    with pytest.raises(_dynamo.exc.BackendCompilerFailed, match="backend='fails' raised: KeyError: 'lost' — a "
                       "backend returns a function that computes its graph") as caught:
        torch.compile(lambda x: x + 1, backend=fails)(torch.ones(1))
    assert isinstance(caught.value.inner_exception, KeyError)
    with _dynamo.config.patch(suppress_errors=True):
        f = torch.compile(lambda x: x + 1, backend=fails)
        assert [f(torch.ones(1)).item() for _ in range(3)] == [2, 2, 2]
        assert "raised: KeyError" in f._compiled.reasons[0]
    f = torch.compile(lambda x: x + 1, backend=lambda gm, example_inputs: lambda *inputs: None)
    assert f(torch.ones(1)).item() == 2
    with pytest.raises(torch.errors.CompileError, match="returned a NoneType — it computes the 1 outputs of its graph"):
        f(torch.ones(1))


def test_options_and_modes_reach_backends():
    seen = []

    def backend(gm, example_inputs, **given):
        seen.append(given)
        return gm.forward

    torch.compile(lambda x: x + 1, backend=backend, options={"any": 1})(torch.ones(1))
    torch.compile(lambda x: x + 1, backend=backend, mode="fast")(torch.ones(1))
    torch.compile(lambda x: x + 1, backend=backend, mode="default")(torch.ones(1))
    assert seen == [{"options": {"any": 1}}, {"mode": "fast"}, {}]


def test_registered_backends(monkeypatch):
    from tensocket.compiler import backends
    monkeypatch.setattr(backends, "_KNOWN", dict(backends._KNOWN))

    @_dynamo.register_backend
    def counting_one(gm, example_inputs):
        return gm.forward

    _dynamo.register_backend(counting_one, name="hidden_one", tags=("debug",))
    assert "counting_one" in _dynamo.list_backends()
    assert "hidden_one" not in _dynamo.list_backends()
    assert "hidden_one" in _dynamo.list_backends(None)
    assert _dynamo.lookup_backend("hidden_one") is _dynamo.lookup_backend(counting_one) is counting_one
    f = torch.compile(lambda x: x + 1, backend="hidden_one")
    assert f(torch.ones(1)).item() == 2
    assert f._compiled.variants
    gm = torch.fx.symbolic_trace(lambda x: x * 3)
    assert _dynamo.lookup_backend("inductor")(gm, [torch.ones(1)])(torch.ones(1)).item() == 3
    with pytest.raises(torch.errors.ArgumentError, match="duplicate name: each backend has a name of its own"):
        _dynamo.register_backend(counting_one)
    with pytest.raises(torch.errors.ArgumentTypeError, match="a backend is a function of a graph module and "
                       "example inputs"):
        _dynamo.register_backend(3)
    with pytest.raises(torch.errors.ArgumentTypeError, match="a backend is a name or a function"):
        torch.compile(lambda x: x, backend=3)
    torch.compiler.set_default_backend("eager")
    try:
        assert torch.compiler.get_default_backend() == "eager"
        f = torch.compile(lambda x: x + 1)
        f(torch.ones(1))
        assert f._compiled.variants[0].module is not None
    finally:
        torch.compiler.set_default_backend(None)
    assert torch.compiler.get_default_backend() == "inductor"


def test_functions_that_are_kept_out(monkeypatch):
    counter = CompileCounter()
    _dynamo.disallow_in_graph(torch.sin)
    try:
        f = torch.compile(lambda x: torch.sin(x) + 1, backend=counter)
        f(torch.ones(1))
        assert "it calls sin(), which disallow_in_graph() keeps out of graphs at" in f._compiled.reasons[0]
    finally:
        _dynamo.allow_in_graph(torch.sin)
    f = torch.compile(lambda x: torch.sin(x) + 1, backend=counter)
    f(torch.ones(1))
    assert counter.frame_count == 1
    with pytest.raises(torch.errors.ArgumentTypeError, match="disallow_in_graph expects a callable"):
        _dynamo.disallow_in_graph(3)


def test_methods_and_other_callables():
    counter = CompileCounter()

    class Scaled:
        def __init__(self, factor):
            self.factor = factor

        @torch.compile(backend=counter)
        def scale(self, x):
            return x * self.factor

        @torch.compile(backend=counter)
        @staticmethod
        def shift(x):
            return x + 1

        @torch.compile(backend=counter)
        @classmethod
        def name(cls, x):
            return x - len(cls.__name__)

        def __call__(self, x):
            return x / self.factor

    import functools
    x = torch.full((2,), 8.0)
    one, two = Scaled(2), Scaled(4)
    for _ in range(3):
        assert (one.scale(x)[0], two.scale(x)[0], one.shift(x)[0], Scaled.shift(x)[0], one.name(x)[0]) == (
            16, 32, 9, 9, 2)
    one.factor = 3
    assert one.scale(x)[0] == 24
    called = torch.compile(two, backend=counter)
    partial = torch.compile(functools.partial(torch.add, other=1), backend=counter)
    builtin = torch.compile(operator.neg, backend=counter)
    for _ in range(3):
        assert (called(x)[0], partial(x)[0], builtin(x)[0]) == (2, 9, -8)
    module = nn.Linear(2, 2)
    module.compile(backend=counter)
    count = counter.frame_count
    for _ in range(2):
        module(torch.ones(1, 2))
    assert counter.frame_count == count + 1


def test_a_call_that_replaces_what_the_program_replaces():
    class State:
        kept = torch.ones(4)

    state = State()

    def f(x):
        if x.dim() == 2:
            state.kept = x.sum(0)
        return state.kept * x

    run = torch.compile(f, backend="eager")
    for k in range(6):
        state.kept = torch.full((4,), float(k))
        assert run(torch.ones(4)).tolist() == [k] * 4
    state.kept = torch.zeros(4)
    assert run(torch.ones(2, 4)).tolist() == [[2.0] * 4] * 2
    assert state.kept.tolist() == [2.0] * 4
    assert run._compiled.reasons == ["it replaces state.kept, which the program replaces between calls too"]
