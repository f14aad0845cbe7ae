"""``script``, ``save`` and ``load``."""

from __future__ import annotations

import inspect
from typing import Any

from tensocket.jit.compiler import classes
from tensocket.jit.compiler.closures import first_of, resolver_of, resolver_of_frame
from tensocket.jit.compiler.compilation import compile_python
from tensocket.jit.compiler.wrapping import wrap_class
from tensocket.jit.graph import operators
from tensocket.jit.modules import ScriptModule, scripted
from tensocket.jit.script_functions import ScriptFunction
from tensocket.nn import Module
from tensocket_plugins.contract.errors import ArgumentTypeError


def script(obj: Any, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Compile a function, module or class.

    Args:
        obj: A function, an ``nn.Module``, or a class.
        optimize: Accepted as in PyTorch, where it has no effect.
        example_inputs: Arguments of calls, tuples in a list: types of arguments without annotation are taken from them.

    Returns:
        A ``ScriptFunction``, a ``ScriptModule``, or the class.

    Raises:
        ScriptError: It is not a script; the message shows the line.
        FrontendError: It uses syntax that scripts do not have.
        ArgumentTypeError: ``obj`` is none of these.
    """
    if isinstance(obj, (ScriptModule, ScriptFunction)):
        return obj
    if isinstance(obj, Module):
        call_hook = getattr(obj, "__prepare_scriptable__", None)
        return scripted(call_hook() if call_hook is not None else obj)
    if isinstance(obj, type):
        return _script_class(obj, _rcb or resolver_of_frame(_frames_up + 1))
    if isinstance(obj, (list, dict)):
        return obj
    if getattr(obj, "__script_if_tracing_wrapper", False):
        obj = obj.__original_fn
    if inspect.isfunction(obj) and operators.is_operator(obj):
        return obj  # the library's functions run as they are
    if not callable(obj) and classes.is_scriptable(type(obj)):
        classes.compile_class(type(obj))
        return obj
    if not (inspect.isfunction(obj) or inspect.ismethod(obj) or hasattr(obj, "__wrapped__")):
        if callable(obj) and hasattr(obj, "__module__") and str(obj.__module__).startswith("tensocket"):
            return obj
        raise ArgumentTypeError("script", f"a {type(obj).__name__}", "functions, modules and classes are scripts",
                                "pass one of these")
    resolve = resolver_of(obj) if _rcb is None else first_of(resolver_of(obj), _rcb)
    if example_inputs is not None:
        _annotate_from(obj, example_inputs)
    compiled = compile_python(obj, resolve=resolve)
    return ScriptFunction(compiled, inspect.unwrap(obj))


def _script_class(kind: Any, resolve: Any) -> Any:
    if issubclass(kind, Module):
        raise RuntimeError(f"[jit.script] the class {kind.__name__} — Type '{kind}' cannot be compiled since it "
                           f"inherits "
                           "from nn.Module, consider passing an instance instead — pass an instance")
    import enum

    if issubclass(kind, (enum.Enum, tuple)) or issubclass(kind, BaseException):
        wrap_class(kind, None)  # type: ignore[arg-type]
        return kind
    if kind.__mro__[1:] != (object,):
        raise RuntimeError(f"[jit.script] the class {kind.__name__} with a base — TorchScript classes must be "
                           f"new-style "
                           "classes and do not support inheritance yet. Please directly inherit from 'object' — "
                           "write it "
                           "without a base")
    classes.compile_class(kind, None, resolve)
    return kind


def _annotate_from(function: Any, examples: Any) -> None:
    """Annotate arguments without a type from example calls."""
    from typing import Union

    from tensocket.jit.annotations import from_value

    calls = examples if isinstance(examples, list) else [examples]
    names = list(inspect.signature(function).parameters)
    found: dict[str, list[Any]] = {}
    for call in calls:
        for name, value in zip(names, call if isinstance(call, tuple) else (call,), strict=False):
            found.setdefault(name, []).append(from_value(value))
    from tensocket.jit.graph import script_types as t

    del Union
    for name, kinds in found.items():
        if name not in function.__annotations__ and None not in kinds:
            function.__annotations__[name] = t.union_of(kinds)


def interface(obj: Any) -> Any:
    """Compile an interface: a class whose methods have no bodies.

    Raises:
        ScriptError: It is not such a class.
    """
    classes.compile_interface(obj, resolver_of_frame(1))
    return obj


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Write a scripted or traced module or function to a file: code, weights, and extra files, without any pickle.

    Args:
        m: The module or function.
        f: A path or an open file.
        _extra_files: Contents by name.

    Raises:
        ArgumentTypeError: ``m`` is not a script.
        ExportError: It calls Python functions.
    """
    from tensocket.jit.files.archive import write

    write(m, f, _extra_files)


def load(f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None,
         _restore_shapes: bool = False) -> Any:
    """Read a file that ``jit.save`` wrote, here or in PyTorch. Nothing in the file is executed but its scripts.

    Args:
        f: A path or an open file.
        map_location: Device of the tensors.
        _extra_files: Names whose contents are read into the dict.

    Raises:
        SerializationError: The file is not such an archive, or is damaged.
        ScriptError: It calls an operator that does not exist here.
    """
    from tensocket.jit.files.loading import read

    return read(f, map_location, _extra_files)


__all__ = ["interface", "load", "save", "script"]
