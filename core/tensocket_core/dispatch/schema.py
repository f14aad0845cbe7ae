"""Operator schemas: ``add(Tensor input, Operand other, *, Scalar alpha=1) -> Tensor``.

Types: ``Tensor``, ``Operand`` (tensor or Python number), ``Tensor[]``, ``Scalar`` (Python number), ``int``, ``int[]``,
``bool``, ``float``, ``str``, ``dtype``, ``device``, ``any``; a ``?`` after a type allows None. A ``*`` starts
keyword-only arguments, ``...`` after a type collects positional ones. The operator writes to a type with ``!``
(``Tensor!``); ``~`` marks results that may be an argument or share its memory. All other results have their own memory.

PyTorch's schemas are valid too: ``ns::f.overload(Tensor(a!) x, int[2] size, float? eps=1e-5) -> (Tensor, Tensor)``.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import Any, Final

from tensocket_plugins.contract.dtypes import dtype_from_name

_SCHEMA: Final = re.compile(r"((?:\w+::)?\w+(?:\.\w+)?)\((.*?)\) -> (.+)", re.DOTALL)
_PARAM: Final = re.compile(r"([\w\[\]]+(?:\.\.\.)?)([!~]?)(\??) (\w+)(?:=(.+))?")
_TORCH_PARAM: Final = re.compile(r"(\w+)(?:\(([\w!|* >-]+)\))?((?:\?|\[\d*\])*) (\w+)(?: ?= ?(.+))?")
#: Types of PyTorch's schemas and their names here; other names are the same.
_TORCH_TYPES: Final = {"SymInt": "int", "number": "Scalar", "ScalarType": "dtype", "Device": "device", "Any": "any",
                       "Layout": "any", "MemoryFormat": "any", "Generator": "any", "Dimname": "str",
                       "complex": "Scalar"}
_TYPES: Final = frozenset({"Tensor", "Operand", "Scalar", "int", "bool", "float", "str", "dtype", "device", "any"})
#: C++ types that users mistake for schema types, with the right ones.
_OF_C: Final = {"int64_t": "`SymInt` or `int`", "int32_t": "`SymInt` or `int`", "double": "`float`"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of an operator.

    Attributes:
        name: Its name.
        type: One of the types in the module's docstring.
        optional: Whether None is allowed.
        default: The default as Python source, or None without one.
        keyword_only: Whether it can only be passed by name.
        mutated: Whether the operator writes to it.
    """

    name: str
    type: str
    optional: bool
    default: str | None
    keyword_only: bool
    mutated: bool

    @property
    def is_tensor(self) -> bool:
        """Whether tensors may be passed."""
        return self.type in ("Tensor", "Operand", "Tensor[]", "Tensor?[]")


@dataclass(frozen=True, slots=True)
class Schema:
    """A parsed schema.

    Attributes:
        tensors: Positions of the parameters that take tensors.
        names: Parameter names.
        lists: Whether a parameter takes a list of tensors.
    """

    name: str
    parameters: tuple[Parameter, ...]
    returns: str
    text: str
    tensors: tuple[int, ...] = field(init=False, repr=False, compare=False)
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)
    lists: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        positions = tuple(k for k, p in enumerate(self.parameters) if p.is_tensor)
        object.__setattr__(self, "tensors", positions)
        object.__setattr__(self, "names", tuple(p.name for p in self.parameters))
        object.__setattr__(self, "lists", any(self.parameters[k].type.endswith("[]") for k in positions))

    def __str__(self) -> str:
        return self.text

    @property
    def is_mutable(self) -> bool:
        """Whether the operator writes to an argument."""
        return any(p.mutated for p in self.parameters)

    @property
    def may_alias(self) -> bool:
        """Whether a result may be an argument or share its memory."""
        return self.is_mutable or "~" in self.returns

    @property
    def results(self) -> tuple[str, ...]:
        """Types of the results."""
        inside = self.returns.strip()
        parts = _split(inside[1:-1]) if inside.startswith("(") else [inside]
        return tuple(re.sub(r"\(.*?\)|~", "", part).split(" ")[0] for part in parts)


def _split(text: str) -> list[str]:
    """Split at commas outside of brackets and quotes."""
    parts, depth, start, quoted = [], 0, 0, False
    for position, letter in enumerate(text):
        quoted ^= letter == "'"
        if quoted:
            continue
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append(text[start:position].strip())
            start = position + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def _parameter(name: str, text: str, keyword_only: bool) -> Parameter:
    found = _PARAM.fullmatch(text)
    if found is not None and found[1].removesuffix("...").removesuffix("[]") in _TYPES:
        kind, marker, optional, label, default = found.groups()
        return Parameter(label, kind, bool(optional), default, keyword_only, marker == "!")
    torch = _TORCH_PARAM.fullmatch(text)
    base = None if torch is None else _TORCH_TYPES.get(torch[1], torch[1])
    if torch is None or base not in _TYPES:
        reason = "" if torch is None else unknown(torch[1])
        raise ValueError(f"not a parameter in the schema of {name}: {text!r}{reason}")
    _, alias, rest, label, default = torch.groups()
    brackets = re.sub(r"\d", "", rest)
    optional = brackets.endswith("?")
    kind = base + brackets.removesuffix("?")
    return Parameter(label, kind, optional, default and _default(default), keyword_only, "!" in (alias or ""))


def unknown(kind: str) -> str:
    """Return the end of the error message for a name that is not a type."""
    return f": unknown type specifier {kind!r}" + (f". Use {_OF_C[kind]}" if kind in _OF_C else "")


def check_types(schema: Schema) -> None:
    """Check the types of results.

    Raises:
        ValueError: A name is not a type.
    """
    for kind in schema.results:
        base = re.sub(r"[\[\]?\d]", "", kind)
        if _TORCH_TYPES.get(base, base) not in _TYPES:
            raise ValueError(f"not a result in the schema of {schema.name}" + unknown(base))


def _default(text: str) -> str:
    """Return a default as Python source; bare names of constants become strings."""
    try:
        value = ast.literal_eval(text)
    except ValueError:
        return repr(text)
    return repr(tuple(value) if isinstance(value, list) else value)


def parse_schema(text: str) -> Schema:
    """Parse a schema.

    Raises:
        ValueError: The text is not a schema.
    """
    match = _SCHEMA.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"not an operator schema: {text!r}")
    name, inside, returns = match.groups()
    parameters, keyword_only = [], False
    for part in _split(inside):
        if part == "*":
            keyword_only = True
            continue
        parameters.append(_parameter(name, part, keyword_only))
    return Schema(name, tuple(parameters), returns, text.strip())


def _collected(schema: Schema, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return positional arguments with those of a collecting parameter as one tuple, in whichever form they come."""
    for k, parameter in enumerate(schema.parameters[:len(args)]):
        if parameter.type.endswith("...") and not (len(args) == k + 1 and isinstance(args[k], (tuple, list))):
            return (*args[:k], args[k:])
    return args


def bound(schema: Schema, args: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[Any, ...]:
    """Return the arguments of a call in schema order, with defaults.

    Raises:
        TypeError: An argument is missing, unknown or given twice.

    >>> bound(parse_schema("f(Tensor x, int dim=-1, *, float eps=1e-05) -> Tensor"), (1,), {"eps": 2.0})
    (1, -1, 2.0)
    """
    args = _collected(schema, args)
    values = dict(zip(schema.names, args, strict=False))
    wrong = [name for name in keywords if name in values or name not in schema.names]
    if wrong or len(args) > len(schema.names):
        raise TypeError(f"{schema.name}: arguments {wrong or args} do not fit {schema.text}")
    values.update(keywords)
    for parameter in schema.parameters:
        if parameter.name not in values:
            if parameter.default is None:
                raise TypeError(f"{schema.name}: argument {parameter.name!r} is missing in {schema.text}")
            value = ast.literal_eval(parameter.default)
            named = parameter.type == "dtype" and isinstance(value, str)
            values[parameter.name] = dtype_from_name(value) if named else value
    return tuple(values[name] for name in schema.names)
