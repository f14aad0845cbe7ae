"""Elements without a type of their own in kernels: complex numbers are pairs of floats, float8 numbers are bytes.

Positions always count elements of the array.
"""

from __future__ import annotations

from typing import Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.ir.complex import Complex, convert
from tensocket_plugins.ir.element_types import COMPONENT, MOVED_AS, arithmetic_dtype
from tensocket_plugins.ir.nodes import Expr, Load, Stmt, Store, cast

from .float8 import LAYOUTS, decode, encode
from .math import ExprMath

_FLOAT32: Final = ExprMath(dtypes.float32)


def storage_dtype(dtype: DType) -> DType:
    """Return the element type of a kernel's buffer for arrays of ``dtype``."""
    return dtypes.uint8 if dtype in LAYOUTS else COMPONENT.get(dtype, dtype)


def load(array: str, position: Expr, dtype: DType) -> Any:
    """Return an element in its arithmetic dtype: an expression, or a ``Complex``."""
    part = COMPONENT.get(dtype)
    if part is not None:
        first = position * 2
        work = arithmetic_dtype(part)
        return Complex(*[cast(Load(array, place, part), work) for place in (first, first + 1)])
    if dtype in LAYOUTS:
        return decode(_FLOAT32, Load(array, position, dtypes.uint8), dtype)
    return cast(Load(array, position, dtype), arithmetic_dtype(dtype))


def stores(array: str, position: Expr, value: Any, dtype: DType) -> list[Stmt]:
    """Return statements that convert a value and store it as an element."""
    if dtype in LAYOUTS:
        return [Store(array, position, encode(_FLOAT32, convert(value, dtypes.float32), dtype))]
    value = convert(value, dtype)
    if isinstance(value, Complex):
        first = position * 2
        return [Store(array, first, value.re), Store(array, first + 1, value.im)]
    return [Store(array, position, value)]


def moves(target: str, to: Expr, source: str, position: Expr, dtype: DType) -> list[Stmt]:
    """Return statements that move an element's bits; both arrays must be declared with dtypes of ``MOVED_AS``."""
    word = MOVED_AS.get(dtype, dtype)
    if dtype.itemsize == word.itemsize:
        return [Store(target, to, Load(source, position, word))]
    first, into = position * 2, to * 2
    return [Store(target, into + k, Load(source, first + k, word)) for k in range(2)]
