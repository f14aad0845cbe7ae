"""Places: attributes, items, cells and the memory of tensors, which may hold another object at each call."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final, NamedTuple

from tensocket_core.tensor import Tensor

from .words import MISSING, VALUES

#: Labels of a tensor's memory: its handle, and its address.
DATA: Final = ".data"
ADDRESS: Final = ".data_ptr()"
#: The slots of tensors that calls assign, by label.
_OF_TENSORS: Final = {".grad": "_grad", DATA: "_array"}


class _Access(NamedTuple):
    """How to read, write and empty a place, without running code of programs."""

    read: Callable[[], Any]
    write: Callable[[Any], None]
    delete: Callable[[], None]


class Place:
    """A place in an object that was there before a call.

    Args:
        owner: The object that holds it.
        label: The place in the object, as in ``Effect``.
        path: The place, as a program would write it.
        fact: A value of the place, as a part of guards reads it; it tells the key of an item.

    Attributes:
        key: Owner's identity and label, as in ``Guards.cut``.
        is_memory: Whether it is the memory of a tensor, whose object stays.
        read: Returns what is there; ``MISSING`` if nothing is.
        assign: Puts something there.

    Raises:
        ValueError: No call can assign to such a place.
    """

    __slots__ = ("_access", "assign", "is_memory", "key", "label", "owner", "path", "read")

    def __init__(self, owner: Any, label: str, path: str, fact: Any = None) -> None:
        self.owner, self.label, self.path = owner, label, path
        self.key = id(owner), label
        self.is_memory = label == DATA and isinstance(owner, Tensor)
        found = _find_access(owner, label, fact)
        if found is None:
            raise ValueError(f"it assigns {path}")
        self._access = found
        self.assign = found.write
        # Slots of tensors are never empty; calls with gradients read and write them most.
        self.read = found.read if isinstance(owner, Tensor) else self._read_or_miss

    def _read_or_miss(self) -> Any:
        try:
            return self._access.read()
        except (AttributeError, ValueError, LookupError):
            return MISSING

    def content(self) -> Any:
        """Return what is there; of the memory of a tensor, the tensor."""
        return self.owner if self.is_memory else self.read()

    def save(self) -> Callable[[], None]:
        """Return a function that puts the present value there again."""
        value, access = self.read(), self._access
        if value is MISSING:
            return lambda: None if self.read() is MISSING else access.delete()
        return lambda: access.write(value)


def _find_access(owner: Any, label: str, fact: Any) -> _Access | None:
    if isinstance(owner, Tensor):
        return _of_slot(owner, vars(Tensor)[_OF_TENSORS[label]]) if label in _OF_TENSORS else None
    if isinstance(owner, types.CellType):
        return _of_slot(owner, vars(types.CellType)["cell_contents"])
    if isinstance(owner, dict):
        if label[:1] != "[":
            return _of_items(dict, owner, label.removeprefix("."))
        key = fact[0] if type(fact) is tuple else None  # the key and the value of an item are one fact
        return _of_items(dict, owner, key) if isinstance(key, Tensor) or type(key) in VALUES else None
    if isinstance(owner, list):
        return _of_items(list, owner, int(label[1:-1])) if label[:1] == "[" else None
    slot = next((vars(base)[label[1:]] for base in type(owner).__mro__ if label[1:] in vars(base)), None)
    return _of_slot(owner, slot) if type(slot) is types.MemberDescriptorType else None


def _of_slot(owner: Any, slot: Any) -> _Access:
    return _Access(partial(slot.__get__, owner), partial(slot.__set__, owner), partial(slot.__delete__, owner))


def _of_items(kind: Any, owner: Any, key: Any) -> _Access:
    return _Access(partial(kind.__getitem__, owner, key), partial(kind.__setitem__, owner, key),
                   partial(kind.__delitem__, owner, key))


def value_of(owner: Any, label: str, fact: Any) -> Any:
    """Return the value of a fact about a place."""
    return fact[1] if isinstance(owner, dict) and label[:1] == "[" and type(fact) is tuple else fact


def cut_places(moving: Iterable[Place]) -> frozenset[tuple[int, str]]:
    """Return the owners' identities and the labels of the facts about places."""
    found = {place.key for place in moving}
    return frozenset(found | {(id(place.owner), ADDRESS) for place in moving if place.is_memory})
