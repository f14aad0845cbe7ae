"""Trees of Python containers: flatten, map and register."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from tensocket_core.pytree import (
    TreeSpec,
    register_pytree_node,
    tree_flatten,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)

Predicate = Callable[[Any], bool]


def _predicate(kind: Any) -> Predicate:
    if isinstance(kind, (type, tuple)):
        return lambda leaf: isinstance(leaf, kind)
    chosen: Predicate = kind
    return chosen


def tree_map_only(type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: Any,
                  is_leaf: Predicate | None = None) -> Any:
    """The tree with ``func`` of the leaves of a type, of one of several types, or for which a function holds."""
    chosen = _predicate(type_or_types_or_pred)
    return tree_map(lambda leaf: func(leaf) if chosen(leaf) else leaf, tree, is_leaf=is_leaf)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Predicate | None = None) -> Any:
    """Call ``func`` with every leaf; returns the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def tree_all(pred: Predicate, tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether a function holds for all leaves."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Predicate, tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether a function holds for a leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(type_or_types: Any, pred: Predicate, tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether a function holds for all leaves of a type."""
    return all(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types: Any, pred: Predicate, tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether a function holds for a leaf of a type."""
    return any(pred(leaf) for leaf in tree_leaves(tree, is_leaf) if isinstance(leaf, type_or_types))


def register_dataclass(cls: type, *, field_names: list[str] | None = None) -> None:
    """Make a dataclass a container of its fields.

    Args:
        cls: The dataclass.
        field_names: The fields that are parts; all that the constructor takes if not given.
    """
    names = [field.name for field in dataclasses.fields(cls) if field.init] if field_names is None else field_names

    def unflatten(parts: Any, _: Any) -> Any:
        return cls(**dict(zip(names, parts, strict=True)))

    register_pytree_node(cls, lambda tree: ([getattr(tree, name) for name in names], None), unflatten)


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of all arguments of a call."""
    return [leaf for value in (*args, *kwargs.values()) for leaf in tree_leaves(value)]


__all__ = [
    "TreeSpec",
    "arg_tree_leaves",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_structure",
    "tree_unflatten",
]
