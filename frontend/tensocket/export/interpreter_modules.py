"""Modules that run a graph node by node."""

from __future__ import annotations

from typing import Any

from tensocket.errors import ExportError
from tensocket.fx.graph import Graph
from tensocket.fx.interpreter import Interpreter
from tensocket.nn import Module
from tensocket.utils._pytree import tree_flatten, tree_unflatten

from .exported_program import ModuleCallSignature


class InterpreterModule(Module):
    """A module that runs a graph node by node.

    Args:
        graph: The graph.
        ty: Name of the class of the original module.
        signature: The structures of arguments and result; None if the graph's inputs are the arguments.

    Attributes:
        graph: The graph.
    """

    def __init__(self, graph: Graph, ty: str | None = None, signature: ModuleCallSignature | None = None) -> None:
        super().__init__()
        self.graph = graph
        self._ty, self._signature = ty, signature

    def type_name(self) -> str | None:
        """Return the name of the class of the original module."""
        return self._ty

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph.

        Raises:
            ExportError: The arguments have another structure than the signature.
        """
        if self._signature is None:
            return Interpreter(self, graph=self.graph).run(*args, enable_io_processing=False)
        leaves, spec = tree_flatten((args, kwargs))
        if spec != self._signature.in_spec:
            raise ExportError("unflatten", f"arguments of structure {spec.brief()}", "the signature of the module is "
                              f"{self._signature.in_spec.brief()}", "call it as the exported program does")
        found = Interpreter(self, graph=self.graph).run(*leaves, enable_io_processing=False)
        return tree_unflatten(found, self._signature.out_spec)


class InterpreterModuleDispatcher(Module):
    """A module that the program calls several times, with other graphs: each call runs the next one.

    Args:
        call_modules: The modules, in the order of the calls; they share parameters and buffers.
    """

    def __init__(self, call_modules: list[InterpreterModule]) -> None:
        super().__init__()
        first = call_modules[0]
        self._parameters, self._buffers, self._modules = first._parameters, first._buffers, first._modules
        self.__dict__["_call_modules"] = list(call_modules)
        self._next = 0

    def type_name(self) -> str | None:
        """Return the name of the class of the original module."""
        return self.call_modules()[0].type_name()

    def call_modules(self) -> list[InterpreterModule]:
        """Return the modules, in the order of the calls."""
        found: list[InterpreterModule] = self.__dict__["_call_modules"]
        return found

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph whose turn it is."""
        modules = self.call_modules()
        module, self._next = modules[self._next], (self._next + 1) % len(modules)
        try:
            return module(*args, **kwargs)
        except Exception:
            self._next = 0
            raise
