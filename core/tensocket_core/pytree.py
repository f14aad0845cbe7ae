"""Trees of Python containers: the arguments and results of transformed functions.

Tuples, named tuples, lists, dicts, ordered dicts, default dicts, deques and registered classes are nodes; any other
object, including None, is a leaf.
"""

from __future__ import annotations

from collections import defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from .pytree_nodes import BUILTIN, DICTS, NODES, Flatten, Unflatten, node_of, register_node

Predicate = Callable[[Any], bool]


class TreeSpec:
    """The structure of a tree.

    Attributes:
        type: Class of the container; None for a leaf, ``namedtuple`` for all named tuples.
        context: The data besides the children that the container is rebuilt from.
        num_nodes: Number of containers and leaves.
        num_leaves: Number of leaves.
        num_children: Number of children of the container.
    """

    __slots__ = ("_children", "_context", "num_children", "num_leaves", "num_nodes", "type")

    def __init__(self, type: Any, context: Any, children_specs: Iterable[TreeSpec]) -> None:
        self.type = type
        self._context = context
        self._children = children = list(children_specs)
        self.num_children = len(children)
        if type is None:
            if context is not None or children:
                raise ArgumentError("TreeSpec", f"a leaf with context {context!r} and {len(children)} children",
                                    "a leaf has neither", "pass the class of the container")
            self.num_nodes = self.num_leaves = 1
        else:
            self.num_nodes, self.num_leaves = 1, 0
            for child in children:
                self.num_nodes += child.num_nodes
                self.num_leaves += child.num_leaves

    @property
    def context(self) -> Any:
        """The data besides the children that the container is rebuilt from."""
        return self._context

    def is_leaf(self) -> bool:
        """Whether the tree is one leaf."""
        return self.type is None

    def children(self) -> list[TreeSpec]:
        """Return the structures of the children."""
        return self._children.copy()

    def child(self, index: int) -> TreeSpec:
        """Return the structure of one child."""
        return self._children[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree with these leaves.

        Raises:
            ArgumentError: The number of leaves is not that of the structure.
        """
        given = list(leaves)
        if len(given) != self.num_leaves:
            raise ArgumentError("tree_unflatten", f"{len(given)} leaves for {self.brief()}",
                                "there are as many leaves as the structure has", "pass all leaves, in order")
        return _build(iter(given), self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the parts of a tree at the positions of this structure's leaves.

        Raises:
            ArgumentError: The structure is not a prefix of the tree.
        """
        found: list[Any] = []
        _take(self, tree, found)
        return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return bool(self.type == other.type and self._context == other._context and self._children == other._children)

    def __hash__(self) -> int:
        context: Any = None  # the context of a registered class may not be hashable
        if self.type is defaultdict:
            context = (self._context[0], tuple(self._context[1]))
        elif self.type in DICTS:
            context = tuple(self._context)
        elif self.type in BUILTIN:
            context = self._context
        return hash((self.type, context, tuple(self._children)))

    def brief(self) -> str:
        """Return the structure on one line, for messages."""
        if self.type is None:
            return "*"
        name = self._context.__name__ if self.type is namedtuple else self.type.__name__
        return f"{name}({', '.join([child.brief() for child in self._children])})"

    def __repr__(self, indent: int = 0) -> str:
        if self.type is None:
            return "*"
        inner = indent + 2
        parts = (",\n" + " " * inner).join([child.__repr__(inner) for child in self._children])
        return f"TreeSpec({self.type.__name__}, {self._context}, [{parts}])"


LEAF: Final = TreeSpec(None, None, ())


def register_pytree_node(cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten, *,
                         serialized_type_name: str | None = None,
                         to_dumpable_context: Callable[[Any], Any] | None = None,
                         from_dumpable_context: Callable[[Any], Any] | None = None,
                         flatten_with_keys_fn: Flatten | None = None) -> None:
    """Make a class a container.

    Args:
        cls: The class; its subclasses do not become containers.
        flatten_fn: ``flatten_fn(tree) -> (children, context)``.
        unflatten_fn: ``unflatten_fn(children, context) -> tree``.
        serialized_type_name: The name of the class in the output of ``treespec_dumps``.
        to_dumpable_context: Converts the context to a value that JSON can express.
        from_dumpable_context: The inverse.
        flatten_with_keys_fn: Like ``flatten_fn``, with pairs of a key and a child.

    Raises:
        ArgumentError: The class is already registered, or only one of the two context functions is given.
    """
    if cls in NODES:
        raise ArgumentError("register_pytree_node", f"{cls}, which is already registered as pytree node",
                            "a class is registered once", "remove the second registration")
    register_node(cls, flatten_fn, unflatten_fn, serialized_type_name=serialized_type_name,
                  to_dumpable_context=to_dumpable_context, from_dumpable_context=from_dumpable_context,
                  flatten_with_keys_fn=flatten_with_keys_fn)


def tree_is_leaf(tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether a tree is one leaf."""
    return (is_leaf is not None and is_leaf(tree)) or node_of(tree) is None


def tree_flatten(tree: Any, is_leaf: Predicate | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the leaves from left to right, and the structure.

    Args:
        tree: The tree.
        is_leaf: Predicate; a container for which it returns True counts as a leaf.

    >>> tree_flatten({"a": 1, "b": (2, 3)})[0]
    [1, 2, 3]

    Raises:
        ArgumentError: A container contains itself.
    """
    leaves: list[Any] = []
    try:
        return leaves, _collect(tree, leaves, is_leaf)
    except RecursionError:
        raise ArgumentError("tree_flatten", f"a {type(tree).__name__} that never ends", "maximum recursion depth "
                            "exceeded: containers do not hold themselves", "pass a finite tree") from None


def _collect(tree: Any, leaves: list[Any], is_leaf: Predicate | None) -> TreeSpec:
    node = None if is_leaf is not None and is_leaf(tree) else node_of(tree)
    if node is None:
        leaves.append(tree)
        return LEAF
    children, context = node.flatten_fn(tree)
    return TreeSpec(node.type, context, [_collect(child, leaves, is_leaf) for child in children])


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """Build a tree from leaves and a structure; the two arguments may come in either order.

    Raises:
        ArgumentError: The number of leaves is not that of the structure.
        ArgumentTypeError: Neither argument is a structure.
    """
    if not isinstance(treespec, TreeSpec):
        if not isinstance(leaves, TreeSpec):
            raise ArgumentTypeError("tree_unflatten", f"a {type(treespec).__name__}", "Expected `treespec` to be an "
                                    "instance of TreeSpec", "pass what tree_flatten returned")
        return leaves.unflatten(treespec)
    return treespec.unflatten(leaves)


def _build(leaves: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.type is None:
        return next(leaves)
    return NODES[spec.type].unflatten_fn([_build(leaves, child) for child in spec._children], spec._context)


def _mismatch(given: str) -> ArgumentError:
    return ArgumentError("tree_map", given, "all trees have one structure", "pass trees that differ in their leaves "
                         "only")


def _take(spec: TreeSpec, tree: Any, found: list[Any]) -> None:
    """Collect the parts of a tree at the positions of a structure's leaves.

    Raises:
        ArgumentError: The structure is not a prefix of the tree.
    """
    if spec.type is None:
        found.append(tree)
        return
    for part, child in zip(_parts(spec, tree), spec._children, strict=True):
        _take(child, part, found)


def _parts(spec: TreeSpec, tree: Any) -> list[Any]:
    """Return the children of a tree in the order of a structure.

    Raises:
        ArgumentError: The tree is a different container, or has other keys or another length.
    """
    node = node_of(tree)
    kind = type(tree) if node is None else node.type
    both = spec.type in DICTS and kind in DICTS
    if node is None or (kind != spec.type and not both):
        raise _mismatch(f"Node type mismatch; expected {spec.type!r}, but got {kind!r}")
    children, context = node.flatten_fn(tree)
    children = list(children)
    if len(children) != spec.num_children:
        raise _mismatch(f"Node arity mismatch; expected {spec.num_children}, but got {len(children)}")
    if both:
        keys = spec._context[1] if spec.type is defaultdict else spec._context
        if set(keys) != set(tree):
            raise _mismatch(f"Node keys mismatch; missing key(s): {set(keys) - set(tree)}; extra key(s): "
                            f"{set(tree) - set(keys)}")
        return [tree[key] for key in keys]
    if kind is not deque and context != spec._context:
        raise _mismatch(f"Node context mismatch for node type {spec.type!r}; expected {spec._context!r}, but got "
                        f"{context!r}")
    return children


def tree_iter(tree: Any, is_leaf: Predicate | None = None) -> Iterator[Any]:
    """Iterate over the leaves from left to right."""
    node = None if is_leaf is not None and is_leaf(tree) else node_of(tree)
    if node is None:
        yield tree
    else:
        for child in node.flatten_fn(tree)[0]:
            yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: Predicate | None = None) -> list[Any]:
    """Return the leaves from left to right."""
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Predicate | None = None) -> TreeSpec:
    """Return the structure."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Predicate | None = None) -> Any:
    """Apply ``func`` to every leaf; the parts of further trees at the same position are further arguments.

    Raises:
        ArgumentError: The structure is not a prefix of a further tree.
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: Predicate | None = None) -> list[Any] | None:
    """Return the leaves of a prefix, each repeated for every leaf below it; None if the tree is not a prefix.

    >>> broadcast_to_and_flatten((0, None), tree_structure((1, [2, 3])))
    [0, None, None]
    """
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if treespec.type is None:
        return None
    try:
        parts = _parts(treespec, tree)
    except ArgumentError:
        return None
    result: list[Any] = []
    for part, spec in zip(parts, treespec._children, strict=True):
        found = broadcast_to_and_flatten(part, spec, is_leaf)
        if found is None:
            return None
        result += found
    return result
