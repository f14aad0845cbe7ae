"""Objects around arrays: the offsets of their slots, and the machine code that opens and makes them."""

from __future__ import annotations

import ctypes
from typing import Any, Final

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.plans import WrapperLayout

from .layout import Layout
from .writer import Text

_WORD: Final = 8
_EMPTY: Final = ()
#: Integers up to this magnitude are exact in double precision.
_EXACT: Final = 1 << 53


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


def open_wrapper(w: Text, layout: Layout, wrapper: WrapperLayout, offset: int, item: str) -> str:
    """Return the array in an object; go to ``slow`` if the object is of another class, or its slot is empty."""
    kind = w.known(id(wrapper.kind))
    own = w.field(item, layout.type, "ptr")
    heir, ready = w.label(), w.label()
    w.do(f"br i1 {w.op(f'icmp eq ptr {own}, {kind}')}, label %{ready}, label %{heir}")
    w.do(f"{heir}:")
    answer = w.op(f"call i32 {w.known(layout.is_subtype)}(ptr {own}, ptr {kind})")
    w.branch([w.op(f"icmp ne i32 {answer}, 0")], ready)
    array = w.field(item, offset, "ptr")
    w.branch([w.op(f"icmp ne ptr {array}, null")])
    return array


def new_wrapper(w: Text, layout: Layout, wrapper: WrapperLayout, offsets: dict[str, int], array: str, rank: str) -> str:
    """Make an object around the array; release the array if there is no memory for the object."""
    made = w.op(f"call ptr {w.known(layout.new_object)}(ptr {w.known(id(wrapper.kind))}, ptr {w.known(id(_EMPTY))}, "
                "ptr null)")
    w.do(f"  %lost = icmp eq ptr {made}, null")
    w.do("br i1 %lost, label %drop, label %fill")
    w.do("drop:")
    w.do(f"call void {w.known(layout.release)}(ptr {array})")
    w.do("ret ptr null")
    w.do("fill:")
    flat = w.op(f"icmp eq i32 {rank}, 0")
    for name, value, value_0d in wrapper.slots:
        held = w.known(id(value))
        if value is not value_0d:
            held = w.op(f"select i1 {flat}, ptr {w.known(id(value_0d))}, ptr {held}")
        w.do(f"call void {w.known(layout.retain)}(ptr {held})")
        _store(w, made, offsets[name], held)
    _store(w, made, offsets[wrapper.array], array)
    return made


def _store(w: Text, base: str, offset: int, value: str) -> None:
    at = w.op(f"getelementptr i8, ptr {base}, i64 {offset}")
    w.do(f"store ptr {value}, ptr {at}")


#: Constants of LLVM IR.
_INFINITY: Final = "0x7FF0000000000000"
_MINUS_INFINITY: Final = "0xFFF0000000000000"


def python_number(w: Text, layout: Layout, dtype: DType, item: str) -> str:
    """Read a Python number of an exact type as the word of a scalar's slot: a double, or an integer of the dtype.

    The next path serves numbers that the dtype cannot hold.
    """
    own = w.field(item, layout.type, "ptr")
    if dtype.kind != "float":
        value = python_int(w, layout, own, item)
        if dtype.itemsize == _WORD:
            return value
        narrow = w.op(f"trunc i64 {value} to i{8 * dtype.itemsize}")
        again = w.op(f"{'sext' if dtype.kind == 'int' else 'zext'} i{8 * dtype.itemsize} {narrow} to i64")
        w.branch([w.op(f"icmp eq i64 {again}, {value}")])
        return again
    is_float, other, ready = w.label(), w.label(), w.label()
    w.branch([w.op(f"icmp eq ptr {own}, {w.known(id(float))}")], is_float, other)
    real = w.field(item, layout.number, "double")
    w.do(f"br label %{ready}")
    w.do(f"{other}:")
    value = python_int(w, layout, own, item)
    exact = w.label()
    shifted = w.op(f"add i64 {value}, {_EXACT}")
    w.branch([w.op(f"icmp ule i64 {shifted}, {2 * _EXACT}")], exact)
    whole = w.op(f"sitofp i64 {value} to double")
    w.do(f"br label %{ready}")
    w.do(f"{ready}:")
    number = w.op(f"phi double [{real}, %{is_float}], [{whole}, %{exact}]")
    if dtype.itemsize < _WORD:
        single = w.op(f"fpext float {w.op(f'fptrunc double {number} to float')} to double")
        # The difference is infinite only if rounding made a finite number infinite.
        lost = w.op(f"fsub double {single}, {number}")
        w.branch([w.op(f"fcmp une double {lost}, {_INFINITY}"), w.op(f"fcmp une double {lost}, {_MINUS_INFINITY}")])
        number = single
    return w.op(f"bitcast double {number} to i64")


def python_int(w: Text, layout: Layout, own: str, item: str) -> str:
    """Read a Python int whose type is ``own``; go to ``slow`` if it is of another type, or too large for a word."""
    w.branch([w.op(f"icmp eq ptr {own}, {w.known(id(int))}")])
    value = w.op(f"call i64 {w.known(layout.as_integer)}(ptr {item}, ptr %beyond)")
    w.branch([w.op(f"icmp eq i32 {w.op('load i32, ptr %beyond')}, 0")])
    return value
