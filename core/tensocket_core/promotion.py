"""Type promotion by PyTorch's rules.

The category decides first (bool < integral < floating < complex). Within the highest category, tensors with dimensions
outrank zero-dimensional ones, which outrank Python numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType, as_dtype
from tensocket_plugins.contract.errors import ArgumentTypeError, DtypeError

from .keys import DIM0, DTYPE_MASK, DTYPE_OF

_DTYPE_VARIABLE: Final = "TENSOCKET_DEFAULT_DTYPE"
_CATEGORY_OF_NUMBER: Final[dict[type, int]] = {bool: 0, int: 1, float: 2, complex: 3}
#: Dtypes for storage: tensors are converted to and from them and copied, but operators do not compute in them.
FLOAT8: Final = frozenset({dtypes.float8_e4m3fn, dtypes.float8_e5m2})
#: Unsigned integers that have no common dtype with other integers.
WIDE_UNSIGNED: Final = frozenset({dtypes.uint16, dtypes.uint32, dtypes.uint64})


def get_default_dtype() -> DType:
    """Return the dtype of floating-point factories and of Python floats."""
    return DEFAULT_DTYPE[0]


def _checked_default(operator: str, dtype: Any, given: str) -> DType:
    if not isinstance(dtype, DType) or not dtype.is_floating_point or dtype.itemsize == 1:
        raise ArgumentTypeError(operator, given, "the default dtype is a floating-point dtype that is computed with",
                                "pass float32, float64, float16 or bfloat16")
    return dtype


def _first_default() -> DType:
    """Return the default dtype of a new process, from the environment."""
    name = os.environ.get(_DTYPE_VARIABLE, "") or "float32"
    return _checked_default(_DTYPE_VARIABLE, dtypes.BY_NAME.get(name), f"the value {name!r}")


#: The default dtype, in a list of one.
DEFAULT_DTYPE: Final[list[DType]] = [_first_default()]


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype of floating-point factories, for the whole process.

    Raises:
        ArgumentTypeError: ``dtype`` is not a floating-point dtype, or float8.
    """
    DEFAULT_DTYPE[0] = _checked_default("set_default_dtype", dtype, repr(dtype))


@contextmanager
def default_dtype(dtype: Any) -> Iterator[None]:
    """Set the dtype of floating-point factories within a ``with`` block.

    Raises:
        ArgumentTypeError: ``dtype`` is not a floating-point dtype, or float8.
    """
    before = DEFAULT_DTYPE[0]
    set_default_dtype(dtype)
    try:
        yield
    finally:
        DEFAULT_DTYPE[0] = before


@cache
def promote_types(a: DType, b: DType) -> DType:
    """Return the smallest dtype that both convert to, as ``torch.promote_types``.

    >>> promote_types(dtypes.uint8, dtypes.int8)
    tensocket.int16

    Raises:
        DtypeError: The pair has no common dtype: float8 with any other dtype; uint16, uint32 and uint64 with any other
            except real floats.
    """
    if a is b and type(a) is DType:
        return a
    a, b = as_dtype(a) or a, as_dtype(b) or b
    if a is b:
        return a
    _check_pair(a, b)
    if a.category != b.category:
        low, high = (a, b) if a.category < b.category else (b, a)
        if high.kind == "complex" and low.kind == "float":
            other = low.to_complex()
            return high if high.itemsize > other.itemsize else other
        return high
    if a.kind == "float" and a.itemsize == b.itemsize:  # float16 with bfloat16
        return dtypes.float32
    if a.kind == b.kind:
        return a if a.itemsize > b.itemsize else b
    signed = a if a.kind == "int" else b
    return dtypes.int16 if signed is dtypes.int8 else signed


def _check_pair(a: DType, b: DType) -> None:
    """Raise for pairs of different dtypes without a common one."""
    if FLOAT8 & {a, b}:
        raise DtypeError("promote_types", f"{a.name} and {b.name}", "float8 dtypes are for storage",
                         "convert with .to(dtype) first")
    if WIDE_UNSIGNED & {a, b} and not (a.is_floating_point or b.is_floating_point):
        raise DtypeError("promote_types", f"{a.name} and {b.name}", "wide unsigned integers mix with real floats only",
                         "convert one of them with .to(dtype)")


def complex_dtype(dtype: DType) -> DType:
    """Return the complex dtype with the precision of a float one; complex64 for the half-precision types.

    Raises:
        DtypeError: The dtype is float8, which has no complex counterpart.
    """
    if dtype in FLOAT8:
        raise DtypeError("result_type", f"{dtype.name} and a complex number", "float8 dtypes are for storage",
                         "convert with .to(dtype) first")
    return dtypes.complex128 if dtype is dtypes.float64 else dtypes.complex64


def _with_parts(dtype: DType) -> DType:
    """Return the complex dtype for real parts of a dtype in promotion; complex32 for float16."""
    return dtypes.complex32 if dtype is dtypes.float16 else complex_dtype(dtype)


def number_dtype(category: int) -> DType:
    """Return the dtype of a Python number of a category when no tensor decides."""
    if category == 2:
        return DEFAULT_DTYPE[0]
    if category == 3:
        return DEFAULT_DTYPE[0].to_complex()
    return dtypes.bool_ if category == 0 else dtypes.int64


def result_type(operands: Iterable[Any]) -> DType:
    """Return the dtype in which an operator computes on tensors and Python numbers.

    Raises:
        ArgumentTypeError: An operand is neither a tensor nor a Python number.
    """
    dims: DType | None = None
    zeros: DType | None = None
    number = -1
    for operand in operands:
        key = getattr(operand, "_key", None)
        if key is None:
            category = _CATEGORY_OF_NUMBER.get(type(operand))
            if category is None:
                raise ArgumentTypeError("result_type", f"{type(operand).__name__}", "operands are tensors or numbers",
                                        "convert with tensocket.tensor(...)")
            number = max(number, category)
        else:
            dtype = DTYPE_OF[key & DTYPE_MASK]
            if key & DIM0:
                zeros = dtype if zeros is None else promote_types(zeros, dtype)
            else:
                dims = dtype if dims is None else promote_types(dims, dtype)
    result = _outranked(dims, zeros)
    if number >= 0 and (result is None or number > result.category):
        result = _with_parts(result) if result is not None and result.kind == "float" else number_dtype(number)
    assert result is not None, "an operator has at least one operand"
    return result


def _outranked(higher: DType | None, lower: DType | None) -> DType | None:
    """Return the dtype to which a higher and a lower rank promote; the lower rank contributes only its category."""
    if higher is None or lower is None:
        return lower if higher is None else higher
    if higher.kind == "float":
        return _with_parts(higher) if lower.kind == "complex" else higher
    if higher.category == 3 or lower.category == 1 == higher.category or lower.kind == "bool":
        return higher
    return lower if lower.kind == "complex" else promote_types(higher, lower)


def pair_type(tensor1: Any, tensor2: Any) -> DType:
    """Return the dtype in which an operator computes on two tensors or Python numbers, as ``torch.result_type``."""
    return result_type((tensor1, tensor2))


def can_cast(source: DType, target: DType) -> bool:
    """Whether an in-place operator may store ``source`` values into ``target``: the category must not shrink."""
    source, target = as_dtype(source) or source, as_dtype(target) or target
    return source.category <= target.category and not (source.category and target.kind == "bool")
