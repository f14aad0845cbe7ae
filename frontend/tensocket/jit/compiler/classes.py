"""Scripted classes and interfaces."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any, Final
from weakref import WeakSet

from tensocket.jit.annotations import qualified
from tensocket.jit.compiler.closures import first_of, resolver_of_class
from tensocket.jit.compiler.compilation import declare
from tensocket.jit.compiler.method_compilation import compile_method
from tensocket.jit.frontend import NotSupportedError, Place, ScriptError, Source, definition, source_of
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import CompiledFunction, FunctionSchema
from tensocket.jit.markers import modifier_of
from tensocket_plugins.contract.errors import TensocketError

#: Types of scripted classes and interfaces, by Python class. It grows with the program's classes; ``clear`` empties it.
_TYPES: Final[dict[type, t.ClassType]] = {}
#: Classes of instances that cannot be scripted.
_NO_SCRIPTS: Final[WeakSet[type]] = WeakSet()


class ScriptObject:
    """An instance of a class that a script from a file defines.

    Args:
        kind: Its type.
    """

    def __init__(self, kind: t.ClassType) -> None:
        self._type = kind

    def __getattr__(self, name: str) -> Any:
        kind = self.__dict__.get("_type")
        method = None if kind is None or name.startswith("__") else kind.method(name)
        if method is None:
            raise AttributeError(f"{name!r}: the scripted class has no such attribute")
        return lambda *args: method.checked(self, *args)


def compiled_type(kind: type) -> t.ClassType | None:
    """Return the type of a class that was scripted, None for others."""
    return _TYPES.get(kind)


def is_scriptable(kind: type) -> bool:
    """Whether a class has the form of a scripted class: a program's own, without a base."""
    return kind.__mro__[1:] == (object,) and not kind.__module__.startswith(("tensocket", "builtins", "numpy"))


def class_of_instance(kind: type) -> t.ClassType | None:
    """Return the type of a program's class, which is compiled now; None if it is not a class of scripts."""
    known = compiled_type(kind)
    if known is None and is_scriptable(kind) and kind not in _NO_SCRIPTS:
        try:
            known = compile_class(kind)
        except (TensocketError, OSError):  # OSError: its source cannot be read
            _NO_SCRIPTS.add(kind)
    return known


def clear() -> None:
    """Forget all scripted classes."""
    _TYPES.clear()
    _NO_SCRIPTS.clear()


def new_object(kind: t.ClassType) -> Any:
    """Return an instance of a scripted class without attributes."""
    return ScriptObject(kind) if kind.python is None else object.__new__(kind.python)


def compile_class(kind: Any, place: Place | None = None, resolve: Callable[[str], Any] | None = None) -> t.ClassType:
    """Return the type of a Python class, whose methods are compiled now if they were not.

    Raises:
        ScriptError: It is not a class of scripts.
    """
    known = _TYPES.get(kind)
    if known is not None:
        return known
    _check_class(kind, place)
    made = _TYPES[kind] = t.ClassType(qualified(kind), kind)
    lookup = resolver_of_class(kind) if resolve is None else first_of(resolver_of_class(kind), resolve)
    own = lookup

    def with_itself(name: str) -> Any:
        return kind if name == kind.__name__ else own(name)

    try:
        _compile_members(made, kind, with_itself)
    except BaseException:
        _TYPES.pop(kind, None)
        raise
    return made


def _check_class(kind: Any, place: Place | None) -> None:
    bases = [base for base in kind.__mro__[1:] if base is not object]
    if bases:
        raise ScriptError(f"class {kind.__name__} with bases {[b.__name__ for b in bases]}", "TorchScript classes do "
                          "not "
                          "support inheritance yet: a scripted class has no base", "write it without one", place)
    if not dataclasses.is_dataclass(kind):
        source_of(kind)


def _compile_members(made: t.ClassType, kind: Any, resolve: Callable[[str], Any]) -> None:
    members = {name: each for name, each in vars(kind).items() if _is_method(each)}
    waiting = dict(members)
    for name, member in vars(kind).items():
        if isinstance(member, property):
            made.properties[name] = (f"__{name}_getter", f"__{name}_setter" if member.fset else None)
            waiting[f"__{name}_getter"] = member.fget
            if member.fset:
                waiting[f"__{name}_setter"] = member.fset

    def compile_one(name: str) -> Any:
        if name not in waiting or name in made.methods:
            return made.methods.get(name)
        return compile_method(made, waiting[name], name, resolve)

    made.compile_method = compile_one
    if dataclasses.is_dataclass(kind):
        from tensocket.jit.compiler.dataclass_methods import add_methods

        add_methods(made, kind, resolve)
    for name in ["__init__", *waiting] if "__init__" in waiting else list(waiting):
        compile_one(name)


def _is_method(member: Any) -> bool:
    if isinstance(member, classmethod):
        return False  # scripts have no values that are classes
    plain = getattr(member, "__func__", member)
    code = getattr(inspect.unwrap(plain) if callable(plain) else plain, "__code__", None)
    if code is None or code.co_filename == "<string>" or code.co_filename.endswith(("dataclasses.py", "reprlib.py")):
        return False
    return inspect.isfunction(plain) and modifier_of(plain) not in ("ignore", "unused", "drop")


def compile_interface(kind: Any, resolve: Callable[[str], Any] | None = None) -> t.InterfaceType:
    """Return the type of an interface, a class whose methods have no bodies.

    Raises:
        ScriptError: It is not a class.
    """
    from tensocket.nn import Module

    known = _TYPES.get(kind)
    if isinstance(known, t.InterfaceType):
        return known
    if not isinstance(kind, type):
        raise ScriptError(f"a {type(kind).__name__}", "interface must be applied to a class", "decorate a class")
    is_module = issubclass(kind, Module)
    if not is_module and len(kind.__mro__) > 2:
        raise ScriptError(f"interface {kind.__name__}", "TorchScript interface does not support inheritance yet. "
                          "Please "
                          "directly inherit from 'object' or 'nn.Module'", "write it without a base")
    made = _TYPES[kind] = t.InterfaceType(qualified(kind), kind, is_module)
    lookup = resolver_of_class(kind) if resolve is None else first_of(resolver_of_class(kind), resolve)
    for name, member in vars(kind).items():
        if inspect.isfunction(member):
            source: Source = source_of(member)
            method = CompiledFunction(name, f"{made.name}.{name}", FunctionSchema(name, [], t.NEVER), owner=made,
                                      source=source, python=member)
            made.methods[name] = method
            result = declare(method, definition(source), source, lookup, member)
            method.schema.result = t.NONE if result is None else result
    return made


__all__ = ["NotSupportedError", "ScriptObject", "class_of_instance", "clear", "compile_class", "compile_interface",
           "compiled_type", "new_object"]
