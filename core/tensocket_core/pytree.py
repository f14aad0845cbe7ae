"""Trees of Python containers: what arguments and results of transformed functions are made of.

Tuples, named tuples, lists, dicts, ordered dicts, default dicts and deques are nodes, and so is what was registered;
everything else, None too, is a leaf.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentError

Flatten = Callable[[Any], tuple[Iterable[Any], Any]]
Unflatten = Callable[[Iterable[Any], Any], Any]


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """The structure of a tree.

    Attributes:
        type: Class of the container; None for a leaf.
        context: What else it takes to make the container.
        children: Structures of its parts.
    """

    type: Any
    context: Any
    children: tuple[TreeSpec, ...]

    @property
    def num_leaves(self) -> int:
        """Number of leaves."""
        return 1 if self.type is None else sum(child.num_leaves for child in self.children)

    def is_leaf(self) -> bool:
        """Whether the tree is one leaf."""
        return self.type is None

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        return f"{self.type.__name__}({', '.join(map(repr, self.children))})"


LEAF: Final = TreeSpec(None, None, ())


def _flatten_dict(tree: Any) -> tuple[Iterable[Any], Any]:
    return list(tree.values()), list(tree.keys())


def _unflatten_dict(children: Iterable[Any], keys: Any) -> Any:
    return dict(zip(keys, children, strict=True))


#: Class of a container to the functions that take it apart and make it.
_NODES: Final[dict[type, tuple[Flatten, Unflatten]]] = {
    tuple: (lambda tree: (list(tree), None), lambda children, _: tuple(children)),
    list: (lambda tree: (tree, None), lambda children, _: list(children)),
    dict: (_flatten_dict, _unflatten_dict),
    OrderedDict: (_flatten_dict, lambda children, keys: OrderedDict(zip(keys, children, strict=True))),
    defaultdict: (
        lambda tree: (list(tree.values()), (tree.default_factory, list(tree.keys()))),
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    ),
    deque: (lambda tree: (list(tree), tree.maxlen), lambda children, limit: deque(children, maxlen=limit)),
}


def register_pytree_node(cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten) -> None:
    """Make a class a container.

    Args:
        cls: The class; subclasses are not containers by that.
        flatten_fn: ``flatten_fn(tree) -> (children, context)``.
        unflatten_fn: ``unflatten_fn(children, context) -> tree``.

    Raises:
        ArgumentError: The class is registered already.
    """
    if cls in _NODES:
        raise ArgumentError("register_pytree_node", f"{cls.__name__}", "a class is registered once",
                            "remove the second registration")
    _NODES[cls] = (flatten_fn, unflatten_fn)


def _is_namedtuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _functions(kind: type) -> tuple[Flatten, Unflatten] | None:
    found = _NODES.get(kind)
    if found is None and _is_namedtuple(kind):
        return lambda tree: (list(tree), kind), lambda children, cls: cls(*children)
    return found


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """Leaves from left to right, and the structure.

    Args:
        tree: The tree.
        is_leaf: Says of what it is given whether it counts as a leaf, though it may be a container.

    >>> tree_flatten({"a": 1, "b": (2, 3)})
    ([1, 2, 3], dict(*, tuple(*, *)))

    Raises:
        ArgumentError: A container holds itself.
    """
    leaves: list[Any] = []
    try:
        return leaves, _collect(tree, leaves, is_leaf)
    except RecursionError:
        raise ArgumentError("tree_flatten", f"a {type(tree).__name__} that never ends", "maximum recursion depth "
                            "exceeded: containers do not hold themselves", "pass a finite tree") from None


def _collect(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    functions = None if is_leaf is not None and is_leaf(tree) else _functions(type(tree))
    if functions is None:
        leaves.append(tree)
        return LEAF
    children, context = functions[0](tree)
    return TreeSpec(type(tree), context, tuple([_collect(child, leaves, is_leaf) for child in children]))


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of a structure and its leaves.

    Raises:
        ArgumentError: There are more or fewer leaves than the structure has.
    """
    given = list(leaves)
    if len(given) != treespec.num_leaves:
        raise ArgumentError("tree_unflatten", f"{len(given)} leaves for {treespec!r}",
                            "there are as many leaves as the structure has", "pass all leaves, in order")
    return _build(iter(given), treespec)


def _build(leaves: Any, spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    functions = _functions(spec.type)
    assert functions is not None
    return functions[1]([_build(leaves, child) for child in spec.children], spec.context)


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """The structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The tree with ``func`` of every leaf in its place; further trees give further arguments.

    Raises:
        ArgumentError: A further tree has another structure.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves]
    for rest in rests:
        column, other = tree_flatten(rest, is_leaf)
        if other != spec:
            raise ArgumentError("tree_map", f"structures {spec!r} and {other!r}", "all trees have one structure",
                                "pass trees that differ in their leaves only")
        columns.append(column)
    return _build(iter([func(*values) for values in zip(*columns, strict=True)]), spec)


def broadcast_to_and_flatten(tree: Any, treespec: TreeSpec,
                             is_leaf: Callable[[Any], bool] | None = None) -> list[Any] | None:
    """Leaves of a prefix of a structure, each repeated for all that it stands for; None where it is no prefix.

    >>> broadcast_to_and_flatten((0, None), tree_structure((1, [2, 3])))
    [0, None, None]
    """
    if (is_leaf is not None and is_leaf(tree)) or _functions(type(tree)) is None:
        return [tree] * treespec.num_leaves
    functions = _functions(type(tree))
    if treespec.type is not type(tree) or functions is None:
        return None
    children, context = functions[0](tree)
    parts = list(children)
    if len(parts) != len(treespec.children) or context != treespec.context:
        return None
    result: list[Any] = []
    for part, spec in zip(parts, treespec.children, strict=True):
        found = broadcast_to_and_flatten(part, spec, is_leaf)
        if found is None:
            return None
        result += found
    return result
