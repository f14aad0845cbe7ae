"""Replacing the places of a graph that are equal to a pattern."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tensocket.errors import ArgumentError
from tensocket.nn import Module
from tensocket_compiler.graph.matcher import InternalMatch, SubgraphMatcher
from tensocket_core.pytree import tree_leaves

from ._attributes import _assign_attr, _get_attr, _has_attr
from ._symbolic_trace import symbolic_trace
from .graph import Graph
from .graph_module import GraphModule
from .node import Node

#: A test of a match: of the match, the module's graph and the pattern's.
Filter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """A place that was replaced.

    Attributes:
        anchor: Node that matched the pattern's result.
        nodes_map: Node of the pattern to node of the graph.
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """A place that was replaced, with the new nodes.

    Attributes:
        anchor: Node that matched the pattern's result.
        nodes_map: Node of the pattern to node of the graph.
        replacements: The new nodes.
    """

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node] = field(default_factory=list)


def replace_pattern(gm: GraphModule, pattern: Callable[..., Any] | GraphModule,
                    replacement: Callable[..., Any] | GraphModule) -> list[Match]:
    """Replace all places of a module's graph that compute a pattern, and do not overlap.

    Args:
        gm: The module, which is changed.
        pattern: A function or module; its arguments match any value, and everything else only its equal.
        replacement: A function or module with the same arguments and as many results.

    Returns:
        The places, in the order of the graph.
    """
    return [Match(done.anchor, done.nodes_map) for done in _replace_pattern(gm, pattern, replacement)]


def replace_pattern_with_filters(gm: GraphModule, pattern: Callable[..., Any] | Graph | GraphModule,
                                 replacement: Callable[..., Any] | Graph | GraphModule | None = None,
                                 match_filters: list[Filter] | None = None, ignore_literals: bool = False,
                                 replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
                                 node_name_match: str = "") -> list[ReplacedPatterns]:
    """Replace the places that compute a pattern and pass all tests.

    Args:
        gm: The module, which is changed.
        pattern: A function, graph or module.
        replacement: A function, graph or module with the same arguments and as many results.
        match_filters: Tests of a match.
        ignore_literals: Whether constants of the pattern match any others.
        replacement_callback: Makes the replacement from a match, in place of ``replacement``.
        node_name_match: Part of a name: nodes that have it in their names also match.

    Returns:
        The places, in the order of the graph, with the new nodes.
    """
    return _replace_pattern(gm, pattern, replacement, match_filters, ignore_literals, replacement_callback,
                            node_name_match)


def _graph_of(thing: Any) -> Graph:
    if isinstance(thing, GraphModule):
        return thing.graph
    return thing if isinstance(thing, Graph) else symbolic_trace(thing).graph


def _replace_pattern(gm: GraphModule, pattern: Any, replacement: Any, match_filters: list[Filter] | None = None,
                     ignore_literals: bool = False, replacement_callback: Any = None,
                     node_name_match: str = "") -> list[ReplacedPatterns]:
    graph, pattern_graph = gm.graph, _graph_of(pattern)
    matcher = SubgraphMatcher(pattern_graph, match_output=False, match_placeholder=False,
                              remove_overlapping_matches=True, ignore_literals=ignore_literals)
    matches = [match for match in matcher.match(graph, node_name_match)
               if all(test(match, graph, pattern_graph) for test in match_filters or ())]
    fixed = None if replacement is None else _graph_of(replacement)
    if fixed is None and replacement_callback is None:
        raise AssertionError("Must provide either a replacement GraphModule or a replacement callback")
    #: Nodes of earlier matches that later ones begin with, and what stands for them now.
    changed: dict[Node, Node] = {}
    done = []
    for match in matches:
        new = replacement_callback(match, graph, pattern_graph) if replacement_callback is not None else fixed
        assert new is not None
        done.append(_replace_one(graph, pattern_graph, new, match, changed))
    gm.recompile()
    if isinstance(replacement, Module):
        _replace_attributes(gm, replacement)
    return done


def _replace_one(graph: Graph, pattern: Graph, replacement: Graph, match: InternalMatch,
                 changed: dict[Node, Node]) -> ReplacedPatterns:
    inputs = [node for node in replacement.nodes if node.op == "placeholder"]
    if len(match.placeholder_nodes) != len(inputs):
        raise AssertionError(f"the pattern has {len(match.placeholder_nodes)} arguments, the replacement {len(inputs)}")
    val_map: dict[Node, Any] = {}
    for given, found in zip(inputs, match.placeholder_nodes, strict=True):
        val_map[given] = changed.get(found, found) if isinstance(found, Node) else found
    with graph.inserting_before(_first_user(graph, match, val_map)):
        result = graph.graph_copy(replacement, val_map)
    returned = (result,) if isinstance(result, Node) else tuple(_nodes_of(result))
    new_nodes = [node for old, node in val_map.items() if old not in inputs and isinstance(node, Node)]
    if len(match.returning_nodes) != len(returned):
        raise AssertionError(f"the pattern has {len(match.returning_nodes)} results, the replacement {len(returned)}")
    for old, new in zip(match.returning_nodes, returned, strict=True):
        old.replace_all_uses_with(new)
        changed[old] = new
    for node in reversed(list(pattern.nodes)):
        if node.op not in ("placeholder", "output"):
            old = match.nodes_map[node]
            if not old._erased and not old.users:
                graph.erase_node(old)
    return ReplacedPatterns(match.anchors[0], match.nodes_map, new_nodes)


def _first_user(graph: Graph, match: InternalMatch, val_map: dict[Node, Any]) -> Node:
    """Return the node before which the replacement belongs: behind all inputs, before the first use of a result."""
    inputs = {node for node in val_map.values() if isinstance(node, Node)}
    inner = {node for node in match.nodes_map.values() if isinstance(node, Node)} - inputs
    first = next((node for node in graph.nodes if node in inner), None)
    last_input = max(inputs, default=None)
    if first is None or (last_input is not None and first < last_input):
        assert last_input is not None
        return last_input.next
    return first


def _nodes_of(result: Any) -> list[Node]:
    return [leaf for leaf in tree_leaves(result) if isinstance(leaf, Node)]


def _replace_attributes(gm: GraphModule, replacement: Module) -> None:
    """Give a module the attributes that the nodes of a replacement read."""
    gm.delete_all_unused_submodules()
    if isinstance(replacement, GraphModule):
        replacement.graph.lint()
    for node in gm.graph.nodes:
        if node.op in ("call_module", "get_attr") and not _has_attr(gm, node.target):
            if not _has_attr(replacement, node.target):
                raise _missing_target(node)
            _assign_attr(copy.deepcopy(_get_attr(replacement, node.target)), gm, node.target)
    gm.graph.lint()


def _missing_target(node: Node) -> Exception:
    """Return the error for a node that reads an attribute neither module has."""
    return ArgumentError("replace_pattern", f"node {node} with target {node.target}",
                         f'Attempted to create a "{node.op}" '
                         "node during subgraph rewriting, but the referenced attribute does not exist in the "
                         "replacement module", "assign the attribute to the replacement")
