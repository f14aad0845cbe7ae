"""Computing once the part of a graph that depends on no input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tensocket.nn import Module, Parameter
from tensocket_operators import Tensor

from .._symbolic_trace import symbolic_trace
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node

#: Begin of the names of attributes that hold results.
_PREFIX: Final = "_FX_CONST_FOLDED_ATTRS"


class FoldedGraphModule(GraphModule):
    """A module whose constant part runs once, before the first call.

    Args:
        root: The module that has the attributes.
        graph: The graph without the constant part.
        const_subgraph: The constant part, which returns a tuple; None if there is none.
        fx_const_folded_attrs_name: Begin of the names of the attributes for its results.
        device_for_folded_attrs: Device of the results.
    """

    def __init__(self, root: Module, graph: Graph, const_subgraph: Graph | None = None,
                 fx_const_folded_attrs_name: str | None = None, device_for_folded_attrs: str = "cuda") -> None:
        super().__init__(root, graph)
        self.const_subgraph_module = None if const_subgraph is None else GraphModule(root, const_subgraph)
        self.has_folding_been_run = False
        self.fx_const_folded_attrs_name = fx_const_folded_attrs_name
        self.device_for_folded_attrs = device_for_folded_attrs

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the constant part, if it has not run, and the module."""
        if not self.has_folding_been_run:
            self.run_folding()
        return super().__call__(*args, **kwargs)

    def run_folding(self) -> None:
        """Run the constant part, and assign its results."""
        if self.const_subgraph_module is None or self.fx_const_folded_attrs_name is None:
            return
        if self.has_folding_been_run:
            raise AssertionError("Folding has already been run")
        self.has_folding_been_run = True
        for at, value in enumerate(self.const_subgraph_module()):
            name = _result_name(self.fx_const_folded_attrs_name, at)
            if isinstance(value, Tensor):
                value = Parameter(value.detach(), requires_grad=value.requires_grad)
            self.__dict__.pop(name, None)
            setattr(self, name, value)


def _result_name(prefix: str, at: int) -> str:
    return prefix if at == 0 else f"{prefix}_{at}"


def get_unique_attr_name_in_module(mod_traced: GraphModule, name: str) -> str:
    """Return the name of an attribute that a module does not have, which begins with ``name``."""
    found, number = name, 0
    while hasattr(mod_traced, found):
        number += 1
        found = f"{name}_{number}"
    return found


def split_const_subgraphs(module: Module | GraphModule, skip_folding_node_fn: Callable[[Node], bool] | None = None,
                          device_for_folded_attrs: str = "cpu") -> FoldedGraphModule:
    """Split the part of a module that depends on no input.

    Args:
        module: The module, recorded if it is not a graph module.
        skip_folding_node_fn: Tells which nodes are never constant.
        device_for_folded_attrs: Device of the results.

    Returns:
        A module that computes that part before its first call, and then uses the results.
    """
    traced = module if isinstance(module, GraphModule) else symbolic_trace(module)
    constant = _constant_nodes(traced, skip_folding_node_fn)
    results = [node for node in traced.graph.nodes if node in constant and node.op != "get_attr"
               and any(user not in constant for user in node.users)]
    if not results:
        return FoldedGraphModule(traced, traced.graph)
    const_graph = Graph()
    copies: dict[Node, Node] = {}
    for node in traced.graph.nodes:
        if node in constant:
            copies[node] = const_graph.node_copy(node, lambda n: copies[n])
    const_graph.output(tuple(copies[node] for node in results))
    const_graph.eliminate_dead_code()
    prefix = get_unique_attr_name_in_module(traced, _PREFIX)
    graph = _without(traced, constant, results, prefix)
    return FoldedGraphModule(traced, graph, const_graph, prefix, device_for_folded_attrs)


def _constant_nodes(traced: GraphModule, skip: Callable[[Node], bool] | None) -> set[Node]:
    found: set[Node] = set()
    for node in traced.graph.nodes:
        if node.op in ("placeholder", "output") or (skip is not None and skip(node)):
            continue
        operands = node.all_input_nodes
        if node.op == "get_attr" or (operands and all(operand in found for operand in operands)):
            if not node.is_impure():
                found.add(node)
        elif node.op == "call_function" and not node.all_input_nodes and not node.is_impure():
            found.add(node)
    return found


def _without(traced: GraphModule, constant: set[Node], results: list[Node], prefix: str) -> Graph:
    """Return the graph with attributes in place of results of the constant part."""
    graph = Graph()
    graph._codegen = traced.graph._codegen
    copies: dict[Node, Node] = {}
    for node in traced.graph.nodes:
        if node in results:
            name = _result_name(prefix, results.index(node))
            copies[node] = graph.get_attr(name)
            copies[node].meta = dict(node.meta)
            # The value comes with the first call; a graph that reads a missing attribute is not well formed.
            setattr(traced, name, None)
        elif node not in constant or (node.op == "get_attr" and any(user not in constant for user in node.users)):
            copies[node] = graph.node_copy(node, lambda n: copies[n])
            if node.op == "output":
                copies[node].meta = dict(node.meta)
    return graph


__all__ = ["FoldedGraphModule", "get_unique_attr_name_in_module", "split_const_subgraphs"]
