"""Questions about sizes that may be unknown: every size of a graph has a value here, and comparisons have an answer."""

from __future__ import annotations

from typing import Any

from tensocket.utils import _pytree


def guard_or_false(a: Any) -> bool:
    """Return a comparison's answer."""
    return bool(a)


#: Comparisons have answers, so that neither of the other answers is ever needed.
guard_or_true = statically_known_true = sym_eq_or_false = guard_or_false


def guard_size_oblivious(expr: Any) -> bool:
    """Return a comparison's answer."""
    return bool(expr)


def guard_int(a: Any) -> int:
    """Return a size as a number."""
    return int(a)


def free_symbols(val: Any) -> set[Any]:
    """Return the sizes among values that are not numbers of Python."""
    return {leaf for leaf in _pytree.tree_leaves(val) if type(leaf).__name__ in ("SymInt", "SymFloat")}


def has_free_symbols(val: Any) -> bool:
    """Whether there are such sizes among values."""
    return bool(free_symbols(val))


def free_unbacked_symbols(x: Any) -> set[Any]:
    """Return the sizes without a value: none."""
    return set()


def is_concrete_int(a: Any) -> bool:
    """Whether a size is a number of Python."""
    return type(a) is int
