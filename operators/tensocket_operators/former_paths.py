"""Former module paths, which pickles of version 0.1 name: they import the modules that replaced them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from importlib.abc import Loader, MetaPathFinder
else:  # The base classes only say that the methods exist, and their module takes longer to import than this package.
    Loader = MetaPathFinder = object

#: By former name, the modules whose names occur in pickles.
MODULES: Final = {
    "tensocket_core._generated.functions": "tensocket_operators.functions",
    "tensocket_core.autograd.function": "tensocket_operators.differentiation.function",
    "tensocket_core.creation.data": "tensocket_operators.creation.data",
    "tensocket_core.creation.likes": "tensocket_operators.creation.likes",
    "tensocket_core.creation.ranges": "tensocket_operators.creation.ranges",
    "tensocket_core.creation.sizes": "tensocket_operators.creation.sizes",
    "tensocket_core.creation.strided": "tensocket_operators.creation.strided",
    "tensocket_core.interop.pickling": "tensocket_operators.interop.pickling",
    "tensocket_core.random.functions": "tensocket_operators.random.functions",
    "tensocket_core.random.generator": "tensocket_operators.random.generator",
    "tensocket_core.sparse.tensor": "tensocket_operators.sparse.tensor",
    "tensocket_core.storages": "tensocket_operators.interop.storage",
    "tensocket_core.tensors": "tensocket_core.tensor",
    "tensocket_core.typed_storages": "tensocket_operators.interop.typed_storages",
}
_PACKAGES: Final = {name.rpartition(".")[0] for name in MODULES} - {"tensocket_core"}
#: By former name, the modules that other packages have moved.
_MOVED: Final[dict[str, str]] = {}


class _FormerModule(Loader):
    """Loader that fills a module with the names of its successor."""

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return an ordinary module."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Copy the names of the successor."""
        successor = MODULES.get(module.__name__) or _MOVED.get(module.__name__)
        if successor is not None:
            names = vars(importlib.import_module(successor))
            vars(module).update({name: value for name, value in names.items() if not name.startswith("__")})


class _FormerPaths(MetaPathFinder):
    """Finder of former modules and of their packages."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
                  ) -> ModuleSpec | None:
        """Return the specification of a moved module; None for all others."""
        if fullname in MODULES or fullname in _PACKAGES or fullname in _MOVED:
            return spec_from_loader(fullname, _FormerModule(), is_package=fullname in _PACKAGES)
        return None


def add(modules: dict[str, str]) -> None:
    """Make modules importable by their former names, too.

    Args:
        modules: Current names by former ones, whose packages exist.
    """
    _MOVED.update(modules)


def install() -> None:
    """Add the finder to the import system, after all other finders."""
    if not any(isinstance(finder, _FormerPaths) for finder in sys.meta_path):
        sys.meta_path.append(_FormerPaths())
