"""Classes that libraries in C++ define for scripts; none can be loaded."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Final

#: The names of a library's namespace are asked for by tools that look through modules.
_OF_MODULES: Final = ("__path__", "__file__", "__wrapped__", "__all__")


class _ClassNamespace(ModuleType):
    """The classes of one library.

    Args:
        name: The library's name.
    """

    def __init__(self, name: str) -> None:
        super().__init__("torch.classes." + name)
        self.name = name

    def __getattr__(self, attr: str) -> Any:
        raise RuntimeError(f"[classes] {self.name}::{attr} — Class {self.name}.{attr} not registered: classes of "
                           "libraries in C++ are compiled for PyTorch's own library — use the library's Python parts")


class _Classes(ModuleType):
    """The namespaces of libraries."""

    __file__ = "_classes.py"

    def __init__(self) -> None:
        super().__init__("torch.classes")

    def __getattr__(self, name: str) -> _ClassNamespace:
        if name in _OF_MODULES:
            raise AttributeError(name)
        namespace = _ClassNamespace(name)
        setattr(self, name, namespace)
        return namespace

    @property
    def loaded_libraries(self) -> set[str]:
        """The paths of loaded libraries."""
        from tensocket import ops

        return ops.loaded_libraries

    def load_library(self, path: str) -> None:
        """Load a library as ``ops.load_library`` does.

        Raises:
            LibraryError: Its operators have no counterparts here.
        """
        from tensocket import ops

        ops.load_library(path)


classes: Final = _Classes()
