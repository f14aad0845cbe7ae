"""Nodes and graphs: arguments, uses, order, insertion, copies, dead code."""

from __future__ import annotations

import copy
import operator
import pickle
import types

import pytest

from tensocket_compiler.graph import Graph, Node, map_aggregate, map_arg
from tensocket_compiler.graph.immutable import immutable_dict, immutable_list
from tensocket_compiler.graph.names import Namespace, snake_case
from tensocket_compiler.graph.purity import SIDE_EFFECTS, has_side_effect


def names(graph):
    return [node.name for node in graph.nodes]


@pytest.fixture
def chain():
    """``(x + y) * x``, with the nodes by name."""
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    total = graph.call_function(operator.add, (x, y))
    product = graph.call_function(operator.mul, (total, x))
    graph.output(product)
    return graph, {node.name: node for node in graph.nodes}


def test_uses_follow_arguments(chain):
    graph, nodes = chain
    assert list(nodes["x"].users) == [nodes["add"], nodes["mul"]]
    nodes["mul"].args = (nodes["add"], nodes["y"])
    assert list(nodes["x"].users) == [nodes["add"]]
    assert list(nodes["y"].users) == [nodes["add"], nodes["mul"]]
    nodes["mul"].kwargs = {"out": [nodes["x"], {"a": nodes["y"]}]}
    assert nodes["mul"].all_input_nodes == [nodes["add"], nodes["y"], nodes["x"]]
    nodes["mul"].update_arg(1, 3)
    nodes["mul"].insert_arg(1, nodes["x"])
    nodes["mul"].update_kwarg("out", None)
    assert nodes["mul"].args == (nodes["add"], nodes["x"], 3)
    assert list(nodes["y"].users) == [nodes["add"]]
    graph.lint()


def test_arguments_cannot_be_changed_in_place(chain):
    _, nodes = chain
    nodes["mul"].args = ([nodes["add"], 1], {"k": 2})
    items, entries = nodes["mul"].args
    for change in (lambda: items.append(3), lambda: items.sort(), lambda: operator.setitem(items, 0, 1),
                   lambda: entries.update(a=1), lambda: operator.delitem(entries, "k")):
        with pytest.raises(NotImplementedError, match="object does not support mutation"):
            change()
    assert (items, entries) == ([nodes["add"], 1], {"k": 2})
    assert pickle.loads(pickle.dumps(immutable_list([1, 2]))) == [1, 2]
    assert hash(immutable_dict(a=1)) == hash(immutable_dict(a=1))


def test_replacing_uses(chain):
    graph, nodes = chain
    with graph.inserting_after(nodes["add"]):
        negative = graph.call_function(operator.neg, (nodes["add"],))
    replaced = nodes["add"].replace_all_uses_with(negative, lambda user: user is not negative)
    assert replaced == [nodes["mul"], negative]
    assert nodes["mul"].args == (negative, nodes["x"])
    assert negative.args == (nodes["add"],)
    nodes["mul"].replace_input_with(nodes["x"], nodes["y"])
    assert nodes["mul"].args == (negative, nodes["y"])
    nodes["add"].meta["note"] = 1
    extra = graph.call_function(operator.pos, (nodes["x"],))
    nodes["add"].replace_all_uses_with(extra, propagate_meta=True)
    assert extra.meta == {"note": 1}


def test_order_of_insertion(chain):
    graph, nodes = chain
    with graph.inserting_before(nodes["mul"]):
        graph.call_function(operator.neg, (nodes["x"],))
        graph.call_function(operator.pos, (nodes["x"],))
    with graph.inserting_after(nodes["x"]):
        graph.call_function(operator.invert, (nodes["x"],))
    with graph.inserting_before():
        graph.placeholder("z")
    assert names(graph) == ["z", "x", "invert", "y", "add", "neg", "pos", "mul", "output"]
    nodes["mul"].prepend(nodes["y"])
    assert names(graph) == ["z", "x", "invert", "add", "neg", "pos", "y", "mul", "output"]
    assert nodes["x"] < nodes["add"] <= nodes["mul"]
    assert nodes["mul"] > nodes["y"]
    assert nodes["y"] >= nodes["y"]
    assert [node.name for node in reversed(graph.nodes)] == names(graph)[::-1]
    assert nodes["x"].prev.name == "z"
    assert nodes["x"].next.name == "invert"


def test_nodes_may_be_erased_while_they_are_iterated(chain):
    graph, nodes = chain
    with graph.inserting_before(nodes["mul"]):
        for _ in range(3):
            graph.call_function(operator.neg, (nodes["x"],))
    for node in graph.nodes:
        if node.target is operator.neg:
            graph.erase_node(node)
    assert names(graph) == ["x", "y", "add", "mul", "output"]
    assert len(graph.nodes) == 5
    assert list(nodes["x"].users) == [nodes["add"], nodes["mul"]]


def test_finding_nodes(chain):
    graph, nodes = chain
    with graph.inserting_before(nodes["add"]):
        first = graph.call_function(operator.mul, (nodes["x"], 2))
    assert graph.find_nodes(op="call_function", target=operator.mul) == [first, nodes["mul"]]
    assert graph.find_nodes(op="call_function", target=operator.mul, sort=False) == [nodes["mul"], first]
    assert graph.find_nodes(op="placeholder", target="y") == [nodes["y"]]
    first.target = operator.add
    assert graph.find_nodes(op="call_function", target=operator.mul) == [nodes["mul"]]
    assert graph.output_node() is nodes["output"]


def test_copies_share_nothing(chain):
    graph, nodes = chain
    nodes["add"].meta["note"] = [1]
    copied = copy.deepcopy(graph)
    assert str(copied) == str(graph)
    assert all(node.graph is copied for node in copied.nodes)
    copied.lint()
    for node in copied.nodes:
        if node.name == "add":
            assert node.meta == {"note": [1]}
            node.target = operator.sub
    assert nodes["add"].target is operator.add
    # Later names are those that the original would choose.
    assert copied.placeholder("x").name == graph.placeholder("x").name == "x_1"
    again = pickle.loads(pickle.dumps(graph))
    assert str(again) == str(graph)
    again.lint()


def test_graphs_join(chain):
    graph, _ = chain
    outer = Graph()
    a, b = outer.placeholder("a"), outer.placeholder("b")
    values = dict(zip((node for node in graph.nodes if node.op == "placeholder"), (b, a), strict=True))
    outer.output(outer.graph_copy(graph, values))
    assert outer.python_code("self").src.strip().split("\n")[1:3] == [
        "    add = b + a;  a = None", "    mul = add * b;  add = b = None"]


def test_dead_code_goes_and_effects_stay():
    graph = Graph()
    x = graph.placeholder("x")
    unused = graph.placeholder("unused")
    dead = graph.call_function(operator.add, (x, 1))
    graph.call_function(operator.mul, (dead, 2))
    graph.call_function(operator.setitem, (x, 0, 1))
    graph.call_method("add_", (x, 1))
    graph.call_method("__enter__", (x,))
    graph.output(x)
    assert graph.eliminate_dead_code()
    assert [node.target for node in graph.nodes] == ["x", "unused", operator.setitem, "add_", "output"]
    assert not graph.eliminate_dead_code()
    assert graph.eliminate_dead_code(lambda node: node.op == "placeholder")
    assert names(graph) == ["x", unused.name, "output"]


def test_a_program_declares_effects():
    def log(x):
        return x

    graph = Graph()
    graph.call_function(has_side_effect(log), (graph.placeholder("x"),))
    graph.output(None)
    assert not graph.eliminate_dead_code()
    SIDE_EFFECTS.remove(log)
    assert graph.eliminate_dead_code()


def test_aggregates():
    graph = Graph()
    x = graph.placeholder("x")
    value = (x, [1, {"a": x}], slice(x, None, 2))
    assert map_arg(value, lambda node: node.name) == ("x", [1, {"a": "x"}], slice("x", None, 2))
    assert map_aggregate([1, (2, 3)], lambda leaf: leaf * 2) == [2, (4, 6)]
    assert isinstance(map_aggregate([1], str), immutable_list)
    with pytest.raises(AssertionError, match="fn must be a callable"):
        map_arg(value, None)


@pytest.mark.parametrize(("name", "expected"), [
    ("BatchNorm2d", "batch_norm2d"), ("ReLU", "re_lu"), ("PascalCase", "pascal_case"), ("ALL_CAPS", "all_caps"),
    ("snake_case", "snake_case"), ("activations.PascalCase", "activations.pascal_case")])
def test_names_of_classes(name, expected):
    assert snake_case(name) == expected


def test_names_are_unique_identifiers():
    space = Namespace()
    given = ["x", "x", "x_1", "x", "2d", "a.b", "for", "sum", "x_1"]
    assert [space.create_name(name, None) for name in given] == [
        "x", "x_1", "x_2", "x_3", "_2d", "a_b", "for_1", "sum_1", "x_4"]


def test_hooks_see_changes(chain):
    graph, nodes = chain

    seen = []
    graph.owning_module = types.SimpleNamespace(
        _create_node_hooks=[lambda node: seen.append(("create", node.name))],
        _erase_node_hooks=[lambda node: seen.append(("erase", node.name))],
        _replace_hooks=[lambda old, new, user: seen.append(("replace", old.name, new, user.name))])
    with graph.inserting_before(nodes["add"]):
        made = graph.call_function(operator.sub, (nodes["x"], nodes["y"]))
    nodes["add"].replace_all_uses_with(made)
    graph.erase_node(nodes["add"])
    assert seen == [("create", "sub"), ("replace", "add", "sub", "mul"), ("erase", "add")]


def test_a_node_prints_as_its_line(chain):
    graph, nodes = chain
    nodes["x"].type = int
    assert nodes["x"].format_node() == "%x : int [num_users=2] = placeholder[target=x]"
    assert nodes["add"].format_node() == "%add : [num_users=1] = call_function[target=operator.add](args = (%x, %y), " \
                                         "kwargs = {})"
    assert str(graph).split("\n")[-1] == "    return mul"
    assert isinstance(nodes["add"], Node)
    assert repr(nodes["add"]) == "add"
