"""Byte offsets of the fields of Python objects that guards watch, and how to read these fields; see ``layout``."""

from __future__ import annotations

import ctypes
import functools
import gc
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

WORD: Final = 8
#: The number by which ``PyType_GetSlot`` knows ``tp_dealloc``.
_TP_DEALLOC: Final = 52


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
        code, defaults, kwdefaults, attributes: Of a function's fields.
        texts: Of the fields of a function that describe it, by their names.
        class_texts: Of the fields of a class that describe it, by their names.
        type_version: Of the word that holds a class's version tag.
        member: Of the pointer to a slot's definition in its descriptor.
        frame, function: Of the pointer to the interpreter's frame in a frame object, and of the function in that.
        data, rank, shape, strides: Of an array's pointer to its elements, its rank, and pointers to sizes and strides.
        factory: Of the function that makes missing items of a ``defaultdict``.
        first: Of a ``deque``'s pointer to the first block; its items' positions and state come behind.
        result: Of the cached result in a link of a bounded cache.
        linked: Of the fields of an ordered dict that its order lives in.
        dealloc: The deallocator of classes that Python code defines.
        split: Of the first value behind the pointer to split values. Sizes are in front of it; the order of the items
            is there, too, or behind the values if the sizes are where the pointer leads.
        stamped: Whether a write to an attribute changes the version tag of a dict with split values.
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
    function: int
    data: int
    rank: int
    shape: int
    strides: int
    factory: int
    first: int
    result: int
    linked: tuple[int, ...]
    dealloc: int
    split: int
    stamped: bool = True


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


def split_values(table: dict[Any, Any], at: Layout) -> int:
    """Return the address of the first of a dict's split values; 0 if its values lie beside the keys."""
    place = read_word(id(table) + at.values)
    return place + at.split if place else 0


def order_places(table: dict[Any, Any], at: Layout) -> range:
    """Return the addresses of the words that hold the number and the order of the items of a split dict."""
    values = split_values(table, at)
    if not at.split:
        return range(values - read_byte(values - 1), values, WORD)  # the byte in front tells the size of all of these
    capacity = read_byte(values - at.split)
    behind = values + WORD * capacity
    return range(behind, behind + capacity, WORD)


def entry_places(table: dict[Any, Any], at: Layout) -> dict[int, int]:
    """Return the addresses of the words that hold a dict's values, by the identities of the keys.

    In a split dict, whose keys its class shares, these include the words of keys that the dict does not have.
    """
    keys = read_word(id(table) + at.keys)
    values = split_values(table, at)
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


def function_address(frame: Any, at: Layout) -> int:
    """Return the address of the function that runs in a frame; 0 if there is none."""
    return read_word(read_word(id(frame) + at.frame) + at.function)


def function_of(frame: Any, at: Layout) -> Any:
    """Return the function that runs in a frame."""
    address = function_address(frame, at)
    return ctypes.cast(address, ctypes.py_object).value if address else None
