"""Groups of nodes that a backend supports, as large as possible, each without a path that leaves it and comes back."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence

from ...graph_module import GraphModule
from ...node import Node, _get_qualified_name
from ..operator_support import OperatorSupportBase
from ..utils.fuser_utils import fuse_by_partitions


class Partition:
    """A group of nodes.

    Attributes:
        id: Its number.
        nodes: Its nodes, as keys.
    """

    def __init__(self, id: int | None = None, nodes: Iterable[Node] | None = None) -> None:
        self.id = id
        self.nodes: dict[Node, int | None] = dict.fromkeys(nodes or ())

    def __repr__(self) -> str:
        return str(self.nodes)

    def add_node(self, node: Node, node_order: int | None = None) -> None:
        """Add a node."""
        self.nodes[node] = node_order

    def remove_node(self, node: Node) -> None:
        """Take a node away."""
        del self.nodes[node]

    def size(self) -> int:
        """Return the number of nodes."""
        return len(self.nodes)


def _name(node: Node) -> str:
    """Return the name of a node's function, of an operator without its overload; the op of other nodes."""
    if node.op != "call_function":
        return node.op
    return _get_qualified_name(node.target).removesuffix(".default").removesuffix(".Tensor")


class _DependencyViewer:
    """The nodes that each node reaches."""

    def __init__(self, graph_module: GraphModule) -> None:
        self.downstreams: dict[Node, set[Node]] = {}
        for node in reversed(graph_module.graph.nodes):
            found: set[Node] = set()
            for user in node.users:
                found.add(user)
                found |= self.downstreams[user]
            self.downstreams[node] = found

    def downstreams_of(self, node: Node) -> set[Node]:
        """Return the nodes that depend on a node."""
        return self.downstreams[node]


class CapabilityBasedPartitioner:
    """Finds groups of supported nodes, and replaces them by submodules.

    Args:
        graph_module: The module.
        operator_support: Tells which nodes are supported.
        allows_single_node_partition: Whether one node that computes may be a group.
        non_compute_ops: Names of functions that do not compute, which groups of one node need and ends of groups lose.
        allowed_single_node_partition_ops: Names of functions that may be a group alone.
        skip_horizontal_fusion: Whether groups are only joined if one uses the other.
    """

    def __init__(self, graph_module: GraphModule, operator_support: OperatorSupportBase,
                 allows_single_node_partition: bool = False, non_compute_ops: Sequence[str] | None = None,
                 allowed_single_node_partition_ops: Sequence[str] | None = None,
                 skip_horizontal_fusion: bool = False) -> None:
        self.graph_module = graph_module
        self.operator_support = operator_support
        self.allows_single_node_partition = allows_single_node_partition
        self.non_compute_ops = non_compute_ops or []
        self.allowed_single_node_partition_ops = allowed_single_node_partition_ops or []
        self.skip_horizontal_fusion = skip_horizontal_fusion
        self.dependency_viewer = _DependencyViewer(graph_module)

    def _is_node_supported(self, node: Node) -> bool:
        return self.operator_support.is_node_supported(dict(self.graph_module.named_modules()), node)

    def propose_partitions(self) -> list[Partition]:
        """Return the groups, those of the last nodes first."""
        groups: dict[int, Partition] = {}
        of: dict[Node, int] = {}
        numbers = itertools.count()
        for node in reversed(self.graph_module.graph.nodes):
            candidates: dict[int, None] = {}
            if self._is_node_supported(node) and node.op not in ("placeholder", "output"):
                own = next(numbers)
                groups[own] = Partition(own, [node])
                of[node] = own
                candidates[own] = None
            for user in node.users:
                if user in of:
                    candidates[of[user]] = None
            if node in of and not self.skip_horizontal_fusion:
                candidates.update(dict.fromkeys(sorted(groups)))
            if node in of:
                self._join(list(candidates), groups, of)
        self._move_getitems(groups, of)
        found = [group for group in groups.values() if group.size()]
        if not self.allows_single_node_partition:
            found = [group for group in found if self._computes(group)]
        return found

    def _join(self, candidates: list[int], groups: dict[int, Partition], of: dict[Node, int]) -> None:
        """Join the groups of which no node outside lies between."""
        if len(candidates) < 2:
            return
        own, *others = candidates
        for other in others:
            merged = {*groups[own].nodes, *groups[other].nodes}
            if self._has_circle(merged):
                continue
            for node in groups[other].nodes:
                groups[own].add_node(node)
                of[node] = own
            del groups[other]

    def _has_circle(self, nodes: set[Node]) -> bool:
        """Whether a path leaves the nodes and comes back."""
        outside = {user for node in nodes for user in node.users} - nodes
        return any(self.dependency_viewer.downstreams_of(node) & nodes for node in outside)

    def _move_getitems(self, groups: dict[int, Partition], of: dict[Node, int]) -> None:
        """Put the items of a tuple into the group that makes it, or into none if no group does."""
        for node in self.graph_module.graph.nodes:
            if not all(user.op == "call_function" and user.target is operator.getitem for user in node.users):
                continue
            maker = of.get(node)
            for user in node.users:
                if of.get(user) == maker:
                    continue
                if user in of:
                    groups[of.pop(user)].remove_node(user)
                if maker is not None:
                    groups[maker].add_node(user)
                    of[user] = maker

    def _computes(self, group: Partition) -> bool:
        idle = {*self.non_compute_ops, "torch.ops.aten.view", "_operator.getitem"}
        names = [_name(node) for node in group.nodes]
        count = sum(name not in idle for name in names)
        return count > 1 or any(name in self.allowed_single_node_partition_ops for name in names)

    def fuse_partitions(self, partitions: list[Partition], prefix: str = "fused_") -> GraphModule:
        """Replace groups by submodules."""
        return fuse_by_partitions(self.graph_module, [list(group.nodes) for group in partitions], prefix)

    def remove_bookend_non_compute_ops(self, partitions: list[Partition]) -> None:
        """Take nodes that do not compute from the begins and ends of groups."""
        idle = set(self.non_compute_ops)

        def is_idle(node: Node) -> bool:
            return node.op == "call_function" and _name(node) in idle

        for group in partitions:
            for forward in (True, False):
                pending = list(group.nodes)
                while pending:
                    node = pending.pop()
                    if node not in group.nodes or not is_idle(node):
                        continue
                    near = node.all_input_nodes if forward else list(node.users)
                    if not any(other in group.nodes for other in near):
                        group.remove_node(node)
                        pending += list(node.users) if forward else node.all_input_nodes

    def partition_and_fuse(self, prefix: str = "fused_") -> GraphModule:
        """Find the groups and replace them by submodules."""
        return self.fuse_partitions(self.propose_partitions(), prefix)
