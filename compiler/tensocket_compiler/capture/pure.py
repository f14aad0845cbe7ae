"""C functions whose results depend on nothing but their arguments, which guards watch.

An observed call may call functions written in C, into which observation cannot look. Those listed here read their
arguments only, and write to nothing but these; all others (clocks, random numbers, files, prints, thread state) refuse
the capture. Iterators may be advanced, because an iterator that existed before the call is refused by the closure.
"""

from __future__ import annotations

import _operator
import abc
import bisect
import builtins
import cmath
import collections
import functools
import heapq
import itertools
import math
import re
import struct
import sys
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, Final

#: Functions of the module ``builtins``.
_BUILTIN_NAMES: Final = (
    "abs", "all", "any", "ascii", "bin", "callable", "chr", "delattr", "dir", "divmod", "format", "getattr", "hasattr",
    "hash", "hex", "id", "isinstance", "issubclass", "iter", "len", "locals", "max", "min", "next", "oct", "ord", "pow",
    "repr", "round", "setattr", "sorted", "sum", "vars")
#: Single functions of other modules. Checks of abstract classes depend on registrations, whose count ``state`` watches.
_FUNCTIONS: Final[frozenset[Any]] = frozenset({
    *(getattr(builtins, name) for name in _BUILTIN_NAMES), functools.reduce, itertools.tee,
    functools.cmp_to_key, bisect.bisect_left, bisect.bisect_right, bisect.insort_left, bisect.insort_right,
    heapq.heappush, heapq.heappop, heapq.heapify, heapq.heappushpop, heapq.heapreplace, struct.pack, struct.unpack,
    struct.calcsize, sys.intern,
    vars(collections)["_count_elements"], *(vars(abc)[f"_abc_{name}check"] for name in ("instance", "subclass"))})
#: Modules all of whose functions are pure.
_MODULES: Final = (math, cmath, _operator)
#: Types whose methods read and write their object only. Written objects show as effects, unless the call made them.
_CONTAINERS: Final = (
    dict, list, tuple, set, frozenset, str, bytes, int, float, complex, range, slice, bytearray, OrderedDict, deque,
    types.MappingProxyType, BaseException, types.GeneratorType, re.Pattern, re.Match, property, type(None))
#: Methods of classes, which make an object from their arguments.
_CONSTRUCTORS: Final = frozenset({"fromkeys", "from_bytes", "fromhex", "maketrans", "from_iterable", "__new__"})
_MAKERS: Final = (dict, int, float, str, bytes, tuple, list, set, frozenset, OrderedDict, itertools.chain, object,
                  BaseException)
#: Methods of ``object`` that read nothing but the class.
_OF_OBJECTS: Final = frozenset({"__format__", "__init_subclass__", "__subclasshook__", "__instancecheck__",
                                    "__subclasscheck__"})


#: Ask for attributes by computed names; ``watch`` records the names by standing in for them.
ATTRIBUTE_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "getattr": getattr, "hasattr": hasattr, "setattr": setattr, "delattr": delattr}
#: Read all attributes of an object, or attributes that a text names.
WHOLE_READERS: Final = (vars, dir)
_FORMATTERS: Final = ("format", "format_map")
#: Functions and types written in C that call a function which they are given, and those that do so for a ``key``.
CALLERS: Final = frozenset({
    "map", "filter", "partial", "partialmethod", "iter", "reduce", "starmap", "accumulate", "takewhile", "dropwhile",
    "groupby", "filterfalse", "sub", "subn", "defaultdict", "property", "call", "__call__",
    "tree_map", "tree_map_", "tree_map_only", "apply_", "map_", "map2_"})
KEY_CALLERS: Final = frozenset({"sorted", "sort", "min", "max", "nlargest", "nsmallest", "groupby"})
#: Read which exception the caller handles; ``contextlib`` does not let that decide.
LIBRARY_FUNCTIONS: Final = (sys.exc_info, sys.exception)
#: Compare identities.
IDENTITY_READERS: Final = (id, _operator.is_, _operator.is_not)

#: Make numbers of identities: ``id``, and ``hash`` for tensors.
IDENTITY_NUMBERS: Final = (id, hash)


def is_pure(function: Any) -> bool:
    """Whether a C function reads and writes nothing but its arguments."""
    owner = getattr(function, "__self__", None)
    if owner is None or isinstance(owner, types.ModuleType):
        return function in _FUNCTIONS or any(owner is module for module in _MODULES)
    name = function.__name__
    if isinstance(owner, type):
        maker = owner is object or any(issubclass(owner, kind) for kind in _MAKERS if kind is not object)
        return name in _OF_OBJECTS or (name in _CONSTRUCTORS and maker)
    if name in ("__reduce__", "__reduce_ex__", "__sizeof__", "__dir__", "__getstate__"):
        return False
    return isinstance(owner, _CONTAINERS) or name in _OF_OBJECTS


def reads_whole_objects(function: Any) -> bool:
    """Whether a C function reads attributes whose names stand nowhere in the code."""
    if any(function is each for each in WHOLE_READERS):
        return True
    return isinstance(getattr(function, "__self__", None), str) and function.__name__ in _FORMATTERS


def name_of(function: Any) -> str:
    """Return the name of a C function with its module or type."""
    owner = getattr(function, "__self__", None)
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", type(function).__name__)
    return f"{owner.__name__}.{name}" if isinstance(owner, types.ModuleType) and owner is not builtins else str(name)
