"""Types of modules, by PyTorch's private names."""

from __future__ import annotations

from typing import Any

from tensocket.jit.compiler.module_types import clear_store


class ConcreteTypeStore:
    """The types of modules that were compiled; a new store is empty."""

    def __init__(self) -> None:
        clear_store()


concrete_type_store: Any = None


def wrap_cpp_module(module: Any) -> Any:
    """Return the module itself."""
    return module
