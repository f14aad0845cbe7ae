"""The boundary between Python and scripts: arguments are checked, and containers copied, as they enter."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final

from tensocket.jit.annotations import qualified
from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import MISSING, CompiledFunction
from tensocket.jit.markers import STATE
from tensocket.overrides import has_torch_function
from tensocket_operators import Tensor
from tensocket_plugins.contract.errors import TensocketError


class CallError(TensocketError, RuntimeError, TypeError):
    """A call of a script with arguments that do not fit its schema."""


class OverriddenCall(CallError):
    """A call of a script with an argument whose class overrides functions: functions and methods ask that class."""


def is_value_of(value: Any, kind: t.JitType) -> bool:
    """Whether a Python value is of a type."""
    from tensocket.jit.annotations import simple_types

    if kind is t.ANY:
        return True
    if isinstance(kind, t.UnionType):
        return any(is_value_of(value, member) for member in kind.members)
    if kind is t.TENSOR:
        return isinstance(value, Tensor)
    if kind is t.NONE:
        return value is None
    if kind is t.NUMBER:
        return isinstance(value, (int, float, complex))
    if kind is t.INT:
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(kind, t.ListType):
        return isinstance(value, list) and all(is_value_of(each, kind.element) for each in value)
    if isinstance(kind, t.DictType):
        return isinstance(value, dict) and all(is_value_of(k, kind.key) and is_value_of(v, kind.value)
                                               for k, v in value.items())
    if isinstance(kind, t.TupleType):
        return isinstance(value, tuple) and len(value) == len(kind.items) and (
            not kind.qualified or kind.python is None or isinstance(value, kind.python)) and all(
            map(is_value_of, value, kind.items))
    if kind in (t.ANY_LIST, t.ANY_TUPLE):
        return isinstance(value, list if kind is t.ANY_LIST else tuple)
    if isinstance(kind, t.EnumType):
        return isinstance(value, kind.python)
    if isinstance(kind, t.ClassType):
        found = type_of_object(value)
        return found is not None and t.is_subtype(found, kind)
    return simple_types().get(type(value)) is kind


def type_of_object(value: Any) -> t.JitType | None:
    """Return the type of a module or of an instance of a scripted class, None for others."""
    from tensocket.jit.compiler.classes import compiled_type

    kind = value.__dict__.get("_type") if hasattr(value, "__dict__") else None
    return kind if isinstance(kind, t.ClassType) else compiled_type(type(value))


def enter(value: Any, kind: t.JitType) -> Any:
    """Return a Python value as it enters a script.

    Raises:
        TypeError: It is not of the type.
    """
    if isinstance(kind, t.UnionType):
        for member in sorted(kind.members, key=lambda each: not is_value_of(value, each)):
            try:
                return enter(value, member)
            except TypeError:
                continue
        raise TypeError
    if isinstance(kind, t.ListType):
        if kind.copies and isinstance(value, (int, float)):
            return [enter(value, kind.element)] * kind.copies
        if isinstance(value, range):
            value = list(value)
        if isinstance(value, (str, Tensor)) or not isinstance(value, (list, tuple)) or (
                isinstance(value, tuple) and kind.element not in (t.INT, t.FLOAT) and not value):
            raise TypeError
        return [enter(each, kind.element) for each in value]
    if isinstance(kind, t.DictType):
        if not isinstance(value, dict):
            raise TypeError
        return {enter(k, kind.key): enter(v, kind.value) for k, v in value.items()}
    if isinstance(kind, t.TupleType):
        return _enter_tuple(value, kind)
    if kind is t.FLOAT and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if kind is t.COMPLEX and isinstance(value, (int, float)) and not isinstance(value, bool):
        return complex(value)
    if kind is t.INT and type(value).__module__ == "numpy" and hasattr(value, "__index__"):
        return int(value)
    if kind is t.DEVICE and isinstance(value, str):
        import tensocket

        return tensocket.device(value)
    if kind is t.INT and is_value_of(value, t.DTYPE):
        return value
    if kind in (t.FLOAT, t.INT) and isinstance(value, Tensor) and value.dim() == 0 and not value.requires_grad:
        return float(value) if kind is t.FLOAT else int(value)
    if isinstance(kind, t.FunctionType):
        return value
    if isinstance(kind, t.EnumType) and isinstance(value, enum.Enum) and qualified(type(value)) == kind.name:
        return kind.python[value.name]  # a file's enumeration has a class of its own
    if isinstance(kind, t.FutureType):
        if not hasattr(value, "wait"):
            raise TypeError
        return value
    if not is_value_of(value, kind):
        raise TypeError
    return value


def _enter_tuple(value: Any, kind: t.TupleType) -> Any:
    if not isinstance(value, tuple) or len(value) != len(kind.items):
        raise TypeError
    parts = [enter(each, inner) for each, inner in zip(value, kind.items, strict=True)]
    if kind.qualified and kind.python is not None:
        if not hasattr(value, "_fields"):
            raise TypeError
        return kind.python(*parts)
    return tuple(parts)


def type_name(value: Any) -> str:
    """Return the name of a value's type in errors."""
    from tensocket.jit.annotations import from_value

    try:
        kind = from_value(value)
    except RuntimeError:
        kind = None
    return type(value).__name__ if kind is None else kind.annotation_str


def _refuse(function: CompiledFunction, problem: str, error: type[CallError] = CallError) -> CallError:
    return error(function.name, f"{function.name}() {problem}", f"the schema is {function.schema}",
                 "pass arguments of these types")


_PLAIN: Final[dict[t.JitType, type]] = {t.INT: int, t.FLOAT: float, t.BOOL: bool, t.STRING: str}


def build_checked(function: CompiledFunction) -> Callable[..., Any]:
    """Return the function that Python calls."""
    if function.graph is None:
        return function.entry
    arguments = function.schema.arguments
    receiver = 0 if function.owner is None or function.is_static else 1
    names = {argument.name: k for k, argument in enumerate(arguments)}
    positional = sum(not argument.kwarg_only for argument in arguments)
    count, run = len(arguments), _build_run(function, receiver)

    def checked(*args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != count:
            args = _bind(function, names, positional, args, kwargs)
        return run(*args)

    checked.__name__ = checked.__qualname__ = function.name
    return checked


def _build_run(function: CompiledFunction, receiver: int) -> Callable[..., Any]:
    """Return the function that checks arguments by position and runs the graph; it is written for the schema."""
    names = [f"_{k}" for k in range(len(function.schema.arguments))]
    known: dict[str, Any] = {"entry": function.entry, "STATE": STATE, "Tensor": Tensor, "trace": _call_in_trace,
                             "function": function}
    lines = [f"def run({', '.join(names)}):"]
    for k, argument in enumerate(function.schema.arguments):
        if k < receiver or argument.type is t.ANY:
            continue
        known[f"check{k}"] = _check(function, argument)
        kind = "Tensor" if argument.type is t.TENSOR else getattr(_PLAIN.get(argument.type), "__name__", "")
        guard = f"if type(_{k}) is not {kind}: " if kind else ""
        lines.append(f"    {guard}_{k} = check{k}(_{k})")
    given = "".join(f"{name}, " for name in names)
    lines += ["    if STATE.tracing:", f"        return trace(function, {receiver}, ({given}))", f"    return "
              f"entry({given})"]
    exec(compile("\n".join(lines), __file__, "exec"), known)
    return known["run"]  # type: ignore[no-any-return]


def _call_in_trace(function: CompiledFunction, receiver: int, args: tuple[Any, ...]) -> Any:
    """Run a graph while a trace may record this thread's calls."""
    tracer = STATE.tracer
    if tracer is None or tracer.depth:
        return function.entry(*args)
    return tracer.call_script(function, args[receiver:], args[0] if receiver else None,
                              lambda: function.entry(*args))


def _check(function: CompiledFunction, argument: Any) -> Callable[[Any], Any]:
    kind, name = argument.type, argument.name
    plain = _PLAIN.get(kind)

    def fail(value: Any, error: type[CallError] = CallError) -> CallError:
        return _refuse(function, f"Expected a value of type '{kind.annotation_str}' for argument '{name}' but instead "
                       f"found type '{type_name(value)}'", error)

    if kind is t.TENSOR:
        def check_tensor(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value
            if has_torch_function((value,)):
                raise fail(value, OverriddenCall)
            if STATE.tracing and isinstance(value, (int, float)):
                import tensocket

                return tensocket.tensor(value)
            raise fail(value)

        return check_tensor
    if kind is t.ANY:
        return lambda value: value

    def check(value: Any) -> Any:
        if type(value) is plain:
            return value
        try:
            return enter(value, kind)
        except TypeError:
            raise fail(value) from None

    return check


def _bind(function: CompiledFunction, names: dict[str, int], positional: int, args: tuple[Any, ...],
          kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the arguments in the order of the schema, with defaults.

    Raises:
        CallError: They do not fit.
    """
    arguments = function.schema.arguments
    if len(args) > positional:
        raise _refuse(function, f"expected at most {positional} argument(s) but received {len(args)} argument(s)")
    found: list[Any] = [*args, *[MISSING] * (len(arguments) - len(args))]
    for name, value in kwargs.items():
        if name not in names:
            raise _refuse(function, f"Unknown keyword argument '{name}'")
        if names[name] < len(args):
            raise _refuse(function, f"argument '{name}' specified twice")
        found[names[name]] = value
    for k, argument in enumerate(arguments):
        if found[k] is MISSING:
            if argument.default is MISSING:
                raise _refuse(function, f"is missing value for argument '{argument.name}'")
            found[k] = argument.default
    return tuple(found)


__all__ = ["CallError", "build_checked", "enter", "enum", "is_value_of"]
