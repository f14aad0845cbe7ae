"""Replacing groups of nodes by submodules that contain them."""

from __future__ import annotations

import copy
import operator
from collections.abc import Iterable
from typing import Any

from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node
from ..tools_common import NodeList, legalize_graph
from .common import lift_subgraph_as_module


def topo_sort(nodes: NodeList) -> NodeList:
    """Return nodes in an order in which operands come first.

    Raises:
        AssertionError: Nodes depend on themselves.
    """
    members = set(nodes)
    missing = {node: sum(operand in members for operand in node.all_input_nodes) for node in nodes}
    ready = [node for node in nodes if missing[node] == 0]
    found: NodeList = []
    while ready:
        node = ready.pop(0)
        found.append(node)
        for user in node.users:
            if user in members:
                missing[user] -= 1
                if missing[user] == 0:
                    ready.append(user)
    if len(found) != len(nodes):
        raise AssertionError("topological sorted nodes doesn't have same length as input nodes")
    return found


def validate_partition(partition: NodeList) -> bool:
    """Whether nodes can be one call: no path leaves them and comes back."""
    members = set(partition)
    pending = [user for node in partition for user in node.users if user not in members]
    seen: set[Node] = set()
    while pending:
        node = pending.pop()
        if node in members:
            return False
        if node not in seen:
            seen.add(node)
            pending += list(node.users)
    return True


def fuse_as_graphmodule(gm: GraphModule, nodes: NodeList, module_name: str,
                        partition_lookup_table: dict[Node, int | None] | None = None, *,
                        always_return_tuple: bool = False) -> tuple[GraphModule, tuple[Node, ...], tuple[Node, ...]]:
    """Make a module of some nodes of another one, which stays as it is.

    Args:
        gm: The other module.
        nodes: The nodes, operands first.
        module_name: Name of the class.
        partition_lookup_table: Accepted for programs; the nodes are looked up in ``nodes``.
        always_return_tuple: Whether one result is returned as a tuple.

    Returns:
        The module, the nodes that its placeholders stand for, and those that it returns.

    Raises:
        AssertionError: A node is not one of ``gm``, or a path leaves the nodes and comes back.
    """
    for node in nodes:
        if node.graph.owning_module is not gm:
            raise AssertionError(f"{node} doesn't belong to passed in graph module {gm._get_name()}")
        if node._erased:
            raise AssertionError(f"{node} has been removed from owning graph")
    if not validate_partition(nodes):
        raise AssertionError("Invalid partition, found dependency cycles")
    graph = Graph()
    inputs: dict[Node, Node] = {}
    copies: dict[Node, Node] = {}

    def argument(node: Node) -> Node:
        if node in copies:
            return copies[node]
        if node.op == "get_attr" and node in members:
            return copies.setdefault(node, graph.node_copy(node))
        if node not in inputs:
            inputs[node] = graph.placeholder(node.name, type_expr=node.type)
            inputs[node].meta = copy.copy(node.meta)
        return inputs[node]

    members = set(nodes)
    for node in nodes:
        copies[node] = graph.node_copy(node, argument)
    outputs = {node: copies[node] for node in nodes if any(user not in members for user in node.users)}
    results = tuple(outputs.values())
    graph.output(results[0] if len(results) == 1 and not always_return_tuple else results)
    graph.lint()
    fused, _ = lift_subgraph_as_module(gm, graph, comp_name="", class_name=module_name)
    return fused, tuple(inputs), tuple(outputs)


def insert_subgm(gm: GraphModule, sub_gm: GraphModule, orig_inputs: tuple[Node, ...],
                 orig_outputs: tuple[Node, ...]) -> GraphModule:
    """Call a module in place of the nodes that it was made of.

    Args:
        gm: The module that contains the nodes.
        sub_gm: The module.
        orig_inputs: The nodes that its placeholders stand for.
        orig_outputs: The nodes that it returns.

    Returns:
        ``gm``.
    """
    name = type(sub_gm).__name__
    gm.add_submodule(name, sub_gm)
    last = max([*orig_inputs, *orig_outputs])
    with gm.graph.inserting_after(last):
        called = gm.graph.call_module(name, orig_inputs)
    returned = sub_gm.graph.output_node().args[0]
    if len(orig_outputs) == 1 and not isinstance(returned, tuple):
        called.meta = copy.copy(orig_outputs[0].meta)
        orig_outputs[0].replace_all_uses_with(called)
        return gm
    with gm.graph.inserting_after(called):
        items = [gm.graph.call_function(operator.getitem, (called, at)) for at in range(len(orig_outputs))]
    for node, item in zip(orig_outputs, items, strict=True):
        item.meta = copy.copy(node.meta)
        node.replace_all_uses_with(item)
    called.meta["val"] = tuple(node.meta.get("val") for node in orig_outputs)
    return gm


def erase_nodes(gm: GraphModule, nodes: NodeList) -> None:
    """Erase nodes that nothing else uses."""
    for node in reversed(nodes):
        gm.graph.erase_node(node)


def fuse_by_partitions(gm: GraphModule, partitions: Iterable[Any], prefix: str = "fused_",
                       always_return_tuple: bool = False) -> GraphModule:
    """Replace groups of nodes by submodules ``fused_0`` ...

    Args:
        gm: The module, which is changed.
        partitions: The groups: lists of nodes, or dicts with nodes as keys.
        prefix: Begin of the submodules' names.
        always_return_tuple: Whether one result is returned as a tuple.

    Raises:
        ArgumentError: Groups depend on each other.
    """
    for at, partition in enumerate(partitions):
        nodes = topo_sort(list(partition))
        fused, inputs, outputs = fuse_as_graphmodule(gm, nodes, f"{prefix}{at}",
                                                     always_return_tuple=always_return_tuple)
        insert_subgm(gm, fused, inputs, outputs)
        erase_nodes(gm, nodes)
    return legalize_graph(gm)


__all__ = ["erase_nodes", "fuse_as_graphmodule", "fuse_by_partitions", "insert_subgm", "topo_sort",
           "validate_partition"]
