"""Splitting a module into submodules by a function of its nodes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from tensocket.errors import ArgumentError
from tensocket.nn import Module

from .._attributes import _get_attr
from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node, map_arg


@dataclass
class Partition:
    """A submodule in the making.

    Attributes:
        name: Its number or name.
        node_names: Names of its nodes.
        inputs: Names of nodes outside that it uses, in order.
        outputs: Names of its nodes that others use, in order.
        dependencies: Names of the partitions that it uses.
        dependents: Names of the partitions that use it.
        graph: Its graph.
        environment: Node of the original to node of its graph.
        targets: Attributes that its graph reads, by their names in the submodule.
    """

    name: str
    node_names: list[str] = field(default_factory=list)
    inputs: dict[str, None] = field(default_factory=dict)
    outputs: dict[str, None] = field(default_factory=dict)
    dependencies: dict[str, None] = field(default_factory=dict)
    dependents: dict[str, None] = field(default_factory=dict)
    graph: Graph = field(default_factory=Graph)
    environment: dict[Node, Node] = field(default_factory=dict)
    targets: dict[str, Any] = field(default_factory=dict)

    @property
    def submod_name(self) -> str:
        """Name of the submodule."""
        return f"submod_{self.name}"


class _Splitter:
    def __init__(self, m: GraphModule, root_m: Module, split_callback: Callable[[Node], Any],
                 keep_original_order: bool, keep_original_node_name: bool) -> None:
        self.m, self.root = m, root_m
        self.keep_order, self.keep_names = keep_original_order, keep_original_node_name
        self.nodes = {node.name: node for node in m.graph.nodes}
        self.partitions: dict[str, Partition] = {}
        self.of: dict[str, str] = {}
        for node in m.graph.nodes:
            if node.op in ("placeholder", "get_attr", "output"):
                continue
            name = str(split_callback(node))
            self.of[node.name] = name
            self.partitions.setdefault(name, Partition(name)).node_names.append(node.name)

    def note_uses(self) -> None:
        """Note which values pass between partitions."""
        for user in self.m.graph.nodes:
            for used in user.all_input_nodes:
                defined, using = self.of.get(used.name), self.of.get(user.name)
                if defined == using:
                    continue
                if defined is not None:
                    self.partitions[defined].outputs.setdefault(used.name)
                if using is not None:
                    self.partitions[using].inputs.setdefault(used.name)
                if defined is not None and using is not None:
                    self.partitions[using].dependencies.setdefault(defined)
                    self.partitions[defined].dependents.setdefault(using)

    def order(self) -> list[Partition]:
        """Return the partitions, those that others use first."""
        missing = {name: len(part.dependencies) for name, part in self.partitions.items()}
        ready = [name for name, count in missing.items() if not count]
        found: list[Partition] = []
        while ready:
            name = min(ready, key=list(self.partitions).index) if self.keep_order else ready[0]
            ready.remove(name)
            found.append(self.partitions[name])
            for other in self.partitions[name].dependents:
                missing[other] -= 1
                if not missing[other]:
                    ready.append(other)
        if len(found) != len(self.partitions):
            raise ArgumentError("split_module", f"{len(self.partitions)} partitions", "cycle exists between "
                                "partitions!",
                                "give nodes that depend on each other one number")
        return found

    def fill(self) -> None:
        """Copy the nodes into the graphs of their partitions."""
        for part in self.partitions.values():
            for name in part.inputs:
                original = self.nodes[name]
                # Attributes of the module are read inside, not passed.
                if original.op == "get_attr":
                    part.environment[original] = self._attribute(part, original)
                    continue
                made = part.graph.placeholder(name, type_expr=original.type)
                made.meta = dict(original.meta)
                part.environment[original] = made
        for node in self.m.graph.nodes:
            if node.name not in self.of:
                continue
            part = self.partitions[self.of[node.name]]
            args, kwargs = (map_arg(value, part.environment.__getitem__) for value in (node.args, node.kwargs))
            target = self._lifted(part, node.target) if node.op == "call_module" else node.target
            kept = node.name if self.keep_names else None
            made = part.graph.create_node(node.op, target, args, kwargs, kept, node.type)
            made.meta = dict(node.meta)
            part.environment[node] = made

    def _attribute(self, part: Partition, node: Node) -> Node:
        made = part.graph.get_attr(self._lifted(part, node.target))
        made.meta = dict(node.meta)
        return made

    def _lifted(self, part: Partition, target: str) -> str:
        name = target.replace(".", "_")
        part.targets[name] = _get_attr(self.root, target)
        return name

    def assemble(self, order: Iterable[Partition]) -> GraphModule:
        """Make the submodules and the module that calls them."""
        graph = Graph()
        graph._codegen = self.m.graph._codegen
        values: dict[str, Node] = {}
        attributes: dict[str, Any] = {}
        for node in self.m.graph.nodes:
            if node.op == "placeholder":
                default = node.args[0] if node.args else ...
                values[node.name] = graph.placeholder(node.target, type_expr=node.type, default_value=default)
                values[node.name].meta = dict(node.meta)
        for part in order:
            inputs = [name for name in part.inputs if self.nodes[name].op != "get_attr"]
            results = tuple(part.environment[self.nodes[name]] for name in part.outputs)
            if results:
                part.graph.output(results[0] if len(results) == 1 else results)
            else:
                part.graph.output(())
            module = GraphModule(part.targets, part.graph)
            attributes[part.submod_name] = module
            called = graph.call_module(part.submod_name, tuple(values[name] for name in inputs))
            for at, name in enumerate(part.outputs):
                values[name] = called if len(part.outputs) == 1 else graph.call_function(
                    operator.getitem, (called, at))
        for node in self.m.graph.nodes:
            if node.op == "output":
                self._finish(graph, node, values, attributes)
        return GraphModule(attributes, graph)

    def _finish(self, graph: Graph, output: Node, values: dict[str, Node], attributes: dict[str, Any]) -> None:
        def value_of(node: Node) -> Node:
            if node.name not in values:
                attributes[node.target] = _get_attr(self.root, node.target)
                values[node.name] = graph.get_attr(node.target)
            return values[node.name]

        made = graph.output(map_arg(output.args[0], value_of), type_expr=output.type)
        made.meta = dict(output.meta)


def split_module(m: GraphModule, root_m: Module, split_callback: Callable[[Node], Any],
                 qualname_map: dict[str, str] | None = None, keep_original_order: bool | None = False,
                 keep_original_node_name: bool | None = False, keep_original_input_name: bool = True, *,
                 partition_affix: str | None = None) -> GraphModule:
    """Split a module into submodules.

    Args:
        m: The module.
        root_m: The module that has its attributes, usually itself.
        split_callback: Returns the number or name of a node's partition, for nodes that compute.
        qualname_map: Gets the original path of each called module by its path in the result.
        keep_original_order: Whether partitions are called in the order of their first nodes where possible.
        keep_original_node_name: Whether nodes keep their names.
        keep_original_input_name: Accepted for programs; inputs of submodules have the names of the values.
        partition_affix: Goes between ``submod`` and the number in the names of submodules.

    Returns:
        A module with a submodule ``submod_0`` ... for each partition.

    Raises:
        ArgumentError: Partitions depend on each other.
    """
    splitter = _Splitter(m, root_m, split_callback, bool(keep_original_order), bool(keep_original_node_name))
    if partition_affix is not None:
        for part in splitter.partitions.values():
            part.name = f"{partition_affix}_{part.name}"
    splitter.note_uses()
    order = splitter.order()
    splitter.fill()
    result = splitter.assemble(order)
    if qualname_map is not None:
        for part in order:
            for node in part.environment:
                if node.op == "call_module":
                    qualname_map[f"{part.submod_name}.{node.target.replace('.', '_')}"] = node.target
    return result
