"""Splitting a module into parts that run on an accelerator and parts that do not."""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from tensocket.errors import ArgumentError
from tensocket.nn import Module

from ..graph_module import GraphModule
from ..node import Node, map_arg
from .operator_support import OperatorSupportBase
from .shape_prop import ShapeProp
from .split_utils import split_by_tags
from .tools_common import (
    CALLABLE_NODE_OPS,
    FxNetAccFusionsFinder,
    NodeList,
    NodeSet,
    get_node_target,
    is_node_output_tensor,
)

DEFAULT_MIN_ACC_MODULE_SIZE = 1
DEFAULT_SKIP_FUSION = False
DEFAULT_ALLOW_NON_TENSOR = False


class _SplitterSettingBase:
    """Settings of a splitter; those of the command line count if they are not given.

    Args:
        min_acc_module_size: Number of nodes from which a part runs on the accelerator.
        skip_fusion: Whether nodes between which other values than tensors pass may be separated.
        allow_non_tensor: Whether other values than tensors pass between parts.
        max_acc_splits: Most parts that run on the accelerator; any number if it is negative.
    """

    def __init__(self, min_acc_module_size: int = DEFAULT_MIN_ACC_MODULE_SIZE, skip_fusion: bool = DEFAULT_SKIP_FUSION,
                 allow_non_tensor: bool = DEFAULT_ALLOW_NON_TENSOR, max_acc_splits: int = -1) -> None:
        parser = argparse.ArgumentParser(add_help=False)
        parser.add_argument("--min-acc-module-size", "--min_acc_module_size", type=int)
        parser.add_argument("--skip-fusion", "--skip_fusion", action="store_true")
        parser.add_argument("--allow-non-tensor", "--allow_non_tensor", action="store_true")
        options, _ = parser.parse_known_args()
        given = options.min_acc_module_size
        self.min_acc_module_size = min_acc_module_size if given is None else given
        self.skip_fusion = options.skip_fusion or skip_fusion
        self.allow_non_tensor = options.allow_non_tensor or allow_non_tensor
        self.max_acc_splits = max_acc_splits


class FxNetSplitterInternalError(Exception):
    """A graph that cannot be split."""


@dataclass
class Subgraph:
    """Nodes that form one part.

    Attributes:
        is_acc: Whether it runs on the accelerator.
        nodes: The nodes.
        device_ordinal: Number of the device, if there are several.
    """

    is_acc: bool
    nodes: NodeList
    device_ordinal: int | None = None


class SplitResult(NamedTuple):
    """The result of a splitter.

    Attributes:
        split_module: The module.
        submodule_inputs: Examples of the arguments of each part.
        non_acc_submodule_prefix: Begin of the names of the other parts.
    """

    split_module: GraphModule
    submodule_inputs: dict[str, Any]
    non_acc_submodule_prefix: str


def generate_inputs_for_submodules(model: Module, inputs: Sequence[Any], target_submodules: Iterable[str],
                                   deepcopy: bool = False) -> dict[str, Any]:
    """Run a model and return the arguments that some of its modules get.

    Args:
        model: The model.
        inputs: Its arguments.
        target_submodules: Paths of the modules.
        deepcopy: Whether the arguments are copied.
    """
    from copy import deepcopy as copied

    results: dict[str, Any] = {}
    handles = []
    wanted = set(target_submodules)
    for name, module in model.named_modules():
        if name in wanted:
            def note(module: Module, args: Any, name: str = name) -> None:
                results[name] = copied(args) if deepcopy else args

            handles.append(module.register_forward_pre_hook(note))
    try:
        model(*inputs)
    finally:
        for handle in handles:
            handle.remove()
    return results


class FxNetAccNodesFinder:
    """Finds the nodes that may run on the accelerator.

    Args:
        module: The module, whose nodes have shapes.
        operator_support: Tells which nodes are supported.
        allow_non_tensor: Whether other values than tensors pass between parts.
    """

    def __init__(self, module: GraphModule, operator_support: OperatorSupportBase, allow_non_tensor: bool) -> None:
        self.module = module
        self.operator_support = operator_support
        self.allow_non_tensor = allow_non_tensor
        self.acc_nodes: NodeSet = set()

    def __call__(self) -> NodeSet:
        """Return the nodes."""
        submodules = dict(self.module.named_modules())
        self.acc_nodes = {node for node in self.module.graph.nodes if node.op in CALLABLE_NODE_OPS
                          and self.operator_support.is_node_supported(submodules, node)}
        if not self.allow_non_tensor:
            self.reduce_acc_nodes_non_tensor_input()
            self.reduce_acc_nodes_non_tensor_output()
        return self.acc_nodes

    def reduce_acc_nodes_non_tensor_input(self) -> None:
        """Take away the nodes that get other values than tensors from other parts, and those that get their results."""
        pending = [node for node in self.module.graph.nodes if node.op in CALLABLE_NODE_OPS
                   and node not in self.acc_nodes and not is_node_output_tensor(node)]
        while pending:
            for user in pending.pop().users:
                if user in self.acc_nodes:
                    self.acc_nodes.remove(user)
                    if not is_node_output_tensor(user):
                        pending.append(user)

    def reduce_acc_nodes_non_tensor_output(self) -> None:
        """Take away the nodes whose result, which is not a tensor, goes to other parts, and those behind them."""
        changed = True
        while changed:
            leaving = [node for node in self.acc_nodes if not is_node_output_tensor(node)
                       and any(user not in self.acc_nodes for user in node.users)]
            changed = bool(leaving)
            self.acc_nodes -= set(leaving)


class _SplitterBase:
    """Splits a module. Parts for the accelerator are ``_run_on_acc_0`` ..., others ``_run_on_cpu_1`` ...

    Args:
        module: The module.
        sample_input: Examples of its arguments, from which shapes are found.
        operator_support: Tells which nodes are supported.
        settings: Settings.
        non_acc_submodule_name: Begin of the names of the other parts.
        return_tuple: Whether parts with one result return a tuple.
        nodes_finder: Finds the nodes for the accelerator.
    """

    #: Name of PCI devices in previews of a subclass.
    PCIe_BW = 100 * 2**30

    def __init__(self, module: GraphModule, sample_input: Sequence[Any], operator_support: OperatorSupportBase,
                 settings: _SplitterSettingBase, non_acc_submodule_name: str = "_run_on_cpu_",
                 return_tuple: bool = False, nodes_finder: FxNetAccNodesFinder | None = None) -> None:
        if not isinstance(module, GraphModule):
            raise AssertionError(f"Expected GraphModule, got {type(module)}")
        self.module = module
        ShapeProp(module).propagate(*sample_input)
        self.settings = settings
        self.operator_support = operator_support
        self.sample_input = sample_input
        finder = nodes_finder or FxNetAccNodesFinder(module, operator_support, settings.allow_non_tensor)
        self.acc_nodes = finder()
        self.fusions: dict[Node, NodeSet] = {}
        if not settings.skip_fusion:
            self.fusions = FxNetAccFusionsFinder(module, self.acc_nodes)()
        self.deps = self.find_deps()
        self.update_deps_for_fusions()
        self.non_acc_submodule_name = non_acc_submodule_name
        self._return_tuple = return_tuple
        self.tags: list[str] = []

    # ---- dependencies

    def find_deps(self) -> dict[Node, NodeSet]:
        """Return the nodes that each node's arguments come from."""
        deps: dict[Node, NodeSet] = defaultdict(set)
        for node in self.module.graph.nodes:
            if node.op in CALLABLE_NODE_OPS:
                deps[node] |= {operand for operand in node.all_input_nodes if operand.op in CALLABLE_NODE_OPS}
        return deps

    def update_deps_for_fusions(self) -> None:
        """Let all nodes of a group depend on the arguments of the whole group."""
        for group in self.fusions.values():
            outside = {dep for node in group for dep in self.deps[node]} - group
            for node in group:
                self.deps[node] |= outside

    def starter_nodes(self) -> tuple[NodeSet, NodeSet]:
        """Return the nodes that depend on no other: those of the host, and those of the accelerator."""
        ready = {node for node in self.module.graph.nodes if node.op in CALLABLE_NODE_OPS and not self.deps[node]}
        return ready - self.acc_nodes, ready & self.acc_nodes

    def put_nodes_into_subgraphs(self) -> list[Subgraph]:
        """Return the parts in the order in which they run; each is as large as possible.

        Raises:
            FxNetSplitterInternalError: Groups of nodes depend on each other.
        """
        pending = [node for node in self.module.graph.nodes if node.op in CALLABLE_NODE_OPS]
        placed: NodeSet = set()
        found: list[Subgraph] = []
        on_host, on_acc = self.starter_nodes()
        is_acc = not on_host and bool(on_acc)
        while pending:
            nodes = self._next_part(pending, placed, is_acc)
            if not nodes and not self._next_part(pending, placed, not is_acc):
                raise FxNetSplitterInternalError("Subgraph can't be empty")
            if nodes:
                found.append(Subgraph(is_acc, nodes))
                members = set(nodes)
                pending = [node for node in pending if node not in members]
            is_acc = not is_acc
        return found

    def _next_part(self, pending: NodeList, placed: NodeSet, is_acc: bool) -> NodeList:
        """Return the nodes of one kind that can run now; those of the other kind stay."""
        found: NodeList = []
        ready = set(placed)
        changed = True
        while changed:
            changed = False
            for node in pending:
                if node in ready or (node in self.acc_nodes) is not is_acc:
                    continue
                group = self.fusions.get(node, {node})
                if all(dep in ready or dep in group for member in group for dep in self.deps[member]):
                    found += [member for member in pending if member in group and member not in ready]
                    ready |= group
                    changed = True
        placed |= set(found)
        order = {node: at for at, node in enumerate(pending)}
        return sorted(found, key=order.__getitem__)

    def remove_small_acc_subgraphs(self, subgraphs: list[Subgraph]) -> list[Subgraph]:
        """Let small parts run on the host, joined with their neighbours there."""
        found: list[Subgraph] = []
        for part in subgraphs:
            is_acc = part.is_acc and len(part.nodes) >= self.settings.min_acc_module_size
            if not is_acc and found and not found[-1].is_acc:
                found[-1].nodes += part.nodes
            else:
                found.append(Subgraph(is_acc, list(part.nodes)))
        return found

    # ---- splitting

    def tag(self, subgraphs: list[Subgraph]) -> None:
        """Set the tags of nodes."""
        self.tags = []
        for at, part in enumerate(subgraphs):
            tag = f"_run_on_acc_{at}" if part.is_acc else f"{self.non_acc_submodule_name}{at}"
            self.tags.append(tag)
            for node in part.nodes:
                if hasattr(node, "tag"):
                    raise FxNetSplitterInternalError(f"Node {node} was already tagged")
                node.tag = tag

    def split(self, remove_tag: bool = False) -> GraphModule:
        """Split the module by its tags."""
        made: GraphModule = split_by_tags(self.module, self.tags, return_tuple=self._return_tuple)
        if remove_tag:
            for node in self.module.graph.nodes:
                if hasattr(node, "tag"):
                    del node.tag
        return made

    def __call__(self) -> GraphModule:
        """Split the module.

        Raises:
            ArgumentError: There are more parts for the accelerator than the settings allow.
        """
        subgraphs = self.remove_small_acc_subgraphs(self.put_nodes_into_subgraphs())
        count = sum(part.is_acc for part in subgraphs)
        most = self.settings.max_acc_splits
        if 0 < most < count:
            raise ArgumentError("splitter", f"{count} parts for the accelerator", "Cannot fulfill max_acc_splits "
                                f"limit: {count} > {most}", "raise max_acc_splits, or support more operators")
        self.tag(subgraphs)
        return self.split()

    def generate_split_results(self) -> SplitResult:
        """Split the module, and return examples of the arguments of its parts, too."""
        made = self()
        names = [name for name, _ in made.named_children()]
        inputs = generate_inputs_for_submodules(made, self.sample_input, names)
        return SplitResult(made, inputs, self.non_acc_submodule_name)

    def node_support_preview(self, dump_graph: bool = False) -> str:
        """Return a report of the supported and unsupported targets, and print it."""
        submodules = dict(self.module.named_modules())
        kinds: dict[bool, dict[str, None]] = {True: {}, False: {}}
        for node in self.module.graph.nodes:
            if node.op in CALLABLE_NODE_OPS:
                supported = self.operator_support.is_node_supported(submodules, node)
                kinds[supported].setdefault(f"{get_node_target(submodules, node)}: {_signature(node)}")
        report = "".join(f"\n{name} node types in the model:\n" + "".join(f"{line}\n" for line in kinds[kind])
                         for kind, name in ((True, "Supported"), (False, "Unsupported")))
        print(report)
        return report

    def split_preview(self, dump_graph: bool = False) -> str:
        """Return a report of the parts, and print it."""
        subgraphs = self.remove_small_acc_subgraphs(self.put_nodes_into_subgraphs())
        count = sum(part.is_acc for part in subgraphs)
        report = (f"Before removing small acc subgraphs, total {len(subgraphs)} subgraphs are created: {count} acc "
                  f"subgraphs and {len(subgraphs) - count} cpu subgraphs.\n")
        for at, part in enumerate(subgraphs):
            name = "_run_on_acc_" if part.is_acc else self.non_acc_submodule_name
            report += f"{name}{at}: {len(part.nodes)} node(s)\n"
        print(report)
        return report


def _signature(node: Node) -> str:
    """Return the dtypes of a node's arguments."""
    def describe(operand: Node) -> str:
        meta = operand.meta.get("tensor_meta")
        return str(getattr(meta, "dtype", type(meta).__name__))

    args, kwargs = map_arg(node.args, describe), map_arg(node.kwargs, describe)
    return f"({args}, {dict(kwargs)})"


__all__ = ["FxNetAccNodesFinder", "FxNetSplitterInternalError", "SplitResult", "Subgraph",
           "_SplitterBase", "_SplitterSettingBase", "generate_inputs_for_submodules"]
