"""The standard's promotion: every array counts, regardless of its rank, and numbers take their array's dtype."""

from __future__ import annotations

from typing import Any, Final

import tensocket_operators as core
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentTypeError

_SIGNED: Final = {1: core.int8, 2: core.int16, 4: core.int32, 8: core.int64}
_CATEGORY: Final[dict[type, int]] = {bool: 0, int: 1, float: 2, complex: 3}

#: Dtypes of the standard, by name.
DTYPES: Final[dict[str, DType]] = {
    "bool": core.bool_, "int8": core.int8, "int16": core.int16, "int32": core.int32, "int64": core.int64,
    "uint8": core.uint8, "uint16": core.uint16, "uint32": core.uint32, "uint64": core.uint64,
    "float32": core.float32, "float64": core.float64, "complex64": core.complex64, "complex128": core.complex128,
}
#: Kinds of the standard's ``isdtype``, and the kinds of dtypes in them.
KINDS: Final[dict[str, tuple[str, ...]]] = {
    "bool": ("bool",), "signed integer": ("int",), "unsigned integer": ("uint",), "integral": ("int", "uint"),
    "real floating": ("float",), "complex floating": ("complex",), "numeric": ("int", "uint", "float", "complex"),
}


def promoted(a: DType, b: DType) -> DType:
    """Return the dtype that two dtypes promote to; for signed and unsigned integers, the signed one that holds both.

    Raises:
        DtypeError: No such dtype exists, as for uint64 with signed integers.
    """
    if a.kind == b.kind:
        return a if a.itemsize >= b.itemsize else b
    if "bool" in (a.kind, b.kind):
        return b if a.kind == "bool" else a
    if {a.kind, b.kind} == {"int", "uint"}:
        signed, unsigned = (a, b) if a.kind == "int" else (b, a)
        wanted = max(signed.itemsize, 2 * unsigned.itemsize)
        if wanted in _SIGNED:
            return _SIGNED[wanted]
    if "complex" in (a.kind, b.kind) and "float" in (a.kind, b.kind):
        real, whole = (a, b) if a.kind == "float" else (b, a)
        return core.complex128 if real is core.float64 else whole
    return core.promote_types(a, b)


def is_array(value: Any) -> bool:
    """Whether a value is an array of this namespace."""
    return isinstance(value, core.Tensor)


def number_type(value: Any, dtype: DType) -> DType:
    """Return the dtype of a number next to an array of ``dtype``: that dtype, or the default one of a higher kind.

    Raises:
        ArgumentTypeError: ``value`` is not a number.
    """
    category = _CATEGORY.get(type(value))
    if category is None:
        raise ArgumentTypeError("result_type", f"a {type(value).__name__}", "operands are arrays or Python numbers",
                                "convert it with asarray(...)")
    if category <= dtype.category:
        return dtype
    if category == 3 and dtype.kind == "float":
        return core.complex128 if dtype is core.float64 else core.complex64
    if category == 3:
        return core.complex128 if core.get_default_dtype() is core.float64 else core.complex64
    return core.get_default_dtype() if category == 2 else core.int64


def common(*values: Any) -> DType:
    """Return the dtype that arrays, dtypes and numbers promote to.

    Raises:
        ArgumentTypeError: None of the arguments is an array or a dtype.
    """
    found = [x if isinstance(x, DType) else x.dtype for x in values if isinstance(x, DType) or is_array(x)]
    if not found:
        raise ArgumentTypeError("result_type", "numbers only", "an array or a dtype is among the operands",
                                "convert one with asarray(...)")
    result = found[0]
    for dtype in found[1:]:
        result = promoted(result, dtype)
    for value in values:
        if not isinstance(value, DType) and not is_array(value):
            result = number_type(value, result)
    return result


def together(*values: Any) -> tuple[Any, ...]:
    """Convert arrays and numbers to arrays of their common dtype, on the device of the arrays."""
    arrays = [x for x in values if is_array(x)]
    if len(arrays) == len(values) and all(x.dtype is arrays[0].dtype for x in arrays[1:]):
        return values
    dtype = common(*values)
    device = arrays[0].device
    return tuple(x.to(dtype) if is_array(x) else core.full((), x, dtype=dtype, device=device) for x in values)
