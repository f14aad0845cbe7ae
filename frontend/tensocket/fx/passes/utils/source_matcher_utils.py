"""Parts of a graph that come from one module or function of the program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ...graph import Graph
from ...node import Node


@dataclass
class SourcePartition:
    """Nodes that come from one call.

    Attributes:
        nodes: The nodes.
        source: The class or function.
        input_nodes: Nodes outside that they use.
        output_nodes: Their nodes that others use.
        params: Attributes that they read.
    """

    nodes: list[Node]
    source: Any
    input_nodes: list[Node] = field(default_factory=list)
    output_nodes: list[Node] = field(default_factory=list)
    params: list[Node] = field(default_factory=list)


def get_source_partitions(graph: Graph, wanted_sources: list[Any],
                          filter_fn: Callable[[Node], bool] | None = None) -> dict[Any, list[SourcePartition]]:
    """Return the parts of a graph that come from these classes and functions.

    Args:
        graph: The graph, whose nodes have ``meta["source_fn_stack"]`` or ``meta["nn_module_stack"]``.
        wanted_sources: The classes and functions.
        filter_fn: A test that all nodes of a part pass.
    """
    found: dict[Any, dict[str, list[Node]]] = {}
    for node in graph.nodes:
        source = _source_of(node, wanted_sources)
        if source is not None:
            kind, name = source
            found.setdefault(kind, {}).setdefault(name, []).append(node)
    parts = {kind: [_partition(nodes, kind) for nodes in groups.values()] for kind, groups in found.items()}
    if filter_fn is not None:
        parts = {kind: [part for part in group if all(map(filter_fn, part.nodes))] for kind, group in parts.items()}
        parts = {kind: group for kind, group in parts.items() if group}
    return parts


def _source_of(node: Node, wanted: list[Any]) -> tuple[Any, str] | None:
    stack = node.meta.get("source_fn_stack") or node.meta.get("torch_fn")
    if stack and isinstance(stack, list) and stack[-1][1] in wanted:
        return stack[-1][1], stack[-1][0]
    for path, kind in reversed(list((node.meta.get("nn_module_stack") or {}).values())):
        if kind in wanted:
            return kind, path
    if node.op == "call_module" and node.graph.owning_module is not None:
        kind = type(node.graph.owning_module.get_submodule(node.target))
        return (kind, node.name) if kind in wanted else None
    return (node.target, node.name) if node.op == "call_function" and node.target in wanted else None


def _partition(nodes: list[Node], source: Any) -> SourcePartition:
    members = set(nodes)
    part = SourcePartition(nodes, source)
    for node in nodes:
        for operand in node.all_input_nodes:
            if operand not in members and operand not in part.input_nodes + part.params:
                (part.params if operand.op == "get_attr" else part.input_nodes).append(operand)
        if node.op == "get_attr":
            part.params.append(node)
        if any(user not in members for user in node.users):
            part.output_nodes.append(node)
    return part


def check_subgraphs_connected(subgraph1: SourcePartition, subgraph2: SourcePartition) -> bool:
    """Whether the second part uses a result of the first."""
    results = set(subgraph1.output_nodes)
    return any(operand in results for node in subgraph2.nodes for operand in node.all_input_nodes)
