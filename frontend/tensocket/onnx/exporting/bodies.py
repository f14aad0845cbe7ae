"""Graphs of composite operators: what they consist of."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import tensocket as torch
from tensocket.export import Dim, ExportedProgram
from tensocket.export import export as capture
from tensocket.fx.node import Node, map_arg
from tensocket.nn import Module


class _Body(Module):
    """A composite operator's function, with the arguments of a call.

    Args:
        node: The call.
    """

    def __init__(self, node: Node) -> None:
        super().__init__()
        self._node, self._places = node, {x: k for k, x in enumerate(tensors_in(node))}

    def forward(self, *tensors: Any) -> Any:
        """Run the function."""
        def value(node: Node) -> Any:
            return tensors[self._places[node]] if node in self._places else int(node.meta["val"])

        args, kwargs = map_arg(self._node.args, value), map_arg(self._node.kwargs, value)
        target: Any = self._node.target
        if target.variadic:  # records have these arguments as one
            args = (*args[:target.positional], *args[target.positional])
        found = target.body(*args, **kwargs)
        return tuple(found) if isinstance(found, (tuple, list)) else found


def tensors_in(node: Node) -> list[Node]:
    """Return the arguments of a call that are tensors."""
    return [x for x in node.all_input_nodes if hasattr(x.meta.get("val"), "dtype")]


def body_of(node: Node, ranges: Mapping[Any, Any]) -> ExportedProgram:
    """Return a composite operator's call as a program of the operators that it consists of.

    Args:
        node: The call.
        ranges: Ranges of sizes by symbol.

    Raises:
        ExportError: It has no graph: it reads elements, or its shapes depend on them; or it is right for a part of the
            ranges alone.
    """
    forms = [x.meta["val"] for x in tensors_in(node)]
    examples = [torch.zeros([int(n) for n in form.shape], dtype=form.dtype) for form in forms]
    dims: dict[str, Dim] = {}

    def dim_of(size: Any) -> Dim:
        limits = ranges.get(size.name)
        low, high = (2, None) if limits is None else (limits.lower, limits.upper)
        return dims.setdefault(size.name, Dim(f"size_{len(dims)}", min=low, max=None if high == math.inf else high))

    shapes = tuple([{k: dim_of(n) for k, n in enumerate(form.shape) if hasattr(n, "name")} or None for form in forms])
    with torch.no_grad():
        return capture(_Body(node).eval(), tuple(examples), dynamic_shapes=(shapes,) if any(shapes) else None)
