"""Backends that count and store graphs, for tests of programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensocket.compiler import reset
from tensocket.compiler.backends import lookup_backend
from tensocket.fx import GraphModule
from tensocket_operators import empty_strided

from .utils import clone_inputs, same


class CompileCounter:
    """A backend that runs graphs as they are.

    Attributes:
        frame_count: The graphs that it got.
        op_count: The calls in them.
    """

    def __init__(self) -> None:
        self.frame_count = self.op_count = 0

    def __call__(self, gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        """Count a graph."""
        self.frame_count += 1
        self.op_count += sum(node.op.startswith("call") for node in gm.graph.nodes)
        return gm.forward

    def clear(self) -> None:
        """Count from 0."""
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """A backend that counts and stores graphs for another backend.

    Args:
        backend: Name of the other backend, or itself.

    Attributes:
        graphs: The graphs.
    """

    def __init__(self, backend: Any) -> None:
        super().__init__()
        self.backend = backend
        self.graphs: list[GraphModule] = []

    def __call__(self, gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        """Count and store a graph, and give it to the backend."""
        super().__call__(gm, example_inputs)
        self.graphs.append(gm)
        return lookup_backend(self.backend)(gm, example_inputs)

    def clear(self) -> None:
        """Forget all graphs."""
        super().clear()
        self.graphs = []


class EagerAndRecordGraphs:
    """A backend that stores graphs and runs them as they are.

    Attributes:
        graphs: The graphs.
    """

    def __init__(self) -> None:
        self.graphs: list[GraphModule] = []

    def __call__(self, gm: GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        """Store a graph."""
        self.graphs.append(gm)
        return gm.forward


def rand_strided(size: Sequence[int], stride: Sequence[int], dtype: Any = None, device: Any = "cpu",
                 extra_size: int = 0) -> Any:
    """Return a tensor with random elements, and with these sizes and strides."""
    made = empty_strided(tuple(size), tuple(stride), dtype=dtype, device=device)
    return made.normal_() if made.dtype.is_floating_point else made.random_(0, 2)


__all__ = ["CompileCounter", "CompileCounterWithBackend", "EagerAndRecordGraphs", "clone_inputs", "rand_strided",
           "reset", "same"]
