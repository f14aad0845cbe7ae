"""Recording: which operations become which nodes, and what stays as it is."""

from __future__ import annotations

import copy
import dataclasses
import math
import operator
import pickle
from collections import namedtuple

import numpy as np
import pytest

import tensocket as torch
from tensocket import fx, nn
from tensocket.fx import PH, Proxy, ProxyableClassMeta, Tracer, symbolic_trace
from tensocket.fx._symbolic_trace import PHWithMeta
from tensocket.nn import functional as F

fx.wrap("len")
fx.wrap("listed")


def listed(x, y):
    return [x, y] if isinstance(x, torch.Tensor) else None


@fx.wrap
def decorated(x, factor=1):
    return x * factor if bool(x.sum() > 0) else x


def calls(module):
    return [(node.op, node.target) for node in module.graph.nodes if node.op not in ("placeholder", "output")]


def equal(mine, theirs):
    np.testing.assert_array_equal(torch.as_tensor(mine).detach().numpy(), torch.as_tensor(theirs).detach().numpy())


x34 = torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.mark.parametrize(("function", "target"), [
    (lambda x: F.relu(x), F.relu), (lambda x: torch.relu(x), torch.relu), (lambda x: x.relu(), "relu"),
    (lambda x: x + 1, operator.add), (lambda x: 1 + x, operator.add), (lambda x: 2 ** x, operator.pow),
    (lambda x: -x, operator.neg), (lambda x: ~(x > 0), operator.invert), (lambda x: abs(x), operator.abs),
    (lambda x: x[1:, None], operator.getitem), (lambda x: x @ x.t(), operator.matmul), (lambda x: x.shape, getattr),
    (lambda x: torch.cat([x, x], dim=1), torch.cat), (lambda x: F.max_pool1d(x, 2), F.max_pool1d),
    (lambda x: torch.zeros(x.shape[0], 2), torch.zeros), (lambda x: torch.arange(x.size(0)), torch.arange),
    (lambda x: torch.full((2,), x.shape[0]), torch.full), (lambda x: math.sqrt(x.size(0)), math.sqrt),
    (lambda x: len(x), len), (lambda x: decorated(x, factor=3), decorated), (lambda x: F.softmax(x, -1), F.softmax),
    (lambda x: torch.linalg.norm(x), torch.linalg.norm), (lambda x: torch.fft.rfft(x).abs(), torch.fft.rfft),
    (lambda x: torch.ops.aten.relu.default(x), torch.ops.aten.relu.default),
    (lambda x: torch.ops.aten.relu(x), torch.ops.aten.relu), (lambda x: torch.ones(4) * x, torch.mul),
    (lambda x: torch.ones(12).view(x.size(0), 4), "view"), (lambda x: x ^ x if False else x // 2, operator.floordiv),
    (lambda x: torch.clamp(x, min=0), torch.clamp), (lambda x: x.to(torch.float64).sum(), "sum"),
    (lambda x: torch.einsum("ij->ji", x), torch.einsum), (lambda x: nn.init.zeros_(x.clone()), nn.init.zeros_)])
def test_targets(function, target):
    traced = symbolic_trace(function)
    assert target in [node.target for node in traced.graph.nodes]
    result, expected = traced(x34), function(x34)
    if isinstance(expected, torch.Tensor):
        equal(result, expected)
    else:
        assert result == expected


def test_arguments_are_as_the_program_gave_them():
    node = next(n for n in symbolic_trace(lambda x: torch.clamp(x, min=1)).graph.nodes if n.op == "call_function")
    assert (node.args[1:], dict(node.kwargs)) == ((), {"min": 1})
    node = next(n for n in symbolic_trace(lambda x: F.dropout(x, 0.5)).graph.nodes if n.op == "call_function")
    assert dict(node.kwargs) == {"p": 0.5, "training": True, "inplace": False}


def test_some_functions_have_one_form_in_graphs():
    def arguments(function):
        node = next(n for n in symbolic_trace(function).graph.nodes if n.op == "call_function")
        return [str(arg) for arg in node.args], dict(node.kwargs)

    assert arguments(lambda x, y: torch.einsum("ij,jk", [x, y])) == (["ij,jk", "x", "y"], {})
    assert arguments(lambda x, y: torch.tensordot(x, y, 1)) == (["x", "y"], {"dims": 1, "out": None})
    assert arguments(lambda x, y: torch.cdist(x, y)) == (["x", "y"], {"p": 2.0, "compute_mode": None})


def test_functions_that_a_program_keeps():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.act, self.norm = F.gelu, (F.silu, F.softmax)

        def forward(self, x):
            y = self.act(x) if self.act is F.gelu else x
            return self.norm[0](y)

    model = Model()
    traced = symbolic_trace(model)
    assert [target for _, target in calls(traced)] == [F.gelu, F.silu]
    assert model.act is F.gelu
    equal(traced(x34), model(x34))


def test_everything_is_as_before_behind_a_recording():
    before = {name: vars(module)[name] for module in (torch, F) for name in vars(module)}
    call, read = nn.Module.__call__, nn.Module.__getattr__
    symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    with pytest.raises(fx.proxy.TraceError):
        symbolic_trace(lambda x: 1 if x else 2)
    assert {name: vars(module)[name] for module in (torch, F) for name in vars(module)} == before
    assert (nn.Module.__call__, nn.Module.__getattr__) == (call, read)


def test_modules_are_leaves_or_entered():
    class Inner(nn.Module):
        def forward(self, x):
            return x.sin() + 1

    model = nn.Sequential(nn.Linear(4, 4), Inner(), nn.Sequential(nn.ReLU()))
    assert calls(symbolic_trace(model)) == [("call_module", "0"), ("call_method", "sin"),
                                            ("call_function", operator.add), ("call_module", "2.0")]

    class Leaves(Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, Inner) or super().is_leaf_module(m, module_qualified_name)

    tracer = Leaves()
    graph = tracer.trace(model)
    assert [node.target for node in graph.nodes if node.op == "call_module"] == ["0", "1", "2.0"]
    equal(fx.GraphModule(tracer.root, graph)(x34), model(x34))
    sin = next(node for node in symbolic_trace(model).graph.nodes if node.target == "sin")
    assert list(sin.meta["nn_module_stack"].values())[-1] == ("1", Inner)


def test_parameters_buffers_and_constants():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4))
            self.register_buffer("shift", torch.full((4,), 2.0))
            self.plain = torch.full((4,), 3.0)

        def forward(self, x):
            return x * self.weight + self.shift - self.plain + torch.arange(4)

    model = Model()
    traced = symbolic_trace(model)
    assert [target for op, target in calls(traced) if op == "get_attr"] == ["weight", "shift", "plain",
                                                                            "_tensor_constant0"]
    equal(traced(x34), model(x34))
    assert traced.weight is model.weight

    class Buffers(Tracer):
        proxy_buffer_attributes = True

    graph = Buffers().trace(model)
    assert [node.target for node in graph.nodes if node.op == "get_attr"][:2] == ["weight", "shift"]


def test_shapes_of_parameters_may_be_constants():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(4, 2))

        def forward(self, x):
            if self.weight.shape[0] > 3 and self.weight.dim() == 2 and self.weight.ndim == 2:
                return x @ self.weight * self.weight.size()[1] + self.weight.numel() + self.weight.nelement()
            return x

    model = Model()
    with pytest.raises(fx.proxy.TraceError):
        symbolic_trace(model)
    tracer = Tracer(param_shapes_constant=True)
    equal(fx.GraphModule(model, tracer.trace(model))(x34), model(x34))


def test_signatures():
    def f(a, b: int, *rest, key=3, other=5, **named):
        return a + b * key - other

    traced = symbolic_trace(f)
    assert "def forward(self, a, b : 'int', key = 3, other = 5, *rest, **named):" in traced.code
    assert [node.target for node in traced.graph.nodes if node.op == "placeholder"] == [
        "a", "b", "key", "other", "*rest", "**named"]
    assert traced(1, 2) == f(1, 2)
    assert traced(1, 2, 3, 4, 5) == f(1, 2, key=3, other=4)


def test_concrete_arguments():
    def f(x, flag, scale=2):
        return x * scale if flag else x

    traced = symbolic_trace(f, concrete_args={"flag": True})
    equal(traced(x34, True, 3), x34 * 3)
    with pytest.raises(AssertionError, match="flag has been specialized to have value True but got another value"):
        traced(x34, False)
    none = symbolic_trace(lambda x, m=None: x if m is None else x + m, concrete_args={"m": None})
    with pytest.raises(AssertionError, match="m has been specialized to have value None"):
        none(x34, x34)
    ordered = symbolic_trace(f, concrete_args=(PH, False, PH))
    equal(ordered(x34, False, 2), x34)
    with pytest.warns(UserWarning, match="Was not able to add assertion"):
        symbolic_trace(lambda x, y: x, concrete_args={"y": torch.ones(1)})


Point = namedtuple("Point", ["x", "y"])


@pytest.mark.parametrize(("function", "example"), [
    (lambda v: sum(v), [PH, PH, PH]), (lambda v: v["a"] + v["z"][0], {"a": PH, "z": (PH,)}),
    (lambda v: {k: [i + 1 for i in t] for k, t in v.items()}, {"a": (PH, PH), "b": [PH], "c": []}),
    (lambda v: v.x - v.y, Point(PH, PH)), (lambda v: Point(v[0], [v[1]]), (PH, PH)), (lambda v: v[0] * v[1], (PH, 3))])
def test_structures(function, example):
    counter = iter(range(9))
    value = torch.utils._pytree.tree_map(
        lambda leaf: torch.full((2,), next(counter) + 1.0) if leaf is PH else leaf, example)
    traced = symbolic_trace(function, concrete_args={"v": example})
    loaded = pickle.loads(pickle.dumps(traced))
    for form in (traced, copy.deepcopy(traced), symbolic_trace(traced), fx.Interpreter(traced).run, loaded):
        mine, spec = torch.utils._pytree.tree_flatten(form(value))
        theirs, expected = torch.utils._pytree.tree_flatten(function(value))
        assert spec == expected
        for a, b in zip(mine, theirs, strict=True):
            equal(a, b)


def test_metadata_of_placeholders():
    graph = Tracer().trace(lambda v: v[0], concrete_args={"v": [PHWithMeta("key")]})
    assert next(iter(graph.nodes)).ph_key == "key"


def test_classes_made_of_proxies():
    class Pair(metaclass=ProxyableClassMeta):
        def __init__(self, left, right):
            self.left, self.right = left, right

        def total(self):
            return self.left + self.right

    @dataclasses.dataclass
    class Both:
        a: object
        b: object

    def total(both):
        return both.a + both.b

    traced = symbolic_trace(lambda x, y: Pair(x, y).total())
    assert calls(traced) == [("call_function", Pair), ("call_method", "total")]
    assert traced(2, 3) == 5
    constant = Pair(1, 2)
    assert [op for op, _ in calls(symbolic_trace(lambda x: decorated(x, constant)))] == ["get_attr", "call_function"]
    graph = fx.Graph()
    x, y = (Proxy(graph.placeholder(name)) for name in "xy")
    tracer = x.tracer
    graph.output(tracer.create_proxy("call_function", total, (Both(x, y),), {}).node)
    assert fx.GraphModule({}, graph)(2, 3) == 5


def test_unpacking_and_assertions():
    equal(symbolic_trace(lambda x: (lambda a: a[0] + a[1])(torch.split(x, 2, dim=1)))(x34), x34[:, :2] + x34[:, 2:])

    # pytest rewrites the assertions of this file.
    space = {"torch": torch}
    exec("def unpack(x):\n    a, b = torch.split(x, 2, dim=1)\n    assert a.shape[0] == 3\n    return a * b\n", space)
    unpack = space["unpack"]

    class Asserting(Tracer):
        trace_asserts = True

    tracer = Asserting()
    traced = fx.GraphModule(tracer.root if hasattr(tracer, "root") else {}, tracer.trace(unpack))
    equal(traced(x34), unpack(x34))
    with pytest.raises(AssertionError):
        traced(x34[:2])


def test_stack_traces_and_copies_of_tracers():
    tracer = Tracer()
    tracer.record_stack_traces = True
    graph = tracer.trace(lambda x: x.sin())
    trace = next(node for node in graph.nodes if node.target == "sin").stack_trace
    assert "test_tracing.py" in trace
    assert "x.sin()" in trace
    assert "fx/proxy.py" not in trace
    assert copy.deepcopy(tracer).record_stack_traces


def test_proxies_for_passes():
    traced = symbolic_trace(lambda x: x + 1)
    output = traced.graph.output_node()
    with traced.graph.inserting_before(output):
        value = Proxy(output.args[0])
        output.args = ((torch.sin(value) * 2 + value.cos()).node,)
    traced.recompile()
    np.testing.assert_allclose(traced(x34).numpy(), np.sin(x34.numpy() + 1) * 2 + np.cos(x34.numpy() + 1), rtol=1e-6)
    assert repr(value) == "Proxy(add)"
    assert copy.deepcopy(value).node.name == "add"


def test_type_annotations_of_values():
    from tensocket.fx.annotate import annotate

    graph = Tracer().trace(lambda x: annotate(x.sin(), torch.Tensor) + annotate(1, int))
    assert next(node for node in graph.nodes if node.target == "sin").type is torch.Tensor
    assert "sin : torch.Tensor = x.sin()" in graph.python_code("self").src


def test_scripts_are_nodes():
    @torch.jit.script
    def doubled(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    class Inner(nn.Module):
        def forward(self, x: torch.Tensor, add: int = 1) -> torch.Tensor:
            return x.relu() + add

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.jit.script(Inner())

        def forward(self, x):
            return self.inner(doubled(x), add=3)

    traced = fx.symbolic_trace(Outer())
    assert [(node.op, str(node.target)) for node in traced.graph.nodes][2:4] == [
        ("get_attr", "inner"), ("call_method", "forward")]
    assert [node.op for node in traced.graph.nodes] == [
        "placeholder", "call_function", "get_attr", "call_method", "output"]
    assert traced(torch.tensor([-1.0, 2.0])).tolist() == [3.0, 7.0]
    with pytest.raises(RuntimeError, match="Expected a value of type 'Tensor'"):
        doubled(3)
