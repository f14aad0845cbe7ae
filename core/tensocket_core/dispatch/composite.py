"""Composite operators: functions over public operators. Autograd, devices and modes act on what they call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from .schema import Schema, parse_schema

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Composite:
    """A composite's record; attributes as in ``Operator``."""

    schema: Schema
    function: Callable[..., Any]
    method: bool | str
    is_function: bool
    namespace: str
    aliases: tuple[str, ...]
    dunder: tuple[str, ...]


COMPOSITES: Final[dict[str, Composite]] = {}


def composite(schema: str, *, method: bool | str = True, function: bool = True, namespace: str = "torch",
              aliases: tuple[str, ...] = (), dunder: tuple[str, ...] = ()) -> Callable[[F], F]:
    """Register a function as an operator; its docstring is the operator's documentation.

    Raises:
        ValueError: The name is taken, or the schema's parameters are not the function's.
    """
    parsed = parse_schema(schema)

    def register(run: F) -> F:
        code = run.__code__
        actual = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        if actual != parsed.names and not code.co_flags & 0x04:  # with *args, the schema is the documentation
            raise ValueError(f"composite {parsed.name}: schema {parsed.names}, function {actual}")
        if parsed.name in COMPOSITES:
            raise ValueError(f"composite {parsed.name!r} is defined twice")
        COMPOSITES[parsed.name] = Composite(parsed, run, method, function, namespace, aliases, dunder)
        return run

    return register
