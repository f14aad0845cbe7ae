"""A walk over objects: each one is watched by its kind, and leads to those that code can reach from it.

An object that cannot be watched, such as an iterator or a lock, refuses the capture.
"""

from __future__ import annotations

import functools
import gc
import operator
import re
import sys
import types
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import numpy as np

from tensocket_core.autograd.hooks import Extras
from tensocket_core.tensor import Tensor

from . import kinds
from .forms import OF_RUNTIME, is_wrapper
from .layout import CLASS_DESCRIPTIONS, DESCRIPTIONS, layout
from .listed import HOLDERS
from .object_words import ArrayPart, ClassPart, FieldsPart, FunctionPart, InstancePart, TensorPart
from .offsets import cached_results, instance_dict, read_word
from .packages import is_inside, is_library, makes_named_tuple
from .pure import ATTRIBUTE_FUNCTIONS, IDENTITY_NUMBERS, IDENTITY_READERS, WHOLE_READERS, is_pure, name_of
from .watch import Observation, Refusal
from .words import CellPart, ItemsPart, NamesPart, Part, pretty

#: Bytes of the largest array whose elements are watched.
ARRAY_LIMIT: Final = 4096

Names = frozenset[str]
#: Names without which no code reads or writes ``grad`` of a tensor that it did not make.
_OF_GRADIENTS: Final = frozenset({"grad", "_grad", "backward"})
#: Names by which code reads functions that it does not call.
_OF_FUNCTIONS: Final = frozenset({"__code__", "__defaults__", "__kwdefaults__", "__closure__"})
#: Ends the path of a tensor that a module owns.
_IN_MODULE: Final = re.compile(r"\._(?:parameters|buffers)\['\w+'\]$")


class Walk:
    """A walk over objects that an observed call can have read.

    Args:
        seen: The observed call.
        cut: Owners' identities and labels of places that are not followed or watched, because each call writes there.
    """

    def __init__(self, seen: Observation, cut: frozenset[tuple[int, str]] = frozenset()) -> None:
        self.seen, self.cut = replace(seen, result=None), cut  # guards do not keep the result alive
        self.refusals = list(seen.refusals)
        self.listed = {id(holder) for holder in HOLDERS.values()}
        used = [seen.code_names(code) for code in seen.codes]
        self.names: Names = frozenset(seen.names).union(*[each.attributes for each in used])
        self.texts: Names = frozenset(seen.names).union(*[each.texts for each in used])
        self._start()

    @property
    def whole(self) -> Names | None:
        """The names of attributes that may have been read; None if these are not known."""
        return None if self.seen.whole else self.names

    def _start(self) -> None:
        self.parts: list[Part] = []
        self.keep: list[Any] = []
        self.facts = 0
        self.done: dict[int, Names] = {}
        self.tensors: dict[int, list[Part]] = {}
        self.work: deque[tuple[Any, str, Names]] = deque()
        #: Keys of dicts come last, because tensors that are keys have better paths elsewhere.
        self.keys: deque[tuple[Any, str, Names]] = deque()

    def refuse(self, reason: str, path: str) -> None:
        """Add a refusal."""
        self.refusals.append(Refusal(f"it may have read {reason}", pretty(path)))

    def push(self, value: Any, path: str, names: Names | None = None) -> None:
        """Visit a value later; ``names``: of attributes that are read if it is a module of a library."""
        self.seen.whole = self.seen.whole or any(value is each for each in kinds.WHOLE_READERS)
        if type(value) not in kinds.ATOMS:
            self.work.append((value, path, self.names if names is None else names))

    def push_named(self, value: Any, path: str, names: Names) -> None:
        """Visit the value of a global later. If it is a C function, observation has seen the calls of it."""
        if type(value) is not types.BuiltinFunctionType or not isinstance(value.__self__, types.ModuleType):
            self.push(value, path, names)

    def watch(self, part: Part) -> list[tuple[str, Any]]:
        """Watch a part and return its facts."""
        part.cut = frozenset(label for owner, label in self.cut if owner == id(part.owner))
        part.refresh()
        facts = list(part.facts)
        self.facts += len(facts)
        self.parts.append(part)
        return facts

    def push_all(self, facts: Iterable[tuple[str, Any]], path: str) -> None:
        """Visit the values of facts later."""
        for label, value in facts:
            self.push(value, path + label)

    def visit(self, value: Any, path: str, names: Names) -> None:
        """Watch a value and push what it leads to."""
        known = self.done.get(id(value))
        if known is not None and (names <= known or not issubclass(type(value), types.ModuleType)):
            if _IN_MODULE.search(path):
                for part in self.tensors.pop(id(value), ()):
                    part.path = path  # a parameter is known by its module, not by its optimizer
            return
        self.done[id(value)] = names if known is None else names | known
        self.keep.append(value)
        kind = type(value)
        self.seen.arrays = self.seen.arrays or value is np or kind.__module__ == "numpy"
        if id(value) in self.listed:
            pass
        elif issubclass(kind, types.ModuleType):
            self.visit_module(value, path, names if known is None else names - known)
        elif issubclass(kind, type):
            self.visit_class(value)
        elif issubclass(kind, Tensor):
            self.visit_tensor(value, path)
        elif kind in kinds.VISITORS:
            getattr(self, kinds.VISITORS[kind])(value, path)
        elif kind is Extras or (kinds.is_transparent(kind) and not kinds.is_of_runtime(kind)):
            self.visit_instance(value, path)
        elif kind is np.ndarray:  # subclasses have state of their own, such as masks and files
            self.visit_array(value, path)
        elif not kinds.is_atom(value):
            self.refuse(f"an object of type {kind.__module__}.{kind.__qualname__}, whose state cannot be watched", path)

    # ---- containers

    def visit_dict(self, value: dict[Any, Any], path: str) -> None:
        """Watch all items of a dict; of the table of modules, those that texts in the code name."""
        if value is sys.modules:
            part: Part = NamesPart(value, path, self.texts, ".", by_entries=True)
            self.push_all(self.watch(part), path)
            return
        for label, pair in self.watch(ItemsPart(value, path)):
            if label[:1] == "[":
                if type(pair[0]) not in kinds.ATOMS:
                    self.keys.append((pair[0], f"{path} key {label}", self.names))
                self.push(pair[1], path + label)
            elif label:
                self.push(pair, path + label)

    def visit_sequence(self, value: Any, path: str) -> None:
        """Watch all items of a list, a set, or a ``deque``."""
        part = next(part for kind, part in kinds.SEQUENCES.items() if issubclass(type(value), kind))
        self.push_all(self.watch(part(value, path)), path)

    def visit_cached(self, value: Any, path: str) -> None:
        """Watch the table of a function with a cache: a call that finds its result there does not run the function."""
        if is_library(getattr(value.__wrapped__, "__globals__", {})):
            return  # caches of libraries hold results that never change
        found = cached_results(value, layout())
        if found is None:
            self.refuse("a cache that cannot be watched", path)
            return
        self.watch(ItemsPart(found[0], f"{path}.cache"))
        self.push_all([(f".cache[{k}]", each) for k, each in enumerate(found[1])], path)
        self.push(value.__wrapped__, path)

    def visit_fixed(self, value: Iterable[Any], path: str) -> None:
        """Follow the items of a tuple or frozenset, which do not change."""
        self.push_all([(f"[{k}]", item) for k, item in enumerate(value)], path)

    def visit_holder(self, value: Any, path: str) -> None:
        """Follow what an object holds that does not change itself: a read-only view, a slice, an alias of a type."""
        self.push_all([("", item) for item in gc.get_referents(value)], path)

    def visit_array(self, value: Any, path: str) -> None:
        """Watch a small array of numbers."""
        if value.nbytes > ARRAY_LIMIT or value.dtype.hasobject or not value.flags.c_contiguous:
            self.refuse(f"a NumPy array of {value.nbytes} bytes; the elements of dense ones up to {ARRAY_LIMIT} are "
                        "watched", path)
        else:
            self.watch(ArrayPart(value, path))

    # ---- functions

    def visit_function(self, value: types.FunctionType, path: str) -> None:
        """Watch a function; of one that did not run, its attributes, and the rest if code asks for that by name."""
        space = value.__globals__
        if is_inside(space):
            if makes_named_tuple(value):
                self.push_all(self.watch(FunctionPart(value, path, True, frozenset())), path)
            return
        ran = value.__code__ in self.seen.codes or not self.names.isdisjoint(_OF_FUNCTIONS)
        has_attributes = read_word(id(value) + layout().attributes) != 0
        if "__globals__" in self.names and not is_library(space):
            self.refuse("the globals of a function", path)
        if ran or has_attributes or not is_library(space):
            texts = () if is_library(space) else [name for name in DESCRIPTIONS if name in self.names]
            facts = self.watch(FunctionPart(value, path, ran, self.whole, texts))
            self.push_all([fact for fact in facts if fact[0][1:] not in FunctionPart.fields], path)
        if ran:
            for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
                self.push(cell, name)
            self.visit_fixed(value.__defaults__ or (), f"{path}.__defaults__")
            self.push(value.__kwdefaults__, f"{path}.__kwdefaults__")

    def visit_cell(self, value: types.CellType, path: str) -> None:
        """Watch a cell and follow its content."""
        self.push_all(self.watch(CellPart(value, path)), path)

    def visit_fields(self, value: Any, path: str) -> None:
        """Follow the fixed fields of methods, properties, and functions with some arguments."""
        for name in ("__self__", "__func__", "fget", "fset", "fdel", "func", "args", "keywords"):
            if hasattr(type(value), name):
                self.push(getattr(value, name), path if name in ("__self__", "__func__") else f"{path}.{name}")
        self.watch(FieldsPart(value, path))
        if type(value) is functools.partial:
            self.watch(InstancePart(value, path, {}))
            self.visit_attributes(value, path)

    def visit_type_variable(self, value: Any, path: str) -> None:
        """Follow the fixed bound, constraints and default of a variable for types, and watch its attributes."""
        self.visit_holder(value, path)
        self.watch(InstancePart(value, path, {}))
        self.visit_attributes(value, path)

    def visit_attributes(self, value: Any, path: str) -> None:
        """Watch the attributes in the dict of an object, if it has one."""
        space = instance_dict(value)
        if space is not None:
            self.push_all(self.watch(NamesPart(space, path, self.whole)), path)

    def visit_getter(self, value: Any, path: str) -> None:
        """Note the names of the attributes or the method that a getter reads."""
        for each in value.__reduce__()[1]:
            if type(each) is str:
                self.names |= frozenset(each.split("."))
            else:
                self.push(each, path)

    def visit_builtin(self, value: Any, path: str) -> None:
        """Follow the object of a method written in C. C functions can call it, and observation does not see that."""
        if not is_pure(value):
            self.refuse(f"{name_of(value)}(), which depends on more than its arguments", path)
        self.seen.whole = self.seen.whole or value in ATTRIBUTE_FUNCTIONS.values() or value in WHOLE_READERS
        self.seen.identity = self.seen.identity or value in IDENTITY_READERS
        self.seen.numbered = self.seen.numbered or value in IDENTITY_NUMBERS
        if not isinstance(value.__self__, (types.ModuleType, type)):
            self.push(value.__self__, path)

    def visit_reference(self, value: Any, path: str) -> None:
        """Refuse a weak reference: guards would keep its object alive."""
        self.refuse("a weak reference, which does not keep its object alive", path)

    # ---- namespaces

    def visit_module(self, value: types.ModuleType, path: str, names: Names) -> None:
        """Watch a module: of a library all entries, of which those are followed that code may name."""
        space = value.__dict__
        if is_library(space):
            facts = self.watch(NamesPart(space, path, None)) if names == self.done[id(value)] else space.items()
            facts = [(f".{label.removeprefix('.')}", item) for label, item in facts]
        else:
            wanted = None if self.whole is None else self.whole | {"__getattr__"}
            facts = self.watch(NamesPart(space, path, wanted, by_entries=True))
            self.watch(InstancePart(value, path, {}))
            names = frozenset(label[1:] for label, _ in facts)
        for label, item in facts:
            if label[1:] in names:
                self.push_named(item, path + label, names)

    def visit_class(self, value: type) -> None:
        """Watch a class that Python code defines, with its bases and its metaclass."""
        if not kinds.is_python(value):
            self.seen.whole = self.seen.whole or value in (operator.attrgetter, operator.methodcaller)
            if not kinds.is_known_type(value):
                self.refuse(f"the type {value.__module__}.{value.__qualname__}, whose objects may have hidden state",
                            value.__qualname__)
            return
        path = value.__qualname__
        self.names |= frozenset(name for name in vars(value).get("__match_args__", ()) if type(name) is str)
        library = is_library({"__name__": value.__module__})
        texts = () if library else [name for name in CLASS_DESCRIPTIONS if name in self.names]
        part = ClassPart(value, path, self.names if library else self.whole, texts)
        if not part.has_version():
            self.refuse("a class for which the interpreter has no version left", path)
        for label, item in self.watch(part):
            named = label[1:] in self.names or self.whole is None
            if named or type(item) in kinds.DESCRIPTORS:
                self.push(item, path + label)
        for base in value.__mro__[1:]:
            self.push(base, base.__qualname__)
        self.push(type(value), type(value).__qualname__)

    def visit_instance(self, value: Any, path: str) -> None:
        """Watch an object of a Python class: its class, the attributes that code names, and the items of containers."""
        kind = type(value)
        if hasattr(kind, "__del__") and not is_library({"__name__": kind.__module__}):
            self.refuse("an object with a finalizer, which would run later, as guards keep it alive", path)
        slots = kinds.slots_of(kind, self.whole if kind is not Extras else None)
        facts = self.watch(InstancePart(value, path, slots))
        self.push(kind, kind.__qualname__)
        self.push_all([fact for fact in facts if fact[0][1:] in slots], path)
        self.visit_attributes(value, path)
        for base, visit in kinds.CONTAINERS.items():
            if issubclass(kind, base):
                getattr(self, visit)(value, path)

    def visit_tensor(self, value: Any, path: str) -> None:
        """Watch a tensor, its attributes and its hooks; refuse one that wraps others."""
        if is_wrapper(value):
            self.refuse("a tensor that wraps others, such as a sparse one", path)
            return
        own = TensorPart(value, path, self.whole is None or not self.whole.isdisjoint(_OF_GRADIENTS))
        facts = dict(self.watch(own))
        self.tensors[id(value)] = [own]
        self.push(type(value), type(value).__qualname__)
        names = (self.names | {"_extras", "_backward_hooks"}) - OF_RUNTIME
        space = instance_dict(value)
        if space is not None:
            attributes = NamesPart(space, path, names)
            self.push_all(self.watch(attributes), path)
            self.tensors[id(value)].append(attributes)
        if facts.get(".grad") is not None:
            self.push(value._grad, f"{path}.grad")
