"""Parts of graphs: matching, fusing and lifting them."""

from __future__ import annotations

from .common import HolderModule, compare_graphs, lift_subgraph_as_module

__all__ = ["HolderModule", "compare_graphs", "lift_subgraph_as_module"]
