"""Finding a pattern in a graph: nodes that compute the same from their operands upward, and nothing else uses."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any

from tensocket_plugins.contract.errors import ArgumentError

from .graph import Graph
from .node import Node


@dataclass
class InternalMatch:
    """A part of a graph that is equal to a pattern.

    Attributes:
        anchors: Nodes of the graph that match the pattern's results.
        nodes_map: Node of the pattern to node of the graph; a placeholder's may be a constant.
        placeholder_nodes: Values of the pattern's placeholders, in order.
        returning_nodes: Nodes that match the results, in the order of the pattern's output.
        name_node_map: Names that the pattern gives to nodes, if it returns a dict of them.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    placeholder_nodes: list[Any] = field(default_factory=list)
    returning_nodes: list[Node] = field(default_factory=list)
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(self.anchors, dict(self.nodes_map), list(self.placeholder_nodes),
                             list(self.returning_nodes), dict(self.name_node_map))


class SubgraphMatcher:
    """Finds all places of a graph that are equal to a pattern.

    Args:
        pattern: The pattern, whose placeholders match anything.
        match_output: Whether its output has to match the graph's.
        match_placeholder: Whether its placeholders match placeholders only.
        remove_overlapping_matches: Whether of matches that share nodes only the first counts.
        ignore_literals: Whether constants match any others.

    Raises:
        ArgumentError: The pattern is empty.
    """

    def __init__(self, pattern: Graph, match_output: bool = False, match_placeholder: bool = False,
                 remove_overlapping_matches: bool = True, ignore_literals: bool = False) -> None:
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if len(pattern.nodes) == 0:
            raise ArgumentError("SubgraphMatcher", "a graph without nodes", "SubgraphMatcher cannot be initialized "
                                "with an empty pattern", "pass a traced function")
        for node in pattern.nodes:
            if node.op != "output" and not node.is_impure() and not node.users:
                raise AssertionError("SubgraphMatcher cannot be initialized with an pattern with dead code")
        self.pattern_placeholder_nodes = [node for node in pattern.nodes if node.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes: list[Node] = output.all_input_nodes
        self.pattern_anchors: list[Node] = [output] if match_output else [
            node for node in output.all_input_nodes if len(node.users) == 1]

    def match(self, graph: Graph, node_name_match: str = "") -> list[InternalMatch]:
        """Return the matches in the order of the graph.

        Args:
            graph: The graph.
            node_name_match: Part of a name: nodes that have it in their names also match.
        """
        candidates = [[node for node in graph.nodes if self._nodes_are_equal(anchor, node, node_name_match)]
                      for anchor in self.pattern_anchors]
        found = [match for match in self._matches(candidates, node_name_match) if self._is_usable(match)]
        for match in found:
            match.placeholder_nodes = [match.nodes_map[node] for node in self.pattern_placeholder_nodes
                                       if node in match.nodes_map]
            match.returning_nodes = [match.nodes_map[node] for node in self.pattern_returning_nodes
                                     if node in match.nodes_map]
        return self._disjoint(found) if self.remove_overlapping_matches else found

    def _matches(self, candidates: list[list[Node]], name: str) -> Iterator[InternalMatch]:
        """Yield the matches of all anchors at once, first anchors first."""
        def extend(match: InternalMatch, at: int) -> Iterator[InternalMatch]:
            if at == len(self.pattern_anchors):
                yield match
                return
            for node in candidates[at]:
                longer = copy(match)
                longer.anchors = [*match.anchors, node]
                if self._match_nodes(self.pattern_anchors[at], node, longer, name):
                    yield from extend(longer, at + 1)

        if self.pattern_anchors:
            yield from extend(InternalMatch([]), 0)

    def _is_usable(self, match: InternalMatch) -> bool:
        matched = {node for node in match.nodes_map.values() if isinstance(node, Node)}
        return (self._is_contained(match.nodes_map) and not any(node._erased for node in matched)
                and not self._depends_on_itself(match.nodes_map))

    def _depends_on_itself(self, nodes_map: dict[Node, Any]) -> bool:
        """Whether the value of a placeholder is computed from the match, so that it could not be replaced."""
        inner = {found for node, found in nodes_map.items() if node.op not in ("placeholder", "output")}
        pending = [found for node, found in nodes_map.items() if node.op == "placeholder" and isinstance(found, Node)]
        if len(self.pattern_returning_nodes) < 2:
            return False  # only a second result can be used before the match is complete
        seen: set[Node] = set()
        while pending:
            node = pending.pop()
            if node in inner:
                return True
            if node not in seen:
                seen.add(node)
                pending += node.all_input_nodes
        return False

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """Whether nothing outside of a match uses its inner nodes."""
        inner = {node: found for node, found in nodes_map.items() if node.op not in ("placeholder", "output")}
        found_nodes = set(map(id, nodes_map.values()))
        return all(id(user) in found_nodes for node, found in inner.items()
                   if node not in self.pattern_returning_nodes and node.op != "get_attr" for user in found.users)

    def _disjoint(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        taken: set[Node] = set()
        kept: list[InternalMatch] = []
        for match in matches:
            inner = {found for node, found in match.nodes_map.items() if node.op not in ("placeholder", "output")}
            if not inner & taken:
                kept.append(match)
                taken |= inner
        return kept

    # ---- one node

    def _nodes_are_equal(self, pn: Node, gn: Node, node_name_match: str = "") -> bool:
        """Whether two nodes do the same with their arguments."""
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if node_name_match and node_name_match in gn.name:
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        return self._match_attributes(pn, gn) if pn.op == "get_attr" else bool(pn.target == gn.target)

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        """Whether two attributes hold values of one kind; tensors match tensors."""
        left, right = _attribute(pn), _attribute(gn)
        if left is None or right is None:
            return bool(pn.target == gn.target)
        return type(left) is type(right) or (hasattr(left, "_key") and hasattr(right, "_key"))

    def _match_literals(self, pn: Any, gn: Any, match: InternalMatch) -> bool:
        """Whether arguments of which one is not a node match: a placeholder matches any constant, always the same."""
        if isinstance(pn, Node):
            if pn.op != "placeholder" or self.match_placeholder:
                return False
            if pn in match.nodes_map:
                return bool(match.nodes_map[pn] == gn)
            match.nodes_map[pn] = gn
            return True
        return not isinstance(gn, Node) and (self.ignore_literals or (type(gn) is type(pn) and bool(gn == pn)))

    def _match_nodes(self, pn: Node, gn: Node, match: InternalMatch, node_name_match: str = "") -> bool:
        """Match a node and everything that it is computed from; ``match`` is unchanged if they do not."""
        if pn in match.nodes_map:
            return match.nodes_map[pn] is gn
        if pn.op != "placeholder" and any(gn is found for node, found in match.nodes_map.items()
                                          if node.op != "placeholder"):
            return False
        if not self._nodes_are_equal(pn, gn, node_name_match):
            return False
        earlier = dict(match.nodes_map)
        match.nodes_map[pn] = gn
        if pn.op == "placeholder" or self._match_arguments(pn, gn, match, node_name_match):
            return True
        match.nodes_map = earlier
        return False

    def _match_arguments(self, pn: Node, gn: Node, match: InternalMatch, name: str) -> bool:
        if set(pn.kwargs) != set(gn.kwargs) or len(pn.args) != len(gn.args):
            pairs = _paired(pn, gn)
            if pairs is None:
                return False
            left, right = pairs
        else:
            order = sorted(pn.kwargs)
            left = [*pn.args, *(pn.kwargs[key] for key in order)]
            right = [*gn.args, *(gn.kwargs[key] for key in order)]
        return self._match_values(left, right, match, name)

    def _match_values(self, p: Any, g: Any, match: InternalMatch, name: str) -> bool:
        """Whether arguments match: containers part by part, unless a placeholder stands for the whole."""
        if isinstance(p, Node) and isinstance(g, Node):
            return self._match_nodes(p, g, match, name)
        left, right = _parts(p), _parts(g)
        if left is None or right is None:
            return self._match_literals(p, g, match)
        return len(left) == len(right) and all(
            self._match_values(a, b, match, name) for a, b in zip(left, right, strict=True))


def _paired(pn: Node, gn: Node) -> tuple[list[Any], list[Any]] | None:
    """Return the arguments by name, if the nodes spell them differently."""
    module = gn.graph.owning_module
    left, right = (node.normalized_arguments(module, normalize_to_only_use_kwargs=True) for node in (pn, gn))
    if left is None or right is None or set(left.kwargs) != set(right.kwargs):
        return None
    pairs = [_spread(left.kwargs[key], right.kwargs[key]) for key in sorted(left.kwargs)]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def _spread(left: Any, right: Any) -> tuple[Any, Any]:
    """Return a number that stands for a list, such as a default padding, as a list of the other's length."""
    if type(left) is int and isinstance(right, (list, tuple)):
        return [left] * len(right), right
    if type(right) is int and isinstance(left, (list, tuple)):
        return left, [right] * len(left)
    return left, right


def _parts(value: Any) -> list[Any] | None:
    """Return the parts of a container or slice; None for other values."""
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, slice):
        return [value.start, value.stop, value.step]
    return list(value) if isinstance(value, (list, tuple)) else None


def _attribute(node: Node) -> Any:
    value = node.graph.owning_module
    for part in node.target.split("."):
        value = getattr(value, part, None)
    return value
