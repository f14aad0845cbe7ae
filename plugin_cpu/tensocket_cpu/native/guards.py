"""Guards of native entries: the checks of arrays and of numbers; calls that fail one go to ``slow``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import DType

from .builder import NULL, Operand, Value
from .layout import DENSE, WRITEABLE

#: Integers up to this magnitude are exact in double precision.
_EXACT: Final = 1 << 53
#: The highest rank for which an entry recognizes the last dimension by its nonnegative number.
_RANKS: Final = 4
#: Constants of LLVM IR.
_INFINITIES: Final = ("0x7FF0000000000000", "0xFFF0000000000000")


def checked_array(item: Value) -> Value:
    """Return an object that is an array; this check comes before all others, because only arrays have the fields."""
    f = item.function
    f.require(item.field("type") == f.object(np.ndarray))
    return item


def fits(array: Value, dtype: np.dtype[Any], rank: Operand, flags: int = DENSE) -> list[Value]:
    """Compare dtype and rank of an array, and test flags."""
    return [array.field("dtype") == array.function.object(dtype), array.field("flags") & flags == flags,
            array.field("rank") == rank]


def check_target(target: Value, others: Sequence[Value], nbytes: Value, counter: Value) -> None:
    """Check that an array may be written, and partly overlaps none of the others, which have as many bytes.

    The counter in its object must be of a known kind.
    """
    f = target.function
    conditions = [target.field("flags") & WRITEABLE != 0, counter != NULL]
    start = target.field("data", "i64")
    for other in others:
        distance = other.field("data", "i64") - start
        conditions.append((distance >= nbytes) | (distance + nbytes <= 0) | (distance == 0))
    f.require(*conditions)
    with f.when(counter != f.object(None)):
        f.require(counter.field("type") == f.object(list))


def python_int(item: Value) -> Value:
    """Return the value of an int that a word holds."""
    f = item.function
    f.require(item.field("type") == f.object(int))
    return int_word(item)


def int_word(item: Value) -> Value:
    """Return the value of an int that a word holds, where the object is an int."""
    f = item.function
    beyond = f.stack(1, "i32")
    value = f.api("PyLong_AsLongLongAndOverflow", item, beyond)
    f.require(beyond.load(type_="i32") == 0)
    return value


def python_number(item: Value, dtype: DType) -> Value:
    """Return a Python number of an exact type as the word of a scalar's slot: a double, or an integer of the dtype.

    The next path serves numbers that the dtype cannot hold.
    """
    if dtype.kind == "float":
        return _python_float(item, dtype).cast("bitcast", "i64")
    value = python_int(item)
    if dtype.itemsize < 8:
        narrow = value.cast("trunc", f"i{8 * dtype.itemsize}")
        item.function.require(_widened(narrow, dtype) == value)
    return value


def _widened(value: Value, dtype: DType) -> Value:
    return value.cast("sext" if dtype.kind == "int" else "zext", "i64")


def _python_float(item: Value, dtype: DType) -> Value:
    f = item.function
    place = f.stack(1, "double")
    with f.when(item.field("type") == f.object(float)):
        place.store(item.field("number"))
    with f.otherwise():
        value = python_int(item)
        f.require((value + _EXACT).compare("ule", 2 * _EXACT))
        place.store(value.cast("sitofp", "double"))
    number = place.load(type_="double")
    if dtype.itemsize == 8:
        return number
    single = number.cast("fptrunc", "float").cast("fpext", "double")
    # The difference is infinite only if rounding made a finite number infinite.
    lost = f.op("double", f"fsub double {single}, {number}")
    f.require(*[f.op("i1", f"fcmp une double {lost}, {infinity}") for infinity in _INFINITIES])
    return single


def element_word(array: Value, dtype: DType) -> Value:
    """Return the element of a 0-d array as the word of a scalar's slot: a double, or an integer."""
    data = array.field("data")
    if dtype.kind == "float":
        value = data.load(type_="double" if dtype.itemsize == 8 else "float")
        return (value if dtype.itemsize == 8 else value.cast("fpext", "double")).cast("bitcast", "i64")
    value = data.load(type_=f"i{8 * dtype.itemsize}")
    return value if dtype.itemsize == 8 else _widened(value, dtype)


def is_last_dim(dim: Value, rank: Value) -> Value:
    """Test whether an object is the int -1 or rank - 1; CPython has one object for each of these numbers."""
    f = dim.function
    found = dim == f.object(-1)
    for last in range(_RANKS):
        found = found | (rank == last + 1) & (dim == f.object(last))
    return found
