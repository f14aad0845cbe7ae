"""Variables, and the values that make terms with variables equal."""

from __future__ import annotations

import itertools
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal


@dataclass(frozen=True, init=False, repr=False)
class Var:
    """A variable; two with the same token are the same.

    Args:
        token: The name, by default a new one.
    """

    token: Hashable
    _fresh: ClassVar[itertools.count[int]] = itertools.count(1)

    def __init__(self, *token: Hashable) -> None:
        object.__setattr__(self, "token", (token if len(token) > 1 else token[0]) if token else f"_{next(self._fresh)}")

    def __repr__(self) -> str:
        return f"~{self.token}"


def isvar(v: object) -> bool:
    """Whether this is a variable."""
    return isinstance(v, Var)


def reify(e: Any, s: dict[Any, Any]) -> Any:
    """Return a term with its variables replaced by their values, where they have one."""
    if isvar(e):
        return reify(s[e], s) if e in s else e
    if isinstance(e, dict):
        return {key: reify(value, s) for key, value in e.items()}
    return type(e)(reify(each, s) for each in e) if isinstance(e, tuple | list) else e


def unify(u: Any, v: Any, s: dict[Any, Any] | None = None) -> dict[Any, Any] | Literal[False]:
    """Return values of variables that make two terms equal, or False if none do.

    Args:
        u: One term: a variable, a constant, or a tuple or list of terms.
        v: The other.
        s: Values that are known already.
    """
    s = {} if s is None else s
    u, v = _follow(u, s), _follow(v, s)
    if u == v:
        return s
    if isvar(u) or isvar(v):
        return {**s, u: v} if isvar(u) else {**s, v: u}
    if not (isinstance(u, tuple | list) and isinstance(v, tuple | list) and len(u) == len(v)):
        return False
    for left, right in zip(u, v, strict=True):
        found = unify(left, right, s)
        if found is False:
            return False
        s = found
    return s


def _follow(term: Any, s: dict[Any, Any]) -> Any:
    while isvar(term) and term in s:
        term = s[term]
    return term


__all__ = ["Var", "isvar", "reify", "unify"]
