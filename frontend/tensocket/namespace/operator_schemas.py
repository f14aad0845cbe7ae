"""Schemas of operators in PyTorch's form: ``torch.ops.aten.add.Tensor._schema``."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import Any, Final

from tensocket.jit.graph import script_types as t
from tensocket.jit.graph.functions import MISSING, Argument, FunctionSchema
from tensocket_core.dispatch.packets import AtenOverloads
from tensocket_core.dispatch.schema import Parameter
from tensocket_operators.namespaces import parts_of

_TYPES: Final = {"Tensor": t.TENSOR, "Operand": t.TENSOR, "Scalar": t.NUMBER, "int": t.INT, "bool": t.BOOL,
                 "float": t.FLOAT, "str": t.STRING, "dtype": t.DTYPE, "device": t.DEVICE, "any": t.ANY}


@dataclass(frozen=True, slots=True)
class AliasInfo:
    """How an argument shares its memory.

    Attributes:
        is_write: Whether the operator writes to it; otherwise results may be views of it.
    """

    is_write: bool


@dataclass(slots=True)
class OperatorArgument(Argument):
    """A parameter of an operator.

    Attributes:
        alias_info: How it shares its memory; None if neither a result does nor the operator writes to it.
    """

    alias_info: AliasInfo | None = None

    @property
    def is_out(self) -> bool:
        """Whether it is a tensor for the result; these are not among the parameters of operators here."""
        return False


@dataclass(slots=True)
class OperatorSchema(FunctionSchema):
    """The signature of an overload.

    Attributes:
        overload_name: The name of the overload, empty for the default one.
        results: Types of the results.
        text: The schema of the record.
    """

    overload_name: str = ""
    results: list[t.JitType] = field(default_factory=list)
    text: str = ""

    @property
    def returns(self) -> list[Argument]:
        """The results, as arguments without names."""
        return [OperatorArgument("", kind) for kind in self.results]

    @property
    def is_mutable(self) -> bool:
        """Whether the operator writes to an argument."""
        return any(isinstance(each, OperatorArgument) and each.alias_info is not None and each.alias_info.is_write
                   for each in self.arguments)

    def __str__(self) -> str:
        overload = f".{self.overload_name}" if self.overload_name else ""
        return f"{self.name}{overload}{self.text[self.text.index('('):]}"


def type_of(kind: str, optional: bool = False) -> t.JitType:
    """Return a type of a schema as scripts have it."""
    if optional:
        return t.optional(type_of(kind))
    if kind.endswith("?"):
        return t.optional(type_of(kind.removesuffix("?")))
    if kind.endswith(("[]", "...")):
        return t.ListType(type_of(kind.removesuffix("...").removesuffix("[]")))
    return _TYPES.get(kind, t.ANY)


def _argument(parameter: Parameter, viewed: bool) -> OperatorArgument:
    default = MISSING if parameter.default is None else ast.literal_eval(parameter.default)
    alias = AliasInfo(parameter.mutated) if parameter.mutated or viewed else None
    return OperatorArgument(parameter.name, type_of(parameter.type, parameter.optional), default,
                            parameter.keyword_only, alias)


def schema_of(record: AtenOverloads) -> Any:
    """Return the schema of an operator's record."""
    space, name, overload = parts_of(record.name)
    schema = record.schema
    views = schema.tensors[:1] if "~" in schema.returns else ()
    arguments: list[Any] = [_argument(parameter, k in views) for k, parameter in enumerate(schema.parameters)]
    results = [] if schema.returns.strip() == "()" else [type_of(kind) for kind in schema.results]
    made = OperatorSchema(f"{space}::{name}", arguments, results[0] if len(results) == 1 else t.NONE,
                          "" if overload == "default" else overload, results, schema.text)
    record.__dict__["_schema"] = made  # found before this function from now on
    return made
