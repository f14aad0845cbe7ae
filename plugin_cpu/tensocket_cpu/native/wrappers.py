"""Objects around arrays: the offsets of their slots, and the machine code that opens and makes them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from tensocket_plugins.contract.plans import WrapperLayout

from .builder import NULL, Function, Value
from .guards import checked_array

_WORD: Final = 8
_EMPTY: Final = ()


def slot_offsets(wrapper: WrapperLayout) -> dict[str, int] | None:
    """Find the byte offsets of a wrapper's slots: fill the slots of a new object with objects of known addresses.

    Returns:
        The offsets by name; None if an address is not in exactly one place.
    """
    names = [wrapper.array, *[name for name, _, _ in wrapper.slots]]
    marks = [object() for _ in names]
    specimen: Any = object.__new__(wrapper.kind)
    for name, mark in zip(names, marks, strict=True):
        object.__setattr__(specimen, name, mark)
    header, size = object.__basicsize__, wrapper.kind.__basicsize__
    words = (ctypes.c_uint64 * ((size - header) // _WORD)).from_address(id(specimen) + header)
    found = {name: [header + _WORD * k for k, word in enumerate(words) if word == id(mark)]
             for name, mark in zip(names, marks, strict=True)}
    return {name: places[0] for name, places in found.items()} if all(
        len(places) == 1 for places in found.values()) else None


def find_wrapper(layout: WrapperLayout) -> Wrapper | None:
    """Return the offsets with the layout; None if they are unknown."""
    offsets = slot_offsets(layout)
    return None if offsets is None else Wrapper(layout, offsets)


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A class of objects around arrays, for machine code.

    Attributes:
        layout: The class, and the names of its slots.
        offsets: The byte offsets of the slots.
    """

    layout: WrapperLayout
    offsets: Mapping[str, int]

    def slot(self, item: Value) -> Value:
        """Return the object in the slot for the array, or null."""
        return item.load(self.offsets[self.layout.array])

    def array(self, item: Value) -> Value:
        """Return the array in an object of the class; go to ``slow`` if the slot is empty or holds something else."""
        array = self.slot(item)
        item.function.require(array != NULL)
        return checked_array(array)

    def open(self, item: Value) -> Value:
        """Return the array in any object; go to ``slow`` if it is of another class, or has no array."""
        f = item.function
        kind, own = f.object(self.layout.kind), item.field("type")
        with f.when(own != kind):
            f.require(f.api("PyType_IsSubtype", own, kind) != 0)
        return self.array(item)

    def new(self, f: Function) -> Value:
        """Make an object with empty slots; null if there is no memory."""
        return f.api("object_new", f.object(self.layout.kind), f.object(_EMPTY), NULL)

    def fill(self, made: Value, array: Value, values: Mapping[str, Value]) -> None:
        """Fill the slots of a new object; it takes over the reference to the array."""
        for name, value in values.items():
            (made + self.offsets[name]).store(made.function.retain(value))
        (made + self.offsets[self.layout.array]).store(array)

    def wrap(self, array: Value, rank: Value | None = None, held: Mapping[str, Value] = MappingProxyType({})) -> Value:
        """Make an object around a new array; release the array and return null if there is no memory for the object.

        Args:
            array: The array.
            rank: Its rank, if it may be 0.
            held: Values of slots by name, in place of the usual ones.
        """
        f = array.function
        made = self.new(f)
        with f.when(made == NULL):
            f.release(array)
            f.returns(NULL)
        values = dict(held)
        for name, value, value_0d in self.layout.slots:
            if name not in held:
                values[name] = f.object(value)
                if rank is not None and value is not value_0d:
                    values[name] = (rank == 0).select(f.object(value_0d), values[name])
        self.fill(made, array, values)
        return made

    def counter_place(self, item: Value) -> Value:
        """Return the address of the counter in an object."""
        return item + self.offsets[self.layout.counter]


def new_counter(place: Value, count: int, otherwise: str) -> Value:
    """Store a new counter in place of None; go to a label if memory runs out."""
    f = place.function
    made = f.api("PyList_New", 1)
    f.require(made != NULL, otherwise=otherwise)
    f.api("PyList_SetItem", made, 0, f.api("PyLong_FromLongLong", count))  # CPython has one object for small numbers
    place.store(made)
    f.release(f.object(None))
    return made


def count_change(place: Value, counter: Value) -> None:
    """Count a change in the counter, which may be None, at an address; return null if memory runs out."""
    f = place.function
    with f.when(counter == f.object(None)):
        new_counter(place, 1, "failed")
    with f.otherwise():
        old = f.api("PyList_GetItem", counter, 0)
        f.require(old != NULL, otherwise="failed")
        count = f.api("PyLong_AsLongLongAndOverflow", old, f.stack(1, "i32"))
        new = f.api("PyLong_FromLongLong", count + 1)
        f.require(new != NULL, otherwise="failed")
        f.api("PyList_SetItem", counter, 0, new)
