"""Graph modules: code, submodules, copies, files, calls that fail; and the rewriting of patterns."""

from __future__ import annotations

import copy
import importlib
import io
import operator
import pickle
import subprocess
import sys

import numpy as np
import pytest

import tensocket as torch
from tensocket import fx, nn
from tensocket.fx import GraphModule, Interpreter, Transformer, replace_pattern, symbolic_trace
from tensocket.fx._lazy_graph_module import _LazyGraphModule, _use_lazy_graph_module
from tensocket.fx.subgraph_rewriter import replace_pattern_with_filters
from tensocket.nn import functional as F

x34 = torch.linspace(-1, 1, 12).reshape(3, 4)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        self.scale = nn.Parameter(torch.full((4,), 0.5))
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x):
        return F.relu(self.layers(x)) * self.scale + self.shift


def equal(mine, theirs):
    np.testing.assert_array_equal(mine.detach().numpy(), theirs.detach().numpy())


def test_code():
    traced = symbolic_trace(Model())
    assert traced.code == """


def forward(self, x):
    layers_0 = getattr(self.layers, "0")(x);  x = None
    layers_1 = getattr(self.layers, "1")(layers_0);  layers_0 = None
    relu = torch.nn.functional.relu(layers_1, inplace = False);  layers_1 = None
    scale = self.scale
    mul = relu * scale;  relu = scale = None
    shift = self.shift
    add = mul + shift;  mul = shift = None
    return add
    """
    assert type(traced).__name__ == "Model"
    assert "print_readable" in str(traced)
    assert traced.code in str(traced)


def test_a_readable_listing(capsys):
    traced = symbolic_trace(nn.Sequential(nn.ReLU()))
    traced.add_submodule("inner", symbolic_trace(nn.Sequential(nn.Tanh())))
    text = traced.print_readable()
    assert capsys.readouterr().out == text + "\n"
    assert text.startswith("class Sequential(torch.nn.Module):\n    def forward(self, input")
    assert "\n    class inner(torch.nn.Module):\n        def forward" in text


@pytest.mark.parametrize("kind", [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(kind):
    traced = symbolic_trace(Model())
    traced.meta["note"] = 3
    copied = kind(traced)
    assert copied.code == traced.code
    assert copied.meta == {"note": 3}
    equal(copied(x34), traced(x34))
    node = next(node for node in copied.graph.nodes if node.target is operator.mul)
    node.target = operator.sub
    copied.recompile()
    if kind is not copy.copy:
        assert "mul = relu * scale" in traced.code
        assert "mul = relu - scale" in copied.code
        assert copied.scale is not traced.scale
    assert type(copied) is not type(traced)


def test_copies_keep_hooks_and_modes():
    traced = symbolic_trace(Model().eval())
    seen = []
    traced.register_forward_hook(lambda module, args, result: seen.append(tuple(result.shape)))
    traced._register_deepcopy_hook(lambda made: seen.append(type(made).__name__))
    copied = copy.deepcopy(traced)
    copied(x34)
    assert seen == ["Model", (3, 4)]
    assert not copied.training
    traced._unregister_deepcopy_hook(traced._deepcopy_hooks[0])


def test_files(tmp_path, monkeypatch):
    traced = symbolic_trace(Model())
    buffer = io.BytesIO()
    torch.save(traced, buffer)
    buffer.seek(0)
    equal(torch.load(buffer, weights_only=False)(x34), traced(x34))
    traced.to_folder(tmp_path / "saved_model", "Saved")
    monkeypatch.syspath_prepend(str(tmp_path))
    equal(importlib.import_module("saved_model").Saved()(x34), traced(x34))
    sys.modules.pop("saved_model")
    sys.modules.pop("saved_model.module")


def test_a_pickle_loads_in_a_process_of_a_program(tmp_path):
    traced = symbolic_trace(nn.Sequential(nn.Linear(4, 2), nn.GELU()))
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(traced))
    np.save(tmp_path / "expected.npy", traced(x34).detach().numpy())
    script = ("import pickle, numpy, torch, torch.fx\nmodel = pickle.load(open('model.pkl', 'rb'))\n"
              "x = torch.linspace(-1, 1, 12).reshape(3, 4)\n"
              "assert (model(x).detach().numpy() == numpy.load('expected.npy')).all()\n"
              "again = torch.fx.symbolic_trace(lambda x: torch.nn.functional.relu(x))\n"
              "assert 'torch.nn.functional.relu(x, inplace = False)' in again.code\nprint(again(x).sum().item() > 0)\n")
    done = subprocess.run([sys.executable, "-m", "tensocket.as_torch", "-c", script], cwd=tmp_path, capture_output=True,
                          text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_submodules():
    traced = symbolic_trace(Model())
    assert traced.add_submodule("extra.inner", nn.Dropout(0.5))
    assert not traced.add_submodule("scale.inner", nn.Dropout(0.5))
    assert traced.get_submodule("extra.inner").p == 0.5
    traced.delete_all_unused_submodules()
    assert [name for name, _ in traced.named_modules()] == ["", "layers", "layers.0", "layers.1"]
    assert traced.delete_submodule("layers.1")
    assert not traced.delete_submodule("layers.1")
    assert not traced.delete_submodule("missing.path")
    with pytest.raises(AttributeError):
        traced(x34)


def test_roots():
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.output(graph.call_function(operator.add, (graph.call_module("a.b", (x,)), graph.get_attr("a.c"))))
    module = GraphModule({"a": nn.Module(), "a.b": nn.ReLU(), "a.c": torch.ones(4)}, graph, "Named")
    equal(module(x34), x34.relu() + 1)
    assert "a.c" in dict(module.named_buffers())
    assert type(module).__name__ == "Named"
    with pytest.raises(RuntimeError, match=r"Node target a.b was referenced by the graph but there was no reference "
                       "to it in the `root` dict"):
        GraphModule({"a.c": 1}, graph)
    with pytest.raises(RuntimeError, match="Unsupported type 3 passed for root!"):
        GraphModule(3, graph)
    with pytest.raises(AssertionError, match="Expected a Graph"):
        module.graph = 3
    del module._code
    with pytest.raises(RuntimeError, match="the code has not been generated"):
        module.code  # noqa: B018


def test_an_error_shows_the_line(capsys):
    traced = symbolic_trace(Model())
    with pytest.raises(RuntimeError):
        traced(torch.ones(3, 7))
    shown = capsys.readouterr().err
    assert "Call using an FX-traced Module, line 5 of the traced Module's generated forward function:" in shown
    assert 'layers_0 = getattr(self.layers, "0")(x);  x = None\n~~~' in shown
    assert "<--- HERE" in shown


def test_functions_without_a_place_cannot_be_saved():
    def local(x):
        return x + 1

    graph = fx.Graph()
    graph.output(graph.call_function(local, (graph.placeholder("x"),)))
    module = GraphModule({}, graph)
    assert module(1) == 2
    with pytest.raises(ValueError, match="generated code refers to objects that can be imported"):
        pickle.dumps(module)


def test_lazy_modules():
    with _use_lazy_graph_module(True):
        traced = symbolic_trace(Model())
        assert isinstance(traced, _LazyGraphModule)
        assert traced._needs_recompile()
        result = traced(x34)
        assert not traced._needs_recompile()
        assert isinstance(pickle.loads(pickle.dumps(traced)), _LazyGraphModule)
        again = symbolic_trace(symbolic_trace(Model()))
        assert "relu" in again.code
        assert not again._needs_recompile()
    eager = symbolic_trace(Model())
    assert not isinstance(eager, _LazyGraphModule)
    assert result.shape == eager(x34).shape
    lazy = _LazyGraphModule.from_graphmodule(eager)
    equal(lazy(x34), eager(x34))
    assert str(_LazyGraphModule.from_graphmodule(eager)).startswith("GraphModule")


# ---- interpreters and patterns


def test_interpreters_and_transformers():
    class Negated(Transformer):
        def call_module(self, target, args, kwargs):
            return -super().call_module(target, args, kwargs)

        def call_function(self, target, args, kwargs):
            return super().call_function(torch.sigmoid if target is F.relu else target, args,
                                         {} if target is F.relu else kwargs)

    model = Model()
    traced = symbolic_trace(model)
    equal(Interpreter(traced).run(x34), model(x34))
    changed = Negated(traced).transform()
    inner = -model.layers[1](-model.layers[0](x34))
    equal(changed(x34), torch.sigmoid(inner) * model.scale + model.shift)
    changed.graph.lint()


def test_patterns():
    class Sums(nn.Module):
        def forward(self, x, w1, w2):
            m1 = torch.cat([w1, w2]).sum()
            m2 = torch.cat([w1, w2]).sum()
            return x + torch.max(m1) + torch.max(m2)

    traced = symbolic_trace(Sums())
    matches = replace_pattern(traced, lambda a, b: torch.cat([a, b]).sum(),
                              lambda a, b: torch.stack([a, b]).mean() * 10)
    assert [match.anchor.name for match in matches] == ["sum_1", "sum_2"]
    traced.graph.lint()
    x, a, b = x34, torch.ones(2), torch.full((2,), 4.0)
    equal(traced(x, a, b), x + 25 + 25)
    assert torch.cat not in [node.target for node in traced.graph.nodes]


def test_patterns_that_follow_each_other():
    traced = symbolic_trace(lambda x: torch.neg(torch.neg(torch.neg(x))) + 1)
    matches = replace_pattern(traced, lambda x: torch.neg(x), lambda x: torch.relu(x) * 2)
    assert len(matches) == 3
    equal(traced(x34), x34.relu() * 8 + 1)


def test_filters_and_callbacks():
    traced = symbolic_trace(lambda x: (x * 2 + 1) * 3 + 4)
    done = replace_pattern_with_filters(
        traced, lambda x: x * 7, lambda x: x - 1, ignore_literals=True,
        match_filters=[lambda match, graph, pattern: match.nodes_map is not None and match.anchors[0].args[1] == 3])
    assert len(done) == 1
    assert [node.target for node in done[0].replacements] == [operator.sub]
    equal(traced(x34), (x34 * 2 + 1) - 1 + 4)
    traced = symbolic_trace(lambda x: x.sin() + x.cos())
    replace_pattern_with_filters(traced, lambda x: x.sin(), replacement_callback=lambda match, graph, pattern:
                                 symbolic_trace(lambda x: x.exp()).graph)
    np.testing.assert_allclose(traced(x34).numpy(), np.exp(x34.numpy()) + np.cos(x34.numpy()), rtol=1e-6)
    with pytest.raises(AssertionError, match="Must provide either a replacement"):
        replace_pattern_with_filters(traced, lambda x: x.exp())


def test_replacements_with_modules():
    class Pattern(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(x)

    class Replacement(nn.Module):
        def __init__(self):
            super().__init__()
            self.soft = nn.Softplus()

        def forward(self, x):
            return self.soft(x)

    class Whole(Pattern):
        def forward(self, x):
            return self.act(x) + 1

    traced = symbolic_trace(Whole())
    replace_pattern(traced, Pattern(), Replacement())
    equal(traced(x34), F.softplus(x34) + 1)
    assert [name for name, _ in traced.named_modules()] == ["", "soft"]
    broken = symbolic_trace(Replacement())
    del broken.soft
    with pytest.raises(RuntimeError, match=r"reference|nonexistent"):
        replace_pattern(symbolic_trace(Whole()), Pattern(), broken)


def test_a_tracer_within_a_function_is_not_pickled():
    class Local(fx.Tracer):
        def trace(self, root, concrete_args=None):
            graph = super().trace(root, concrete_args)
            graph._tracer_cls = Local
            return graph

    module = nn.Sequential(nn.ReLU())
    made = fx.GraphModule(module, Local().trace(module))
    assert made._tracer_cls is None
    assert pickle.loads(pickle.dumps(made))(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]


def test_the_first_recording_of_a_process_leaves_nothing_replaced():
    script = ("import tensocket as torch\n"
              "layer, x = torch.nn.Linear(3, 2), torch.ones(1, 3)\n"
              "torch.fx.symbolic_trace(torch.nn.Sequential(layer))\n"
              "program = torch.export.export(layer, (x,))\n"
              "assert program.module()(x).equal(layer(x)), 'export and calls work as before'\n")
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
