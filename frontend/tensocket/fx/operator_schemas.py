"""Arguments of calls under the names of signatures, and the types of signatures."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from tensocket.errors import ArgumentError, UnsupportedOperator
from tensocket.nn import Module
from tensocket_compiler.graph import graph as graph_ir
from tensocket_core.dispatch.operator import Operator
from tensocket_operators.namespaces import OpOverloadPacket
from tensocket_plugins.contract.dtypes import DType

from ._attributes import _get_attr, _has_attr
from .node import Argument, Node

#: Parameters of this package's functions that PyTorch's schemas do not have; they are left out at their defaults.
_EXTRA: Final = ("last", "axis", "keepdims", "out", "keepdim_")



class ArgsKwargsPair(NamedTuple):
    """Arguments of a call.

    Attributes:
        args: Positional arguments.
        kwargs: Keyword arguments.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class MutableOperation(UnsupportedOperator, RuntimeError):
    """A call that changes an argument, where a tracer records only functions."""


def _is_operator_function(target: Any) -> bool:
    return (isinstance(target, (Operator, OpOverloadPacket))
            or (inspect.isfunction(target) and str(target.__module__).startswith("tensocket_operators")))


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """Return the signatures of an operator's function, of which there is one; None for other functions.

    Args:
        op: The function.
        return_schemas: Whether the operators' schemas, which are None where unknown, are returned, too.
    """
    if not _is_operator_function(op):
        return (None, None) if return_schemas else None
    record = op.record if isinstance(op, OpOverloadPacket) else op
    function = record.public or record if isinstance(record, Operator) else record
    signature = inspect.signature(function)
    known = [parameter for name, parameter in signature.parameters.items() if name not in _EXTRA]
    signatures = [signature.replace(parameters=known)]
    return (signatures, [getattr(record, "schema", None)]) if return_schemas else signatures


def check_for_mutable_operation(target: Callable[..., Any], args: tuple[Argument, ...],
                                kwargs: dict[str, Argument]) -> None:
    """Check that a call of an operator changes no argument.

    Raises:
        MutableOperation: It does.
    """
    name = str(getattr(target, "__name__", "")).partition(".")[0].removeprefix("method_")
    if not _is_operator_function(target):
        return
    if (name.endswith("_") and not name.endswith("__")) or kwargs.get("out") is not None:
        form = f"aten::{name}{'' if name.endswith('_') else '.out'}"
        raise MutableOperation("symbolic_trace", f"a call of {name}", f"Tried to trace mutable operation {form}. FX "
                               "only supports functional code, so operations that mutate operands in-place (e.g. via "
                               "`out` arguments) are not supported", "call the function without the underscore")


def create_type_hint(x: Any) -> Any:
    """Return the type of a list or tuple of types: a list of them, or of their common base; other values unchanged."""
    if not isinstance(x, (list, tuple)):
        return x
    base = x[0] if x else Any
    for kind in x:
        if isinstance(base, type) and isinstance(kind, type) and issubclass(base, kind):
            base = kind
        elif not (isinstance(base, type) and isinstance(kind, type) and issubclass(kind, base)):
            base = Any
    # Generated code prints the names of typing.
    return typing.List[base] if isinstance(x, list) else typing.Tuple[base, ...]  # type: ignore[valid-type]  # noqa: UP006


def type_matches(signature_type: Any, argument_type: Any) -> bool:
    """Whether an argument of a type fits a parameter's annotation; one number fits a list of them."""
    origin, inner = typing.get_origin(signature_type), typing.get_args(signature_type)
    if signature_type is argument_type or signature_type is Any or signature_type is inspect.Parameter.empty:
        return True
    if origin is typing.Union:
        return any(type_matches(part, argument_type) for part in inner)
    if origin is list:
        item = inner[0]
        if typing.get_origin(argument_type) is list:
            return type_matches(item, typing.get_args(argument_type)[0])
        if typing.get_origin(argument_type) is tuple:
            return all(type_matches(item, part) for part in typing.get_args(argument_type) if part is not ...)
        return type_matches(item, argument_type) if item in (int, float) else False
    if isinstance(argument_type, type) and isinstance(signature_type, type):
        return (issubclass(argument_type, signature_type) or (signature_type is float and argument_type is int)
                or (signature_type is int and argument_type is DType))
    return False


def normalize_function(target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
                       arg_types: tuple[Any, ...] | None = None, kwarg_types: dict[str, Any] | None = None,
                       normalize_to_only_use_kwargs: bool = False) -> ArgsKwargsPair | None:
    """Return the arguments of a function of this package by its signature, with defaults.

    Args:
        target: The function.
        args: Positional arguments.
        kwargs: Keyword arguments.
        arg_types: Types of the positional arguments; accepted for programs, since functions have one signature here.
        kwarg_types: Types of the keyword arguments.
        normalize_to_only_use_kwargs: Whether positional arguments become keyword arguments, too.

    Returns:
        The arguments; None for other functions, and for those that collect arguments.

    Raises:
        ArgumentError: Types are given, and the arguments do not fit the signature.
    """
    public = graph_ir.qualified_name(target) if getattr(target, "__name__", None) else ""
    if not _is_operator_function(target) and not public.startswith("torch."):
        return None
    found = get_signature_for_torch_op(target)
    signature = found[0] if found else _signature_of(target)
    if signature is None:
        return None
    made = _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)
    if made is None and (arg_types is not None or kwarg_types is not None):
        raise ArgumentError("normalize_function", f"arguments of types {arg_types} and {kwarg_types}",
                            f"Tried to normalize arguments to {public} but the arguments do not match its signature",
                            "pass the arguments that it takes")
    return made


def normalize_module(root: Module, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
                     normalize_to_only_use_kwargs: bool = False) -> ArgsKwargsPair | None:
    """Return the arguments of a module of ``nn`` by the signature of its ``forward``, with defaults.

    Args:
        root: The module that contains it.
        target: Its path.
        args: Positional arguments.
        kwargs: Keyword arguments.
        normalize_to_only_use_kwargs: Whether positional arguments become keyword arguments, too.

    Returns:
        The arguments; None for modules of other packages.

    Raises:
        ArgumentError: ``root`` does not have the module.
    """
    if not _has_attr(root, target):
        raise ArgumentError("normalize_module", f"target {target} of a {type(root).__name__}", "Tried to normalize "
                            f"arguments to module target {target} but root did not have that target!", "pass the "
                            "root of the graph")
    module = _get_attr(root, target)
    if not type(module).__module__.startswith("tensocket.nn"):
        return None
    signature = inspect.signature(inspect.unwrap(module.forward))
    return _normalized(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _signature_of(target: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(inspect.unwrap(target))
    except (TypeError, ValueError):
        return None


def _normalized(signature: inspect.Signature, args: tuple[Any, ...], kwargs: dict[str, Any],
                only_kwargs: bool) -> ArgsKwargsPair | None:
    parameters = signature.parameters
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters.values()):
        return None
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    for at, name in enumerate(parameters):
        if not only_kwargs and at < len(args) and parameters[name].kind is not inspect.Parameter.KEYWORD_ONLY:
            positional.append(bound.arguments[name])
        else:
            keywords[name] = bound.arguments[name]
    return ArgsKwargsPair(tuple(positional), keywords)


def _normalize_node(node: Node, root: Module, arg_types: Any, kwarg_types: Any, only_kwargs: bool) -> Any:
    """Return the arguments of a node's call by the signature of its target."""
    if node.op == "call_function":
        return normalize_function(node.target, node.args, node.kwargs, arg_types, kwarg_types, only_kwargs)
    if node.op == "call_module" and isinstance(node.target, str):
        return normalize_module(root, node.target, node.args, node.kwargs, only_kwargs)
    return None


graph_ir.NORMALIZERS.append(_normalize_node)

__all__ = ["ArgsKwargsPair", "check_for_mutable_operation", "create_type_hint",
           "get_signature_for_torch_op", "normalize_function", "normalize_module", "type_matches"]
