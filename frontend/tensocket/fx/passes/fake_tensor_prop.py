"""Shapes of all results, from running the graph on tensors without values."""

from __future__ import annotations

from typing import Any

from tensocket._subclasses.fake_tensor import FakeTensorMode
from tensocket_operators import Tensor

from ..graph_module import GraphModule
from ..interpreter import Interpreter
from ..node import Node, map_aggregate


class FakeTensorProp(Interpreter):
    """Runs a graph on fake tensors, and sets ``node.meta["val"]`` of every node.

    Args:
        module: The module, whose parameters become fake tensors while it runs.
        mode: The mode; a new one by default.
    """

    def __init__(self, module: GraphModule, mode: FakeTensorMode | None = None) -> None:
        super().__init__(module)
        self._mode = FakeTensorMode(allow_non_fake_inputs=True) if mode is None else mode

    def run_node(self, n: Node) -> Any:
        """Run a node and note its result."""
        result = super().run_node(n)
        n.meta["val"] = map_aggregate(result, lambda leaf: leaf)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph on tensors like the examples, and return its result."""
        return self.propagate_dont_convert_inputs(
            *(self._mode.from_tensor(arg) if isinstance(arg, Tensor) else arg for arg in args))

    def propagate_dont_convert_inputs(self, *args: Any) -> Any:
        """Run the graph on fake tensors, and return its result."""
        with self._mode:
            return super().run(*args)
