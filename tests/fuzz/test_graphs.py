"""Random functions, plain and compiled, for a few seconds."""

from __future__ import annotations

import pytest

from fuzz import graph_calls, graphs
from fuzz.campaign import Campaign
from fuzz.graph_programs import Leaf, Program
from tensocket_compiler.autograd.node import CompiledNode
from tensocket_compiler.calls.variant import Variant
from tensocket_compiler.capture.layout import LAYOUT

pytestmark = pytest.mark.skipif(LAYOUT is None, reason="nothing is captured without a known layout")

#: A function that becomes a graph.
PROGRAM = Program([Leaf("a", ("A", "B"), "float32", grad=True)], [Leaf("P", ("A", "B"), "float32", grad=True)],
                  ({"A": 2, "B": 3}, {"A": 2, "B": 3}), "few", "cpu",
                  ["x0 = a * P", "x1 = x0 - 2"], "(x0, x1)")


@pytest.mark.parametrize("seed", [1, 2])
def test_random_functions_do_the_same_compiled(seed):
    campaign = Campaign("graphs", seed, cases=15)
    graphs.fuzz(campaign)
    campaign.check()


def test_graphs_serve_the_calls_that_are_compared():
    verdict = graph_calls.difference_of(PROGRAM)
    assert verdict.found == ""
    assert verdict.served > len(graph_calls.calls_of(PROGRAM)) // 2


@pytest.mark.parametrize(("hit", "text"), [(1, "call 3: result 0"), (5, "call 7: result 0")])
def test_a_graph_that_is_wrong_once_is_found_at_that_call(monkeypatch, hit, text):
    right = Variant.__call__

    def wrong(variant, *given):
        found = right(variant, *given)
        if variant.hits == hit:
            found[0].data[0, 0] += 1
        return found
    monkeypatch.setattr(Variant, "__call__", wrong)
    assert graph_calls.difference_of(PROGRAM).found.startswith(text)


def test_a_failure_of_the_compiler_is_found(monkeypatch):
    def fail(*given):
        raise RuntimeError("no idea")
    monkeypatch.setattr("tensocket_compiler.calls.variant._variant", fail)
    assert "the compiler failed" in graph_calls.difference_of(PROGRAM).found


def test_shrinking_keeps_the_lines_that_differ(monkeypatch):
    right = Variant.__call__

    def wrong(variant, *given):
        found = right(variant, *given)
        (found[0] if isinstance(found, tuple) else found).data[0, 0] += 1
        return found
    monkeypatch.setattr(Variant, "__call__", wrong)
    small = graph_calls.shrink(PROGRAM)
    assert (small.lines, small.returned) == (["x0 = a * P"], "x0")


#: Its plain backward pass needs the result, that of its graph does not.
ATTENTION = Program([Leaf("a", ("A", "B"), "float64", grad=True)], [], ({"A": 2, "B": 3}, {"A": 2, "B": 3}),
                    "tame", "cpu",
                    ["x0 = torch.nn.functional.scaled_dot_product_attention(a[None], a[None], a[None])"], "x0")
EARLY = [*[graph_calls.Call(backward=False)] * 4, graph_calls.Call(early=0)]


def test_graphs_may_need_less_for_the_backward_pass(monkeypatch):
    assert graph_calls.World(ATTENTION).run(0, EARLY[-1]).facts["backward raised"] == "AutogradError"
    assert graph_calls.difference_of(ATTENTION, EARLY).found == ""
    run = CompiledNode.apply_plain

    def wrong(node, *args):
        return [2 * x for x in run(node, *args)]
    monkeypatch.setattr(CompiledNode, "apply_plain", wrong)
    assert "or the plain pass's error" in graph_calls.difference_of(ATTENTION, EARLY).found
