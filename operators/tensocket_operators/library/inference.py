"""Schemas from the annotations of Python functions."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.devices import Device
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError

_SCALARS: Final[dict[Any, str]] = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str",
                                   DType: "ScalarType", Device: "Device"}
#: Number types.
_NUMBERS: Final = frozenset({int, float, bool})


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str] = (),
                 op_name: str | None = None) -> str:
    """Return the schema of a function whose parameters and result are annotated.

    Args:
        prototype_function: The function.
        mutates_args: Names of the arguments that the function writes to; ``"unknown"`` means all tensors.
        op_name: Operator name at the start of the schema.

    Returns:
        ``(Tensor x, SymInt n=1) -> Tensor``.

    Raises:
        ArgumentError: An annotation is missing or has no counterpart, or a name in ``mutates_args`` is wrong.
    """
    signature = inspect.signature(prototype_function)
    try:
        hints = get_type_hints(prototype_function)
    except NameError as error:
        raise _error(f"an annotation that cannot be read: {error}", "annotate with types that are in scope") from None
    names = set(signature.parameters)
    every = mutates_args == "unknown"
    written = set() if every else set(mutates_args)
    unknown = written - names
    if unknown:
        listed = ", ".join(map(repr, sorted(unknown)))
        raise _error(f"{{{listed}}} in mutates_args were not found in the signature", "name parameters of the function")
    parts: list[str] = []
    for position, parameter in enumerate(signature.parameters.values()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise _error(f"the parameter *{parameter.name}", "give every parameter a name")
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        text = _type(parameter.name, hints.get(parameter.name))
        if (every and text.startswith("Tensor")) or parameter.name in written:
            text = _written(parameter.name, text, position)
        default = "" if parameter.default is parameter.empty else f"={_default(parameter.name, parameter.default)}"
        parts.append(f"{text} {parameter.name}{default}")
    return f"{op_name or ''}({', '.join(parts)}) -> {_result(hints)}"


def _written(name: str, text: str, position: int) -> str:
    if not text.startswith("Tensor"):
        raise _error(f"mutates_args with {name}, no tensor", "name parameters that are tensors")
    return f"Tensor(a{position}!){text.removeprefix('Tensor')}"


def _type(name: str, hint: Any) -> str:
    """Return the schema type for an annotation."""
    origin, inner = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return _SCALARS[hint]
    if origin in (Union, types.UnionType):
        rest = [kind for kind in inner if kind is not type(None)]
        if set(rest) == _NUMBERS or set(rest) == _NUMBERS - {bool}:
            text = "Scalar"
        elif len(rest) == 1:
            text = _type(name, rest[0])
        else:
            raise _error(f"the annotation {hint} of {name}", "use one type, or one and None")
        return f"{text}?" if len(rest) < len(inner) else text
    if origin in (list, Sequence, tuple) and inner and (origin is not tuple or inner[1:] == (...,)):
        element = _type(name, inner[0])
        if element.endswith(("?", "]")) and element != "Tensor?":
            raise _error(f"the annotation {hint} of {name}, an unsupported type", "leave None out of the list")
        return f"{element}[]"
    raise _error(f"the annotation {hint} of {name}",
                 "annotate with Tensor, int, float, bool, str, dtype, device, or lists or None of them")


def _default(name: str, value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, (str, Device)):
        return f'"{value}"'
    raise _error(f"the default {value!r} of {name}", "use None, a number, a string, a dtype or a device")


def _result(hints: dict[str, Any]) -> str:
    if "return" not in hints:
        raise _error("no annotation of the result", "annotate it, with None where there is none")
    hint = hints["return"]
    if hint in (None, type(None)):
        return "()"
    if get_origin(hint) is tuple and ... not in get_args(hint):
        return f"({', '.join(_type('the result', kind) for kind in get_args(hint))})"
    return _type("the result", hint)


def _error(given: str, advice: str) -> ArgumentError:
    return ArgumentError("infer_schema", given, "a schema follows from the annotations of all parameters", advice)
