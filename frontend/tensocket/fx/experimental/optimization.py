"""Graphs that run faster in evaluation: fused normalisations, and no dropout."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from tensocket import nn
from tensocket.nn.utils.fusion import fuse_conv_bn_eval

from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node


def _parent_name(target: str) -> tuple[str, str]:
    """Return the path of the module that contains a target, and its name there."""
    parent, _, name = target.rpartition(".")
    return parent, name


def matches_module_pattern(pattern: Iterable[type], node: Node, modules: dict[str, Any]) -> bool:
    """Whether a node's first operand and the node call modules of the two classes of a pattern."""
    if not node.args:
        return False
    for expected, current in zip(pattern, (node.args[0], node), strict=False):
        if not isinstance(current, Node) or current.op != "call_module" or current.target not in modules:
            return False
        if type(modules[current.target]) is not expected:
            return False
    return True


def replace_node_module(node: Node, modules: dict[str, Any], new_module: nn.Module) -> None:
    """Let a node call another module, which takes the place of the one that it calls."""
    parent, name = _parent_name(node.target)
    modules[node.target] = new_module
    setattr(modules[parent], name, new_module)


def fuse(model: nn.Module, inplace: bool = False, no_trace: bool = False) -> nn.Module:
    """Fuse convolutions with the batch normalisations that follow them, for evaluation.

    Args:
        model: The model, in evaluation.
        inplace: Whether it may be changed.
        no_trace: Whether it is a graph module already.
    """
    patterns = [(nn.Conv1d, nn.BatchNorm1d), (nn.Conv2d, nn.BatchNorm2d), (nn.Conv3d, nn.BatchNorm3d)]
    if not inplace:
        model = copy.deepcopy(model)
    traced: Any = model if no_trace and isinstance(model, GraphModule) else symbolic_trace(model)
    modules = dict(traced.named_modules())
    for pattern in patterns:
        for node in traced.graph.nodes:
            if not matches_module_pattern(pattern, node, modules) or len(node.args[0].users) > 1:
                continue
            conv, norm = modules[node.args[0].target], modules[node.target]
            if not norm.track_running_stats:
                continue
            replace_node_module(node.args[0], modules, fuse_conv_bn_eval(conv, norm))
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    return GraphModule(traced, traced.graph)


def remove_dropout(model: nn.Module) -> nn.Module:
    """Return the model without its dropouts, which do nothing in evaluation."""
    traced = symbolic_trace(model)
    modules = dict(traced.named_modules())
    for node in traced.graph.nodes:
        if node.op == "call_module" and isinstance(modules[node.target], nn.Dropout):
            node.replace_all_uses_with(node.args[0])
            traced.graph.erase_node(node)
    return GraphModule(traced, traced.graph)


def extract_subgraph(orig_module: nn.Module, nodes: list[Node], inputs: list[Node], outputs: list[Node]) -> nn.Module:
    """Make a module of some nodes of a graph.

    Args:
        orig_module: The module that has their attributes.
        nodes: The nodes, operands first.
        inputs: Nodes that become placeholders.
        outputs: Nodes that the module returns; it returns the first one.
    """
    graph = Graph()
    env: dict[Node, Node] = {node: graph.placeholder(node.name) for node in inputs}
    for node in nodes:
        env[node] = graph.node_copy(node, lambda n: env[n])
    graph.output([env[node] for node in outputs])
    graph.lint()
    return GraphModule(orig_module, graph)


def optimize_for_inference(model: nn.Module, pass_config: dict[str, Any] | None = None,
                           tracer: type | None = None) -> nn.Module:
    """Return a model that computes the same in evaluation, in fewer steps.

    Args:
        model: The model, in evaluation.
        pass_config: ``{"conv_bn_fuse": False}`` and ``{"remove_dropout": False}`` leave a step out.
        tracer: Accepted for programs; the model is recorded by ``symbolic_trace``.
    """
    config = {"conv_bn_fuse": True, "remove_dropout": True, **(pass_config or {})}
    if config["conv_bn_fuse"]:
        model = fuse(model)
    return remove_dropout(model) if config["remove_dropout"] else model


class UnionFind:
    """Disjoint sets of numbers, with the smallest number of each set as its name.

    Args:
        n: Number of elements.
    """

    def __init__(self, n: int) -> None:
        self.parent: list[int | None] = [None] * n
        self.size = [0] * n

    def make_set(self, v: int) -> None:
        """Make a set of one element."""
        self.parent[v] = v
        self.size[v] = 1

    def find(self, v: int) -> int:
        """Return the name of the set that contains an element."""
        parent = self.parent[v]
        if parent is None:
            raise AssertionError(f"Element {v} has no parent in UnionFind")
        if parent == v:
            return v
        self.parent[v] = found = self.find(parent)
        return found

    def join(self, a: int, b: int) -> int:
        """Join two sets, and return the name of the new one."""
        a, b = sorted((self.find(a), self.find(b)))
        if a != b:
            self.parent[b] = a
            self.size[a] += self.size[b]
        return a


__all__ = ["UnionFind", "extract_subgraph", "fuse", "matches_module_pattern", "optimize_for_inference",
           "remove_dropout", "replace_node_module"]
