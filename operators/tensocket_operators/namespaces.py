"""Operators by PyTorch's names: packets, ``ops.aten.add``, and their overloads, ``ops.aten.add.Tensor``.

The overload is the operator's record, which dispatch modes receive and graphs hold. A built-in record serves all forms
of its operator, so that all names of overloads return it, and it is named after the first of them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from tensocket_core.dispatch.packets import ATTRIBUTES, AtenOverloads
from tensocket_core.dispatch.registry import COMPOSITES, OPERATORS
from tensocket_core.dispatch.schema import bound
from tensocket_plugins.contract.errors import LibraryError

from .catalogue import names_of_functions
from .creation.record import FACTORIES, factory

#: The namespace of the built-in operators.
BUILT_IN: Final = "aten"
#: By their names here, the operators that have another one in PyTorch.
_TORCH_NAMES: Final = {"convert": "_to_copy", "softmax_rows": "_softmax", "log_softmax_rows": "_log_softmax"}
#: By PyTorch's name, the operators that have another name here.
_SYNONYMS: Final = {**{name: own for own, name in _TORCH_NAMES.items()}, "_unsafe_view": "view",
                    "_reshape_alias": "view", "_sparse_addmm": "addmm"}
#: Libraries in C++ for whose operators there are own ones: by the package's name, the start of the file's name, and the
#: module, whose function ``register`` defines them.
KNOWN_LIBRARIES: Final = {"torchvision": ("_C", ".vision")}
#: Where functions over lists of tensors are found by name, and the start of their names.
_LISTS: Final[list[Callable[[str], Any]]] = []
_LIST: Final = "_foreach_"
#: By namespace, functions that define its operators before one is used; further calls do nothing.
_DEFINITIONS: Final[dict[str, Callable[[], Any]]] = {}
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


def define_by(space: str, define: Callable[[], Any]) -> None:
    """Set a function that defines the operators of a namespace; it is called before each use of one."""
    _DEFINITIONS[space] = define


def _of_lists(name: str) -> AtenOverloads | None:
    function = next((found for find in _LISTS if (found := find(name)) is not None), None)
    return None if function is None else factory(function, name)


def _factory(name: str) -> AtenOverloads | None:
    wanted = (f"torch.{name}", f"torch.Tensor.{name}")
    function = next((f for f, known in names_of_functions().items() if known in wanted), None)
    return None if function is None else factory(function)


@cache
def _functions_of_graphs() -> dict[str, Any]:
    """Return functions other than operators by their names, from a module that few programs need."""
    found: dict[str, Any] = import_module(".graph_functions", __package__).FUNCTIONS_OF_GRAPHS
    return found


@cache
def _names() -> Any:
    """Return the module with PyTorch's names of overloads, which few programs need."""
    return import_module(".overload_names", __package__)


def parts_of(name: str) -> tuple[str, str, str]:
    """Return the namespace of a record with a name, its name in PyTorch, and the name of its overload."""
    space, _, rest = name.rpartition("::")
    own, _, overload = rest.partition(".")
    if space:
        return space, own, overload or "default"
    own = _TORCH_NAMES.get(own, own)
    return BUILT_IN, own, _names().overloads_of(own)[0]


def _takes(record: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    try:
        bound(record.schema, args, kwargs)
    except TypeError:
        return False
    return True


class OpOverloadPacket:
    """The overloads of one operator; a call runs the one that takes the arguments.

    Args:
        space: The operator's namespace.
        name: Its name there.
        record: The record that is called this name; None if all records have the names of overloads.

    Attributes:
        record: The same.
    """

    def __init__(self, space: str, name: str, record: Any = None) -> None:
        self._space, self.__name__ = space, name
        self._qualified_op_name = f"{space}::{name}"
        self.record = record

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self}')>"

    def __str__(self) -> str:
        return f"{self._space}.{self.__name__}"

    def __deepcopy__(self, memo: dict[int, Any]) -> OpOverloadPacket:
        return self

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.overloads()]

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):
            if (found := OPERATORS.get(f"{self._qualified_op_name}.{name}")) is not None:
                return found
            if self.record is not None and self._covers(name):
                return self.record
        raise AttributeError(f"The underlying op of '{self}' has no overload name {name!r}")

    def _covers(self, name: str) -> bool:
        """Whether the record serves an overload."""
        return _names().has_overload(self.__name__, name) if self._space == BUILT_IN else name == "default"

    def _own(self) -> list[str]:
        """Return the names of the overloads that have records of their own."""
        start = f"{self._qualified_op_name}."
        return [name.removeprefix(start) for name in OPERATORS if name.startswith(start)]

    def overloads(self) -> list[str]:
        """Return the names of the overloads; for built-in operators, without those that write to ``out``."""
        if self._space == BUILT_IN:
            return list(_names().overloads_of(self.__name__))
        return [*([] if self.record is None else ["default"]), *self._own()]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the first overload that takes the arguments."""
        records = [] if self.record is None else [self.record]
        if self._space != BUILT_IN:
            records += [OPERATORS[f"{self._qualified_op_name}.{name}"] for name in self._own()]
        fitting = records if len(records) == 1 else [record for record in records if _takes(record, args, kwargs)]
        return (fitting or records)[0](*args, **kwargs)


@cache
def _without_record(space: str, name: str) -> OpOverloadPacket:
    """Return the packet of overloads with names; there are as many as operators that libraries define."""
    return OpOverloadPacket(space, name)


def packet_of(record: Any) -> OpOverloadPacket:
    """Return the packet of a record, which is the same for all overloads."""
    space, name, _ = parts_of(record.name)
    if "." in record.name:
        main = OPERATORS.get(f"{space}::{name}")
        return _without_record(space, name) if main is None else packet_of(main)
    made: OpOverloadPacket | None = record.__dict__.get("_packet")
    if made is None:
        made = record._packet = OpOverloadPacket(space, name, record)
    return made


def packet_named(space: str, name: str) -> OpOverloadPacket | None:
    """Return the packet of a library's operator; None if there is none."""
    record = OPERATORS.get(f"{space}::{name}") or _functions_of_graphs().get(f"{space}::{name}")
    if record is not None:
        return packet_of(record)
    return _without_record(space, name) if any(known.startswith(f"{space}::{name}.") for known in OPERATORS) else None


class Namespace:
    """The operators of one library."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"<operators of {self.name}>"

    def __dir__(self) -> list[str]:
        if self.name == BUILT_IN:
            return sorted(name for name in {*OPERATORS, *COMPOSITES, *FACTORIES} if "::" not in name)
        return sorted(n.partition("::")[2] for n in OPERATORS if n.startswith(f"{self.name}::"))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"library {self.name!r} has no operator {name!r}")
        if self.name != BUILT_IN:
            if self.name in _DEFINITIONS:
                _DEFINITIONS[self.name]()
            packet = packet_named(self.name, name)
        else:
            found = built_in(name) or _functions_of_graphs().get(name)
            packet = None if found is None else packet_of(found)
        if packet is None:
            raise AttributeError(f"library {self.name!r} has no operator {name!r}")
        return packet


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


def _short_name(record: AtenOverloads) -> str:
    return ".".join(parts_of(record.name)[1:])


def _full_name(name: str) -> str:
    """Return PyTorch's name of an operator and its overload; ``default`` is not written."""
    space, own, overload = parts_of(name)
    return f"{space}::{own}" + ("" if overload == "default" else f".{overload}")


def _representation(record: AtenOverloads) -> str:
    space, own, overload = parts_of(record.name)
    return f"<OpOverload(op='{space}.{own}', overload='{overload}')>"


ATTRIBUTES.update({
    "__deepcopy__": lambda record: lambda memo: record,
    "__name__": _short_name,
    "__qualname__": lambda record: _full_name(record.name),
    "__repr__": _representation,
    "__str__": lambda record: ".".join(parts_of(record.name)),
    "_name": lambda record: _full_name(record.name),
    "_opname": lambda record: parts_of(record.name)[1],
    "_overloadname": lambda record: parts_of(record.name)[2],
    "_schema": lambda record: record.schema,
    "is_view": lambda record: "~" in record.schema.returns,
    "name": _full_name,
    "namespace": lambda record: parts_of(record.name)[0],
    "overloadpacket": packet_of,
})
ops: Final = Namespaces()
