"""Shared parts of splitters: names of targets, kinds of nodes, and the order of graphs."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tensocket.errors import ArgumentError
from tensocket.nn import Module
from tensocket_operators import Tensor

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node

Tensors = tuple[Tensor, ...] | list[Tensor]
TensorOrTensors = Tensor | Tensors
NodeList = list[Node]
NodeSet = set[Node]
Names = list[str]
#: Ops that compute.
CALLABLE_NODE_OPS: Final = {"call_module", "call_function", "call_method"}


def get_acc_ops_name(k: Any) -> str:
    """Return the name of a function in reports."""
    if isinstance(k, str):
        return k
    module = str(k.__module__ or "")
    if "acc_ops" in module:
        return f"acc_ops.{k.__name__}"
    return f"{module.replace('torch._ops', 'torch.ops')}.{k.__name__}"


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """Return what a node calls: the name of a function or method, or a module's class with its package."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found {node.op}")
    if node.op == "call_module":
        module = submodules[node.target]
        base = getattr(module, "_base_class_origin", type(module))
        return get_acc_ops_name(base).replace("tensocket.", "torch.", 1)
    if node.op == "call_function":
        name = node._pretty_print_target(node.target) if "acc_ops" not in str(node.target.__module__) else ""
        return f"_operator.{name.removeprefix('operator.')}" if name.startswith("operator.") else (
            name.removeprefix("builtins.") or get_acc_ops_name(node.target))
    return str(node.target)


def is_node_output_tensor(node: Node) -> bool:
    """Whether the result of a node is a tensor, as ``ShapeProp`` noted."""
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, Tensor)


@dataclass
class _FusionGroup:
    top_node_idx: int
    nodes: NodeSet
    inputs: NodeSet
    nodes_need_process: NodeSet = field(default_factory=set)

    def add(self, node: Node) -> None:
        if node not in self.nodes:
            self.nodes_need_process.add(node)
            self.nodes.add(node)
            self.inputs.discard(node)
            self.inputs.update(n for n in node.all_input_nodes if n.op in CALLABLE_NODE_OPS and n not in self.nodes)


class FxNetAccFusionsFinder:
    """Groups of nodes that belong together, since values that are not tensors pass between them.

    Args:
        module: The module.
        acc_nodes: The nodes for the accelerator; a group with another node is taken out of them.
    """

    def __init__(self, module: GraphModule, acc_nodes: NodeSet) -> None:
        self.module = module
        self.nodes = list(module.graph.nodes)
        self.acc_nodes = acc_nodes

    def __call__(self) -> dict[Node, NodeSet]:
        """Return the group of each node that has one."""
        order = {node: at for at, node in enumerate(self.nodes)}
        found: dict[Node, NodeSet] = {}
        for node in list(self.acc_nodes):
            if node in found or "tensor_meta" in node.meta or node not in self.acc_nodes:
                continue
            group = self._group_of(node, order)
            if not group <= self.acc_nodes:
                self.acc_nodes -= group
                continue
            for member in group:
                found[member] = found.get(member, set()) | group
        return found

    def _group_of(self, start: Node, order: dict[Node, int]) -> NodeSet:
        group = _FusionGroup(order[start], {start}, set(start.all_input_nodes), {start})
        while group.nodes_need_process:
            node = group.nodes_need_process.pop()
            if "tensor_meta" not in node.meta:
                for user in node.users:
                    if user.op in CALLABLE_NODE_OPS:
                        group.add(user)
            for operand in node.all_input_nodes:
                if operand.op in CALLABLE_NODE_OPS and "tensor_meta" not in operand.meta:
                    group.add(operand)
            # Nodes between members belong to the group, too; otherwise it would depend on itself.
            for between in self._between(group.nodes):
                group.add(between)
        return group.nodes

    def _between(self, members: NodeSet) -> NodeSet:
        below: NodeSet = set()
        reached: dict[Node, bool] = {}
        for node in self.nodes:
            reached[node] = any(operand in members or reached.get(operand, False) for operand in node.all_input_nodes)
        needed: dict[Node, bool] = {}
        for node in reversed(self.nodes):
            needed[node] = any(user in members or needed.get(user, False) for user in node.users)
            if node not in members and reached[node] and needed[node]:
                below.add(node)
        return below


def _sorted_graph(gm: GraphModule, key: Callable[[Node], Any]) -> GraphModule:
    """Put the nodes of a graph in an order in which operands come first; ``key`` chooses among those that may come."""
    missing = {node: len(node.all_input_nodes) for node in gm.graph.nodes}
    ready = [(key(node), at, node) for at, node in enumerate(gm.graph.nodes) if missing[node] == 0]
    numbers = {node: at for at, node in enumerate(gm.graph.nodes)}
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        _, _, node = heapq.heappop(ready)
        order.append(node)
        for user in node.users:
            missing[user] -= 1
            if missing[user] == 0:
                heapq.heappush(ready, (key(user), numbers[user], user))
    if len(order) < len(gm.graph.nodes):
        raise ArgumentError("legalize_graph", f"a graph with {len(gm.graph.nodes)} nodes", "Input graph has cycles, "
                            f"unable to add {[node for node in missing if missing[node] != 0]}", "break the circle")
    for node in order:
        gm.graph._root.prepend(node)
    return gm


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Put the nodes of a graph in an order in which operands come first.

    Returns:
        The module, which is changed.

    Raises:
        ArgumentError: Nodes depend on themselves.
    """
    new_graph = Graph()
    _sorted_graph(gm, lambda node: (node.op not in ("placeholder", "get_attr"), node.op == "output"))
    val_map: dict[Node, Node] = {}
    for node in gm.graph.nodes:
        val_map[node] = new_graph.node_copy(node, lambda n: val_map[n])
    new_graph._codegen = gm.graph._codegen
    gm.graph = new_graph
    return gm


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Put operands before their users, and otherwise leave the order as it is.

    Raises:
        ArgumentError: Nodes depend on themselves.
    """
    return _sorted_graph(gm, lambda node: 0)


__all__ = ["CALLABLE_NODE_OPS", "FxNetAccFusionsFinder", "Names", "NodeList", "NodeSet", "TensorOrTensors", "Tensors",
           "get_acc_ops_name", "get_node_target", "is_node_output_tensor", "legalize_graph",
           "stable_topological_sort"]
