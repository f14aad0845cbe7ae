"""Finding a pattern whose nodes have names."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ArgumentError
from tensocket_compiler.graph.matcher import InternalMatch, SubgraphMatcher

from ...graph import Graph
from ...graph_module import GraphModule
from ...node import Node


def _split_to_graph_and_name_node_map(gm: GraphModule) -> tuple[GraphModule, dict[str, Node]]:
    """Take the dict of names from the results of a pattern.

    Raises:
        ArgumentError: The last result is not a dict of nodes.
    """
    output = gm.graph.output_node()
    *results, names = output.args[0] if isinstance(output.args[0], (list, tuple)) else (output.args[0],)
    if not isinstance(names, dict) or not all(isinstance(node, Node) for node in names.values()):
        raise ArgumentError("SubgraphMatcherWithNameNodeMap", f"a pattern that returns {output.args[0]}", "Expecting "
                            "the input graph to have a dict output as the last element", "return results, "
                            "{'name': node}")
    found = dict(names)
    output.args = (tuple(results),)
    gm.recompile()
    return gm, found


class SubgraphMatcherWithNameNodeMap(SubgraphMatcher):
    """Finds a pattern that returns, behind its results, a dict of names and nodes.

    Args:
        pattern_gm: The pattern.
        match_output: Whether its output has to match the graph's.
        match_placeholder: Whether its placeholders match placeholders only.
        remove_overlapping_matches: Whether of matches that share nodes only the first counts.
        ignore_literals: Whether constants match any others.
    """

    def __init__(self, pattern_gm: GraphModule, match_output: bool = False, match_placeholder: bool = False,
                 remove_overlapping_matches: bool = True, ignore_literals: bool = False) -> None:
        pattern_gm, self.name_node_map = _split_to_graph_and_name_node_map(pattern_gm)
        self.pattern_gm = pattern_gm
        super().__init__(pattern_gm.graph, match_output, match_placeholder, remove_overlapping_matches, ignore_literals)

    def match(self, graph: Graph, node_name_match: str = "") -> list[Any]:
        """Return the matches, each with the nodes that have names."""
        matches: list[InternalMatch] = super().match(graph, node_name_match)
        for match in matches:
            match.name_node_map = {name: match.nodes_map[node] for name, node in self.name_node_map.items()}
        return matches
