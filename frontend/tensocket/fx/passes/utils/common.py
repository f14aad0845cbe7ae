"""Graphs as modules of their own, and graphs that are equal."""

from __future__ import annotations

from typing import Any

from tensocket.nn import Module
from tensocket_compiler.graph.matcher import SubgraphMatcher

from ..._attributes import _copy_attr
from ...graph import Graph
from ...graph_module import GraphModule


class HolderModule(Module):
    """A module that has the submodules of a dict."""

    def __init__(self, d: dict[str, Any]) -> None:
        super().__init__()
        for name, module in d.items():
            self.add_module(name, module)


def lift_subgraph_as_module(gm: GraphModule, subgraph: Graph, comp_name: str = "", class_name: str = "GraphModule"
                            ) -> tuple[GraphModule, dict[str, str]]:
    """Make a module of a graph that reads attributes of another module.

    Args:
        gm: The module that has the attributes.
        subgraph: The graph.
        comp_name: Name of the submodule that it becomes.
        class_name: Name of the class.

    Returns:
        The module, and the path of each attribute in the whole by its original path.
    """
    root = HolderModule({})
    paths: dict[str, str] = {}
    for node in subgraph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        _copy_attr(gm, root, node.target)
        paths[node.target] = f"{comp_name}.{node.target}".lstrip(".")
    return GraphModule(root, subgraph, class_name), paths


def compare_graphs(left: Graph, right: Graph) -> bool:
    """Whether two graphs are the same, but for the names of nodes."""
    matcher = SubgraphMatcher(left, match_output=True, match_placeholder=True)
    return len(matcher.match(right)) > 0
