"""Lists and dicts that cannot be changed: a node's arguments, whose uses the graph counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn, TypeVar

from tensocket_core.pytree_nodes import register_node
from tensocket_plugins.contract.errors import UnsupportedOperator

Item = TypeVar("Item")
Key = TypeVar("Key")
Value = TypeVar("Value")


class ImmutableMutation(UnsupportedOperator, TypeError):
    """A change of a collection that cannot be changed."""


def _refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    name = type(self).__name__
    raise ImmutableMutation(name, f"a change of a {name}", f"'{name}' object does not support mutation. If you are "
                            "attempting to modify the kwargs or args of a torch.fx.Node object, build the new value "
                            "and set it as a whole", "assign a new value to node.args or node.kwargs")


class immutable_list(list[Item]):
    """A list that refuses every change; it equals, pickles and prints as the list with the same items."""

    append = clear = extend = insert = pop = remove = reverse = sort = _refuse
    __delitem__ = __iadd__ = __imul__ = __setitem__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self),)


class immutable_dict(dict[Key, Value]):
    """A dict that refuses every change; it equals, pickles and prints as the dict with the same items."""

    clear = pop = popitem = update = setdefault = _refuse
    __delitem__ = __setitem__ = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return type(self), (tuple(self.items()),)


def _list_children(value: immutable_list[Any]) -> tuple[list[Any], None]:
    return list(value), None


def _list_of(children: Iterable[Any], context: None) -> immutable_list[Any]:
    return immutable_list(children)


def _dict_children(value: immutable_dict[Any, Any]) -> tuple[list[Any], list[Any]]:
    return list(value.values()), list(value)


def _dict_of(children: Iterable[Any], context: list[Any]) -> immutable_dict[Any, Any]:
    return immutable_dict(zip(context, children, strict=True))


register_node(immutable_list, _list_children, _list_of)
register_node(immutable_dict, _dict_children, _dict_of)
