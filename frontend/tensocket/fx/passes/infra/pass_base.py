"""The base class of passes."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from ...graph_module import GraphModule


class PassResult(NamedTuple):
    """The result of a pass.

    Attributes:
        graph_module: The module, changed or a new one.
        modified: Whether it differs from the one that was given.
    """

    graph_module: Any
    modified: bool


class PassBase(abc.ABC):
    """A pass: ``requires`` checks the module, ``call`` changes it, ``ensures`` checks the result."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        """Run the pass with its checks."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abc.abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Run the pass."""

    def requires(self, graph_module: GraphModule) -> None:
        """Check the module before the pass; by default nothing is checked."""

    def ensures(self, graph_module: GraphModule) -> None:
        """Check the module behind the pass; by default nothing is checked."""
