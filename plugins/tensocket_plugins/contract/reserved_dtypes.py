"""Element types that programs name, but that no backend has: quantized numbers, and numbers of less than a byte."""

from __future__ import annotations

from typing import Final

import numpy as np

from .dtypes import DType, Kind
from .errors import UnsupportedDtype


class ReservedDType(DType):
    """An element type of which there are no tensors; programs compare it with the types of their tensors."""

    __slots__ = ()

    def __init__(self, name: str, kind: Kind, storage: str) -> None:
        # Without the initializer of all others, which sets a bit in dispatch keys.
        self.name = self.short = name
        self.kind = kind
        self.numpy = np.dtype(storage)
        self.itemsize = int(self.numpy.itemsize)
        self.native = False

    @property
    def bit(self) -> int:  # type: ignore[override]
        """Raise: there are no tensors of this type.

        Raises:
            UnsupportedDtype: Always.
        """
        raise UnsupportedDtype("tensor", f"dtype {self.name}", "no backend has elements of this type",
                               "store the numbers as uint8 or int8, with their scale beside them")

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return reserved_dtype, (self.name,)


_TABLE: Final[tuple[tuple[str, Kind, str], ...]] = (
    ("qint8", "int", "int8"), ("quint8", "uint", "uint8"), ("qint32", "int", "int32"), ("quint4x2", "uint", "uint8"),
    ("quint2x4", "uint", "uint8"), ("float8_e4m3fnuz", "float", "uint8"), ("float8_e5m2fnuz", "float", "uint8"),
    ("float8_e8m0fnu", "float", "uint8"), ("float4_e2m1fn_x2", "float", "uint8"),
    *[(f"uint{bits}", "uint", "uint8") for bits in range(1, 8)],
    *[(f"int{bits}", "int", "int8") for bits in range(1, 8)],
)
#: The types by name.
RESERVED: Final = {name: ReservedDType(name, kind, storage) for name, kind, storage in _TABLE}


def reserved_dtype(name: str) -> ReservedDType:
    """Return the type of a name.

    Raises:
        KeyError: No type has this name.
    """
    return RESERVED[name]
