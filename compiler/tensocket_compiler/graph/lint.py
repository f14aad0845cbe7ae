"""Checks of a graph: order, uses, names, and the targets in the module that owns it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensocket_plugins.contract.errors import ArgumentError

from .node import OPCODES, Node, nodes_in

if TYPE_CHECKING:
    from .graph import Graph


def lint(graph: Graph) -> None:
    """Check a graph.

    Raises:
        ArgumentError: A node stands before one of its arguments, belongs to another graph, has a name twice, or has a
            target that the owning module does not have.
    """
    seen: set[Node] = set()
    names: set[str] = set()
    for node in graph.nodes:
        if node.op not in OPCODES[:-1]:
            raise _fault(node, f"Node {node} had unknown opcode {node.op}!", "use one of the opcodes of Node")
        if node.graph is not graph:
            raise _fault(node, f"Node '{node}' does not belong to this Graph!", "copy it with graph.node_copy")
        for argument in nodes_in(node.args, node.kwargs):
            _check_argument(graph, node, argument, seen)
        if node.name in names:
            raise _fault(node, f"Node redefined name {node.name}!", "let create_node choose names")
        names.add(node.name)
        seen.add(node)
    if graph.owning_module is not None:
        for node in graph.nodes:
            if node.op in ("get_attr", "call_module"):
                _check_target(graph.owning_module, node)


def _check_argument(graph: Graph, node: Node, argument: Node, seen: set[Node]) -> None:
    if argument.graph is not graph:
        raise _fault(node, f"Argument '{argument}' of Node '{node}' does not belong to this Graph, but was used as an "
                     "argument!", "copy the other graph's nodes with graph.graph_copy")
    if argument not in seen:
        raise _fault(node, f"Argument '{argument}' of Node '{node}' was used before it has been defined! Please check "
                     f"that Nodes in the graph are topologically ordered\n{graph}", "move it with node.prepend")


def _check_target(owner: Any, node: Node) -> None:
    """Check that a module has the attribute or submodule that a node names."""
    here: Any = owner
    for position, name in enumerate(node.target.split(".")):
        if not hasattr(here, name):
            path = ".".join(node.target.split(".")[:position]) or "the root module"
            raise _fault(node, f"Node {node} target {node.target} references nonexistent attribute {name} of {path}",
                         "assign it to the module, or change the node's target")
        here = getattr(here, name)
    if node.op == "call_module" and not callable(here):
        raise _fault(node, f"Node {node} target {node.target} references a {type(here).__name__}, but call_module "
                     "calls a module", "use get_attr for other attributes")


def _fault(node: Node, rule: str, advice: str) -> ArgumentError:
    return ArgumentError("Graph.lint", f"node {node.name} with op {node.op} and target {node.target}", rule, advice)
