"""Trees of Python containers: flattening, mapping, registration, and paths to leaves."""

from __future__ import annotations

import dataclasses
import types
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from typing import Any

from tensocket_core import pytree_nodes as nodes
from tensocket_core.pytree import (
    LEAF,
    TreeSpec,
    broadcast_to_and_flatten,
    register_pytree_node,
    tree_flatten,
    tree_is_leaf,
    tree_iter,
    tree_leaves,
    tree_map,
    tree_structure,
    tree_unflatten,
)
from tensocket_core.pytree_nodes import GetAttrKey, MappingKey, NodeDef, SequenceKey, is_namedtuple_class, node_of
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError

from ._pytree_text import DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL, EnumEncoder, treespec_dumps, treespec_loads

Predicate = Callable[[Any], bool]
Context = PyTree = DumpableContext = Any
FlattenFn = FlattenFunc = Callable[[Any], tuple[list[Any], Any]]
UnflattenFn = UnflattenFunc = Callable[[Any, Any], Any]
FlattenWithKeysFn = FlattenWithKeysFunc = Callable[[Any], tuple[list[tuple[Any, Any]], Any]]
ToDumpableContextFn = FromDumpableContextFn = Callable[[Any], Any]
KeyEntry = SequenceKey | MappingKey | GetAttrKey
KeyPath = tuple[Any, ...]
PyTreeSpec = TreeSpec
_is_leaf = tree_is_leaf
_broadcast_to_and_flatten = broadcast_to_and_flatten
_private_register_pytree_node = nodes.register_node
BUILTIN_TYPES = nodes.BUILTIN
STANDARD_DICT_TYPES = nodes.DICTS
SUPPORTED_NODES = nodes.NODES
SUPPORTED_SERIALIZED_TYPES = nodes.SERIALIZED
SERIALIZED_TYPE_TO_PYTHON_TYPE = nodes.TYPE_OF_NAME
#: The private names of PyTorch's functions for its own containers, such as ``_dict_flatten``.
for _kind in nodes.BUILTIN:
    _name = _kind.__name__.lower()
    globals()[f"_{_name}_flatten"] = nodes.NODES[_kind].flatten_fn
    globals()[f"_{_name}_unflatten"] = nodes.NODES[_kind].unflatten_fn
    globals()[f"_{_name}_flatten_with_keys"] = nodes.NODES[_kind].flatten_with_keys_fn
#: Classes registered with ``register_constant``.
CONSTANT_NODES: set[type] = set()


class LeafSpec(TreeSpec):
    """The structure of a leaf under PyTorch's old name; ``TreeSpec.is_leaf`` says whether a structure is one."""

    __slots__ = ()

    def __init__(self) -> None:
        warnings.warn("`isinstance(treespec, LeafSpec)` is deprecated, use `isinstance(treespec, TreeSpec) and "
                      "treespec.is_leaf()` instead.", FutureWarning, stacklevel=2)
        super().__init__(None, None, ())


def treespec_leaf() -> TreeSpec:
    """Return the structure of a leaf."""
    return LEAF


def treespec_tuple(iterable: Any = (), /) -> TreeSpec:
    """Return the structure of a tuple whose parts have these structures."""
    return TreeSpec(tuple, None, iterable)


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """Return the structure of a dict whose values have these structures."""
    named = dict(mapping, **kwargs)
    return TreeSpec(dict, list(named), named.values())


class _Star(str):
    """The placeholder for a leaf in ``treespec_pprint``."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return the containers of a structure as Python writes them, with ``*`` for leaves."""
    return repr(treespec.unflatten([_Star()] * treespec.num_leaves))


# ----------------------------------------------------------------------------------------------------------------- maps


def map_only(type_or_types_or_pred: Any, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Return a decorator that restricts a function to values of a type, of several types, or that pass a test; others
    stay unchanged.

    Raises:
        ArgumentTypeError: The argument is neither a type nor a function.
    """
    if not (isinstance(type_or_types_or_pred, (type, tuple, types.UnionType)) or callable(type_or_types_or_pred)):
        raise ArgumentTypeError("tree_map_only", f"a {type(type_or_types_or_pred).__name__}", "Argument must be a "
                                "type, a tuple of types, or a callable", "pass one of these")
    chosen: Predicate = type_or_types_or_pred
    if isinstance(type_or_types_or_pred, (type, tuple, types.UnionType)):
        def chosen(leaf: Any) -> bool:
            return isinstance(leaf, type_or_types_or_pred)

    return lambda func: lambda leaf: func(leaf) if chosen(leaf) else leaf


def tree_map_only(type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any,
                  is_leaf: Predicate | None = None) -> Any:
    """Apply ``func`` to the leaves of a type, of one of several types, or that pass a test; return the new tree."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Predicate | None = None) -> Any:
    """Call ``func`` with every leaf and return the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for values in zip(leaves, *[spec.flatten_up_to(rest) for rest in rests], strict=True):
        func(*values)
    return tree


def tree_map_only_(type_or_types_or_pred: Any, /, func: Callable[[Any], Any], tree: Any,
                   is_leaf: Predicate | None = None) -> Any:
    """Call ``func`` with the leaves that ``tree_map_only`` would replace and return the tree itself."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Predicate, tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether a predicate holds for all leaves."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Predicate, tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether a predicate holds for any leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Predicate, tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether a predicate holds for all leaves of a type."""
    return all(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Predicate, tree: Any, is_leaf: Predicate | None = None) -> bool:
    """Whether a predicate holds for any leaf of a type."""
    return any(pred(leaf) for leaf in tree_iter(tree, is_leaf) if isinstance(leaf, type_or_types))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """Return the leaves of all arguments of a call."""
    return [leaf for value in (*args, *kwargs.values()) for leaf in tree_iter(value)]


# ---------------------------------------------------------------------------------------------------------------- paths


def _paths(path: KeyPath, tree: Any, is_leaf: Predicate | None) -> Iterator[tuple[KeyPath, Any]]:
    node = None if is_leaf is not None and is_leaf(tree) else node_of(tree)
    if node is None:
        yield path, tree
        return
    if node.flatten_with_keys_fn is None:
        raise ArgumentError("tree_flatten_with_path", f"a {node.type}", "Did not find a flatten_with_keys_fn for it",
                            "pass flatten_with_keys_fn= to register_pytree_node")
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _paths((*path, key), child, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: Predicate | None = None) -> list[tuple[KeyPath, Any]]:
    """Return each leaf with its path, the keys that lead to it.

    Raises:
        ArgumentError: A class was registered without ``flatten_with_keys_fn``.
    """
    return list(_paths((), tree, is_leaf))


def tree_flatten_with_path(tree: Any, is_leaf: Predicate | None = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return the leaves with their paths, and the structure."""
    spec = tree_structure(tree, is_leaf)
    return tree_leaves_with_path(tree, is_leaf), spec


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Predicate | None = None) -> Any:
    """Do the same as ``tree_map``; the first argument of ``func`` is the path to the leaf."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[path for path, _ in pairs], [leaf for _, leaf in pairs], *[spec.flatten_up_to(r) for r in rests]]
    return spec.unflatten(map(func, *columns))


def keystr(kp: KeyPath) -> str:
    """Return a path as Python writes it: ``[0]['weight'].x``."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return the part of a tree at a path."""
    for key in kp:
        obj = key.get(obj)
    return obj


# --------------------------------------------------------------------------------------------------------- registration


def _register_pytree_node(cls: Any, flatten_fn: Callable[[Any], Any], unflatten_fn: Callable[[Any, Any], Any],
                          to_str_fn: Any = None, maybe_from_str_fn: Any = None, **kwargs: Any) -> None:
    """Do the same as ``register_pytree_node`` under its former name, but replace existing registrations."""
    warnings.warn("`torch.utils._pytree._register_pytree_node` is deprecated. Please use "
                  "`torch.utils._pytree.register_pytree_node` instead.", FutureWarning, stacklevel=2)
    if to_str_fn is not None or maybe_from_str_fn is not None:
        warnings.warn("`to_str_fn` and `maybe_from_str_fn` is deprecated. Please use `to_dumpable_context` and "
                      "`from_dumpable_context` instead.", FutureWarning, stacklevel=2)
    _private_register_pytree_node(cls, flatten_fn, unflatten_fn, **kwargs)


def _register_namedtuple(cls: Any, *, serialized_type_name: str) -> None:
    """Set the name of a class of named tuples in texts of ``treespec_dumps``."""
    _private_register_pytree_node(
        cls, nodes.flatten_namedtuple, nodes.unflatten_namedtuple, serialized_type_name=serialized_type_name,
        to_dumpable_context=nodes.dump_namedtuple, from_dumpable_context=nodes.load_namedtuple,
        flatten_with_keys_fn=nodes.flatten_namedtuple_with_keys)


def _field_names(cls: Any, field_names: list[str] | None, dropped: list[str]) -> list[str]:
    if not dataclasses.is_dataclass(cls):
        if field_names is None:
            raise ArgumentError("register_dataclass", f"{cls}, which is not a dataclass", "field_names must be "
                                "specified with a list of all fields used to initialize it", "pass field_names=")
        return field_names
    known = [field.name for field in dataclasses.fields(cls) if field.init]
    if field_names is None:
        return known
    expected = set(known) - set(dropped)
    if expected != set(field_names):
        raise ArgumentError("register_dataclass", f"field_names {sorted(field_names)} for fields {sorted(expected)}",
                            "field_names does not include all dataclass fields, or unexpected ones",
                            "name all fields, in field_names or drop_field_names")
    return field_names


def register_dataclass(cls: Any, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
                       serialized_type_name: str | None = None) -> None:
    """Register a dataclass as a container of its fields; fields that are None are not children.

    Args:
        cls: The dataclass, or a class that is made from its fields by name.
        field_names: The fields that are children; all fields that the constructor takes if not given.
        drop_field_names: The fields that are not children.
        serialized_type_name: The name of the class in texts of ``treespec_dumps``.

    Raises:
        ArgumentError: The class is not a dataclass and has no ``field_names``, or these are not its fields.
    """
    names = _field_names(cls, field_names, drop_field_names or [])

    def flatten(tree: Any) -> tuple[list[Any], Any]:
        values = {name: getattr(tree, name) for name in names}
        there = [name for name in names if values[name] is not None]
        return [values[name] for name in there], [there, [name for name in names if values[name] is None]]

    def flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], Any]:
        parts, context = flatten(tree)
        return [(GetAttrKey(name), part) for name, part in zip(context[0], parts, strict=True)], context

    def unflatten(parts: Any, context: Any) -> Any:
        return cls(**dict(zip(context[0], parts, strict=True)), **dict.fromkeys(context[1]))

    _private_register_pytree_node(cls, flatten, unflatten, serialized_type_name=serialized_type_name,
                                  flatten_with_keys_fn=flatten_with_keys)


@dataclasses.dataclass(frozen=True, slots=True)
class ConstantNode:
    """The context of an object without leaves."""

    value: Any


def register_constant(cls: Any) -> None:
    """Register a class whose objects are containers without leaves: they are part of the structure.

    Raises:
        ArgumentTypeError: The class does not define ``__eq__`` or ``__hash__``.
    """
    if cls.__eq__ is object.__eq__ or cls.__hash__ is None:
        raise ArgumentTypeError("register_constant", f"{cls}", "expects a class to have a non-default `__eq__` and "
                                "`__hash__` implementation", "define both")
    _private_register_pytree_node(cls, lambda tree: ([], ConstantNode(tree)), lambda _, context: context.value,
                                  flatten_with_keys_fn=lambda tree: ([], ConstantNode(tree)))
    CONSTANT_NODES.add(cls)


def _deregister_pytree_node(cls: Any) -> None:
    """Make objects of a class leaves again."""
    nodes.deregister_node(cls)
    CONSTANT_NODES.discard(cls)


def is_constant_class(cls: Any) -> bool:
    """Whether a class was registered with ``register_constant``."""
    return isinstance(cls, type) and cls in CONSTANT_NODES


def is_namedtuple(obj: Any) -> bool:
    """Whether an object is a named tuple, or a class of named tuples."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_namedtuple_instance(obj: Any) -> bool:
    """Whether an object is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Whether a class is one of CPython's sequences with names, like ``time.struct_time``."""
    return (isinstance(cls, type) and cls.__bases__ == (tuple,) and not cls.__flags__ & 1 << 10
            and all(isinstance(getattr(cls, name, None), int)
                    for name in ("n_fields", "n_sequence_fields", "n_unnamed_fields")))


def is_structseq(obj: Any) -> bool:
    """Whether an object is one of CPython's sequences with names, or a class of them."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_instance(obj: Any) -> bool:
    """Whether an object is one of CPython's sequences with names."""
    return is_structseq_class(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def _get_node_type(tree: Any) -> Any:
    """Return the key of a value in ``SUPPORTED_NODES``: its class, or ``namedtuple`` for all named tuples."""
    return namedtuple if type(tree) not in nodes.NODES and is_namedtuple_instance(tree) else type(tree)


__all__ = [
    "BUILTIN_TYPES",
    "DEFAULT_TREESPEC_SERIALIZATION_PROTOCOL",
    "SERIALIZED_TYPE_TO_PYTHON_TYPE",
    "STANDARD_DICT_TYPES",
    "SUPPORTED_NODES",
    "SUPPORTED_SERIALIZED_TYPES",
    "Context",
    "DumpableContext",
    "EnumEncoder",
    "FlattenFn",
    "FromDumpableContextFn",
    "GetAttrKey",
    "KeyEntry",
    "LeafSpec",
    "MappingKey",
    "NodeDef",
    "PyTree",
    "PyTreeSpec",
    "SequenceKey",
    "ToDumpableContextFn",
    "TreeSpec",
    "UnflattenFn",
    "_broadcast_to_and_flatten",
    "arg_tree_leaves",
    "is_namedtuple",
    "is_namedtuple_class",
    "is_namedtuple_instance",
    "is_structseq",
    "is_structseq_class",
    "is_structseq_instance",
    "key_get",
    "keystr",
    "register_constant",
    "register_dataclass",
    "register_pytree_node",
    "tree_all",
    "tree_all_only",
    "tree_any",
    "tree_any_only",
    "tree_flatten",
    "tree_flatten_with_path",
    "tree_is_leaf",
    "tree_iter",
    "tree_leaves",
    "tree_leaves_with_path",
    "tree_map",
    "tree_map_",
    "tree_map_only",
    "tree_map_only_",
    "tree_map_with_path",
    "tree_structure",
    "tree_unflatten",
    "treespec_dumps",
    "treespec_loads",
    "treespec_pprint",
]
