"""Types of items of annotated tuples and lists."""

from __future__ import annotations

import operator
import typing

from ..graph import Graph


def annotate_getitem_nodes(graph: Graph) -> None:
    """Set the type of every ``x[index]`` from the annotation of ``x``, a tuple, list or named tuple."""
    for node in graph.nodes:
        if node.target is not operator.getitem or len(node.args) != 2:
            continue
        container, index = node.args
        kind = getattr(container, "type", None)
        if kind is None or node.type is not None:
            continue
        inner = typing.get_args(kind)
        if typing.get_origin(kind) is tuple and isinstance(index, int):
            node.type = inner[0] if len(inner) == 2 and inner[1] is ... else inner[index]
        elif typing.get_origin(kind) is list:
            node.type = inner[0]
        elif hasattr(kind, "_fields") and isinstance(index, int):
            node.type = list(kind.__annotations__.values())[index]
