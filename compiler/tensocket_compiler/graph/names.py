"""Names: what generated code calls functions, classes and constants, and what nodes are called.

Programs know the functions of this package by the names of PyTorch's modules (``torch.nn.functional.relu``). The front
end tells ``PUBLIC`` which namespaces these are; generated code refers to an object in one of them by that name.
"""

from __future__ import annotations

import builtins
import importlib
import keyword
import re
import sys
import types
from collections import defaultdict
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tensocket_plugins.contract.errors import ArgumentError

#: Prefix of this package's own modules, and the name under which programs know them.
_OWN, _PUBLIC = "tensocket", "torch"


class PublicNames:
    """The names of functions and classes in the namespaces that programs import.

    The table is made at the first question and when a namespace is added. Its key is an object's identity, and it holds
    the objects, of which there are as many as names.
    """

    def __init__(self) -> None:
        self._spaces: dict[str, Callable[[], Any]] = {}
        self._aliases: list[tuple[Any, str]] = []
        self._rules: list[Callable[[Any], str | None]] = []
        self._table: dict[int, tuple[Any, str]] = {}

    def add_name(self, name: str, thing: Any) -> None:
        """Add the name of one object."""
        self._aliases.append((thing, name))
        self._table = {}

    def add_rule(self, rule: Callable[[Any], str | None]) -> None:
        """Add a function that returns the name of some objects, and None for others."""
        self._rules.append(rule)

    def add(self, prefix: str, space: Callable[[], Any]) -> None:
        """Add a namespace, a module or class that ``space`` returns; an earlier one's name for an object is used."""
        self._spaces[prefix] = space
        self._table = {}

    def name_of(self, thing: Any) -> str | None:
        """Return the public name of an object, or None for another library's or program's."""
        if not self._table:
            self._fill()
        found = self._table.get(id(thing))
        if found is not None:
            return found[1]
        return next((name for rule in self._rules if (name := rule(thing)) is not None), None) or _name_in_module(thing)

    def _fill(self) -> None:
        self._table.update((id(thing), (thing, name)) for thing, name in self._aliases)
        for prefix, space in self._spaces.items():
            owner = space()
            for name, value in list(vars(owner).items()):
                if (callable(value) and not name.startswith("__") and not isinstance(value, types.ModuleType)
                        and str(getattr(value, "__module__", "")).startswith(_OWN)):
                    self._table.setdefault(id(value), (value, f"{prefix}.{name}"))


def _name_in_module(thing: Any) -> str | None:
    """Return the name of an object of one of this package's public modules that is none of the table."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if isinstance(thing, types.ModuleType):
        module, name = thing.__name__, ""
    if not isinstance(module, str) or name is None or module.partition(".")[0] not in (_OWN, _PUBLIC):
        return None
    path = _OWN + module.removeprefix(_OWN if module.partition(".")[0] == _OWN else _PUBLIC)
    value: Any = sys.modules.get(path)
    for part in name.split(".") if name else ():
        value = getattr(value, part, None)
    return (_PUBLIC + path.removeprefix(_OWN) + f".{name}".rstrip(".")) if value is thing else None


#: The names of this process's front end.
PUBLIC: Final = PublicNames()


class CustomBuiltin(NamedTuple):
    """A name that generated code uses without asking where it is from."""

    import_str: str
    obj: Any


CUSTOM_BUILTINS: Final[dict[str, CustomBuiltin]] = {}


def register_custom_builtin(name: str, import_str: str, obj: Any) -> None:
    """Let generated code use a name, which ``import_str`` imports in a saved program."""
    CUSTOM_BUILTINS[name] = CustomBuiltin(import_str, obj)


register_custom_builtin("inf", "from math import inf", float("inf"))
register_custom_builtin("nan", "from math import nan", float("nan"))
register_custom_builtin("NoneType", "NoneType = type(None)", type(None))


def is_from_torch(thing: Any) -> bool:
    """Whether a program knows an object by a name below ``torch``."""
    return PUBLIC.name_of(thing) is not None


def qualified_name(function: Callable[..., Any]) -> str:
    """Return the name that generated code calls a function by.

    Raises:
        ArgumentError: The function has no name that can be written.
    """
    public = PUBLIC.name_of(function)
    if public is not None:
        return public
    name = getattr(function, "__name__", getattr(function, "name", None))
    if name is not None and getattr(builtins, name, None) is function:
        return str(name)
    if name is None:
        raise ArgumentError("Graph.python_code", f"{function!r} as a target", "the target of a call_function has a "
                            "name",
                            "call a function or class")
    if name == "<lambda>":
        return name  # type: ignore[no-any-return]
    module = _module_of(function)
    owner = getattr(function, "__objclass__", None)
    return f"{module}.{owner.__name__}.{name}" if owner is not None else f"{module}.{name}"


def _module_of(function: Callable[..., Any]) -> str:
    owner = getattr(function, "__objclass__", None)
    module = getattr(function, "__module__", None) or getattr(owner, "__module__", None)
    return str(module or "builtins")


def type_name(kind: Any) -> str:
    """Return the name of a type in annotations; the ``repr`` of other objects."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        public = PUBLIC.name_of(kind)
        if public is not None:
            return public
        return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    if kind is ...:
        return "..."
    if isinstance(kind, types.FunctionType):
        return kind.__name__
    return repr(kind).replace(f"{_OWN}.", f"{_PUBLIC}.")


def import_name(path: str) -> Any:
    """Return the object of a dotted path."""
    module, _, name = path.rpartition(".")
    return getattr(importlib.import_module(module), name)


def snake_case(name: str) -> str:
    """Return a class's name as that of a variable: ``MyLinear`` as ``my_linear``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def is_magic(name: str) -> bool:
    """Whether a name is that of a special method."""
    return name.startswith("__") and name.endswith("__")


class Identity:
    """An object as a key of names: equal only to itself, although its class may define ``==``."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


_ILLEGAL: Final = re.compile(r"[^0-9a-zA-Z_]+")


def identifier(text: str) -> str:
    """Return a name that Python accepts, with underscores for other characters."""
    text = _ILLEGAL.sub("_", text) or "_unnamed"
    return f"_{text}" if text[0].isdigit() else text


_NUMBERED: Final = re.compile(r"(.*)_(\d+)$")


class Namespace:
    """Names that are unique in a graph; an object that has a name keeps it."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._base_count: dict[str, int] = defaultdict(int)

    def create_name(self, candidate: str, obj: Any) -> str:
        """Return a new name that is an identifier and begins like ``candidate``; the name of ``obj`` if it has one."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        candidate = identifier(candidate)
        found = _NUMBERED.match(candidate)
        base, number = (found[1], int(found[2])) if found else (candidate, None)
        if found and number == 0:
            base, number = candidate, None
        candidate = base if number is None else f"{base}_{number}"
        number = number or 0
        while candidate in self._used_names or self._is_taken(candidate, obj):
            number = max(number, self._base_count[base]) + 1
            candidate = f"{base}_{number}"
            self._base_count[base] = number
        self._used_names.add(candidate)
        if obj is not None:
            self._obj_to_name[obj] = candidate
        return candidate

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        """Give an object a name that is taken from a graph or a builtin."""
        self._obj_to_name.setdefault(obj, name)

    def _rename_object(self, obj: Any, name: str) -> None:
        self._obj_to_name[obj] = name
        self._used_names.add(name)

    @staticmethod
    def _is_taken(name: str, obj: Any) -> bool:
        if keyword.iskeyword(name):
            return True
        if isinstance(obj, Identity):
            obj = obj.value
        builtin = getattr(builtins, name, _ABSENT)
        if builtin is not _ABSENT and builtin is not obj:
            return True
        custom = CUSTOM_BUILTINS.get(name)
        return custom is not None and custom.obj is not obj


_ABSENT: Final = object()
