"""Observing which nodes a pass makes and erases."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

from ..graph import Graph
from ..graph_module import GraphModule
from ..node import Node

Result = TypeVar("Result")


class GraphTransformObserver:
    """A block in which the changes of a module's graph are noted, and drawn if something changed.

    Args:
        gm: The module.
        passname: Name of the pass that runs in the block.
        subsystem: Accepted for programs.
        log_url: A folder for pictures of the graph before and after the pass; none are drawn without.

    Attributes:
        created_nodes: Names of the nodes that were made.
        erased_nodes: Names of the nodes that were erased.
    """

    __pass_count = 0

    def __init__(self, gm: GraphModule, passname: str, subsystem: str | None = None,
                 log_url: str | None = None) -> None:
        GraphTransformObserver.__pass_count += 1
        self.gm = gm
        self.passname = passname
        self.subsystem = subsystem
        self.log_url = log_url
        self.erased_nodes: set[str] = set()
        self.created_nodes: set[str] = set()
        self.name_to_node: dict[str, Node] = {}
        self._before = self._picture("input") if log_url is not None else None

    @classmethod
    def get_current_pass_count(cls) -> int:
        """Return the number of passes observed so far."""
        return cls.__pass_count

    def apply_gm_pass(self, pass_fn: Callable[[GraphModule], Result]) -> Result | None:
        """Run a pass on the module in the block."""
        with self:
            return pass_fn(self.gm)

    def apply_graph_pass(self, pass_fn: Callable[[Graph], Result]) -> Result | None:
        """Run a pass on the graph in the block."""
        with self:
            return pass_fn(self.gm.graph)

    def on_node_creation(self, node: Node) -> None:
        """Note a node that is made."""
        self.created_nodes.add(node.name)
        self.name_to_node[node.name] = node

    def on_node_erase(self, node: Node) -> None:
        """Note a node that is erased."""
        self.erased_nodes.add(node.name)
        self.name_to_node.pop(node.name, None)

    def get_node_creation_hook(self) -> Callable[[Node], None]:
        """Return the function that notes new nodes."""
        return self.on_node_creation

    def get_node_erase_hook(self) -> Callable[[Node], None]:
        """Return the function that notes erased nodes."""
        return self.on_node_erase

    def _picture(self, name: str) -> Any:
        from .graph_drawer import FxGraphDrawer

        return FxGraphDrawer(self.gm, f"{self.passname}_{name}")

    def _hooks(self, action: str) -> None:
        getattr(self.gm, f"_{action}_create_node_hook")(self.on_node_creation)
        getattr(self.gm, f"_{action}_erase_node_hook")(self.on_node_erase)

    def __enter__(self) -> GraphTransformObserver:
        self._hooks("register")
        return self

    def __exit__(self, *error: object) -> None:
        self._hooks("unregister")
        if self._before is None or not (self.created_nodes or self.erased_nodes):
            return
        for name, drawer in (("input", self._before), ("output", self._picture("output"))):
            path = os.path.join(str(self.log_url), f"pass_{self.__pass_count}_{self.passname}_{name}_graph.dot")
            with open(path, "w", encoding="utf-8") as file:
                file.write(drawer.dot_source())
