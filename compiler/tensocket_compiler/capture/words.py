"""Parts of objects that guards watch: words of memory, and the facts that these words stand for.

A part has *words*, whose values must not change, and *facts*, which describe what Python code can read there. Words are
compared at every call; facts only if a word changed, as a script may assign an equal value, or a name that nothing
reads. Words of level 0 lie in objects that the guards keep alive; those of level 1 lie behind pointers, which are words
of level 0. So level 1 must not be read unless level 0 holds.

Other threads may write while a part is read. So each container is copied by one C call, which nothing interrupts, and
``guards`` reads the facts again after the words.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from operator import itemgetter
from typing import Any, Final

from .layout import layout
from .offsets import WORD, deque_places, entry_places, order_places, read_word

#: (label, value); a label continues the path of the object, as ``.weight`` or ``[0]``.
Fact = tuple[str, Any]
#: (level, address).
Word = tuple[int, int]

#: Stands for the value of a fact that there is not.
MISSING: Final = "<missing>"
#: Types of values that are compared by value, unless code compares identities.
VALUES: Final = frozenset({int, float, complex, bool, str, bytes, range, type(None)})


class Raw(int):
    """An address as a fact."""

    __slots__ = ()


class Content(bytes):
    """The bytes of an array as a fact."""

    __slots__ = ()


def is_same(old: Any, new: Any, exact: bool = False) -> bool:
    """Whether code that reads ``new`` where ``old`` was does the same; ``exact``: code may compare identities."""
    if old is new:
        return True
    kind = type(old)
    if kind is not type(new):
        return False
    if kind is tuple:
        return len(old) == len(new) and all(is_same(a, b, exact) for a, b in zip(old, new, strict=True))
    if kind is Raw or kind is Content:
        return bool(old == new)
    if exact or kind not in VALUES:
        return False
    if kind is range:  # equal ones may have other ends
        return repr(old) == repr(new)
    if kind in (float, complex):  # containers find a number that is not equal to itself by its identity
        return old == old and repr(old) == repr(new)
    return bool(old == new)


def pretty(path: str) -> str:
    """Return a path as programs write it: members of modules as attributes, not as items of the tables of members.

    >>> pretty("model._modules['layers']._modules['0']._parameters['weight']")
    'model.layers[0].weight'
    """
    path = re.sub(r"\._(?:modules|parameters|buffers)\['(\d+)'\]", r"[\1]", path)
    return re.sub(r"\._(?:modules|parameters|buffers)\['(\w+)'\]", r".\1", path)


class Part:
    """A watched part of an object.

    Attributes:
        owner: The object.
        path: Its path, as a program would write it.
        cut: Labels that are not watched, because each call writes there.
        facts: The facts when the guards were made or renewed.
        alarms: How often words changed and facts did not.
    """

    __slots__ = ("alarms", "cut", "facts", "owner", "path")

    def __init__(self, owner: Any, path: str) -> None:
        self.owner, self.path = owner, path
        self.cut: frozenset[str] = frozenset()
        self.alarms = 0
        self.facts: tuple[Fact, ...] = ()

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        raise NotImplementedError

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        raise NotImplementedError

    def unequal(self) -> Iterable[tuple[int, int]]:
        """Return words and the values that they must not have."""
        return ()

    def refresh(self) -> None:
        """Take the present facts as those that must not change."""
        self.facts = self.visible()

    def visible(self) -> tuple[Fact, ...]:
        """Read the facts that are not cut."""
        return tuple([fact for fact in self.read() if fact[0] not in self.cut])


class _Table(Part):
    """Words of a dict: the version tag, or single entries where others change often."""

    __slots__ = ("by_entries",)

    def __init__(self, owner: Any, path: str, by_entries: bool = False) -> None:
        super().__init__(owner, path)
        self.by_entries = by_entries

    def labels(self) -> dict[int, str]:
        """Return the labels of the watched keys, by their identities: a look-up could run code of programs."""
        raise NotImplementedError

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        at, table = layout(), self.owner
        keys, values = read_word(id(table) + at.keys), read_word(id(table) + at.values)
        if not (self.by_entries or self.alarms or self.cut or (values and not at.stamped)):
            yield 0, id(table) + at.version
            return
        yield from ((0, id(table) + at.used), (0, id(table) + at.keys), (0, id(table) + at.values))
        yield from ((1, place) for place in (order_places(table, at) if values else (keys + at.filled,)))
        places = entry_places(table, at)
        for key, label in self.labels().items():
            if label not in self.cut and key in places:  # else another thread has just removed it
                yield 1, places[key]


_label: Final = itemgetter(0)


class NamesPart(_Table):
    """A namespace, of which names are read: globals, attributes of instances and modules.

    Args:
        names: The names; None for all, in their order.
        prefix: Comes before a name in labels.
    """

    __slots__ = ("names", "prefix")

    def __init__(self, owner: dict[str, Any], path: str, names: frozenset[str] | None, prefix: str = ".",
                 by_entries: bool = False) -> None:
        super().__init__(owner, path, by_entries)
        self.names, self.prefix = names, prefix

    def labels(self) -> dict[int, str]:
        """Return the labels of the names that the namespace has."""
        names, prefix = self.names, self.prefix
        return {id(key): f"{prefix}{key}" for key in list(self.owner)
                if type(key) is str and (names is None or key in names)}

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        names, prefix, items = self.names, self.prefix, list(self.owner.items())
        if names is None:
            return [(f"{prefix}{key}", value) for key, value in items if type(key) is str]
        return sorted([(f"{prefix}{key}", value) for key, value in items if type(key) is str and key in names],
                      key=_label)


class ItemsPart(_Table):
    """All items of a dict, in their order."""

    __slots__ = ()

    def labels(self) -> dict[int, str]:
        """Return the labels of all keys."""
        return {id(key): f"[{_short(key)}]" for key in list(dict.keys(self.owner))}

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        facts: list[Fact] = [(f"[{_short(key)}]", (key, value)) for key, value in list(dict.items(self.owner))]
        if isinstance(self.owner, defaultdict):
            facts.append((".default_factory", self.owner.default_factory))
        return [*facts, ("", list_order(self.owner))]

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        yield from super().words()
        if isinstance(self.owner, defaultdict):
            yield 0, id(self.owner) + layout().factory
        if isinstance(self.owner, OrderedDict):
            yield from ((0, id(self.owner) + offset) for offset in layout().linked)


def list_order(table: dict[Any, Any]) -> tuple[Any, ...]:
    """Return the keys of an ordered dict in its own order, which its items as a dict need not have."""
    return tuple(OrderedDict.keys(table)) if isinstance(table, OrderedDict) else ()


def _short(key: Any) -> str:
    """Return a text of a key that runs no code of programs."""
    return repr(key) if type(key) in VALUES else f"{type(key).__name__} at {id(key):#x}"


class ListPart(Part):
    """The items of a list."""

    __slots__ = ()

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        return [(f"[{k}]", item) for k, item in enumerate(list.copy(self.owner))]

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        at, place = layout(), id(self.owner)
        yield from ((0, place + at.length), (0, place + at.items))
        items = read_word(place + at.items)
        yield from ((1, items + WORD * k) for k in range(list.__len__(self.owner)) if f"[{k}]" not in self.cut)


class QueuePart(Part):
    """The items of a ``deque``."""

    __slots__ = ()

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        return [(f"[{k}]", item) for k, item in enumerate(list(deque.__iter__(self.owner)))]

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        at, place = layout(), id(self.owner)
        yield from ((0, place + at.length + WORD * k) for k in range(6))  # length, blocks, positions, state
        yield from ((1, address) for k, address in enumerate(deque_places(self.owner, at)) if f"[{k}]" not in self.cut)


class SetPart(Part):
    """The members of a set, in their order."""

    __slots__ = ()

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        return [(f"{{{k}}}", item) for k, item in enumerate(list(set.__iter__(self.owner)))]

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        at, place = layout(), id(self.owner)
        yield from ((0, place + field) for field in (at.fill, at.fill + WORD, at.mask, at.table))
        table = read_word(place + at.table)
        yield from ((1, table + 2 * WORD * k) for k in range(read_word(place + at.mask) + 1))


class CellPart(Part):
    """The content of a closure's cell."""

    __slots__ = ()

    def read(self) -> Iterable[Fact]:
        """Read the facts."""
        try:
            return [("", self.owner.cell_contents)]
        except ValueError:
            return []

    def words(self) -> Iterable[Word]:
        """Return the words for the present facts."""
        if "" not in self.cut:
            yield 0, id(self.owner) + layout().content
