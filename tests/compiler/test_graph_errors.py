"""Errors of graphs: each tells what is wrong, the rule, and the next step."""

from __future__ import annotations

import functools
import operator
import types

import pytest

from tensocket_compiler.graph import Graph, Node
from tensocket_plugins.contract.errors import ArgumentError


def simple():
    graph = Graph()
    x = graph.placeholder("x")
    y = graph.call_function(operator.neg, (x,))
    graph.output(y)
    return graph, x, y


def fails(rule, call, *args, kind=ArgumentError):
    with pytest.raises(kind) as caught:
        call(*args)
    assert isinstance(caught.value, RuntimeError) or kind is not ArgumentError
    assert rule in str(caught.value)
    assert str(caught.value).startswith("[")
    assert str(caught.value).count(" — ") >= 2


def test_nodes():
    graph = Graph()
    fails("op is one of placeholder, get_attr, call_function, call_module, call_method, output", Node, graph, "n",
          "call", "x", (), {})
    fails("the target of a call_function is callable", graph.call_function, "name")
    fails("the target of every other op is a str", graph.call_method, operator.add)
    with pytest.raises(AssertionError, match="args must be a tuple"):
        graph.create_node("call_method", "relu", [1])
    with pytest.raises(AssertionError, match="kwargs must be a dict"):
        graph.create_node("call_method", "relu", (), [1])


def test_erasing():
    graph, x, y = simple()
    fails("Tried to erase Node x but it still had 1 users in the graph: {neg: None}!", graph.erase_node, x)
    other, z, _ = simple()
    with pytest.raises(AssertionError, match="from wrong graph"):
        other.erase_node(graph.placeholder("unused"))
    with pytest.raises(AssertionError, match="into a different Graph"):
        y.prepend(z)
    with pytest.raises(AssertionError, match="not in this graph"):
        graph.inserting_before(z)


def test_order_and_owners():
    graph, x, y = simple()
    y.append(x)
    fails("Argument 'x' of Node 'neg' was used before it has been defined! Please check that Nodes in the graph are "
          "topologically ordered\ngraph():\n", graph.lint)
    graph, x, y = simple()
    other, z, _ = simple()
    y.args = (z,)
    fails("Argument 'x' of Node 'neg' does not belong to this Graph, but was used as an argument!", graph.lint)
    graph, x, y = simple()
    y.graph = other
    fails("Node 'neg' does not belong to this Graph!", graph.lint)
    graph, x, y = simple()
    y.name = "x"
    fails("Node redefined name x!", graph.lint)
    graph, x, y = simple()
    y.op = "call"
    fails("Node neg had unknown opcode call!", graph.lint)
    fails("node: call <built-in function neg> is not implemented", graph.python_code, "self")


def test_targets():
    graph = Graph()
    graph.output(graph.get_attr("inner.bias"))
    graph.owning_module = types.SimpleNamespace(inner=types.SimpleNamespace(bias=1))
    graph.lint()
    del graph.owning_module.inner.bias
    fails("Node inner_bias target inner.bias references nonexistent attribute bias of inner", graph.lint)
    graph.owning_module = types.SimpleNamespace(layer=3)
    next(iter(graph.nodes)).op, next(iter(graph.nodes)).target = "call_module", "layer"
    fails("Node inner_bias target layer references a int, but call_module calls a module", graph.lint)
    with pytest.warns(UserWarning, match="no underlying reference in the owning GraphModule"):
        graph.get_attr("missing.name")
    with pytest.warns(UserWarning, match="Attempted to insert a call_module Node"):
        graph.call_module("missing")


def test_functions_without_a_name():
    graph = Graph()
    graph.output(graph.call_function(functools.partial(operator.add, 1), (graph.placeholder("x"),), name="added"))
    fails("the target of a call_function has a name", graph.python_code, "self")


def test_tables(capsys):
    simple()[0].print_tabular()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["opcode", "name", "target", "args", "kwargs"]
    assert set(lines[1]) == {"-", " "}
    assert lines[2].split() == ["placeholder", "x", "x", "()", "{}"]
    assert [line.index("{}") for line in lines[2:]] == [lines[0].index("kwargs")] * (len(lines) - 2)


def test_arguments_of_changes():
    _graph, x, y = simple()
    with pytest.raises(AssertionError, match="between 0 and len"):
        y.insert_arg(5, x)
    x.meta["a"] = 1
    with pytest.raises(AssertionError, match=r"already has \.meta keys"):
        y.replace_all_uses_with(x, propagate_meta=True)
    with pytest.raises(AssertionError, match="the last node of the graph is not an output"):
        Graph().output_node()
