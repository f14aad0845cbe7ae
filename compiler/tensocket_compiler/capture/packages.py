"""Packages: which modules belong to the runtime, to the front end, or to the standard library, by their globals."""

from __future__ import annotations

import builtins
import sys
import types
from typing import Any, Final

from tensocket_plugins.contract.registry import registry

#: Packages whose frames are not looked at, besides those of backends.
INSIDE: Final = frozenset({"numpy", "llvmlite", "tensocket_plugins", "tensocket_core", "tensocket_operators",
                           "tensocket_compiler"})
#: Packages of backends that were asked for, by name.
_BACKENDS: Final[set[str]] = set()
#: Packages that backends call; their frames count if a program calls them.
_OF_BACKENDS: Final = frozenset({"pyopencl", "pytools", "platformdirs"})
#: The front end: its functions read attributes by names that occur in code.
FRONT_END: Final = "tensocket"
#: The globals of the methods that ``collections.namedtuple`` makes.
_NAMED_TUPLE: Final = {"_tuple_new", "__builtins__", "__name__"}


def top_package(namespace: dict[str, Any]) -> str:
    """Return the first part of the name of the module that a namespace belongs to."""
    name = namespace.get("__name__")
    return name.partition(".")[0] if isinstance(name, str) else ""


def is_runtime_package(name: str) -> bool:
    """Whether a package belongs to the runtime below the front end, or is that of a backend."""
    if name in INSIDE or name in _BACKENDS:
        return True
    if name.startswith(FRONT_END + "_") and name in registry().packages():
        _BACKENDS.add(name)
        return True
    return False


def is_inside(namespace: dict[str, Any]) -> bool:
    """Whether functions with these globals belong to the runtime below the front end, or only make a named tuple."""
    top = top_package(namespace)
    return is_runtime_package(top) or (
        "_tuple_new" in namespace and namespace.keys() == _NAMED_TUPLE)


def makes_named_tuple(function: types.FunctionType) -> bool:
    """Whether a function is the one by which ``collections.namedtuple`` fills in defaults."""
    return function.__name__ == "__new__" and "_tuple_new" in function.__globals__


def builtins_of(namespace: dict[str, Any]) -> dict[str, Any]:
    """Return the namespace of builtins for functions with these globals."""
    found = namespace.get("__builtins__", builtins)
    return found if isinstance(found, dict) else vars(found)


def is_watched(namespace: dict[str, Any]) -> bool | None:
    """Whether frames with these globals are watched; None if that depends on their caller."""
    if is_inside(namespace):
        return False
    top = top_package(namespace)
    return None if top in _OF_BACKENDS or top in sys.stdlib_module_names - {"__main__"} else True


def is_library(namespace: dict[str, Any]) -> bool:
    """Whether a module belongs to the front end, the runtime or the standard library, which programs rarely change."""
    top = top_package(namespace)
    return top == FRONT_END or top in sys.stdlib_module_names - {"__main__"} or is_inside(namespace)
