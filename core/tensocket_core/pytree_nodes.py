"""Containers of trees: how each class is flattened, with and without keys, and rebuilt."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, NamedTuple

from tensocket_plugins.contract.errors import ArgumentError, UnsupportedOperator

Flatten = Callable[[Any], tuple[Any, Any]]
Unflatten = Callable[[Any, Any], Any]
#: Serialized name of a class that was registered without one.
NO_NAME: Final = "NO_SERIALIZED_TYPE_NAME_FOUND"


class NodeDef(NamedTuple):
    """Flattening and unflattening of a class of containers.

    Attributes:
        type: The class.
        flatten_fn: ``flatten_fn(tree) -> (children, context)``.
        unflatten_fn: ``unflatten_fn(children, context) -> tree``.
        flatten_with_keys_fn: Like ``flatten_fn``, with pairs of a key and a child; None if the class has no keys.
    """

    type: Any
    flatten_fn: Flatten
    unflatten_fn: Unflatten
    flatten_with_keys_fn: Flatten | None


class SerializeDef(NamedTuple):
    """Serialization of a class of containers.

    Attributes:
        typ: The class.
        serialized_type_name: The serialized name.
        to_dumpable_context: Converts the context to a value that JSON can express; None if not needed.
        from_dumpable_context: The inverse.
    """

    typ: Any
    serialized_type_name: str
    to_dumpable_context: Callable[[Any], Any] | None
    from_dumpable_context: Callable[[Any], Any] | None


@dataclass(frozen=True, slots=True)
class SequenceKey:
    """A position in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return the child at this position."""
        return sequence[self.idx]


@dataclass(frozen=True, slots=True)
class MappingKey:
    """A key of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return the child with this key."""
        return mapping[self.key]


@dataclass(frozen=True, slots=True)
class GetAttrKey:
    """A name of an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """Return the child with this name."""
        return getattr(obj, self.name)


LOCK: Final = threading.RLock()
#: Definition by class of container; ``namedtuple`` stands for all named tuples.
NODES: Final[dict[Any, NodeDef]] = {}
SERIALIZED: Final[dict[Any, SerializeDef]] = {}
TYPE_OF_NAME: Final[dict[str, Any]] = {}


def register_node(cls: Any, flatten_fn: Flatten, unflatten_fn: Unflatten, *, serialized_type_name: str | None = None,
                  to_dumpable_context: Callable[[Any], Any] | None = None,
                  from_dumpable_context: Callable[[Any], Any] | None = None,
                  flatten_with_keys_fn: Flatten | None = None) -> None:
    """Make a class a container; a second registration replaces the first, with a warning.

    Raises:
        ArgumentError: Only one of the two context functions is given.
    """
    with LOCK:
        if cls in NODES:
            warnings.warn(f"{cls} is already registered as pytree node. Overwriting the previous registration.",
                          stacklevel=3)
        if (to_dumpable_context is None) != (from_dumpable_context is None):
            raise ArgumentError("register_pytree_node", f"one function for contexts of {cls}",
                                "Both to_dumpable_context and from_dumpable_context are given, or neither is",
                                "pass both")
        name = NO_NAME if serialized_type_name is None else serialized_type_name
        NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
        SERIALIZED[cls] = SerializeDef(cls, name, to_dumpable_context, from_dumpable_context)
        TYPE_OF_NAME[name] = cls


def deregister_node(cls: Any) -> None:
    """Make a class a leaf again."""
    with LOCK:
        del NODES[cls]
        TYPE_OF_NAME.pop(SERIALIZED.pop(cls).serialized_type_name, None)


def is_namedtuple_class(cls: Any) -> bool:
    """Whether a class is a named tuple class."""
    return (isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
            and all(type(field) is str for field in cls._fields)  # type: ignore[attr-defined]
            and callable(getattr(cls, "_make", None)) and callable(getattr(cls, "_asdict", None)))


def node_of(tree: Any) -> NodeDef | None:
    """Return the definition of a container; None for a leaf."""
    kind = type(tree)
    if kind is not tuple and issubclass(kind, tuple) and is_namedtuple_class(kind):
        return NODES[namedtuple]
    return NODES.get(kind)


# ------------------------------------------------------------------------------------------------ built-in containers


def _numbered(flatten: Flatten) -> Flatten:
    def run(tree: Any) -> tuple[Any, Any]:
        values, context = flatten(tree)
        return [(SequenceKey(k), value) for k, value in enumerate(values)], context

    return run


def _keyed(flatten: Flatten) -> Flatten:
    def run(tree: Any) -> tuple[Any, Any]:
        values, context = flatten(tree)
        return [(MappingKey(key), value) for key, value in zip(tree, values, strict=True)], context

    return run


def _flatten_dict(tree: Any) -> tuple[Any, Any]:
    return list(tree.values()), list(tree.keys())


def _unflatten_dict(children: Iterable[Any], keys: Any) -> Any:
    return dict(zip(keys, children, strict=True))


def _flatten_defaultdict(tree: Any) -> tuple[Any, Any]:
    return list(tree.values()), [tree.default_factory, list(tree.keys())]


def _dump_defaultdict(context: Any) -> Any:
    factory, keys = context
    return {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__,
            "dict_context": keys}


def _load_defaultdict(text: Any) -> Any:
    factory = getattr(import_module(text["default_factory_module"]), text["default_factory_name"])
    return [factory, text["dict_context"]]


def flatten_namedtuple(tree: Any) -> tuple[Any, Any]:
    """Return the fields of a named tuple, and its class."""
    return list(tree), type(tree)


def flatten_namedtuple_with_keys(tree: Any) -> tuple[Any, Any]:
    """Return the fields of a named tuple with their names, and its class."""
    return [(GetAttrKey(name), value) for name, value in zip(type(tree)._fields, tree, strict=True)], type(tree)


def unflatten_namedtuple(children: Iterable[Any], cls: Any) -> Any:
    """Return a named tuple of a class."""
    return cls._make(children)


def dump_namedtuple(cls: Any) -> str:
    """Return the serialized name of a named tuple class.

    Raises:
        UnsupportedOperator: The class was registered without one.
    """
    found = SERIALIZED.get(cls)
    if found is None or found.serialized_type_name == NO_NAME:
        raise UnsupportedOperator("treespec_dumps", f"{cls}", "a class of named tuples in a text has a name",
                                  "Please register using `_register_namedtuple`")
    return found.serialized_type_name


def load_namedtuple(name: str) -> Any:
    """Return the named tuple class with a serialized name.

    Raises:
        UnsupportedOperator: No class has that name.
    """
    if name not in TYPE_OF_NAME:
        raise UnsupportedOperator("treespec_loads", f"the named tuple {name!r}", "its class is registered first",
                                  "Please register using `_register_namedtuple`")
    return TYPE_OF_NAME[name]


def _register_builtins() -> None:
    def flatten_tuple(tree: Any) -> tuple[Any, Any]:
        return list(tree), None

    def flatten_list(tree: Any) -> tuple[Any, Any]:
        return tree, None

    def flatten_deque(tree: Any) -> tuple[Any, Any]:
        return list(tree), tree.maxlen

    register_node(tuple, flatten_tuple, lambda children, _: tuple(children), serialized_type_name="builtins.tuple",
                  flatten_with_keys_fn=_numbered(flatten_tuple))
    register_node(list, flatten_list, lambda children, _: list(children), serialized_type_name="builtins.list",
                  flatten_with_keys_fn=_numbered(flatten_list))
    register_node(dict, _flatten_dict, _unflatten_dict, serialized_type_name="builtins.dict",
                  flatten_with_keys_fn=_keyed(_flatten_dict))
    register_node(namedtuple, flatten_namedtuple, unflatten_namedtuple, serialized_type_name="collections.namedtuple",
                  to_dumpable_context=dump_namedtuple, from_dumpable_context=load_namedtuple,
                  flatten_with_keys_fn=flatten_namedtuple_with_keys)
    register_node(OrderedDict, _flatten_dict, lambda children, keys: OrderedDict(zip(keys, children, strict=True)),
                  serialized_type_name="collections.OrderedDict", flatten_with_keys_fn=_keyed(_flatten_dict))
    register_node(defaultdict, _flatten_defaultdict,
                  lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
                  serialized_type_name="collections.defaultdict", to_dumpable_context=_dump_defaultdict,
                  from_dumpable_context=_load_defaultdict, flatten_with_keys_fn=_keyed(_flatten_defaultdict))
    register_node(deque, flatten_deque, lambda children, limit: deque(children, maxlen=limit),
                  serialized_type_name="collections.deque", flatten_with_keys_fn=_numbered(flatten_deque))


_register_builtins()
BUILTIN: Final = frozenset(NODES)
DICTS: Final[frozenset[Any]] = frozenset({dict, OrderedDict, defaultdict})
