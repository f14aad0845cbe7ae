"""Checks for operators of the old interface: names, schemas, and functions that match them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.dispatch.schema import Schema, check_types, parse_schema
from tensocket_plugins.contract.errors import ArgumentError

RESERVED_NS: Final = frozenset({"prim", "prims", "aten", "at", "torch", "pytorch"})
SUPPORTED_DEVICE_TYPE_TO_KEY: Final = {"cpu": "CPU", "cuda": "CUDA"}
#: Types of results that have gradients.
_RESULTS: Final = frozenset({"int", "SymInt", "bool", "float", "Tensor", "Tensor[]"})


class SchemaSyntaxError(ArgumentError, AssertionError):
    """The error for texts that are not schemas; PyTorch raises an assertion."""


def _refused(given: str, rule: str, advice: str) -> ArgumentError:
    return ArgumentError("custom_op", given, rule, advice)


def parse_qualname(qualname: str) -> tuple[str, str]:
    """Return namespace and name of ``ns::name``.

    Raises:
        ArgumentError: The namespace is missing, or the name has an overload.
    """
    namespace, separator, name = qualname.partition("::")
    if not separator:
        raise _refused(f"{qualname!r}", "Expected there to be a namespace in the name", "write ns::name")
    if "." in name:
        raise _refused(f"{qualname!r}", "these functions do not handle overloads, names with '.' in them",
                       "use torch.library")
    return namespace, name


def validate_namespace(ns: str) -> None:
    """Refuse namespaces that users may not use.

    Raises:
        ArgumentError: The namespace has a dot or is reserved.
    """
    if "." in ns or ns in RESERVED_NS:
        raise _refused(f"namespace {ns!r}", "a namespace has no dot, and each of these is a reserved "
                       f"namespace: {', '.join(sorted(RESERVED_NS))}", "choose another name")


def validate_device_type(device_type: str) -> None:
    """Refuse devices that the old interface does not support.

    Raises:
        ArgumentError: The device is not supported.
    """
    if device_type not in SUPPORTED_DEVICE_TYPE_TO_KEY:
        raise ArgumentError("impl", f"device type {device_type!r}",
                            f"we only support device_type in {list(SUPPORTED_DEVICE_TYPE_TO_KEY)}",
                            "use torch.library.register_kernel")


def is_functional_schema(schema: Any) -> bool:
    """Whether an operator of a schema writes to no argument, returns no view, and has a result."""
    parsed = parse_schema(schema) if isinstance(schema, str) else schema
    return not parsed.is_mutable and bool(parsed.results) and parsed.results != ("",) and not is_view(parsed)


def is_view(schema: Schema) -> bool:
    """Whether a result is a view of an argument."""
    return re.search(r"Tensor\(\w", schema.returns) is not None


def parse_functional(name: str, text: str) -> Schema:
    """Return the schema of an operator of the old interface.

    Raises:
        SchemaSyntaxError: The text is not a schema.
        ArgumentError: The operator is not functional, or an argument is called ``self``.
    """
    try:
        schema = parse_schema(name + text)
        check_types(schema)
    except ValueError as error:
        raise SchemaSyntaxError("custom_op", f"Invalid function schema: {name}{text}: {error}",
                                "a schema looks like (Tensor x) -> Tensor", "correct it") from None
    if not is_functional_schema(schema) and "self" not in schema.names:
        raise _refused(schema.text, "custom_op only supports functional operators", "use torch.library.custom_op")
    if "self" in schema.names:
        raise _refused(schema.text, "custom_op does not support arguments named 'self'", "rename it")
    return schema


def validate_function_matches_schema(schema: Schema, func: Callable[..., Any]) -> None:
    """Refuse functions whose parameters differ from those of an explicit schema.

    Raises:
        ArgumentError: Names or kinds of parameters differ, or one has a default or an annotation.
    """
    signature = inspect.signature(func)
    parameters = list(signature.parameters.values())
    given = f"{func.__name__}{signature} for {schema.text}"
    if any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) for p in parameters):
        raise _refused(given, "positional-only args, varargs, and kwargs are not supported", "name all parameters")
    if signature.return_annotation is not signature.empty or any(p.annotation is not p.empty for p in parameters):
        raise _refused(given, "with a schema, we expect `func` to have no type annotations", "leave one of both out")
    expected = [(p.name, p.keyword_only) for p in schema.parameters]
    found = sorted(((p.name, p.kind is p.KEYWORD_ONLY) for p in parameters), key=lambda pair: pair[1])
    if expected != found:
        raise _refused(given, "we expect `func`'s signature to match the schema", "use the same names, in order")
    if any(p.default is not p.empty for p in parameters) or any(p.default is not None for p in schema.parameters):
        raise _refused(given, "neither func nor the schema should have default arguments", "leave them out")


def check_differentiable(schema: Schema) -> None:
    """Refuse gradients of operators that are not functional.

    Raises:
        ArgumentError: The operator writes to an argument, or returns nothing, a view, or objects of other types.
    """
    def refuse(what: str) -> ArgumentError:
        return ArgumentError("impl_backward", f"{what}: {schema.text}",
                             "gradients belong to functional operators that return tensors or numbers",
                             "use torch.library.register_autograd, or change the schema")

    if schema.is_mutable:
        raise refuse("non-functional operator")
    results = [kind for kind in schema.results if kind]
    if not results:
        raise refuse("operator with no returns")
    if is_view(schema):
        raise refuse("operator that returns views")
    if not set(results) <= _RESULTS:
        raise refuse(f"operator with return not in {sorted(_RESULTS)}")


def check_differentiability(schema: Schema, flags: Any) -> None:
    """Refuse lists that do not have a flag for each result.

    Raises:
        ArgumentError: ``flags`` is not a list with one bool for each result.
    """
    if flags is not None and (not isinstance(flags, list) or not all(isinstance(flag, bool) for flag in flags)
                              or len(flags) != len(schema.results)):
        raise ArgumentError("impl_backward", f"output_differentiability={flags!r} for {schema.text}",
                            "it is a list of bools with length equal to the number of outputs", "pass one per result")
