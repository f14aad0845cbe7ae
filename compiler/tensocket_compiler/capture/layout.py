"""Byte offsets of the fields of Python objects that guards watch; proven in specimens at start, never assumed.

Guards read the memory of dicts, lists, sets, functions, cells, classes and frames. ``find_layout`` writes to specimens
in all the ways in which Python writes to them, and reads every field back. A single wrong value, or an interpreter
other than CPython 3.11, gives no layout; then nothing is observed and calls stay eager.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
import sysconfig
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

WORD: Final = 8
_CLASS: Final[type] = type
#: The number by which ``PyType_GetSlot`` knows ``tp_dealloc``.
_TP_DEALLOC: Final = 52
#: Attributes that describe a class, and change without its version.
CLASS_DESCRIPTIONS: Final = ("__name__", "__qualname__")
#: Attributes that describe a function.
DESCRIPTIONS: Final = ("__name__", "__qualname__", "__doc__", "__module__", "__annotations__")


@dataclass(frozen=True, slots=True)
class Layout:
    """Byte offsets in objects.

    Attributes:
        kind_of: Of any object's class.
        used, version, keys, values: Of a dict's number of items, version tag, table of keys, and split values.
        kind, index, filled, entries: Of fields of a table of keys: logarithm of the bytes of its index, kind, number of
            entries that were ever used, and the index.
        length, items: Of a list's number of items and of its pointer to them.
        fill, mask, table: Of a set's number of used places, of the last place's number, and of its table.
        content: Of a cell's content, and of a weak reference's object.
        class_words = [read_word(id(_Slotted) + k) for k in range(0, _CLASS.__basicsize__, WORD)]
    names = {name: getattr(_Slotted, name) for name in CLASS_DESCRIPTIONS}
    if any(class_words.count(id(text)) != 1 for text in names.values()):
        return None
    code, defaults, kwdefaults, attributes: Of a function's fields.
        texts: Of the fields of a function that describe it, by their names.
        class_texts: Of the fields of a class that describe it, by their names.
        type_version: Of the word that holds a class's version tag.
        member: Of the pointer to a slot's definition in its descriptor.
        frame: Of the pointer to the interpreter's frame, whose first field is the function, in a frame object.
        data, rank, shape, strides: Of an array's pointer to its elements, its rank, and pointers to sizes and strides.
        factory: Of the function that makes missing items of a ``defaultdict``.
        first: Of a ``deque``'s pointer to the first block; its items' positions and state come behind.
        result: Of the cached result in a link of a bounded cache.
        linked: Of the fields of an ordered dict that its order lives in.
        dealloc: The deallocator of classes that Python code defines.
    """

    kind_of: int
    used: int
    version: int
    keys: int
    values: int
    kind: int
    index: int
    filled: int
    entries: int
    length: int
    items: int
    fill: int
    mask: int
    table: int
    content: int
    code: int
    defaults: int
    kwdefaults: int
    attributes: int
    texts: dict[str, int]
    class_texts: dict[str, int]
    type_version: int
    member: int
    frame: int
    data: int
    rank: int
    shape: int
    strides: int
    factory: int
    first: int
    result: int
    linked: tuple[int, ...]
    dealloc: int


def read_word(address: int) -> int:
    """Return the word of memory at an address."""
    return ctypes.c_uint64.from_address(address).value


def read_byte(address: int) -> int:
    """Return the byte of memory at an address."""
    return ctypes.c_uint8.from_address(address).value


_get_slot: Final = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_int)(
    ("PyType_GetSlot", ctypes.pythonapi))


def deallocator(kind: type) -> int:
    """Return the address of the C function that frees a class's instances."""
    return _get_slot(kind, _TP_DEALLOC) or 0


def dict_place(owner: Any) -> int:
    """Return the address of an object's pointer to its ``__dict__``; 0 if it has none. Inline values become a dict."""
    return _dict_finder()(owner) or 0


@functools.cache  # one entry
def _dict_finder() -> Callable[[Any], int | None]:
    return ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(("_PyObject_GetDictPtr", ctypes.pythonapi))


def instance_dict(owner: Any) -> dict[str, Any] | None:
    """Return an object's dict without running code of its class; None if it has none."""
    place = dict_place(owner)
    address = read_word(place) if place else 0
    if place and not address:
        address = id(object.__getattribute__(owner, "__dict__"))  # makes it
    found = ctypes.cast(address, ctypes.py_object).value if address else None
    return found if type(found) is dict else None


def entry_places(table: dict[Any, Any], at: Layout) -> dict[int, int]:
    """Return the addresses of the words that hold a dict's values, by the identities of the keys.

    In a split dict, whose keys its class shares, these include the words of keys that the dict does not have.
    """
    keys = read_word(id(table) + at.keys)
    values = read_word(id(table) + at.values)
    general = read_byte(keys + at.kind) == 0
    step, place = (3 * WORD, WORD) if general else (2 * WORD, 0)
    first = keys + at.entries + (1 << read_byte(keys + at.index))
    count = read_word(keys + at.filled)
    words = (ctypes.c_uint64 * (count * step // WORD)).from_address(first)
    return {words[(step * k + place) // WORD]: values + WORD * k if values else first + step * k + place + WORD
            for k in range(count)}


#: Items of a block of a ``deque``, behind the pointer to the block on the left and before that on the right.
_BLOCK: Final = 64


def deque_places(items: deque[Any], at: Layout) -> Iterator[int]:
    """Yield the addresses of the words that hold the items of a ``deque``."""
    block, index = read_word(id(items) + at.first), read_word(id(items) + at.first + 2 * WORD)
    for _ in range(deque.__len__(items)):
        if index == _BLOCK:
            block, index = read_word(block + WORD + _BLOCK * WORD), 0
        yield block + WORD + index * WORD
        index += 1


def cached_results(function: Any, at: Layout) -> tuple[dict[Any, Any], list[Any]] | None:
    """Return the table of a function with ``lru_cache``, and the results in it; None if it has no table."""
    tables = [each for each in gc.get_referents(function) if type(each) is dict and each is not vars(function)]
    if len(tables) != 1:
        return None
    links = [type(each).__name__ == "_lru_list_elem" for each in tables[0].values()]
    return tables[0], [ctypes.cast(read_word(id(each) + at.result), ctypes.py_object).value if is_link else each
                       for each, is_link in zip(tables[0].values(), links, strict=True)]


def slot_offset(descriptor: Any, at: Layout) -> int:
    """Return the offset of a slot in instances."""
    return read_word(read_word(id(descriptor) + at.member) + 2 * WORD)


def function_of(frame: Any, at: Layout) -> Any:
    """Return the function that runs in a frame."""
    address = read_word(read_word(id(frame) + at.frame))
    return ctypes.cast(address, ctypes.py_object).value if address else None


# ------------------------------------------------------------------------------------------------------------ proofs


class _Plain:
    base = 1

    def __init__(self) -> None:
        self.a, self.b = 1.5, 2.5


class _Slotted:
    __slots__ = ("x", "y")


_Slotted.__qualname__ = "specimen._Slotted"  # another text than the name


def _find_type_version() -> int:
    """Return the offset of the word that changes with a class and with its bases; 0 if no word does."""
    above: Any = type("above", (), {"field": 1})
    below: Any = type("below", (above,), {})

    def read() -> list[int]:
        _ = below.field, below.__doc__  # a look-up gives a class a new version
        return [read_word(id(below) + k) for k in range(4 * WORD, _CLASS.__basicsize__, WORD)]

    first, second = read(), read()
    above.field = 2
    third = read()
    below.other = 3
    fourth = read()
    found = [k for k, words in enumerate(zip(first, second, third, fourth, strict=True))
             if words[0] == words[1] and len(set(words)) == 3]
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


def _dicts_are_right(at: Layout) -> bool:
    """Whether the version tag follows every kind of write, and entries are where expected."""
    instance = _Plain()
    general: dict[Any, Any] = {1: "x", "name": "y"}
    for table in (instance.__dict__, {"a": 1.5, "b": 2.5, "c": "d"}, general, dict.fromkeys(map(str, range(3000)))):
        places = entry_places(table, at)
        if any(read_word(places.get(id(name), id(at))) != id(value) for name, value in table.items()):
            return False
    seen = {read_word(id(instance.__dict__) + at.version)}
    for k in range(60):  # beyond the number of runs after which the interpreter specialises the store
        instance.a = 1000.5 + k
        seen.add(read_word(id(instance.__dict__) + at.version))
    place = dict_place(instance)
    if not all(_changes_version(*write, at) for write in _WRITES):
        return False
    right = read_word(place) == id(instance.__dict__) and len(seen) == 61
    instance.__dict__ = other = {"a": 1}
    used = (read_word(id(other) + at.used), read_word(id(general) + at.used))
    return right and read_word(place) == id(other) and used == (1, 2)


def _containers_are_right(at: Layout) -> bool:
    items = [object(), object(), object()]
    first = read_word(id(items) + at.items)
    right = read_word(id(items) + at.length) == 3 and all(
        read_word(first + WORD * k) == id(item) for k, item in enumerate(items))
    for given in (set(items), set(range(1000, 1100)), frozenset(items)):
        table, mask = read_word(id(given) + at.table), read_word(id(given) + at.mask)
        places = {read_word(table + 2 * WORD * k) for k in range(mask + 1)} if mask < 1 << 12 else set()
        right = right and {id(item) for item in given} <= places and read_word(id(given) + at.fill) == len(given)
    return right


def _queues_are_right(at: Layout) -> bool:
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


def _functions_are_right(at: Layout) -> bool:
    shared = object()

    def specimen(a: int = 1, *, b: int = 2) -> object:
        return function_of(sys._getframe(), at), shared, a, b

    place = id(specimen)
    specimen.mark = 1  # type: ignore[attr-defined]
    wanted = (specimen.__code__, specimen.__defaults__, specimen.__kwdefaults__, specimen.__dict__)
    fields = (at.code, at.defaults, at.kwdefaults, at.attributes)
    right = all(read_word(place + field) == id(value) for field, value in zip(fields, wanted, strict=True))
    cell = specimen.__closure__[specimen.__code__.co_freevars.index("shared")]  # type: ignore[index]
    if not right or read_word(id(cell) + at.content) != id(shared):
        return False
    return specimen()[0] is specimen  # type: ignore[index]


def _objects_are_right(at: Layout) -> bool:
    slotted: Any = _Slotted()
    array, factory = np.arange(3.0), defaultdict[Any, Any](list)
    slotted.x, slotted.y = object(), object()
    right = all(read_word(id(slotted) + slot_offset(vars(_Slotted)[name], at)) == id(getattr(slotted, name))
                for name in ("x", "y"))
    ordered = OrderedDict(a=1, b=2, c=3)
    before = [read_word(id(ordered) + k) for k in at.linked]
    version = read_word(id(ordered) + at.version)
    ordered.move_to_end("a")
    moved = before != [read_word(id(ordered) + k) for k in at.linked]
    return (right and moved and version == read_word(id(ordered) + at.version)
            and read_word(id(slotted) + at.kind_of) == id(_Slotted)
            and read_word(id(array) + at.data) == array.__array_interface__["data"][0]
            and read_word(id(array) + at.rank) & 0xFFFFFFFF == 1 and read_word(read_word(id(array) + at.shape)) == 3
            and read_word(read_word(id(array) + at.strides)) == array.strides[0]
            and read_word(id(factory) + at.factory) == id(list)
            and deallocator(_Slotted) == deallocator(_Plain) == at.dealloc != deallocator(dict)
            and deallocator(functools.partial) != at.dealloc)


def find_layout() -> Layout | None:
    """Return the layout of this process; None if it is not CPython 3.11, or if a proof fails."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 11):
        return None
    if ctypes.sizeof(ctypes.c_void_p) != WORD or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    if hasattr(sys, "getobjects"):
        return None  # other object headers: with tracing of references
    header = object.__basicsize__
    ordered = tuple(range(dict.__basicsize__, dict.__basicsize__ + 6 * WORD, WORD))

    def probe(x: int = 1, *, y: int = 2) -> None:
        """Do nothing."""

    probe.mark = 1  # type: ignore[attr-defined]
    described = {name: getattr(probe, name) for name in DESCRIPTIONS}
    words = [read_word(id(probe) + WORD * k) for k in range(type(probe).__basicsize__ // WORD)]
    fields = [probe.__code__, probe.__defaults__, probe.__kwdefaults__, probe.__dict__, *described.values()]
    if any(id(field) not in words for field in fields):
        return None
    class_words = [read_word(id(_Slotted) + k) for k in range(0, _CLASS.__basicsize__, WORD)]
    names = {name: getattr(_Slotted, name) for name in CLASS_DESCRIPTIONS}
    if any(class_words.count(id(text)) != 1 for text in names.values()):
        return None
    code, defaults, kwdefaults, attributes, *rest = [WORD * words.index(id(field)) for field in fields]
    layout = Layout(
        kind_of=header - WORD, used=header, version=header + WORD, keys=header + 2 * WORD, values=header + 3 * WORD,
        kind=10, index=9, filled=24, entries=32, length=header, items=header + WORD, fill=header,
        mask=header + 2 * WORD, table=header + 3 * WORD, content=header, code=code, defaults=defaults,
        kwdefaults=kwdefaults, attributes=attributes, texts=dict(zip(described, rest, strict=True)),
        class_texts={name: WORD * class_words.index(id(text)) for name, text in names.items()},
        type_version=_find_type_version(), member=header + 3 * WORD, frame=header + WORD, data=header,
        rank=header + WORD, shape=header + 2 * WORD, strides=header + 3 * WORD, factory=dict.__basicsize__,
        first=header + WORD, result=header + 4 * WORD, linked=ordered, dealloc=deallocator(_Plain))
    proven = layout.type_version and _dicts_are_right(layout) and _containers_are_right(layout)
    proven = proven and _queues_are_right(layout)
    return layout if proven and _functions_are_right(layout) and _objects_are_right(layout) else None


#: The layout of this process; None if guards cannot watch memory in it.
LAYOUT: Final = find_layout()


def layout() -> Layout:
    """Return the known layout; nothing is watched without one."""
    assert LAYOUT is not None
    return LAYOUT
