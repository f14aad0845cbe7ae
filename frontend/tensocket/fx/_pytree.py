"""Taking trees apart by the structure that was recorded, for generated code."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.pytree import TreeSpec, tree_flatten
from tensocket_plugins.contract.errors import ArgumentError

FlattenFuncSpec = Callable[[Any, TreeSpec], list[Any]]
FlattenFuncExactMatchSpec = Callable[[Any, TreeSpec], bool]

SUPPORTED_NODES: Final[dict[Any, FlattenFuncSpec]] = {}
SUPPORTED_NODES_EXACT_MATCH: Final[dict[Any, FlattenFuncExactMatchSpec | None]] = {}


def register_pytree_flatten_spec(cls: type[Any], flatten_fn_spec: FlattenFuncSpec,
                                 flatten_fn_exact_match_spec: FlattenFuncExactMatchSpec | None = None) -> None:
    """Register how objects of a class are taken apart, given the structure that was recorded."""
    SUPPORTED_NODES[cls] = flatten_fn_spec
    SUPPORTED_NODES_EXACT_MATCH[cls] = flatten_fn_exact_match_spec


def _deregister_pytree_flatten_spec(cls: type[Any]) -> None:
    """Forget a class."""
    del SUPPORTED_NODES[cls]
    del SUPPORTED_NODES_EXACT_MATCH[cls]


def tree_flatten_spec(pytree: Any, spec: TreeSpec, exact_structural_match: bool = False) -> list[Any]:
    """Return the leaves of a tree with the structure ``spec``.

    Args:
        pytree: The tree; it may have more entries than ``spec``, which are left out.
        spec: The structure.
        exact_structural_match: Whether more or fewer entries are an error.

    Raises:
        ArgumentError: The structures differ, or a class has neither been registered here nor as a tree.
    """
    if spec.is_leaf():
        return [pytree]
    flatten = SUPPORTED_NODES.get(spec.type)
    if flatten is not None:
        children = flatten(pytree, spec)
        exact = SUPPORTED_NODES_EXACT_MATCH.get(spec.type)
        # Proxies do not know their length, so it is asked for only if it matters.
        is_exact = not exact_structural_match or exact is None or exact(pytree, spec)
    else:
        children, is_exact = _children(pytree, spec)
    if exact_structural_match and not is_exact:
        raise ArgumentError("tree_flatten_spec", f"a {type(pytree).__name__} for {spec}",
                            "Cannot flatten pytree, given spec: the numbers of entries differ",
                            "pass arguments as in the recorded call")
    found: list[Any] = []
    for child, child_spec in zip(children, spec.children(), strict=False):
        found += tree_flatten_spec(child, child_spec, exact_structural_match)
    return found


def _children(tree: Any, spec: TreeSpec) -> tuple[list[Any], bool]:
    """Return the children of a class that is registered as a tree."""
    if isinstance(tree, dict) and issubclass(spec.type, dict):
        return [tree[key] for key in _keys(spec)], len(tree) == spec.num_children
    children = tree_flatten(tree, is_leaf=lambda part: part is not tree)[0]
    if len(children) == 1 and children[0] is tree:
        raise ArgumentError("tree_flatten_spec", f"a {type(tree).__name__} where the spec has a {spec.type.__name__}",
                            f"{type(tree)} does not have a flatten_fn_spec associated with it",
                            "register the class with torch.fx._pytree.register_pytree_flatten_spec")
    return children, len(children) == spec.num_children


def _keys(spec: TreeSpec) -> list[Any]:
    context = spec.context
    return list(context[1] if isinstance(context, (list, tuple)) and len(context) == 2
                and isinstance(context[1], list) else context)


def _dict_flatten_spec(d: dict[Any, Any], spec: TreeSpec) -> list[Any]:
    return [d[key] for key in spec.context]


def _list_flatten_spec(d: list[Any], spec: TreeSpec) -> list[Any]:
    return [d[at] for at in range(spec.num_children)]


def _tuple_flatten_spec(d: tuple[Any, ...], spec: TreeSpec) -> list[Any]:
    return [d[at] for at in range(spec.num_children)]


def _same_length(d: Any, spec: TreeSpec) -> bool:
    return len(d) == spec.num_children


register_pytree_flatten_spec(dict, _dict_flatten_spec, _same_length)
register_pytree_flatten_spec(list, _list_flatten_spec, _same_length)
register_pytree_flatten_spec(tuple, _tuple_flatten_spec, _same_length)
register_pytree_flatten_spec(namedtuple, _tuple_flatten_spec, _same_length)  # type: ignore[arg-type]
