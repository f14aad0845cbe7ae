"""The compiler's knowledge of modules that come from files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tensocket.jit.frontend import Place
from tensocket.jit.graph import script_types as t

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler
    from tensocket.jit.graph.ir import Value


class FileDetails:
    """The details of a module's type that a file defines.

    Args:
        kind: The type.
        library: Whether instances are layers of the library.
    """

    def __init__(self, kind: t.ClassType, library: bool) -> None:
        self.kind = kind
        self.library = library
        self.layer: Any = None
        self.hooks: list[Any] = []
        self.failed: dict[str, str] = {}
        self.functions: dict[str, Any] = {}

    @property
    def names(self) -> list[str]:
        """Names of the parts."""
        return [name for name, kind in self.kind.attributes.items() if isinstance(kind, t.ClassType) and kind.is_module]

    @property
    def container(self) -> str:
        """``list`` or ``dict`` for modules that look like containers, "" for others."""
        name = self.kind.name.rpartition(".")[2]
        return {"ModuleList": "list", "Sequential": "list", "ModuleDict": "dict"}.get(name, "")

    @property
    def kinds(self) -> dict[str, t.JitType]:
        """The types of the parts of a container."""
        return {name: self.kind.attributes[name] for name in self.names}

    def has(self, name: str) -> bool:
        """Whether there is a method of a name."""
        return self.kind.method(name) is not None

    def why_missing(self, name: str) -> str:
        """Return "": the file says nothing about missing attributes."""
        return ""

    def attribute(self, compiler: Compiler, owner: Value, name: str, place: Place) -> Any:
        """Return None: all attributes are values."""

    def layer_method(self, name: str) -> Any:
        """Return a method of the library's layer, None for other modules."""
        if self.layer is None:
            return None
        from tensocket.jit.compiler.method_compilation import library_method

        return library_method(self.kind, self.layer, name)
