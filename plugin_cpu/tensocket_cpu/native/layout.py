"""Byte offsets of the fields that native entries read in this interpreter and this NumPy; checked, never assumed.

A native entry reads fields of array objects in memory. ``find_layout`` reads the expected offsets in arrays whose
attributes are known; if a single value is wrong, it returns no layout, and no native code runs.
"""

from __future__ import annotations

import ctypes
import sys
import sysconfig
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

_WORD: Final = 8
#: Bit of arrays whose elements are aligned.
ALIGNED: Final = 0x0100
#: Bits of an array's flags field: C-contiguous and aligned.
DENSE: Final = 0x0001 | ALIGNED
#: Bit of writeable arrays.
WRITEABLE: Final = 0x0400
#: Indices in NumPy's table of C functions, the same since NumPy 1.7.
_NUMPY_FUNCTIONS: Final = {"PyArray_NewFromDescr": 94, "PyArray_SetBaseObject": 282}
_PYTHON_FUNCTIONS: Final = (
    "PyObject_Vectorcall", "Py_IncRef", "Py_DecRef", "PyErr_Clear", "PyContextVar_Set", "PyContextVar_Reset",
    "PyTuple_Size", "PyTuple_New", "PyTuple_SetItem", "PyList_New", "PyList_GetItem", "PyList_SetItem",
    "PyLong_FromLongLong", "PyLong_AsLongLongAndOverflow", "PyObject_GetAttr", "PyObject_SetAttr", "PyType_IsSubtype",
    "PyObject_RichCompareBool")
#: The number by which ``PyType_GetSlot`` knows ``tp_new``.
_TP_NEW: Final = 65
_P: Final = ctypes.c_void_p


@dataclass(frozen=True, slots=True)
class Layout:
    """Byte offsets in objects, and addresses of C functions.

    Attributes:
        type: Offset of any object's type.
        data, rank, shape, strides, dtype, flags: Offsets of an array's fields.
        number: Offset of a float's value.
        length: Offset of the number of items of a list or tuple.
        items: Offset of a tuple's items, and of the address of a list's.
        functions: The addresses by the functions' names; ``object_new`` is the one that ``object.__new__`` calls.
    """

    type: int
    data: int
    rank: int
    shape: int
    strides: int
    dtype: int
    flags: int
    number: int
    length: int
    items: int
    functions: Mapping[str, int]


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
    place, flags = id(array), array.flags
    rank = _half(place + at.rank)
    if rank != array.ndim or _word(place + at.type) != id(np.ndarray) or _word(place + at.dtype) != id(array.dtype):
        return False
    sizes, steps = _word(place + at.shape), _word(place + at.strides)
    bits = ((WRITEABLE if flags.writeable else 0) | (DENSE & ~ALIGNED if flags.c_contiguous else 0)
            | (ALIGNED if flags.aligned else 0))
    return (_word(place + at.data) == array.__array_interface__["data"][0]
            and _half(place + at.flags) & (DENSE | WRITEABLE) == bits
            and tuple(_word(sizes + _WORD * k) for k in range(rank)) == array.shape
            and tuple(ctypes.c_int64.from_address(steps + _WORD * k).value for k in range(rank)) == array.strides)


def _retain(layout: Layout, value: Any) -> None:
    ctypes.PYFUNCTYPE(None, ctypes.py_object)(layout.functions["Py_IncRef"])(value)


def _new_array(layout: Layout, shape: tuple[int, int], strides: tuple[int, int] | None = None, data: int | None = None,
               flags: int = 0) -> np.ndarray[Any, Any]:
    """Make a matrix of float32 by the function in NumPy's table."""
    create = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, _P, ctypes.c_int, _P, _P, _P, ctypes.c_int, _P)(
        layout.functions["PyArray_NewFromDescr"])
    sizes, steps = (None if x is None else ctypes.byref((ctypes.c_ssize_t * 2)(*x)) for x in (shape, strides))
    dtype = np.dtype(np.float32)
    _retain(layout, dtype)  # the function takes over one reference
    made: np.ndarray[Any, Any] = create(np.ndarray, id(dtype), 2, sizes, steps, data, flags, None)
    return made


def _new_array_works(layout: Layout) -> bool:
    """Whether the function in NumPy's table makes an array of a given shape and dtype."""
    dtype = np.dtype(np.float32)
    before = sys.getrefcount(dtype)
    made = _new_array(layout, (3, 5))
    right = type(made) is np.ndarray and made.shape == (3, 5) and made.dtype is dtype and made.flags.c_contiguous
    del made
    return right and sys.getrefcount(dtype) == before


def _set_base_works(layout: Layout) -> bool:
    """Whether the functions in NumPy's table make an array on the memory of another one."""
    set_base = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.py_object)(
        layout.functions["PyArray_SetBaseObject"])
    owner = np.arange(6, dtype=np.float32).reshape(2, 3)
    for flags in (WRITEABLE, 0):
        made = _new_array(layout, (3, 2), (4, 12), owner.ctypes.data, flags)
        _retain(layout, owner)
        right = set_base(made, owner) == 0 and np.array_equal(made, owner.T) and np.shares_memory(made, owner)
        if not right or made.base is None or made.flags.writeable != bool(flags) or made.flags.owndata:
            return False
    return True


def _new_object_works(layout: Layout) -> bool:
    """Whether the function makes objects as ``object.__new__`` does, and floats have their value where expected."""

    class Specimen:
        __slots__ = ("x",)

    create = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object, _P)(layout.functions["object_new"])
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


_CHECKS: Final[tuple[Callable[[Layout], bool], ...]] = (
    _new_array_works, _new_object_works, _reads_sequences, _set_base_works)


def _functions() -> dict[str, int]:
    """Return the addresses of the C functions."""
    api = ctypes.pythonapi
    found = {name: ctypes.cast(getattr(api, name), _P).value or 0 for name in _PYTHON_FUNCTIONS}
    api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = _P, [ctypes.py_object, ctypes.c_char_p]
    api.PyType_GetSlot.restype, api.PyType_GetSlot.argtypes = _P, [ctypes.py_object, ctypes.c_int]
    capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    table = api.PyCapsule_GetPointer(capsule, None)
    found |= {name: _word(table + _WORD * index) for name, index in _NUMPY_FUNCTIONS.items()}
    return found | {"object_new": api.PyType_GetSlot(object, _TP_NEW)}


def find_layout() -> Layout | None:
    """Return the layout of this process; None if the checks fail."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(_P) != _WORD:
        return None
    if sysconfig.get_config_var("Py_GIL_DISABLED") or hasattr(sys, "getobjects"):
        return None  # other object headers: without the interpreter's lock, or with tracing
    header = object.__basicsize__
    data, rank, shape, strides, _, dtype, flags = (header + _WORD * k for k in range(7))
    try:
        layout = Layout(header - _WORD, data, rank, shape, strides, dtype, flags, number=header, length=header,
                        items=header + _WORD, functions=_functions())
    except (AttributeError, ValueError):  # this NumPy has its table elsewhere
        return None
    right = all(_reads_right(array, layout) for array in _specimens()) and all(check(layout) for check in _CHECKS)
    return layout if right else None


#: The layout of this process; None if native entries cannot run in it.
LAYOUT: Final = find_layout()
