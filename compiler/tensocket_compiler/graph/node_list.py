"""Views of a graph's nodes: in order, and by op and target; and the place of insertion as a block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .graph import Graph
    from .node import Node


class NodeList:
    """The nodes of a graph in order; nodes may be inserted and erased while it is iterated."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph = graph
        self.direction = direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root, direction = self.graph._root, self.direction
        node = getattr(root, direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, direction)

    def __reversed__(self) -> NodeList:
        return NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")


class NodeTable:
    """A graph's nodes by op, and for calls of functions also by target."""

    def __init__(self) -> None:
        self.table: dict[tuple[str, Any], dict[Node, None]] = {}

    @staticmethod
    def _key(node: Node) -> tuple[str, Any]:
        return (node.op, node.target if node.op == "call_function" else None)

    def __contains__(self, node: Node) -> bool:
        return node in self.table.get(self._key(node), ())

    def insert(self, node: Node) -> None:
        """Add a node."""
        self.table.setdefault(self._key(node), {})[node] = None

    def remove(self, node: Node) -> None:
        """Take a node away."""
        self.table[self._key(node)].pop(node)

    def find_nodes(self, *, op: str, target: Any = None) -> list[Node]:
        """Return the nodes with an op and, unless it is None, a target, in the order of their creation."""
        if op == "call_function":
            return list(self.table.get((op, target), ()))
        found = list(self.table.get((op, None), ()))
        return found if target is None else [node for node in found if node.target == target]


class InsertPoint:
    """A block in which a graph inserts new nodes at another place."""

    def __init__(self, graph: Graph, new_insert: Callable[[Node], None]) -> None:
        self.graph = graph
        self.orig_insert, graph._insert = graph._insert, new_insert

    def __enter__(self) -> None:
        return None

    def __exit__(self, *error: object) -> None:
        self.graph._insert = self.orig_insert
