"""Errors of recording: PyTorch's types, with what was given, the rule, and the next step."""

from __future__ import annotations

import pickle

import pytest

import tensocket as torch
from tensocket import fx, nn
from tensocket.fx import Graph, GraphModule, Proxy, Tracer, symbolic_trace, wrap
from tensocket.fx._pytree import register_pytree_flatten_spec, tree_flatten_spec
from tensocket.fx.annotate import annotate
from tensocket.fx.immutable_collections import immutable_list
from tensocket.fx.operator_schemas import normalize_function, normalize_module
from tensocket.fx.proxy import TraceError
from tensocket.fx.subgraph_rewriter import _missing_target
from tensocket.utils._pytree import tree_structure


def fails(kind, rule, call):
    with pytest.raises(kind) as caught:
        call()
    assert rule in str(caught.value)
    assert str(caught.value).startswith("[")
    assert str(caught.value).count(" — ") >= 2
    return caught.value


BRANCH = "symbolically traced variables cannot be used as inputs to control flow"
ITERATION = ("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
             "**kwargs function argument")


@pytest.mark.parametrize(("kind", "rule", "function"), [
    (TraceError, BRANCH, lambda x: 1 if x else 2), (TraceError, BRANCH, lambda x: not x),
    (TraceError, BRANCH, lambda x: x.dtype == torch.float32 and x), (ValueError, BRANCH, lambda x: bool(x > 0)),
    (TraceError, ITERATION, lambda x: list(x)), (TraceError, ITERATION, lambda x: max(*x)),
    (TraceError, ITERATION, lambda x: dict(**x)), (TraceError, ITERATION, lambda x: 1 in x),
    (RuntimeError, "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, "
     "please call torch.fx.wrap('len') at module scope", lambda x: len(x)),
    (RuntimeError, "Keys for dictionaries used as an argument cannot contain a Node", lambda x: {x: 1}),
    (NotImplementedError, "arguments of a graph are tensors, constants and containers of them; argument of type: "
     "<class 'object'>",
     lambda x: x + object()),
    (NameError, "parameter is not a member of this module", lambda x: x + nn.Parameter(torch.ones(2))),
    (NameError, "module is not installed as a submodule", lambda x: nn.ReLU()(x))])
def test_programs(kind, rule, function):
    fails(kind, rule, lambda: symbolic_trace(function))


@pytest.mark.parametrize("function", [lambda x: int(x), lambda x: float(x), lambda x: range(x), lambda x: round(x)])
def test_conversions_are_python_errors(function):
    with pytest.raises(TypeError):
        symbolic_trace(function)


def test_several_tracers():
    a, b = (Proxy(Graph().placeholder("x")) for _ in range(2))
    fails(RuntimeError, "Found multiple different tracers among the arguments of a call", lambda: torch.add(a, b))


def test_changes_of_arguments():
    class Functional(Tracer):
        check_mutable_operations = True

    rule = ("Tried to trace mutable operation {}. FX only supports functional code, so operations that mutate operands "
            "in-place (e.g. via `out` arguments) are not supported")
    fails(RuntimeError, rule.format("aten::sin_"), lambda: Functional().trace(lambda x: torch.sin_(x)))
    fails(RuntimeError, rule.format("aten::sin.out"), lambda: Functional().trace(lambda x: torch.sin(x, out=x)))
    Tracer().trace(lambda x: torch.sin_(x))


def test_roots():
    class NoSelf(nn.Module):
        def forward(*args):
            return args[1]

    fails(RuntimeError, "`self` argument cannot be part of *args expansion!", lambda: symbolic_trace(NoSelf()))
    fails(TypeError, "a module or a Python function is recorded", lambda: symbolic_trace(len))
    fails(RuntimeError, "Tracing expected to get 1 arguments but got 2 concrete arguments",
          lambda: symbolic_trace(lambda x: x, concrete_args=(1, 2)))

    class Other(Tracer):
        traced_func_name = "missing"

    with pytest.raises(AssertionError, match="traced_func_name=missing doesn't exist in ReLU"):
        Other().trace(nn.ReLU())


def test_wrap():
    fails(RuntimeError, "Unsupported type for global function! Must be either a callable or string name",
          lambda: wrap(3))
    fails(NotImplementedError, "wrap must be called at the top level of a module", lambda: wrap("len"))


def test_annotations():
    proxy = Proxy(Graph().placeholder("x"))
    annotate(proxy, int)
    fails(RuntimeError, "Tried to annotate a value that already had a type on it!", lambda: annotate(proxy, int))


def test_structures():
    class Unknown:
        pass

    pair = tree_structure((0, 0))
    fails(RuntimeError, "Cannot flatten pytree, given spec: the numbers of entries differ",
          lambda: tree_flatten_spec((1, 2, 3), pair, exact_structural_match=True))
    assert tree_flatten_spec((1, 2, 3), pair) == [1, 2]
    torch.utils._pytree.register_pytree_node(Unknown, lambda value: ([0], None), lambda children, context: Unknown())
    spec = tree_structure(Unknown())
    assert tree_flatten_spec(Unknown(), spec) == [0]
    fails(RuntimeError, "<class 'int'> does not have a flatten_fn_spec associated with it",
          lambda: tree_flatten_spec(3, spec))
    register_pytree_flatten_spec(Unknown, lambda value, spec: [7])
    assert tree_flatten_spec(3, spec) == [7]
    fx._pytree._deregister_pytree_flatten_spec(Unknown)
    torch.utils._pytree._deregister_pytree_node(Unknown)


def test_collections():
    fails(NotImplementedError, "'immutable_list' object does not support mutation. If you are attempting to modify "
          "the kwargs or args of a torch.fx.Node object, build the new value and set it as a whole",
          lambda: immutable_list([1]).append(2))


def test_normal_forms():
    module = nn.Sequential(nn.Linear(2, 2))
    fails(RuntimeError, "Tried to normalize arguments to module target missing but root did not have that target!",
          lambda: normalize_module(module, "missing", ()))
    fails(RuntimeError, "Tried to normalize arguments to torch.sin but the arguments do not match its signature",
          lambda: normalize_function(torch.sin, (1, 2, 3, 4), arg_types=(int,) * 4))


def test_replacements():
    class Named:
        op, target = "call_module", "x"

    fails(RuntimeError, 'Attempted to create a "call_module" node during subgraph rewriting, but the referenced '
          "attribute does not exist in the replacement module", lambda: (_ for _ in ()).throw(_missing_target(Named())))


def test_errors_can_be_pickled():
    error = fails(TraceError, BRANCH, lambda: symbolic_trace(lambda x: 1 if x else 2))
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_graphs_of_modules_are_checked():
    module = symbolic_trace(nn.Sequential(nn.ReLU()))
    module.delete_submodule("0")
    fails(RuntimeError, "references nonexistent attribute 0 of the root module", module.graph.lint)
    assert isinstance(module, GraphModule)
