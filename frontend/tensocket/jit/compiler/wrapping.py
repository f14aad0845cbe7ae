"""Python objects as values of the compiler."""

from __future__ import annotations

import enum
import math
import types
import warnings
from typing import TYPE_CHECKING, Any, Final

import tensocket.jit.annotations as ann
from tensocket.jit.compiler.sugared import (
    Builtin,
    ClassValue,
    EnumClass,
    ExceptionClass,
    FunctionValue,
    Namespace,
    PythonClass,
    PythonFunction,
    PythonValue,
    Special,
    Sugared,
)
from tensocket.jit.files import aten_names
from tensocket.jit.files.printed_files import Qualified
from tensocket.jit.frontend import Place, ScriptError
from tensocket.jit.graph import operators
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import Argument, CompiledFunction
from tensocket.jit.markers import is_export_refused, modifier_of
from tensocket_compiler.graph.names import PUBLIC
from tensocket_core.dispatch.operator import Operator
from tensocket_operators.namespaces import Namespace as OpsNamespace
from tensocket_operators.namespaces import Namespaces, OpOverloadPacket

if TYPE_CHECKING:
    from tensocket.jit.compiler.compiler import Compiler

_MISSING: Final = object()


def wrap(compiler: Compiler, thing: Any, place: Place, path: str = "", constant: bool = True) -> Any:
    """Return a Python object as a value of the compiler.

    Args:
        compiler: The compiler.
        thing: The object.
        place: Where the program names it.
        path: Its name there.
        constant: Whether plain values are constants; a global variable's are not.
    """
    from tensocket.jit.compiler.python_builtins import special

    known = special(thing)
    if known is not None:
        return known
    if thing is None or thing is ...:
        return compiler.constant(None, t.NONE, place)
    if isinstance(thing, (bool, int, float, complex, str, *_plain_classes())) and not isinstance(thing, enum.Enum):
        return compiler.constant(thing, None, place) if constant else PythonValue(thing)
    if isinstance(thing, enum.Enum):
        return compiler.constant(thing, None, place)
    if isinstance(thing, (types.ModuleType, Namespaces, OpsNamespace)):
        return Namespace(thing)
    if isinstance(thing, OpOverloadPacket):
        thing = thing.record
    if isinstance(thing, Operator):
        return Builtin(f"ops.aten::{thing.name}" if operators.is_operator(thing) else f"ops::{thing.name}", thing)
    if isinstance(thing, (ann.Module, Qualified)):
        return Namespace(thing)
    if isinstance(thing, t.EnumType):
        return EnumClass(thing)
    if isinstance(thing, t.JitType):
        return ClassValue(thing)
    if isinstance(thing, Sugared):
        return thing
    if isinstance(thing, (list, tuple, dict)):
        return compiler.constant(thing, None, place) if constant else PythonValue(thing)
    function = compiled_of(thing)
    if function is not None:
        return FunctionValue(function)
    if isinstance(thing, type):
        return wrap_class(thing, place)
    if callable(thing):
        return wrap_function(thing, place)
    return PythonValue(thing)


def _plain_classes() -> tuple[type, ...]:
    import tensocket

    return (tensocket.dtype, tensocket.device, tensocket.layout, tensocket.memory_format)


def compiled_of(thing: Any) -> CompiledFunction | None:
    """Return the compiled function behind a Python object, None for others."""
    from tensocket.jit.script_functions import ScriptFunction

    if isinstance(thing, CompiledFunction):
        return thing
    return thing._compiled if isinstance(thing, ScriptFunction) else None


def wrap_class(kind: Any, place: Place) -> Sugared:
    """Return a class as a value of the compiler."""
    import tensocket

    if issubclass(kind, BaseException):
        return ExceptionClass(kind)
    if issubclass(kind, enum.Enum):
        return EnumClass(ann.enum_type(kind, place))
    if ann.is_named_tuple(kind):
        return ClassValue(ann.named_tuple(kind, place))
    if kind is tensocket.device:
        return Builtin("aten::device", kind, t.DEVICE)
    if kind is tensocket.Size:
        return Builtin("aten::list", list, t.ListType(t.INT))
    if kind in ann.simple_types() or issubclass(kind, tensocket.Tensor):
        return PythonClass(kind)
    if _is_manager(kind):
        return Special(kind.__name__, lambda c, where, args, kwargs: _manager(c, kind, args, kwargs, where))
    if issubclass(kind, tensocket.nn.Module) or kind.__module__.startswith(("tensocket", "typing")):
        return PythonClass(kind)
    from tensocket.jit.compiler.classes import compile_class

    return ClassValue(compile_class(kind, place))


def _is_manager(kind: type) -> bool:
    """Whether a class of the library is a context manager."""
    return kind.__module__.startswith("tensocket") and hasattr(kind, "__enter__") and hasattr(kind, "__exit__")


def _manager(compiler: Compiler, kind: Any, arguments: list[Any], keywords: dict[str, Any], place: Place) -> Any:
    import tensocket

    if kind is tensocket.jit.strict_fusion:
        raise ScriptError("strict_fusion in a script", "all operators of the block must be fused, and scripts run them "
                          "one by one", "leave it out, or use tensocket.compile", place)
    inputs = [compiler.value(each, place) for each in [*arguments, *keywords.values()]]
    names = [""] * len(arguments) + list(keywords)
    path = PUBLIC.name_of(kind) or f"torch.{kind.__name__}"
    return compiler.node("prim::Manager", inputs, t.ANY, place, keywords=names, callee=kind, name=path)


def wrap_function(thing: Any, place: Place) -> Any:
    """Return a Python function as a value of the compiler, compiled unless a marker says otherwise.

    Raises:
        ScriptError: It cannot be compiled.
    """
    name = getattr(thing, "__name__", type(thing).__name__)
    if getattr(math, name, None) is thing and name in operators.MATH:
        return Builtin(f"aten::math_{name}", thing, operators.MATH[name])
    if thing is warnings.warn:
        return Builtin("aten::warn", thing, t.NONE)
    modifier = modifier_of(thing)
    if modifier in ("ignore", "unused", "drop"):
        return python_function(thing, modifier, place)
    if str(getattr(thing, "__module__", "")).partition(".")[0] in ("tensocket", "tensocket_operators",
                                                                   "tensocket_core"):
        return operator(thing)
    if not isinstance(thing, (types.FunctionType, types.MethodType)):
        inner = getattr(thing, "__wrapped__", None)
        if isinstance(inner, types.FunctionType):
            return wrap_function(inner, place)
        return PythonValue(thing)
    from tensocket.jit.compiler.compilation import compile_python

    if isinstance(thing, types.MethodType):
        return PythonValue(thing)
    return FunctionValue(compile_python(thing, place))


def operator(thing: Any) -> Builtin:
    """Return a function of the library as an operator."""
    import tensocket

    name = thing.__name__
    if getattr(tensocket, name, None) is thing and aten_names.find(name) is None:
        return Builtin(f"aten::{name}", thing)
    path = PUBLIC.name_of(thing) or f"torch.{name}"
    if path.startswith(("torch.ops.", "aten.")):
        name = thing.name if isinstance(thing, Operator) else name
        return Builtin(f"ops.aten::{name}", thing)
    space, _, name = path.removeprefix("torch.").rpartition(".")
    if not space:
        # The printed name has to mean this function again, and not another one with other arguments.
        record = getattr(tensocket.ops.aten, name, None)
        if (aten_names.find(name) or operators.find(name)) is thing or record is None:
            return Builtin(f"aten::{name}", thing)
        return Builtin(f"ops.aten::{name}", record)
    return Builtin(f"{space}::{name}", thing)


def python_function(thing: Any, modifier: str, place: Place | None) -> PythonFunction:
    """Return a function that is marked as not to be compiled."""
    from tensocket.jit.compiler.signatures import python_signature

    arguments, result = python_signature(thing, place)
    refusal = is_export_refused(thing, modifier)
    return PythonFunction(thing, arguments, result, refusal)


def method_function(function: Any, skip_self: bool, modifier: str, place: Place | None) -> tuple[list[Argument],
                                                                                                 t.JitType]:
    """Return the signature of a method that is marked as not to be compiled."""
    from tensocket.jit.compiler.signatures import python_signature

    arguments, result = python_signature(function, place)
    return arguments[1:] if skip_self else arguments, result


__all__ = ["ScriptError", "compiled_of", "method_function", "operator", "python_function", "wrap", "wrap_class",
           "wrap_function"]
