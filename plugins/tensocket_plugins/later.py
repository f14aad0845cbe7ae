"""Modules that load at their first use, because programs that never use them should not wait for them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any


class _Later(ModuleType):
    """A stand-in for a module: the first use of a name imports the module, and the stand-in keeps the name's value."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(import_module(self.__name__), name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        return dir(import_module(self.__name__))


def later(package: str, *modules: str) -> Callable[[str], ModuleType]:
    """Return a package's ``__getattr__``, with which ``from package import module`` loads none of ``modules`` yet.

    The statement binds a stand-in. All other imports of the module, and the package's attribute after the first one,
    are the module itself.
    """
    stand_ins = {name: _Later(f"{package}.{name}") for name in modules}

    def find(name: str) -> ModuleType:
        if (found := stand_ins.get(name)) is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        return found

    return find
