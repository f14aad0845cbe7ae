"""Shifts of integers. A count that is negative or as large as the number of bits shifts everything out."""

from __future__ import annotations

from typing import Any, Final

from ..kinds.pointwise import Pointwise


def _count(m: Any, count: Any, far: int) -> tuple[Any, Any]:
    """Return whether a count shifts everything out, and a count that devices can shift by."""
    beyond = count >= 8 * m.dtype.itemsize
    if m.dtype.is_signed:
        beyond = beyond | (count < 0)
    return beyond, m.where(beyond, far, count)


def _left_shift(m: Any, x: Any, count: Any) -> Any:
    beyond, count = _count(m, count, 0)
    return m.where(beyond, 0, x << count)


def _right_shift(m: Any, x: Any, count: Any) -> Any:
    """Shift right and keep the sign: a shift by all bits but the sign leaves only the sign."""
    if m.dtype.is_signed:
        return x >> _count(m, count, 8 * m.dtype.itemsize - 1)[1]
    beyond, count = _count(m, count, 0)
    return m.where(beyond, 0, x >> count)


bitwise_left_shift: Final = Pointwise(
    "bitwise_left_shift(Tensor input, Operand other) -> Tensor", "Bits moved up: input * 2 ** other.", _left_shift,
    kinds="i", inplace=True, dunder=("__lshift__", "__rlshift__"))
bitwise_right_shift: Final = Pointwise(
    "bitwise_right_shift(Tensor input, Operand other) -> Tensor",
    "Bits moved down, the sign kept: floor(input / 2 ** other).", _right_shift, kinds="i", inplace=True,
    dunder=("__rshift__", "__rrshift__"))
