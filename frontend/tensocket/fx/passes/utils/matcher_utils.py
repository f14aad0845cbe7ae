"""Finding a pattern in a graph."""

from __future__ import annotations

from tensocket_compiler.graph.matcher import InternalMatch, SubgraphMatcher

__all__ = ["InternalMatch", "SubgraphMatcher"]
