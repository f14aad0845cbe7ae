"""Sizes of the results and parameters of graphs, and arguments replaced at once."""

from __future__ import annotations

from typing import Any, NamedTuple

from tensocket.errors import ArgumentError

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, Target, map_arg
from .shape_prop import ShapeProp


class size_bytes(NamedTuple):
    """Sizes in bytes.

    Attributes:
        output_size: The result of a node.
        total_size: The result and the parameters.
    """

    output_size: int
    total_size: int


def replace_target_nodes_with(fx_module: GraphModule, old_op: str, old_target: Target, new_op: str,
                              new_target: Target) -> None:
    """Change op and target of all nodes with the old ones."""
    new_graph = Graph()
    val_map: dict[Node, Node] = {}
    for node in fx_module.graph.nodes:
        if node.op == old_op and node.target == old_target:
            args, kwargs = (map_arg(value, lambda n: val_map[n]) for value in (node.args, node.kwargs))
            val_map[node] = new_graph.create_node(new_op, new_target, args, kwargs, node.name)
        else:
            val_map[node] = new_graph.node_copy(node, lambda n: val_map[n])
    fx_module.graph = new_graph


def get_size_of_all_nodes(fx_module: GraphModule, args: list[Any] | None = None) -> None:
    """Set ``node.size_bytes`` of all nodes, after running the graph on examples if there are some."""
    if args is not None:
        ShapeProp(fx_module).propagate(*args)
    for node in fx_module.graph.nodes:
        if node.op == "output":
            break
        node.size_bytes = get_size_of_node(fx_module, node)


def get_size_of_node(fx_module: GraphModule, node: Node) -> size_bytes:
    """Return the sizes of a node's result and parameters.

    Raises:
        ArgumentError: The shape of the result is not known.
    """
    total = 0
    if node.op == "call_module":
        module = dict(fx_module.named_modules())[node.target]
        total = sum(parameter.numel() * parameter.element_size() for parameter in module.parameters())
    meta = get_tensor_meta(node)
    count = 1
    for size in meta.shape:
        count *= size
    output = count * meta.dtype.itemsize
    return size_bytes(output, total + output)


def get_tensor_meta(node: Node) -> Any:
    """Return ``node.meta["tensor_meta"]``.

    Raises:
        ArgumentError: There is none.
    """
    meta = node.meta.get("tensor_meta")
    if not meta:
        raise ArgumentError("get_tensor_meta", f"node {node}", f"Node {node} has no tensor metadata associated with "
                            "it! Check that shape propagation has run", "run ShapeProp on examples")
    return meta


__all__ = ["get_size_of_all_nodes", "get_size_of_node", "get_tensor_meta",
           "replace_target_nodes_with", "size_bytes"]
