"""Proofs of a layout: they write to specimens in all the ways in which Python does, and read every field back."""

from __future__ import annotations

import functools
import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .offsets import (
    WORD,
    Layout,
    cached_results,
    deallocator,
    deque_places,
    dict_place,
    entry_places,
    function_address,
    order_places,
    read_word,
    slot_offset,
)

CLASS: Final[type] = type
#: More runs than those after which the interpreter specialises an instruction.
_OFTEN: Final = 60


class Plain:
    """A specimen with a dict."""

    base = 1

    def __init__(self) -> None:
        self.a, self.b = 1.5, 2.5


class Slotted:
    """A specimen with slots."""

    __slots__ = ("x", "y")


Slotted.__qualname__ = "specimen.Slotted"  # another text than the name


def find_type_version() -> int:
    """Return the offset of the word that changes with a class and with its bases; 0 if no word does.

    Its lower half is 0 from a change to the next look-up. Some interpreters also count versions, in another word.
    """
    above: Any = type("above", (), {"field": 1})
    below: Any = type("below", (above,), {})

    def read(looks: bool = True) -> list[int]:
        _ = looks and (below.field, below.__doc__)  # a look-up gives a class a new version
        return [read_word(id(below) + k) for k in range(4 * WORD, CLASS.__basicsize__, WORD)]

    first, second = read(), read()
    above.field = 2
    changed = read(looks=False)
    third = read()
    below.other = 3
    fourth = read()
    found = [k for k, words in enumerate(zip(first, second, third, fourth, strict=True))
             if words[0] == words[1] and len(set(words)) == 3 and not changed[k] & 0xFFFFFFFF]
    return 4 * WORD + WORD * found[0] if len(found) == 1 else 0


#: Ways to write to a dict that has the items a and b: methods and their arguments.
_WRITES: Final[tuple[tuple[str, tuple[Any, ...]], ...]] = (
    ("__setitem__", ("a", 5)), ("__setitem__", ("c", 5)), ("__delitem__", ("a",)), ("__ior__", ({"a": 5},)),
    ("__init__", ({"a": 7},)), ("update", ({"a": 5},)), ("update", ({"c": 5},)), ("pop", ("a",)), ("popitem", ()),
    ("clear", ()), ("setdefault", ("c", 1)))


def _changes_version(method: str, arguments: tuple[Any, ...], at: Layout) -> bool:
    table: dict[str, Any] = {"a": 1000.5, "b": 2}
    before = read_word(id(table) + at.version)
    getattr(table, method)(*arguments)
    return read_word(id(table) + at.version) != before


def _replace_b(thing: Any) -> None:
    del thing.b
    thing.other = object()


#: Ways to write to an attribute ``a`` of an object, and to its dict; in this order, each of them changes something.
_STORES: Final[tuple[Callable[[Any], Any], ...]] = (
    lambda x: setattr(x, "a", object()), lambda x: object.__setattr__(x, "a", object()), lambda x: delattr(x, "a"),
    lambda x: setattr(x, "a", object()), lambda x: setattr(x, "new", object()), lambda x: delattr(x, "new"),
    lambda x: vars(x).update(a=object()), lambda x: vars(x).pop("a"), lambda x: vars(x).update(a=object()),
    _replace_b, lambda x: x.__init__(), lambda x: vars(x).clear())


def attributes_are_stamped(at: Layout) -> bool:
    """Whether each write to an attribute changes the version tag of a split dict."""
    instance: Any = Plain()
    table, stamps = vars(instance), []
    for k in range(_OFTEN):
        instance.a = 1000.5 + k
        stamps.append(read_word(id(table) + at.version))
    for store in _STORES:
        store(instance)
        stamps.append(read_word(id(table) + at.version))
    return len(set(stamps)) == len(stamps)


def _words_of(table: dict[Any, Any], at: Layout) -> tuple[int, ...]:
    """Return the words by which guards watch the single entries of a dict."""
    fixed = [id(table) + field for field in (at.used, at.keys, at.values)]
    rest = order_places(table, at) if read_word(id(table) + at.values) else [read_word(fixed[1]) + at.filled]
    return tuple([read_word(place) for place in (*fixed, *entry_places(table, at).values(), *rest)])


def _entries_show_stores(at: Layout) -> bool:
    """Whether entries and their order show each write to an attribute."""
    instance: Any = Plain()
    table = vars(instance)
    if not read_word(id(table) + at.values):
        return False
    words = _words_of(table, at)
    for store in (*_STORES[:6] * _OFTEN, *_STORES):
        held = [*table.values()]  # alive, so that no other object gets the address of one
        store(instance)
        before, words = words, _words_of(table, at)
        if words == before:
            return False
        del held
    instance = Plain()
    table = vars(instance)
    before, held = _words_of(table, at), instance.a
    del instance.a
    instance.a = held  # the same words but for the order
    return _words_of(table, at) != before and list(table) == ["b", "a"]


def dicts_are_right(at: Layout) -> bool:
    """Whether the version tag follows every kind of write, and entries are where expected."""
    instance = Plain()
    general: dict[Any, Any] = {1: "x", "name": "y"}
    for table in (instance.__dict__, {"a": 1.5, "b": 2.5, "c": "d"}, general, dict.fromkeys(map(str, range(3000)))):
        places = entry_places(table, at)
        if any(read_word(places.get(id(name), id(at))) != id(value) for name, value in table.items()):
            return False
    instance.__dict__ = plain = {"a": 1.5}  # not split: attributes write to it as to any dict
    seen = {read_word(id(plain) + at.version)}
    for k in range(_OFTEN):
        instance.a = 1000.5 + k
        seen.add(read_word(id(plain) + at.version))
    place = dict_place(instance)
    if not all(_changes_version(*write, at) for write in _WRITES):
        return False
    right = read_word(place) == id(plain) and len(seen) == _OFTEN + 1 and _entries_show_stores(at)
    instance.__dict__ = other = {"a": 1}
    used = (read_word(id(other) + at.used), read_word(id(general) + at.used))
    return right and read_word(place) == id(other) and used == (1, 2)


def containers_are_right(at: Layout) -> bool:
    """Whether items of lists and sets are where expected."""
    items = [object(), object(), object()]
    first = read_word(id(items) + at.items)
    right = read_word(id(items) + at.length) == 3 and all(
        read_word(first + WORD * k) == id(item) for k, item in enumerate(items))
    for given in (set(items), set(range(1000, 1100)), frozenset(items)):
        table, mask = read_word(id(given) + at.table), read_word(id(given) + at.mask)
        places = {read_word(table + 2 * WORD * k) for k in range(mask + 1)} if mask < 1 << 12 else set()
        right = right and {id(item) for item in given} <= places and read_word(id(given) + at.fill) == len(given)
    return right


def queues_are_right(at: Layout) -> bool:
    """Whether items of queues, and results in caches, are where expected."""
    queue = deque(range(1000, 1200))
    queue.rotate(37)
    queue.popleft()
    if [read_word(place) for place in deque_places(queue, at)] != [id(item) for item in queue]:
        return False
    for size in (None, 4):
        cached = functools.lru_cache(maxsize=size)(lambda key: (key, "result"))
        wanted = [cached(key) for key in range(6)][-4 if size else 0:]
        found = cached_results(cached, at)
        if found is None or [id(each) for each in found[1]] != [id(each) for each in wanted]:
            return False
    return True


def functions_are_right(at: Layout) -> bool:
    """Whether the fields of functions, and the function of a frame, are where expected."""
    shared = object()

    def specimen(a: int = 1, *, b: int = 2) -> tuple[object, ...]:
        return function_address(sys._getframe(), at), shared, a, b

    place = id(specimen)
    specimen.mark = 1  # type: ignore[attr-defined]
    wanted = (specimen.__code__, specimen.__defaults__, specimen.__kwdefaults__, specimen.__dict__)
    fields = (at.code, at.defaults, at.kwdefaults, at.attributes)
    right = all(read_word(place + field) == id(value) for field, value in zip(fields, wanted, strict=True))
    cell = specimen.__closure__[specimen.__code__.co_freevars.index("shared")]  # type: ignore[index]
    if not right or read_word(id(cell) + at.content) != id(shared):
        return False
    return specimen()[0] == id(specimen)


def objects_are_right(at: Layout) -> bool:
    """Whether slots, arrays, ordered dicts and default factories are where expected."""
    slotted: Any = Slotted()
    array, factory = np.arange(3.0), defaultdict[Any, Any](list)
    slotted.x, slotted.y = object(), object()
    right = all(read_word(id(slotted) + slot_offset(vars(Slotted)[name], at)) == id(getattr(slotted, name))
                for name in ("x", "y"))
    ordered = OrderedDict(a=1, b=2, c=3)
    before = [read_word(id(ordered) + k) for k in at.linked]
    version = read_word(id(ordered) + at.version)
    ordered.move_to_end("a")
    moved = before != [read_word(id(ordered) + k) for k in at.linked]
    return (right and moved and version == read_word(id(ordered) + at.version)
            and read_word(id(slotted) + at.kind_of) == id(Slotted)
            and read_word(id(array) + at.data) == array.__array_interface__["data"][0]
            and read_word(id(array) + at.rank) & 0xFFFFFFFF == 1 and read_word(read_word(id(array) + at.shape)) == 3
            and read_word(read_word(id(array) + at.strides)) == array.strides[0]
            and read_word(id(factory) + at.factory) == id(list)
            and deallocator(Slotted) == deallocator(Plain) == at.dealloc != deallocator(dict)
            and deallocator(functools.partial) != at.dealloc)
