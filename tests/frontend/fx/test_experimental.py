"""Experimental passes and tracers: constants, normal forms, products, assertions, known shapes, operators."""

from __future__ import annotations

import operator
import pickle

import numpy as np
import pytest

import tensocket as torch
from tensocket import fx, nn
from tensocket.fx import symbolic_trace
from tensocket.fx.experimental import const_fold, merge_matmul, meta_tracer, optimization
from tensocket.fx.experimental.normalize import NormalizeArgs, NormalizeOperators
from tensocket.fx.experimental.proxy_tensor import (
    disable_proxy_modes_tracing,
    get_innermost_proxy_mode,
    get_isolated_graphmodule,
    make_fx,
)
from tensocket.fx.experimental.rewriter import RewritingTracer
from tensocket.fx.operator_schemas import create_type_hint, get_signature_for_torch_op, normalize_function, type_matches
from tensocket.nn import functional as F

x34 = torch.linspace(-1, 1, 12).reshape(3, 4)


def equal(mine, theirs):
    np.testing.assert_array_equal(mine.detach().numpy(), theirs.detach().numpy())


def close(mine, theirs):
    np.testing.assert_allclose(mine.detach().numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


class Folding(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Parameter(torch.full((4, 4), 0.5)), nn.Parameter(torch.ones(4))
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        left = self.a + self.a.permute(1, 0)
        return self.layer(x @ left) * (self.b.sum() * 2) - x


def test_constants_are_folded():
    model = Folding()
    folded = const_fold.split_const_subgraphs(model)
    assert [node.target for node in folded.graph.nodes if node.op == "get_attr"] == [
        "_FX_CONST_FOLDED_ATTRS", "_FX_CONST_FOLDED_ATTRS_1"]
    assert not folded.has_folding_been_run
    equal(folded(x34), model(x34))
    assert folded.has_folding_been_run
    assert tuple(folded._FX_CONST_FOLDED_ATTRS.shape) == (4, 4)
    with pytest.raises(AssertionError, match="already been run"):
        folded.run_folding()
    whole = const_fold.split_const_subgraphs(model, skip_folding_node_fn=lambda node: node.op == "get_attr")
    assert whole.const_subgraph_module is None
    equal(whole(x34), model(x34))


def test_arguments_by_name():
    traced = symbolic_trace(lambda x: F.max_pool1d(torch.add(x, 1), 2) + torch.clamp(x, -1).sum())
    normal = NormalizeArgs(traced).transform()
    for node in normal.graph.nodes:
        if node.op == "call_function" and node.target is not operator.add:
            assert node.args == ()
    equal(normal(x34), traced(x34))
    pair = normalize_function(torch.add, (1, 2), {"alpha": 3}, normalize_to_only_use_kwargs=True)
    assert pair.kwargs == {"input": 1, "other": 2, "alpha": 3}
    assert normalize_function(torch.add, (1,), {"other": 2}).args == (1,)
    assert normalize_function(len, ([],)) is None
    assert normalize_function(torch.add, (1, 2, 3, 4, 5)) is None
    node = next(node for node in symbolic_trace(nn.Sequential(nn.Linear(4, 4))).graph.nodes if node.op == "call_module")
    assert dict(node.normalized_arguments(node.graph.owning_module, normalize_to_only_use_kwargs=True).kwargs) == {
        "input": node.args[0]}
    assert list(get_signature_for_torch_op(torch.sin)[0].parameters) == ["input"]
    assert get_signature_for_torch_op(len) is None


def test_functions_become_operators():
    traced = symbolic_trace(lambda x: torch.sub(torch.mul(x, 2), x) + torch.add(x, x, alpha=3))
    normal = NormalizeOperators(traced).transform()
    targets = {node.target for node in normal.graph.nodes}
    assert {operator.sub, operator.mul, torch.add} <= targets
    assert torch.mul not in targets
    equal(normal(x34), traced(x34))


@pytest.mark.parametrize(("wanted", "given", "fits"), [
    (int, int, True), (float, int, True), (int, float, False), (int | str, str, False), (list[int], int, True),
    (list[int], create_type_hint((int, int)), True), (torch.Tensor, nn.Parameter, True),
    (int, type(torch.float32), True),
    (list[torch.Tensor], create_type_hint([nn.Parameter, torch.Tensor]), True), (list[torch.Tensor], list[int], False)])
def test_types(wanted, given, fits):
    assert type_matches(wanted, given) is fits


def test_products_are_merged():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.right = torch.linspace(-1, 1, 8).reshape(4, 2)

        def forward(self, a, b):
            return torch.matmul(a, self.right).sum() + torch.matmul(b, self.right).sum()

    model, args = Model(), (x34, x34[:2] + 1)
    merged = merge_matmul.merge_matmul(model)
    assert sum(node.target is torch.matmul for node in merged.graph.nodes) == 1
    close(merged(*args), model(*args))
    assert sum(node.target is torch.matmul for node in symbolic_trace(merged).graph.nodes) == 1


def test_statements_of_assertions():
    tracer = RewritingTracer()
    graph = tracer.trace(Asserting())
    traced = fx.GraphModule(tracer.root, graph)
    assert torch._assert in [node.target for node in graph.nodes]
    equal(traced(x34), x34.relu() * 2)
    with pytest.raises(AssertionError, match="four columns"):
        traced(x34[:, :2])


class Asserting(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ReLU()

    def forward(self, x):
        assert x.shape[1] == 4, "four columns"
        return self.inner(x) * 2


def test_known_shapes():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.norm = nn.Embedding(10, 6), nn.LayerNorm(6)

        def forward(self, x):
            rows = self.norm(self.table(x) + torch.arange(self.table(x).shape[-1], device=x.device))
            return torch.relu(rows) if rows.shape[0] < 5 and rows.dim() == 2 and rows.dtype == torch.float32 else -rows

    model = Model()
    for count in (3, 7):
        x = torch.arange(count) % 10
        traced = meta_tracer.symbolic_trace(model, {"x": x.to("meta")})
        equal(traced(x), model(x))
        equal(pickle.loads(pickle.dumps(traced))(x), model(x))
    with pytest.raises(fx.proxy.TraceError):
        meta_tracer.symbolic_trace(model)


def test_unions_and_subgraphs():
    sets = optimization.UnionFind(4)
    for number in range(4):
        sets.make_set(number)
    assert sets.join(2, 3) == 2
    assert sets.join(3, 1) == 1
    assert [sets.find(number) for number in range(4)] == [0, 1, 1, 1]
    traced = symbolic_trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Tanh()))
    nodes = list(traced.graph.nodes)
    part = optimization.extract_subgraph(traced, nodes[2:4], [nodes[1]], [nodes[3]])
    equal(part(x34)[0], x34.relu().tanh())


# ---- operators below autograd


def polynomial(x, y):
    return (x * y + x.sin()).relu(), {"max": x.max(0)[0]}


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
def test_operators_are_recorded(mode):
    traced = make_fx(polynomial, tracing_mode=mode)(x34, x34 + 1)
    other = torch.flip(x34, (0,)), x34 * 3
    (mine, named), (theirs, expected) = traced(*other), polynomial(*other)
    equal(mine, theirs)
    equal(named["max"], expected["max"])
    assert "torch.ops.aten.mul.Tensor(x_1, y_1)" in traced.code
    assert all(isinstance(node.meta["val"], torch.Tensor) for node in traced.graph.nodes if node.name in ("mul", "sin"))
    loaded = pickle.loads(pickle.dumps(traced))
    equal(loaded(*other)[0], theirs)


def test_gradients_are_operators():
    def loss(x):
        return (torch.tanh(x) ** 2).sum()

    traced = make_fx(torch.func.grad(loss))(x34)
    y = x34 * 0.5
    value = np.tanh(y.numpy().astype(np.float64))
    np.testing.assert_allclose(traced(y).numpy(), 2 * value * (1 - value ** 2), rtol=1e-4, atol=1e-6)
    assert all(node.op != "get_attr" for node in traced.graph.nodes)


def test_constants_parameters_and_changes_in_place():
    layer = nn.Linear(4, 2)
    traced = make_fx(lambda x: layer(x).add_(1))(x34)
    close(traced(x34 * 2), layer(x34 * 2) + 1)
    targets = {node.target for node in traced.graph.nodes if node.op == "get_attr"}
    assert targets == {"_param_constant0", "_param_constant1"}


def test_decompositions_and_structures():
    table = {torch.ops.aten.relu.default: lambda x: torch.clamp(x, min=0)}
    traced = make_fx(lambda v: [torch.relu(v["a"]) + v["b"][0]], decomposition_table=table)({"a": x34, "b": [x34 + 1]})
    equal(traced({"a": x34, "b": [x34 * 2]})[0], x34.clamp(min=0) + x34 * 2)
    assert "relu" not in traced.code
    assert "fx_pytree.tree_flatten_spec([v], self._in_spec)" in traced.code


def test_operators_of_programs():
    library = torch.library.Library("fx_tests", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    try:
        traced = symbolic_trace(lambda x: torch.ops.fx_tests.twice(x) + 1)
        assert "twice = torch.ops.fx_tests.twice(x)" in traced.code
        equal(traced(x34), x34 * 2 + 1)
        recorded = make_fx(lambda x: torch.ops.fx_tests.twice(x))(x34)
        assert "twice = torch.ops.fx_tests.twice.default(x_1)" in recorded.code
        equal(pickle.loads(pickle.dumps(recorded))(x34), x34 * 2)
    finally:
        library._destroy()


def test_modes_of_recording():
    seen = []

    def f(x):
        seen.append(get_innermost_proxy_mode() is not None)
        with disable_proxy_modes_tracing():
            torch.cos(x)
        seen.append(get_isolated_graphmodule(torch.sin, (x,), {}).code.count("sin.default"))
        return x + 1

    assert make_fx(f)(x34).code.count("cos") == 0
    assert seen == [True, 1]
    assert get_innermost_proxy_mode() is None
    with pytest.raises(ValueError, match="tracing_mode is real, fake or symbolic"):
        make_fx(f, tracing_mode="other")
