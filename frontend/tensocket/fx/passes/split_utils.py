"""Splitting a module by tags of its nodes, in a given order of the tags."""

from __future__ import annotations

import operator
from collections import defaultdict
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from tensocket.errors import ArgumentError

from .._attributes import _copy_attr
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg
from .utils import HolderModule, lift_subgraph_as_module


def getattr_recursive(obj: Any, name: str) -> Any:
    """Return an attribute by its path; an empty path is the object."""
    for part in name.split(".") if name else ():
        obj = obj.__dict__[part] if isinstance(obj, dict) else getattr(obj, part)
    return obj


def setattr_recursive(obj: Any, attr: str, value: Any) -> None:
    """Assign an attribute by its path."""
    parent, _, name = attr.rpartition(".")
    setattr(getattr_recursive(obj, parent), name, value)


@dataclass
class Component:
    """A submodule in the making.

    Attributes:
        graph: Its graph.
        order: Its place among the others.
        name: Its tag.
        input_placeholders: Its placeholders.
        orig_inputs: The nodes that they stand for.
        orig_outputs: Its nodes that others use.
        getattr_maps: Attribute of the original to node of its graph.
        constructor_args: Names of attributes; none here.
        gm: The module, once it is made.
    """

    graph: Graph
    order: int
    name: str
    input_placeholders: list[Node] = field(default_factory=list)
    orig_inputs: list[Node] = field(default_factory=list)
    orig_outputs: list[Node] = field(default_factory=list)
    getattr_maps: dict[Node, Node] = field(default_factory=dict)
    constructor_args: list[str] = field(default_factory=list)
    gm: GraphModule | None = None


def split_by_tags(gm: GraphModule, tags: list[str], return_fqn_mapping: bool = False,
                  return_tuple: bool = False, GraphModuleCls: type[GraphModule] = GraphModule) -> Any:
    """Split a module by the ``tag`` of its nodes.

    Args:
        gm: The module, whose nodes that compute have an attribute ``tag``.
        tags: The tags in the order in which the submodules run.
        return_fqn_mapping: Whether the paths of the attributes in the result are returned, by their original paths.
        return_tuple: Whether submodules with one result return a tuple.
        GraphModuleCls: Class of the modules that are made.

    Returns:
        A module with a submodule per tag, with ``return_fqn_mapping`` and the dict of paths.

    Raises:
        ArgumentError: A node uses a result of a later tag.
    """
    order = {tag: at for at, tag in enumerate(tags)}
    components = [Component(Graph(), at, tag) for at, tag in enumerate(tags)]
    component_of: dict[Node, Component] = {}
    copies: dict[Node, Node] = {}  # node to its copy in its own component
    used_in: dict[Node, list[Component]] = defaultdict(list)
    outer, outer_of = Graph(), {}
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            default = node.args[0] if node.args else ...
            outer_of[node] = outer.placeholder(node.target, node.type, default)
            outer_of[node].meta = copy(node.meta)
        elif node.op not in ("get_attr", "output"):
            component = components[order[_tag(node)]]
            component_of[node] = component
            _check_order(node, component, component_of)
            copies[node] = component.graph.node_copy(node, _argument_in(component, component_of, copies, used_in))
            setattr(copies[node], "tag", _tag(node))  # noqa: B010  nodes have no such attribute of their own
    _note_outputs(gm, component_of, used_in, components)
    main: dict[str, Any] = {}
    fqn: dict[str, str] = {}
    for component in components:
        _call(gm, component, outer, outer_of, copies, main, fqn, return_tuple)
    output = gm.graph.output_node()

    def result_of(node: Node) -> Node:
        if node not in outer_of:
            outer_of[node] = outer.get_attr(node.target)
        return outer_of[node]

    outer.output(map_arg(output.args[0], result_of)).meta = copy(output.meta)
    root = HolderModule(dict(main))
    for node in outer.nodes:
        if node.op == "get_attr":
            _copy_attr(gm, root, node.target)
    outer._codegen = gm.graph._codegen
    result = GraphModuleCls(root, outer)
    return (result, fqn) if return_fqn_mapping else result


def _tag(node: Any) -> str:
    return str(node.tag)


def _check_order(node: Node, component: Component, component_of: dict[Node, Component]) -> None:
    for operand in node.all_input_nodes:
        if operand in component_of and component_of[operand].order > component.order:
            raise ArgumentError("split_by_tags", f"node {node} with tag {component.name}", "Nodes and tags are not "
                                f"in the same order: it uses {operand} of the later {component_of[operand].name}",
                                "change the order of the tags")


def _argument_in(component: Component, component_of: dict[Node, Component], copies: dict[Node, Node],
                 used_in: dict[Node, list[Component]]) -> Any:
    """Return a function of a node that returns the one that stands for it in a component."""
    def argument(node: Node) -> Node:
        if component_of.get(node) is component:
            return copies[node]
        if node.op == "get_attr":
            if node not in component.getattr_maps:
                component.getattr_maps[node] = component.graph.get_attr(node.target, type_expr=node.type)
                component.getattr_maps[node].meta = copy(node.meta)
            return component.getattr_maps[node]
        if node not in component.orig_inputs:
            component.orig_inputs.append(node)
            placeholder = component.graph.placeholder(node.name, type_expr=node.type)
            placeholder.meta = copy(node.meta)
            component.input_placeholders.append(placeholder)
            used_in[node].append(component)
        return component.input_placeholders[component.orig_inputs.index(node)]

    return argument


def _note_outputs(gm: GraphModule, component_of: dict[Node, Component], used_in: dict[Node, list[Component]],
                  components: list[Component]) -> None:
    results = set(gm.graph.output_node().all_input_nodes)
    for node in gm.graph.nodes:
        if node in component_of and (used_in.get(node) or node in results):
            component_of[node].orig_outputs.append(node)


def _call(gm: GraphModule, component: Component, outer: Graph, outer_of: dict[Node, Node], copies: dict[Node, Node],
          main: dict[str, Any], fqn: dict[str, str], return_tuple: bool) -> None:
    """Finish a component and call it in the outer graph."""
    outputs = component.orig_outputs
    results = tuple(copies[node] for node in outputs)
    alone = len(results) == 1 and not return_tuple
    component.graph.output(results[0] if alone else results)
    component.gm, mapping = lift_subgraph_as_module(gm, component.graph, comp_name=component.name)
    fqn.update(mapping)
    main[component.name] = component.gm
    called = outer.call_module(component.name, tuple(outer_of[node] for node in component.orig_inputs))
    for at, node in enumerate(outputs):
        outer_of[node] = called if alone else outer.call_function(operator.getitem, (called, at))
        outer_of[node].meta = copy(node.meta)


__all__ = ["Component", "getattr_recursive", "setattr_recursive", "split_by_tags"]
