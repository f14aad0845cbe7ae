"""Digests of programs: keys of caches for programs of any size.

The text of a program (``text.py``) writes shared parts of expressions each time. Formulas share so many parts that
their texts may grow exponentially; a digest visits each part once.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from enum import Enum
from functools import cache
from typing import Any, Final

from ..contract.dtypes import DType
from .nodes import Program


def program_digest(program: Program) -> str:
    """Return a digest of a program; equal digests mean equal programs."""
    rows: dict[str, int] = {}  # each different part in order, as its type and the numbers of its own parts
    numbers: dict[int, int] = {}  # by identity; the program keeps all parts alive
    pending: list[Any] = [program]
    while pending:
        part = pending[-1]
        parts = part if type(part) is tuple else [getattr(part, name) for name in _names(type(part))]  # type: ignore[arg-type]
        missing = [x for x in parts if id(x) not in numbers and not isinstance(x, _PLAIN)]
        if missing:
            pending += missing
            continue
        pending.pop()
        row = " ".join([_spell(x) if isinstance(x, _PLAIN) else f"#{numbers[id(x)]}" for x in parts])
        numbers[id(part)] = rows.setdefault(f"{type(part).__name__} {row}", len(rows))
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


_PLAIN: Final = (str, int, float, DType, Enum)


def _spell(value: str | float | DType | Enum) -> str:
    return value.name if isinstance(value, (DType, Enum)) else repr(value)


@cache  # by class of nodes
def _names(kind: type) -> tuple[str, ...]:
    return tuple([field.name for field in fields(kind)])
