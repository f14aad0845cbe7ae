"""Comparisons, tests of values, and the logic of truth values and bits."""

from __future__ import annotations

import math
from typing import Any, Final

from ..kinds.pointwise import Pointwise
from .arithmetic import is_float

_TEST: Final[dict[str, Any]] = {"result": "bool"}
#: Numbers are rounded to the elements' dtype before the comparison.
_COMPARE: Final[dict[str, Any]] = {"result": "bool", "inplace": True, "stored": True}
_EQUALITY: Final[dict[str, Any]] = {**_COMPARE, "kinds": "bifc8"}
_LOGIC: Final[dict[str, Any]] = {**_COMPARE, "kinds": "bifc"}

eq: Final = Pointwise("eq(Tensor input, Operand other) -> Tensor", "input == other.", lambda m, x, y: m.eq(x, y),
                      dunder=("__eq__",), **_EQUALITY)
ne: Final = Pointwise("ne(Tensor input, Operand other) -> Tensor", "input != other.", lambda m, x, y: m.ne(x, y),
                      dunder=("__ne__",), aliases=("not_equal",), **_EQUALITY)
lt: Final = Pointwise("lt(Tensor input, Operand other) -> Tensor", "input < other.", lambda m, x, y: x < y,
                      dunder=("__lt__",), aliases=("less",), **_COMPARE)
le: Final = Pointwise("le(Tensor input, Operand other) -> Tensor", "input <= other.", lambda m, x, y: x <= y,
                      dunder=("__le__",), aliases=("less_equal",), **_COMPARE)
gt: Final = Pointwise("gt(Tensor input, Operand other) -> Tensor", "input > other.", lambda m, x, y: y < x,
                      dunder=("__gt__",), aliases=("greater",), **_COMPARE)
ge: Final = Pointwise("ge(Tensor input, Operand other) -> Tensor", "input >= other.", lambda m, x, y: y <= x,
                      dunder=("__ge__",), aliases=("greater_equal",), **_COMPARE)
isnan: Final = Pointwise("isnan(Tensor input) -> Tensor", "Whether elements are NaN.", lambda m, x: m.ne(x, x),
                         kinds="bifc8", **_TEST)


def _isinf(m: Any, x: Any) -> Any:
    if m.dtype.kind == "complex":
        return m.eq(m.abs(m.real(x)), math.inf) | m.eq(m.abs(m.imag(x)), math.inf)
    return m.eq(m.abs(x), math.inf) if is_float(m) else m.ne(x, x)


def _isfinite(m: Any, x: Any) -> Any:
    if m.dtype.kind == "complex":
        return (m.abs(m.real(x)) < math.inf) & (m.abs(m.imag(x)) < math.inf)
    return m.abs(x) < math.inf if is_float(m) else m.eq(x, x)


isinf: Final = Pointwise("isinf(Tensor input) -> Tensor", "Whether elements are infinite, or a part of them is.",
                         _isinf, kinds="bifc", **_TEST)
isfinite: Final = Pointwise("isfinite(Tensor input) -> Tensor", "Whether elements are neither infinite nor NaN.",
                            _isfinite, kinds="bifc", **_TEST)
logical_not: Final = Pointwise(
    "logical_not(Tensor input) -> Tensor", "Whether elements are zero.", lambda m, x: m.eq(x, 0), **_LOGIC
)
logical_and: Final = Pointwise("logical_and(Tensor input, Tensor other) -> Tensor", "Whether both are not zero.",
                               lambda m, x, y: m.ne(x, 0) & m.ne(y, 0), **_LOGIC)
logical_or: Final = Pointwise("logical_or(Tensor input, Tensor other) -> Tensor", "Whether one is not zero.",
                              lambda m, x, y: m.ne(x, 0) | m.ne(y, 0), **_LOGIC)
logical_xor: Final = Pointwise("logical_xor(Tensor input, Tensor other) -> Tensor", "Whether exactly one is not zero.",
                               lambda m, x, y: m.ne(x, 0) ^ m.ne(y, 0), **_LOGIC)

_BITS: Final[dict[str, Any]] = {"kinds": "bi", "inplace": True}

bitwise_and: Final = Pointwise(
    "bitwise_and(Tensor input, Operand other) -> Tensor",
    "And of every bit.",
    lambda m, x, y: x & y,
    dunder=("__and__", "__rand__"),
    **_BITS,
)
bitwise_or: Final = Pointwise(
    "bitwise_or(Tensor input, Operand other) -> Tensor",
    "Or of every bit.",
    lambda m, x, y: x | y,
    dunder=("__or__", "__ror__"),
    **_BITS,
)
bitwise_xor: Final = Pointwise("bitwise_xor(Tensor input, Operand other) -> Tensor", "Exclusive or of every bit.",
                               lambda m, x, y: x ^ y, dunder=("__xor__", "__rxor__"), **_BITS)
bitwise_not: Final = Pointwise("bitwise_not(Tensor input) -> Tensor", "Every bit flipped; for bool: not input.",
                               lambda m, x: ~x, dunder=("__invert__",), **_BITS)
