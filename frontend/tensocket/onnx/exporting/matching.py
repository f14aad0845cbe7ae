"""Finding the function of onnxscript's torch_lib for a call, and the arguments that it gets."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from typing import Any, Final

from tensocket.fx.node import Node
from tensocket_core.dispatch.schema import Schema

#: Parameters that say where and how a tensor lies, of which ONNX knows nothing.
_PLACEMENT: Final = frozenset({"layout", "device", "pin_memory", "requires_grad", "memory_format", "non_blocking",
                               "generator", "out", "copy", "stable", "sparse_grad", "inplace"})
#: Other names of parameters in torch_lib.
_ALIASES: Final = {"input": ("self", "input"), "size": ("size", "shape"), "shape": ("shape", "size"),
                   "dims": ("dims", "dim"), "dim": ("dim", "dims"), "sizes": ("sizes", "size"),
                   "start_dim": ("start_dim",), "exponent": ("exponent", "other"), "A": ("A", "self"),
                   "upscale_factor": ("upscale_factor",), "split_size_or_sections": ("split_size", "split_sizes")}


class NoMatch(Exception):
    """No function of torch_lib takes a call's arguments."""


def bound(node: Node) -> dict[str, Any]:
    """Return the arguments of a call by the names of the operator's parameters, with defaults."""
    schema = getattr(node.target, "schema", None)
    if not isinstance(schema, Schema):
        return {str(k): x for k, x in enumerate(node.args)} | dict(node.kwargs)
    found: dict[str, Any] = {}
    args = list(node.args)
    for parameter in schema.parameters:
        if parameter.type.endswith("...") and args and not parameter.keyword_only:
            rest = list(args)
            args = []
            found[parameter.name] = rest[0] if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest
        elif args and not parameter.keyword_only:
            found[parameter.name] = args.pop(0)
        elif parameter.name in node.kwargs:
            found[parameter.name] = node.kwargs[parameter.name]
        elif parameter.default is not None:
            found[parameter.name] = ast.literal_eval(parameter.default)
    return found


def _overloads(name: str, arguments: dict[str, Any]) -> Iterator[str]:
    """Yield names of torch_lib that may fit, best ones first."""
    values = list(arguments.values())
    second = values[1] if len(values) > 1 else None
    if isinstance(second, Node) and not isinstance(second.meta.get("val"), (int, float)):
        yield from (f"{name}.Tensor", f"{name}.self", f"{name}.Tensor_Tensor")
    elif isinstance(second, (int, float, Node)):
        yield from (f"{name}.Scalar", f"{name}.Tensor_Scalar", f"{name}.int")
    if arguments.get("dim") is not None:
        yield from (f"{name}.dim", f"{name}.dim_IntList", f"{name}.dim_int", f"{name}.int")
    yield name
    yield from (f"{name}.Tensor", f"{name}.int", f"{name}.using_ints", f"{name}.input", f"{name}.self",
                f"{name}.dim_IntList", f"{name}.memory_format", f"{name}.src", f"{name}.two", f"{name}.Scalar",
                f"{name}.default")


def function_for(registry: Any, name: str, arguments: dict[str, Any], is_complex: bool) -> Any:
    """Return a function of torch_lib for an operator of ATen; None if it has none."""
    for candidate in _overloads(f"aten::{name}", arguments):
        if candidate in registry:
            entry = registry[candidate]
            found = entry.complex if is_complex else entry.overloads
            if found:
                return found[0]
    return None


def call_arguments(function: Any, schema_names: list[str], arguments: dict[str, Any],
                   defaults: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments by the names of a function's parameters.

    Raises:
        NoMatch: The function has no parameter for an argument other than the default.
    """
    parameters = _parameters(function)
    used: dict[str, Any] = {}
    for position, name in enumerate(schema_names):
        if name not in arguments:
            continue
        value = arguments[name]
        places = [x for x in _ALIASES.get(name, (name,)) if x in parameters and x not in used]
        if places:
            if isinstance(value, str) and str(parameters[places[0]].annotation) in ("int", "bool", "float"):
                raise NoMatch(f"{name}={value!r}")
            if value is not None or parameters[places[0]].default is inspect.Parameter.empty:
                used[places[0]] = value
        elif position < len(parameters) and position < 2 and list(parameters)[position] not in used and (
                name not in _PLACEMENT):
            used[list(parameters)[position]] = value
        elif name not in _PLACEMENT and value is not None and value != defaults.get(name, _Never):
            raise NoMatch(f"{name}={value}")
    return {name: used[name] for name in parameters if name in used}


class _Never:
    """A default that no value equals."""


def _parameters(function: Any) -> dict[str, inspect.Parameter]:
    inner = getattr(function, "func", None) or getattr(function, "function", function)
    return dict(inspect.signature(inner).parameters)


def defaults_of(schema: Any) -> dict[str, Any]:
    """Return the defaults of an operator's parameters."""
    if not isinstance(schema, Schema):
        return {}
    return {p.name: ast.literal_eval(p.default) for p in schema.parameters if p.default is not None}
