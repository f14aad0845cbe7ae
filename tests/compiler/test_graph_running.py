"""The interpreter, inherited metadata, and matching patterns."""

from __future__ import annotations

import operator
import types

import pytest

from tensocket_compiler.graph import Graph, Interpreter, PyTreeCodeGen, PyTreeInfo
from tensocket_compiler.graph import traceback as fx_traceback
from tensocket_compiler.graph.interpreter import MissingAttributeError
from tensocket_compiler.graph.matcher import SubgraphMatcher
from tensocket_core.pytree import tree_structure


def owner_of(graph, **attributes):
    return types.SimpleNamespace(graph=graph, named_modules=lambda: iter([]), **attributes)


def polynomial():
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y", default_value=10)
    square = graph.call_function(operator.mul, (x, x))
    total = graph.call_function(operator.add, (square, y))
    graph.output((total, graph.call_method("bit_length", (total,)), graph.get_attr("inner.bias")))
    return owner_of(graph, inner=types.SimpleNamespace(bias=7))


def test_running():
    owner = polynomial()
    assert Interpreter(owner).run(3, 4) == (13, 4, 7)
    assert Interpreter(owner).run(3) == (19, 5, 7)
    assert Interpreter(owner, graph=owner.graph).boxed_run([3, 4]) == (13, 4, 7)


def test_values_are_dropped_behind_their_last_use():
    owner = polynomial()
    kept = Interpreter(owner, garbage_collect_values=False)
    kept.run(3, 4)
    assert len(kept.env) == len(owner.graph.nodes)
    seen = []

    class Watching(Interpreter):
        def run_node(self, n):
            seen.append((n.name, [node.name for node in self.env]))
            return super().run_node(n)

    Watching(owner).run(3, 4)
    assert dict(seen)["bit_length"] == ["add"]


def test_known_values_do_not_run():
    owner = polynomial()
    square = next(node for node in owner.graph.nodes if node.name == "mul")
    assert Interpreter(owner).run(3, 4, initial_env={square: 100}) == (104, 7, 7)


def test_methods_of_opcodes_may_be_overridden():
    class Swapping(Interpreter):
        def call_function(self, target, args, kwargs):
            return super().call_function(operator.sub if target is operator.add else target, args, kwargs)

    assert Swapping(polynomial()).run(3, 4)[0] == 5


def test_inputs_and_outputs_of_trees():
    graph = Graph()
    a, b = graph.placeholder("a"), graph.placeholder("b")
    graph.output([graph.call_function(operator.add, (a, b))])
    spec = tree_structure(([0, 0],))
    graph.set_codegen(PyTreeCodeGen(PyTreeInfo(["v"], spec, tree_structure({"sum": 0}))))
    owner = owner_of(graph)
    assert Interpreter(owner).run([1, 2]) == {"sum": 3}
    assert Interpreter(owner).run(1, 2, enable_io_processing=False) == [3]


def test_an_error_tells_the_node():
    graph = Graph()
    graph.output(graph.call_function(operator.truediv, (graph.placeholder("x"), 0)))
    with pytest.raises(ZeroDivisionError, match=r"While executing %truediv : .*operator.truediv"):
        Interpreter(owner_of(graph)).run(1)
    quiet = Interpreter(owner_of(graph))
    quiet.extra_traceback = False
    with pytest.raises(ZeroDivisionError, match=r"^division by zero$"):
        quiet.run(1)
    graph = Graph()
    graph.output(graph.call_function(operator.getitem, (graph.placeholder("x"), "missing")))
    with pytest.raises(RuntimeError, match="While executing"):
        Interpreter(owner_of(graph)).run({})


def test_missing_values():
    owner = polynomial()
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x, but one was not passed in!"):
        Interpreter(owner).run()
    del owner.inner.bias
    with pytest.raises(MissingAttributeError, match=r"Node referenced nonexistent target inner.bias"):
        Interpreter(owner).run(1, 2)
    nodes = list(owner.graph.nodes)
    nodes[0].prev.prepend(nodes[0])  # behind all others
    with pytest.raises(RuntimeError, match=r"Node mul referenced nonexistent value x! Run Graph.lint\(\) to diagnose "
                       "such issues"):
        Interpreter(owner).run(1)


def test_recorded_nodes_inherit_metadata():
    owner = polynomial()
    for node in owner.graph.nodes:
        node.stack_trace = f"line of {node.name}"
    seen = {}

    class Reading(Interpreter):
        def call_function(self, target, args, kwargs):
            seen[target] = fx_traceback.format_stack()
            return super().call_function(target, args, kwargs)

    with fx_traceback.preserve_node_meta():
        assert fx_traceback.has_preserved_node_meta()
        Reading(owner).run(1, 2)
        fx_traceback.set_stack_trace(["own"])
        assert fx_traceback.get_current_meta()["stack_trace"] == "own"
    assert seen == {operator.mul: ["line of mul"], operator.add: ["line of add"]}
    assert not fx_traceback.has_preserved_node_meta()
    assert any("test_recorded_nodes" in line for line in fx_traceback.format_stack())
    node = next(iter(owner.graph.nodes))
    with fx_traceback.set_current_replay_node(node):
        assert fx_traceback.get_current_replay_node() is node
    assert fx_traceback.get_current_replay_node() is None


def test_annotations_nest():
    @fx_traceback.annotate_fn({"b": 2})
    def inner():
        return dict(fx_traceback.get_current_meta()["custom"])

    with fx_traceback.annotate({"a": 1}):
        assert inner() == {"a": 1, "b": 2}
    assert "custom" not in fx_traceback.get_current_meta()


# ---- patterns


def pattern_of(build):
    graph = Graph()
    graph.output(build(graph, graph.placeholder("a"), graph.placeholder("b")))
    return graph


def call(graph, function, *args):
    return graph.call_function(function, args)


def test_matches_are_contained_and_disjoint():
    pattern = pattern_of(lambda g, a, b: call(g, operator.neg, call(g, operator.add, a, b)))
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    first = call(graph, operator.neg, call(graph, operator.add, x, y))
    shared = call(graph, operator.add, first, y)
    second = call(graph, operator.neg, shared)
    third = call(graph, operator.neg, call(graph, operator.add, second, 3))
    graph.output((third, shared))  # the inner node of the second match is used outside
    found = SubgraphMatcher(pattern).match(graph)
    assert [match.anchors for match in found] == [[first], [third]]
    assert found[0].placeholder_nodes == [x, y]
    assert found[1].placeholder_nodes == [second, 3]
    assert found[1].returning_nodes == [third]


@pytest.mark.parametrize(("ignores", "count"), [(False, 1), (True, 2)])
def test_constants_of_patterns(ignores, count):
    pattern = pattern_of(lambda g, a, b: call(g, operator.add, call(g, operator.mul, a, 2), b))
    graph = Graph()
    x = graph.placeholder("x")
    total = call(graph, operator.add, call(graph, operator.mul, x, 2), x)
    graph.output(call(graph, operator.add, call(graph, operator.mul, total, 5), x))
    assert len(SubgraphMatcher(pattern, ignore_literals=ignores).match(graph)) == count


def test_a_placeholder_matches_one_value():
    pattern = pattern_of(lambda g, a, b: call(g, operator.sub, call(g, operator.mul, a, b), a))
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    graph.output((call(graph, operator.sub, call(graph, operator.mul, x, y), y),
                  call(graph, operator.sub, call(graph, operator.mul, x, y), x)))
    found = SubgraphMatcher(pattern).match(graph)
    assert [match.anchors[0].name for match in found] == ["sub_1"]


def test_patterns_with_several_results():
    pattern = pattern_of(lambda g, a, b: (call(g, operator.neg, a), call(g, operator.pos, b)))
    graph = Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    results = call(graph, operator.pos, y), call(graph, operator.neg, x)
    graph.output(results)
    found = SubgraphMatcher(pattern).match(graph)
    assert [match.returning_nodes for match in found] == [[results[1], results[0]]]


def test_patterns_that_cannot_be_found():
    with pytest.raises(ValueError, match="SubgraphMatcher cannot be initialized with an empty pattern"):
        SubgraphMatcher(Graph())
    graph = Graph()
    call(graph, operator.neg, graph.placeholder("x"))
    graph.output(1)
    with pytest.raises(AssertionError, match="dead code"):
        SubgraphMatcher(graph)
