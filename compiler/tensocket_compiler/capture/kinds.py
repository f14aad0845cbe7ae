"""Kinds of objects: which have no state that changes, which a closure can look into, and which hide state in C."""

from __future__ import annotations

import functools
import operator
import re
import sys
import types
import typing
import weakref
from collections import OrderedDict, defaultdict, deque
from typing import Any, Final, Generic

import numpy as np

from .layout import LAYOUT
from .offsets import deallocator
from .packages import is_runtime_package
from .words import ListPart, Part, QueuePart, SetPart

#: Types of objects without state that changes.
ATOMS: Final[frozenset[type]] = frozenset({
    int, float, complex, bool, str, bytes, type(None), type(...), type(NotImplemented), range, types.CodeType,
    types.MethodDescriptorType, types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType,
    types.ClassMethodDescriptorType, re.Pattern})
#: Types of NumPy's objects that have no state: numbers, and functions of arrays, which are watched as such.
_OF_NUMPY: Final = (np.generic, np.dtype, np.ufunc, type(np.concatenate))
#: Types of members of classes through which Python reads attributes.
DESCRIPTORS: Final[frozenset[type]] = frozenset({
    types.FunctionType, property, staticmethod, classmethod, functools.cached_property})
#: Types written in C whose objects Python classes may derive from, because the closure can look into them.
_KNOWN_BASES: Final = frozenset({
    object, int, float, complex, str, bytes, tuple, dict, list, set, frozenset, OrderedDict, defaultdict, deque,
    types.SimpleNamespace, property, staticmethod, classmethod, Generic})  # Python code defines it before Python 3.12
SEQUENCES: Final[dict[type, type[Part]]] = {list: ListPart, deque: QueuePart, set: SetPart}
#: How to look into objects of classes that derive from containers.
CONTAINERS: Final[dict[type, str]] = {
    dict: "visit_dict", list: "visit_sequence", deque: "visit_sequence", set: "visit_sequence", tuple: "visit_fixed",
    frozenset: "visit_fixed", property: "visit_fields", staticmethod: "visit_fields", classmethod: "visit_fields"}
#: Types of variables for types, which are written in C since Python 3.12.
_TYPE_VARIABLES: Final[list[type]] = [] if sys.version_info < (3, 12) else [
    getattr(typing, name) for name in ("TypeVar", "ParamSpec", "TypeVarTuple", "TypeAliasType")]
#: How to look into objects of exactly these types.
VISITORS: Final[dict[type, str]] = {
    **CONTAINERS, **dict.fromkeys(_TYPE_VARIABLES, "visit_type_variable"),
    OrderedDict: "visit_dict", defaultdict: "visit_dict", types.MappingProxyType: "visit_holder",
    slice: "visit_holder", types.GenericAlias: "visit_holder", types.UnionType: "visit_holder",
    operator.itemgetter: "visit_holder", re.Match: "visit_holder",
    types.FunctionType: "visit_function", types.CellType: "visit_cell", types.MethodType: "visit_fields",
    functools.partial: "visit_fields", types.BuiltinFunctionType: "visit_builtin",
    type(functools.lru_cache(int)): "visit_cached", types.MethodWrapperType: "visit_builtin",
    weakref.ref: "visit_reference", operator.attrgetter: "visit_getter",
    operator.methodcaller: "visit_getter"}
#: Functions that read attributes by computed names.
WHOLE_READERS: Final = (object.__getattribute__, type.__getattribute__)
#: Modules whose types, written in C, read nothing but their arguments when they are called.
_KNOWN_MODULES: Final = frozenset({
    "builtins", "collections", "_collections", "itertools", "functools", "_functools", "operator", "_operator", "types",
    "datetime", "typing", "_typing", "abc", "_abc", "enum", "weakref", "_weakref", "re", "_sre"})


def is_python(kind: type) -> bool:
    """Whether Python code defines a class: then it has the interpreter's general deallocator."""
    return LAYOUT is not None and deallocator(kind) == LAYOUT.dealloc


def is_of_runtime(kind: type) -> bool:
    """Whether a class belongs to the runtime below the front end, which lists its own state."""
    top = str(kind.__module__).partition(".")[0]
    return is_runtime_package(top)


def is_known_type(kind: type) -> bool:
    """Whether a type written in C makes objects from its arguments only."""
    return issubclass(kind, BaseException) or kind.__module__ in _KNOWN_MODULES or is_of_runtime(kind)


def is_transparent(kind: type) -> bool:
    """Whether all state of a class's objects lies where a closure looks."""
    if kind is types.SimpleNamespace:
        return True
    return is_python(kind) and all(base in _KNOWN_BASES or is_python(base) for base in kind.__mro__)


def is_atom(value: Any) -> bool:
    """Whether an object has no state that changes, or state that ``state`` lists."""
    kind = type(value)
    if kind in ATOMS or kind is object:
        return True
    if is_of_runtime(kind):
        return kind.__module__.partition(".")[0] != "numpy" or (
            isinstance(value, _OF_NUMPY) and not isinstance(value, np.void))  # records can be written
    if isinstance(value, types.BuiltinFunctionType):
        return isinstance(value.__self__, (types.ModuleType, type))
    return kind.__module__ in ("typing", "_typing") or kind.__name__ in ("_tuplegetter", "_abc_data")


def slots_of(kind: type, names: frozenset[str] | None) -> dict[str, Any]:
    """Return the descriptors of the named slots of a Python class and its bases; ``names``: None for all."""
    return {name: member for base in reversed(kind.__mro__) if is_python(base) for name, member in vars(base).items()
            if type(member) is types.MemberDescriptorType and (names is None or name in names)}

