"""Byte offsets of the fields that native entries read in this interpreter and this NumPy; checked, never assumed.

A native entry reads fields of array objects in memory. ``find_layout`` reads the expected offsets in arrays whose
attributes are known; if a single value is wrong, it returns no layout, and no native code runs.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

_WORD: Final = 8
#: Bits of an array's flags field: C-contiguous and aligned.
DENSE: Final = 0x0001 | 0x0100
#: Bit of writeable arrays.
WRITEABLE: Final = 0x0400
#: Index of ``PyArray_NewFromDescr`` in NumPy's table of C functions, the same since NumPy 1.0.
_NEW_FROM_DESCR: Final = 94
#: Index of ``PyArray_SetBaseObject``, the same since NumPy 1.7.
_SET_BASE_OBJECT: Final = 282


@dataclass(frozen=True, slots=True)
class Layout:
    """Byte offsets in objects, and addresses of C functions.

    Attributes:
        type: Offset of any object's type.
        data, rank, shape, strides, dtype, flags: Offsets of an array's fields.
        new_array: ``PyArray_NewFromDescr``.
        set_base: ``PyArray_SetBaseObject``.
        clear: ``PyErr_Clear``.
        set_variable, reset_variable: ``PyContextVar_Set`` and ``PyContextVar_Reset``.
        call: ``PyObject_Vectorcall``.
        retain, release: ``Py_IncRef`` and ``Py_DecRef``.
        tuple_size, tuple_new, tuple_set: ``PyTuple_Size``, ``PyTuple_New`` and ``PyTuple_SetItem``.
        list_new, list_get, list_set: ``PyList_New``, ``PyList_GetItem`` and ``PyList_SetItem``.
        new_integer: ``PyLong_FromLongLong``.
        get_attribute, set_attribute: ``PyObject_GetAttr`` and ``PyObject_SetAttr``.
        is_subtype: ``PyType_IsSubtype``.
        as_integer: ``PyLong_AsLongLongAndOverflow``.
        new_object: The function that ``object.__new__`` calls.
        number: Offset of a float's value.
        length: Offset of the number of items of a list or tuple.
        items: Offset of a tuple's items, and of the address of a list's.
    """

    type: int
    data: int
    rank: int
    shape: int
    strides: int
    dtype: int
    flags: int
    new_array: int
    set_base: int
    clear: int
    set_variable: int
    reset_variable: int
    call: int
    retain: int
    release: int
    tuple_size: int
    tuple_new: int
    tuple_set: int
    list_new: int
    list_get: int
    list_set: int
    new_integer: int
    get_attribute: int
    set_attribute: int
    is_subtype: int
    as_integer: int
    new_object: int
    number: int
    length: int
    items: int


def _word(address: int) -> int:
    return ctypes.c_uint64.from_address(address).value


def _half(address: int) -> int:
    return ctypes.c_int32.from_address(address).value


def _specimens() -> list[np.ndarray[Any, Any]]:
    """Return arrays of many ranks, shapes, dtypes and flags."""
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    locked = np.arange(5)
    locked.flags.writeable = False
    return [base, base[1], base[:, 1], base[..., ::2], base.T, np.zeros((), np.int8), np.zeros((3, 0)), locked,
            np.zeros(7, np.complex128), np.zeros(2, bool), np.frombuffer(bytes(9), np.uint8)[1:].view(np.float64)]


def _reads_right(array: np.ndarray[Any, Any], at: Layout) -> bool:
    """Whether the fields of one array match its attributes."""
    place = id(array)
    flags = array.flags
    rank = _half(place + at.rank)
    if rank != array.ndim or _word(place + at.type) != id(np.ndarray) or _word(place + at.dtype) != id(array.dtype):
        return False
    sizes, steps = _word(place + at.shape), _word(place + at.strides)
    dense = (WRITEABLE if flags.writeable else 0) | (1 if flags.c_contiguous else 0) | (0x100 if flags.aligned else 0)
    return (_word(place + at.data) == array.__array_interface__["data"][0]
            and _half(place + at.flags) & (DENSE | WRITEABLE) == dense
            and tuple(_word(sizes + _WORD * k) for k in range(rank)) == array.shape
            and tuple(ctypes.c_int64.from_address(steps + _WORD * k).value for k in range(rank)) == array.strides)


def _new_array_works(layout: Layout) -> bool:
    """Whether the function in NumPy's table makes an array of a given shape and dtype."""
    create = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
                               ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(layout.new_array)
    retain = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(layout.retain)
    dtype = np.dtype(np.float32)
    before = sys.getrefcount(dtype)
    retain(id(dtype))  # the function takes over one reference
    made = create(np.ndarray, id(dtype), 2, ctypes.addressof((ctypes.c_ssize_t * 2)(3, 5)), None, None, 0, None)
    right = type(made) is np.ndarray and made.shape == (3, 5) and made.dtype is dtype and made.flags.c_contiguous
    del made
    return right and sys.getrefcount(dtype) == before


def _set_base_works(layout: Layout) -> bool:
    """Whether the functions in NumPy's table make an array on the memory of another one."""
    create = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p,
                               ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(layout.new_array)
    retain = ctypes.PYFUNCTYPE(None, ctypes.py_object)(layout.retain)
    set_base = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object)(layout.set_base)
    owner = np.arange(6, dtype=np.float32).reshape(2, 3)
    shape, strides = (ctypes.c_ssize_t * 2)(3, 2), (ctypes.c_ssize_t * 2)(4, 12)
    for flags in (WRITEABLE, 0):
        retain(owner.dtype)
        made = create(np.ndarray, id(owner.dtype), 2, ctypes.addressof(shape), ctypes.addressof(strides),
                      owner.ctypes.data, flags, None)
        retain(owner)
        right = set_base(made, owner) == 0 and np.array_equal(made, owner.T) and np.shares_memory(made, owner)
        if not right or made.base is None or made.flags.writeable != bool(flags) or made.flags.owndata:
            return False
    return True


#: The number by which ``PyType_GetSlot`` knows ``tp_new``.
_TP_NEW: Final = 65


def _functions() -> dict[str, int]:
    """Return the addresses of the C functions."""
    api = ctypes.pythonapi
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    table = api.PyCapsule_GetPointer(capsule, None)
    named = {"call": api.PyObject_Vectorcall, "retain": api.Py_IncRef, "release": api.Py_DecRef,
             "clear": api.PyErr_Clear,
             "set_variable": api.PyContextVar_Set, "reset_variable": api.PyContextVar_Reset,
             "tuple_size": api.PyTuple_Size, "tuple_new": api.PyTuple_New,
             "tuple_set": api.PyTuple_SetItem, "new_integer": api.PyLong_FromLongLong,
             "list_new": api.PyList_New, "list_get": api.PyList_GetItem, "list_set": api.PyList_SetItem,
             "get_attribute": api.PyObject_GetAttr, "set_attribute": api.PyObject_SetAttr,
             "is_subtype": api.PyType_IsSubtype, "as_integer": api.PyLong_AsLongLongAndOverflow}
    found = {name: ctypes.cast(function, ctypes.c_void_p).value or 0 for name, function in named.items()}
    api.PyType_GetSlot.restype = ctypes.c_void_p
    api.PyType_GetSlot.argtypes = [ctypes.py_object, ctypes.c_int]
    return found | {"new_array": _word(table + _WORD * _NEW_FROM_DESCR),
                    "set_base": _word(table + _WORD * _SET_BASE_OBJECT),
                    "new_object": api.PyType_GetSlot(object, _TP_NEW)}


def _new_object_works(layout: Layout) -> bool:
    """Whether the function makes objects as ``object.__new__`` does, and floats have their value where expected."""

    class Specimen:
        __slots__ = ("x",)

    create = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, ctypes.c_void_p)(layout.new_object)
    made = create(Specimen, (), None)
    value = 1.25e-7
    return (type(made) is Specimen and not hasattr(made, "x")
            and ctypes.c_double.from_address(id(value) + layout.number).value == value)


def _reads_sequences(layout: Layout) -> bool:
    """Whether lists and tuples have their length and their items where expected."""
    for k in range(1, 4):
        parts = [object() for _ in range(k)]
        several = tuple(parts)
        places = _word(id(parts) + layout.items), id(several) + layout.items
        if {_word(id(parts) + layout.length), _word(id(several) + layout.length)} != {k}:
            return False
        if any(_word(place + _WORD * n) != id(part) for place in places for n, part in enumerate(parts)):
            return False
    return True


def find_layout() -> Layout | None:
    """Return the layout of this process; None if the checks fail."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != _WORD:
        return None
    if sysconfig.get_config_var("Py_GIL_DISABLED") or hasattr(sys, "getobjects"):
        return None  # other object headers: without the interpreter's lock, or with tracing
    header = object.__basicsize__
    try:
        layout = Layout(header - _WORD, header, header + _WORD, header + 2 * _WORD, header + 3 * _WORD,
                        header + 5 * _WORD, header + 6 * _WORD, number=header, length=header, items=header + _WORD,
                        **_functions())
    except (AttributeError, ValueError):  # this NumPy has its table elsewhere
        return None
    right = all(_reads_right(array, layout) for array in _specimens())
    right = right and _new_array_works(layout) and _new_object_works(layout) and _reads_sequences(layout)
    right = right and _set_base_works(layout)
    return layout if right else None


#: The layout of this process; None if native entries cannot run in it.
LAYOUT: Final = find_layout()
