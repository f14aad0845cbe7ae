"""Type promotion, PyTorch's rules: categories first (bool < integral < floating < complex), and within the highest
category dimensioned tensors outrank zero-dimensional ones, which outrank Python numbers.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentTypeError, DtypeError

from .dispatch.keys import DIM0, DTYPE_MASK, DTYPE_OF

_DEFAULT: Final[list[DType]] = [dtypes.float32]
_CATEGORY_OF_NUMBER: Final[dict[type, int]] = {bool: 0, int: 1, float: 2, complex: 3}


def get_default_dtype() -> DType:
    """The dtype of floating-point factories and of Python floats."""
    return _DEFAULT[0]


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype of floating-point factories.

    Raises:
        ArgumentTypeError: ``dtype`` is not a floating-point dtype.
    """
    if not isinstance(dtype, DType) or not dtype.is_floating_point:
        raise ArgumentTypeError("set_default_dtype", repr(dtype), "the default dtype is a floating-point dtype",
                                "pass for example tensocket.float32")
    _DEFAULT[0] = dtype


@cache
def promote_types(a: DType, b: DType) -> DType:
    """The smallest dtype that both convert to, as ``torch.promote_types``.

    >>> promote_types(dtypes.uint8, dtypes.int8)
    tensocket.int16

    Raises:
        DtypeError: The pair has no common dtype (float8 with others; uint16, uint32, uint64 with signed integers).
    """
    if a is b:
        return a
    if a.category != b.category:
        low, high = (a, b) if a.category < b.category else (b, a)
        if high.kind == "complex" and low is dtypes.float64:
            return dtypes.complex128
        return high
    if a.kind == "float":
        return _promote_floats(a, b)
    if a.kind == "complex":
        return dtypes.complex128
    if a.kind == b.kind:
        return a if a.itemsize > b.itemsize else b
    unsigned, signed = (a, b) if a.kind == "uint" else (b, a)
    if unsigned is not dtypes.uint8:
        raise DtypeError(
            "promote_types",
            f"{a.name} and {b.name}",
            "wide unsigned integers do not mix with signed ones",
            "convert one of them with .to(dtype)",
        )
    return dtypes.int16 if signed is dtypes.int8 else signed


def _promote_floats(a: DType, b: DType) -> DType:
    if a.itemsize == 1 or b.itemsize == 1:
        raise DtypeError("promote_types", f"{a.name} and {b.name}", "float8 dtypes are for storage",
                         "convert with .to(dtype) first")
    if a.itemsize == b.itemsize:  # float16 with bfloat16
        return dtypes.float32
    return a if a.itemsize > b.itemsize else b


def number_dtype(category: int) -> DType:
    """The dtype of a Python number of a category when no tensor decides."""
    if category == 2:
        return _DEFAULT[0]
    if category == 3:
        return dtypes.complex128 if _DEFAULT[0] is dtypes.float64 else dtypes.complex64
    return dtypes.bool_ if category == 0 else dtypes.int64


def result_type(operands: Iterable[Any]) -> DType:
    """The dtype in which an operator computes on tensors and Python numbers.

    Raises:
        ArgumentTypeError: An operand is neither.
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
    result = dims
    if zeros is not None and (result is None or zeros.category > result.category):
        result = zeros if result is None else promote_types(result, zeros)
    if number >= 0 and (result is None or number > result.category):
        if number == 3 and result is not None and result.kind == "float":
            return dtypes.complex128 if result is dtypes.float64 else dtypes.complex64
        result = number_dtype(number)
    assert result is not None, "an operator has at least one operand"
    return result


def pair_type(tensor1: Any, tensor2: Any) -> DType:
    """The dtype in which an operator computes on two operands, tensors or Python numbers: ``torch.result_type``."""
    return result_type((tensor1, tensor2))


def can_cast(source: DType, target: DType) -> bool:
    """Whether an in-place operator may store ``source`` values into ``target``: the category must not shrink."""
    return source.category <= target.category and not (source.category and target.kind == "bool")
