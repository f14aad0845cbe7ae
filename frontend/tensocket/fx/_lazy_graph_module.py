"""Graph modules that generate their code when it is needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .graph import PythonCode
from .graph_module import GraphModule

_use_lazy_graph_module_flag = False
_force_skip_lazy_graph_module_flag = False


@contextmanager
def _force_skip_lazy_graph_module() -> Iterator[None]:
    """Make only modules that generate their code at once in a block."""
    global _force_skip_lazy_graph_module_flag
    earlier, _force_skip_lazy_graph_module_flag = _force_skip_lazy_graph_module_flag, True
    try:
        yield
    finally:
        _force_skip_lazy_graph_module_flag = earlier


@contextmanager
def _use_lazy_graph_module(should_use: bool) -> Iterator[None]:
    """Choose the kind of modules that ``symbolic_trace`` makes in a block."""
    global _use_lazy_graph_module_flag
    earlier = _use_lazy_graph_module_flag
    _use_lazy_graph_module_flag = should_use and not _force_skip_lazy_graph_module_flag
    try:
        yield
    finally:
        _use_lazy_graph_module_flag = earlier


def _get_graph_module_cls() -> type[GraphModule]:
    """Return the class of the modules that ``symbolic_trace`` makes."""
    return _LazyGraphModule if _use_lazy_graph_module_flag else GraphModule


def _make_graph_module(*args: Any, graph_module_cls: type[GraphModule] | None = None, **kwargs: Any) -> GraphModule:
    """Make a graph module of the class that is in use."""
    return (_get_graph_module_cls() if graph_module_cls is None else graph_module_cls)(*args, **kwargs)


class _LazyGraphModule(GraphModule):
    """A graph module that generates its code in the first call, or when the code is asked for."""

    @classmethod
    def from_graphmodule(cls, gm: GraphModule) -> GraphModule:
        """Return a lazy module with the graph of another one."""
        return gm if isinstance(gm, _LazyGraphModule) else _LazyGraphModule(gm, gm.graph)

    @staticmethod
    def force_recompile(gm: GraphModule) -> None:
        """Generate the code of a module now, if it is lazy."""
        if isinstance(gm, _LazyGraphModule):
            gm.real_recompile()

    def real_recompile(self) -> None:
        """Generate the code now, if the graph has changed."""
        if self._needs_recompile():
            self._real_recompile()

    @classmethod
    def _needs_recompile(cls) -> bool:
        return cls.forward is cls._lazy_forward

    def _lazy_forward(self, *args: Any, **kwargs: Any) -> Any:
        self.real_recompile()
        return self(*args, **kwargs)

    forward = _lazy_forward  # the code's function replaces it in the module's own class

    def __reduce__(self) -> Any:
        self.real_recompile()
        return super().__reduce__()

    def _real_recompile(self) -> PythonCode:
        return super().recompile()

    def recompile(self) -> Any:
        """Generate the code before the next call."""
        type(self).forward = _LazyGraphModule._lazy_forward

    @property
    def code(self) -> str:
        """The generated source."""
        self.real_recompile()
        return super().code

    def __str__(self) -> str:
        self.real_recompile()
        return super().__str__()
