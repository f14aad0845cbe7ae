"""Conversion of Python numbers to kernel arguments: the numbers that a dtype holds, and the dtype that kernels expect.

Every path of an operator, from native entries to primitives, converts its numbers here, so that all of them round and
wrap alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ..limits import finfo
from .host_convert import native_values, to_dtype

Convert = Callable[[Any], Any]
#: Types of operands that are not tensors.
NUMBER_TYPES: Final = (bool, int, float, complex)


def plain_number(value: Any) -> Any:
    """Return the Python number of a one-element tensor without gradient, and any other value unchanged."""
    return value.item() if hasattr(value, "_key") and not value.requires_grad else value


def as_number(value: Any, dtype: DType) -> Any:
    """Convert a Python number to an argument of a dtype; integers wrap as in two's complement."""
    if dtype.kind == "complex":
        return complex(value)
    if type(value) is complex:
        value = value.real
    if dtype.kind == "float":
        return float(value)
    if dtype.kind == "bool":
        return bool(value)
    bits = 8 * dtype.itemsize
    wrapped = int(value) & ((1 << bits) - 1)
    return wrapped - (1 << bits) if dtype.kind == "int" and wrapped >> (bits - 1) else wrapped


@cache
def number_range(dtype: DType) -> tuple[float, float]:
    """Return the smallest and the largest finite number of a dtype, or of the parts of a complex one."""
    if dtype.kind in ("int", "uint"):
        highest = (1 << (8 * dtype.itemsize - (dtype.kind == "int"))) - 1
        return (-highest - 1 if dtype.kind == "int" else 0), highest
    if dtype.kind == "bool":
        return -math.inf, math.inf
    return finfo(dtype).min, finfo(dtype).max


def check_range(operator: str, value: Any, dtype: DType) -> None:
    """Refuse a value that is not a number, or is finite and beyond the dtype's range; unsigned ints wrap negatives.

    Raises:
        ArgumentTypeError: The value is not a number.
        ArgumentError: The value is out of range.
    """
    if not isinstance(value, (bool, int, float, complex, np.generic)):
        raise ArgumentTypeError(operator, f"a value of type {type(value).__name__}", "elements are numbers",
                                "pass a Python number")
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, complex) and dtype.kind not in ("complex", "bool"):
        if value.imag:
            raise ArgumentError(operator, f"{value!r} for {dtype.name}", "real numbers have no imaginary part",
                                "use a complex dtype")
        value = value.real
    lowest, highest = number_range(dtype)
    for part in (value.real, value.imag) if isinstance(value, complex) else (value,):
        special = dtype.category > 1 and not math.isfinite(part)
        if not special and not (-highest if dtype.kind == "uint" else lowest) <= part <= highest:
            raise ArgumentError(operator, f"{value!r} for {dtype.name}", f"the dtype holds numbers up to {highest}",
                                "use a wider dtype")


def rounded(value: Any, dtype: DType) -> Any:
    """Round a number to ``dtype``, as storing it would, and return it in the arithmetic dtype."""
    return native_values(to_dtype(np.asarray(value), dtype), dtype).item()


@cache
def converter(operator: str, compute: DType, holds: DType | None = None, stored: bool = False) -> Convert:
    """Return a function that converts a Python number to the dtype that kernels of ``compute`` calculate in.

    Kernels calculate with narrow floats in float32. Numbers among their operands are not rounded first.

    Args:
        operator: Name, for errors.
        compute: Dtype of the operands.
        holds: The dtype that must hold the number; if None, integers wrap, and floats overflow to infinity.
        stored: Whether the number is rounded to ``compute`` first.
    """
    work = arithmetic_dtype(compute)
    lowest, highest = (-math.inf, math.inf) if holds is None else number_range(holds)

    def convert(value: Any) -> Any:
        if holds is not None and (type(value) is complex or not lowest <= value <= highest):
            check_range(operator, value, holds)
        number = as_number(value, work)
        return rounded(number, compute) if stored and work is not compute else number

    return convert
