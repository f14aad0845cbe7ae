"""Computation graphs: nodes and edges, their places, pictures."""

from __future__ import annotations

import doctest
import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest

import tensocket as torch
from tensocket import nn
from tensocket.errors import MissingPackage
from tensocket.utils import viz
from tensocket.utils.viz import graph, layout


def named(made: viz.ComputationGraph) -> set[tuple[str, str]]:
    return {(str(made.nodes[a]), str(made.nodes[b])) for a, b in made.edges}


def test_doctests() -> None:
    assert doctest.testmod(graph).attempted == 3


def test_a_model() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    loss = model(torch.ones(4, 2)).square().mean()
    made = viz.computation_graph(loss, model)
    assert named(made) == {
        ("Mean []", "result []"), ("Square [4, 1]", "Mean []"), ("Linear [4, 1]", "Square [4, 1]"),
        ("Relu [4, 3]", "Linear [4, 1]"), ("2.weight [1, 3]", "Linear [4, 1]"), ("2.bias [1]", "Linear [4, 1]"),
        ("Linear [4, 3]", "Relu [4, 3]"), ("0.weight [3, 2]", "Linear [4, 3]"), ("0.bias [3]", "Linear [4, 3]")}
    assert made.nodes[0].kind == "result"
    assert sum(node.kind == "parameter" for node in made.nodes) == 4


def test_shared_values_are_one_node() -> None:
    x = torch.ones(2, requires_grad=True)
    y = x.exp()
    made = viz.computation_graph((y * y.sin() + x).sum())
    labels = [node.label for node in made.nodes]
    assert labels.count("Exp") == labels.count("leaf") == 1
    exp = labels.index("Exp")
    assert sorted(labels[b] for a, b in made.edges if a == exp) == ["Mul", "Sin"]
    a, b = x.chunk(2)
    assert "Mul" in str(viz.computation_graph((a * b).sum(), [("x", x)]))


def test_functions_of_users() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):  # type: ignore[no-untyped-def]
            return x * 2

        @staticmethod
        def backward(ctx, grad):  # type: ignore[no-untyped-def]
            return grad * 2

    x = torch.ones(2, requires_grad=True)
    assert any(node.label == "Twice" for node in viz.computation_graph(Twice.apply(x)).nodes)


def test_history_is_needed() -> None:
    with pytest.raises(ValueError, match="the tensor was computed from one that requires grad"):
        viz.computation_graph(torch.ones(2))


# ------------------------------------------------------------------------------------------------------------ layout


def test_layers_are_longest_paths() -> None:
    # 4 -> 2 -> 1 -> 0, 3 -> 0, 4 -> 0
    assert layout.layers_of(5, [(1, 0), (2, 1), (4, 2), (3, 0), (4, 0)]) == [0, 1, 2, 1, 3]
    assert layout.layers_of(0, []) == []


def test_nodes_do_not_overlap_and_edges_do_not_cross() -> None:
    edges = [(2, 0), (1, 0), (3, 2), (4, 1), (5, 1), (6, 3)]
    placed = layout.places(7, edges)
    assert len(set(placed)) == 7
    for layer in range(4):
        row = sorted(x for x, y in placed if y == layer)
        assert all(b - a >= 1 for a, b in pairwise(row))
    lines = [(placed[a], placed[b]) for a, b in edges]
    for (a, b) in lines:
        for (c, d) in lines:
            if a[1] == c[1] and b[1] == d[1]:
                assert (a[0] - c[0]) * (b[0] - d[0]) >= 0


def test_long_chains_need_no_recursion() -> None:
    x = torch.ones(1, requires_grad=True)
    y = x
    for _ in range(3000):
        y = y + 1
    made = viz.computation_graph(y)
    assert len(made.nodes) == 3002
    assert max(layout.layers_of(len(made.nodes), made.edges)) == 3001


# ---------------------------------------------------------------------------------------------------------- pictures


def test_pictures(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    model = nn.Linear(2, 1)
    loss = (model(torch.ones(3, 2)) + 1).sum()
    made = viz.computation_graph(loss, model, tmp_path / "graph.svg")
    text = (tmp_path / "graph.svg").read_text()
    assert ElementTree.fromstring(text).tag.endswith("svg")
    axes = made.draw(tmp_path / "graph.png").axes[0]
    shown = [t.get_text() for t in axes.texts if t.get_text()]
    assert {"weight\n[1, 2]", "bias\n[1]", "Linear\n[3, 1]", "result\n[]"} <= set(shown)
    assert len([t for t in axes.texts if t.get_text()]) == len(made.nodes)
    assert len(axes.texts) == len(made.nodes) + len(made.edges)
    assert (tmp_path / "graph.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="the path ends with the format of a picture"):
        viz.computation_graph(loss, path=tmp_path / "graph.dot")


def test_matplotlib_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    made = viz.computation_graph(torch.ones(1, requires_grad=True) * 2)
    with pytest.raises(MissingPackage, match="pictures are drawn by matplotlib"):
        made.draw()
