"""The records of operators by PyTorch's names: ``ops.<namespace>.<operator>``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tensocket_core.dispatch.packets import AtenOverloads
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_plugins.contract.errors import LibraryError

from .catalogue import names_of_functions
from .creation.record import FACTORIES, factory
from .graph_checks import GRAPH_CHECKS
from .linalg.scaled_products import grouped_mm, int_mm, scaled_product

#: By PyTorch's name, the operators that have another name here.
_SYNONYMS: Final = {"_to_copy": "convert", "_softmax": "softmax_rows", "_log_softmax": "log_softmax_rows",
                    "_unsafe_view": "view", "_reshape_alias": "view",
                    "_sparse_addmm": "addmm"}
#: The namespace of the built-in operators.
BUILT_IN: Final = "aten"
#: Libraries in C++ for whose operators there are own ones: by the package's name, the start of the file's name, and the
#: module, whose function ``register`` defines them.
KNOWN_LIBRARIES: Final = {"torchvision": ("_C", ".vision")}
#: Where functions over lists of tensors are found by name, and the start of their names.
_LISTS: Final[list[Callable[[str], Any]]] = []
_LIST: Final = "_foreach_"
#: The operators of loaded libraries, by module.
_LOADED: Final[dict[str, Any]] = {}
_LOADING: Final = threading.Lock()


def built_in(name: str) -> AtenOverloads | None:
    """Return a built-in operator or factory by its name or an alias; None if there is none."""
    name = _SYNONYMS.get(name, name)
    found = OPERATORS.get(name) or COMPOSITES.get(name) or FACTORIES.get(name)
    if found is None:
        found = next((o for o in (*OPERATORS.values(), *COMPOSITES.values()) if name in o.aliases), None)
    return found or (_of_lists(name) if name.startswith(_LIST) else _factory(name))


def find_lists_by(find: Callable[[str], Any]) -> None:
    """Set a function that returns a function over lists of tensors by its name, or None: a package above has these."""
    _LISTS.append(find)


def _of_lists(name: str) -> AtenOverloads | None:
    function = next((found for find in _LISTS if (found := find(name)) is not None), None)
    return None if function is None else factory(function, name)


def _factory(name: str) -> AtenOverloads | None:
    wanted = (f"torch.{name}", f"torch.Tensor.{name}")
    function = next((f for f, known in names_of_functions().items() if known in wanted), None)
    return None if function is None else factory(function)


def _pin_memory(input: Any, device: Any = None) -> Any:
    """Return the tensor itself; copies to devices need no pinned memory."""
    return input.pin_memory(device)


def _is_pinned(input: Any, device: Any = None) -> bool:
    """Whether copies to devices read the tensor's memory directly."""
    return bool(input.is_pinned(device))


def _index(input: Any, indices: Any) -> Any:
    """Return the elements at index tensors; None selects a whole dimension."""
    return input[tuple(slice(None) if index is None else index for index in indices)]


#: Functions other than operators that programs and graphs call by names in ``aten``, by these names.
FUNCTIONS_OF_GRAPHS: Final[dict[str, Any]] = {name: factory(function, name) for name, function in {
    "_pin_memory": _pin_memory, "is_pinned": _is_pinned, "index": _index, "_int_mm": int_mm, "_grouped_mm": grouped_mm,
    "_scaled_mm": scaled_product, **GRAPH_CHECKS}.items()}


class Overloads:
    """Operators of one name, each of which is called with its overload's name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, overload: str) -> Any:
        found = OPERATORS.get(f"{self.name}.{overload}")
        if found is None:
            raise AttributeError(f"operator {self.name!r} has no overload {overload!r}")
        return found


class Namespace:
    """The operators of one library."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<operators of {self.name}>"

    def __dir__(self) -> list[str]:
        if self.name == BUILT_IN:
            return sorted({*OPERATORS, *COMPOSITES, *FACTORIES})
        return sorted(n.partition("::")[2] for n in OPERATORS if n.startswith(f"{self.name}::"))

    def __getattr__(self, name: str) -> Any:
        full = f"{self.name}::{name}"
        found = built_in(name) or FUNCTIONS_OF_GRAPHS.get(name) if self.name == BUILT_IN else OPERATORS.get(full)
        if found is None and any(known.startswith(f"{full}.") for known in OPERATORS):
            return Overloads(full)
        if found is None or name.startswith("__"):
            raise AttributeError(f"library {self.name!r} has no operator {name!r}")
        return found


class Namespaces:
    """The object ``ops``, with the namespaces of all libraries.

    Attributes:
        loaded_libraries: The paths of the loaded libraries.
    """

    def __init__(self) -> None:
        self.loaded_libraries: set[str] = set()

    def __repr__(self) -> str:
        return "<operators of all libraries>"

    def __dir__(self) -> list[str]:
        return sorted({BUILT_IN, *(name.partition("::")[0] for name in OPERATORS if "::" in name)})

    def __getattr__(self, name: str) -> Namespace:
        if name.startswith("__"):
            raise AttributeError(name)
        return Namespace(name)

    def load_library(self, path: Any) -> None:
        """Define the operators of a library in C++ for which tensocket has its own; the file is not run.

        Raises:
            LibraryError: The file does not exist, or its operators have no counterparts here. Programs that have their
                operators in Python, too, go on with these.
        """
        file = Path(path).resolve()
        start, module = KNOWN_LIBRARIES.get(file.parent.name, (None, ""))
        if start is None or file.name.partition(".")[0] != start:
            raise LibraryError("ops.load_library", f"{path}", "operators in C++ are compiled for PyTorch's own library",
                               "define them with tensocket.library.custom_op, or use the library's operators in Python")
        if not file.is_file():
            raise LibraryError("ops.load_library", f"{path}", "a library is a file that exists", "check the path")
        with _LOADING:
            if module not in _LOADED:
                _LOADED[module] = import_module(module, __package__).register()
            self.loaded_libraries.add(str(file))

    def __delattr__(self, name: str) -> None:
        """Do nothing: a namespace holds only its operators, which are removed with their library."""


ops: Final = Namespaces()
