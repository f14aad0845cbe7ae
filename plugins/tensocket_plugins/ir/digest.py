"""Digests of programs: keys of caches for programs of any size.

The text of a program (``text.py``) writes shared parts of expressions each time. Formulas share so many parts that
their texts may grow exponentially; a digest visits each part once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import fields
from enum import Enum
from operator import attrgetter
from typing import Any, Final

from ..contract.dtypes import DType
from .nodes import Program


def program_digest(program: Program) -> str:
    """Return a digest of a program; equal digests mean equal programs."""
    rows: dict[str, str] = {}  # each different part in order, as its type and the numbers of its own parts
    numbers: dict[int, str] = {}  # by identity; the program keeps all parts alive
    pending: list[Any] = [program]
    while pending:
        part = pending[-1]
        words, missing = [type(part).__name__], []
        for each in _PARTS[type(part)](part):
            spell = _SPELLINGS[type(each)]
            word = numbers.get(id(each)) if spell is None else spell(each)
            if word is None:
                missing.append(each)
            else:
                words.append(word)
        if missing:
            pending += missing
            continue
        pending.pop()
        numbers[id(part)] = rows.setdefault(" ".join(words), f"#{len(rows)}")
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()


class _Spellings(dict[type, Callable[[Any], str] | None]):
    """Functions that spell values, by type; None for types of parts."""

    def __missing__(self, kind: type) -> Callable[[Any], str] | None:
        if issubclass(kind, (DType, Enum)):
            self[kind] = attrgetter("name")
        else:
            self[kind] = repr if issubclass(kind, (str, int, float)) else None
        return self[kind]


class _Parts(dict[type, Callable[[Any], Iterable[Any]]]):
    """Functions that return the fields of nodes, by class; a tuple is its own parts."""

    def __missing__(self, kind: type) -> Callable[[Any], Iterable[Any]]:
        names = [field.name for field in fields(kind)]
        self[kind] = attrgetter(*names) if len(names) > 1 else lambda node: [getattr(node, name) for name in names]
        return self[kind]


_SPELLINGS: Final = _Spellings()
_PARTS: Final = _Parts({tuple: iter})
