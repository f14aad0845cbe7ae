"""Limits of a dtype's numbers: ``finfo`` and ``iinfo``."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType, as_dtype
from tensocket_plugins.contract.errors import ArgumentTypeError
from tensocket_plugins.ir.element_types import COMPONENT

from .promotion import get_default_dtype

#: Mantissa bits, exponent of the smallest normal number, largest number.
_FORMATS: Final[dict[DType, tuple[int, int, float]]] = {
    dtypes.float64: (52, -1022, (2.0 - 2.0**-52) * 2.0**1023),
    dtypes.float32: (23, -126, (2.0 - 2.0**-23) * 2.0**127),
    dtypes.float16: (10, -14, 65504.0),
    dtypes.bfloat16: (7, -126, (2.0 - 2.0**-7) * 2.0**127),
    dtypes.float8_e4m3fn: (3, -6, 448.0),
    dtypes.float8_e5m2: (2, -14, 57344.0),
}


class finfo:
    """Limits of a floating-point dtype; of a complex dtype, those of its parts.

    Args:
        type: The dtype; by default, the default dtype.

    Attributes:
        bits: Size of a number.
        eps: Distance from 1 to the next larger number.
        max: The largest number.
        min: The smallest number, which is ``-max``.
        tiny: The smallest positive number of full precision; ``smallest_normal`` is the same.
        resolution: The decimal resolution of numbers near 1.
        dtype: The dtype's name.

    Raises:
        ArgumentTypeError: The dtype is an integer dtype, or ``type`` is not a dtype.
    """

    __slots__ = ("bits", "dtype", "eps", "max", "min", "resolution", "smallest_normal", "tiny")

    def __init__(self, type: Any = None) -> None:
        found = get_default_dtype() if type is None else as_dtype(type) or type
        part = COMPONENT.get(found, found)
        if part not in _FORMATS:
            raise ArgumentTypeError("finfo", repr(type), "finfo is of floating-point and complex dtypes",
                                    "use iinfo for integers")
        fraction, exponent, self.max = _FORMATS[part]
        self.bits = 8 * part.itemsize
        self.eps = 2.0**-fraction
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0**exponent
        self.resolution = 10.0 ** -math.floor(fraction * math.log10(2))
        self.dtype = part.name

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, finfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


class iinfo:
    """Limits of an integer dtype.

    Args:
        type: The dtype.

    Attributes:
        bits: Size of a number.
        max: The largest number.
        min: The smallest number.
        dtype: The dtype's name.

    Raises:
        ArgumentTypeError: The dtype is not an integer dtype.
    """

    __slots__ = ("bits", "dtype", "max", "min")

    def __init__(self, type: Any) -> None:
        if not isinstance(type, DType) or type.category != 1:
            raise ArgumentTypeError("iinfo", repr(type), "iinfo is of integer dtypes", "use finfo for floats")
        self.bits = 8 * type.itemsize
        signed = type.kind == "int"
        self.max = (1 << (self.bits - signed)) - 1
        self.min = -self.max - 1 if signed else 0
        self.dtype = type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, iinfo) and other.dtype == self.dtype

    def __hash__(self) -> int:
        return hash(self.dtype)


__all__ = ["finfo", "iinfo"]
