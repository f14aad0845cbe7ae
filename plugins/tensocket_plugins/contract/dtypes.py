"""Element types: one table for runtime, backends and kernel IR."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

from .errors import DtypeError
from .naming import package_name

Kind = Literal["bool", "uint", "int", "float", "complex"]

#: Promotion category of each kind: bool < integral < floating < complex.
CATEGORY: Final[dict[Kind, int]] = {"bool": 0, "uint": 1, "int": 1, "float": 2, "complex": 3}


class DType:
    """An element type. Each exists once, so ``is`` compares them.

    Attributes:
        name: The long name, ``float32``.
        short: The short name used in kernel and case names, ``f32``.
        kind: ``bool``, ``uint``, ``int``, ``float`` or ``complex``.
        itemsize: Bytes of one element.
        numpy: NumPy's dtype of the stored bits: the element type itself if NumPy has it, otherwise an unsigned integer
            of the same size (``bfloat16`` is stored as ``uint16``, the two float16 parts of ``complex32`` as
            ``uint32``).
        native: Whether ``numpy`` is the element type itself.
        bit: Position in the one-hot dtype field of a dispatch key.
    """

    __slots__ = ("bit", "itemsize", "kind", "name", "native", "numpy", "short")

    def __init__(self, name: str, short: str, kind: Kind, storage: str, bit: int) -> None:
        self.name = name
        self.short = short
        self.kind: Kind = kind
        self.numpy: np.dtype[np.generic] = np.dtype(storage)
        self.itemsize = int(self.numpy.itemsize)
        self.native = storage == name
        self.bit = bit

    def __repr__(self) -> str:
        return f"{package_name()}.{self.name}"

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return dtype_from_name, (self.name,)

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a real floating-point type."""
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        """Whether it is a complex type."""
        return self.kind == "complex"

    @property
    def is_signed(self) -> bool:
        """Whether it has negative values."""
        return self.kind in ("int", "float", "complex")

    def to_complex(self) -> DType:
        """Return the complex type with parts of this type.

        Raises:
            DtypeError: It is an integer type.
        """
        if self.category < 2:
            raise DtypeError("to_complex", f"dtype {self.name}", "parts of complex numbers are floats",
                             "use a floating-point dtype")
        if self.kind == "complex":
            return self
        return BY_NAME[{"float16": "complex32", "float64": "complex128"}.get(self.name, "complex64")]

    def to_real(self) -> DType:
        """Return the type of a complex type's parts; other types are returned as they are."""
        parts = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}
        return BY_NAME[parts.get(self.name, self.name)]

    @property
    def category(self) -> int:
        """Promotion category: 0 bool, 1 integral, 2 floating, 3 complex."""
        return CATEGORY[self.kind]


_TABLE: Final[tuple[tuple[str, str, Kind, str], ...]] = (
    ("bool", "b8", "bool", "bool"),
    ("uint8", "u8", "uint", "uint8"),
    ("int8", "i8", "int", "int8"),
    ("int16", "i16", "int", "int16"),
    ("int32", "i32", "int", "int32"),
    ("int64", "i64", "int", "int64"),
    ("float16", "f16", "float", "float16"),
    ("bfloat16", "bf16", "float", "uint16"),
    ("float32", "f32", "float", "float32"),
    ("float64", "f64", "float", "float64"),
    ("complex64", "c64", "complex", "complex64"),
    ("complex128", "c128", "complex", "complex128"),
    ("uint16", "u16", "uint", "uint16"),
    ("uint32", "u32", "uint", "uint32"),
    ("uint64", "u64", "uint", "uint64"),
    ("float8_e4m3fn", "f8e4m3fn", "float", "uint8"),
    ("float8_e5m2", "f8e5m2", "float", "uint8"),
    ("complex32", "c32", "complex", "uint32"),
)

ALL: Final[tuple[DType, ...]] = tuple(DType(*row, bit) for bit, row in enumerate(_TABLE))
BY_NAME: Final[dict[str, DType]] = {dtype.name: dtype for dtype in ALL}
BY_SHORT: Final[dict[str, DType]] = {dtype.short: dtype for dtype in ALL}
#: Element type by NumPy dtype, for the types that NumPy has.
FROM_NUMPY: Final[dict[np.dtype[np.generic], DType]] = {dtype.numpy: dtype for dtype in ALL if dtype.native}

bool_: Final = BY_NAME["bool"]
uint8: Final = BY_NAME["uint8"]
uint16: Final = BY_NAME["uint16"]
uint32: Final = BY_NAME["uint32"]
uint64: Final = BY_NAME["uint64"]
int8: Final = BY_NAME["int8"]
int16: Final = BY_NAME["int16"]
int32: Final = BY_NAME["int32"]
int64: Final = BY_NAME["int64"]
float16: Final = BY_NAME["float16"]
bfloat16: Final = BY_NAME["bfloat16"]
float32: Final = BY_NAME["float32"]
float64: Final = BY_NAME["float64"]
complex32: Final = BY_NAME["complex32"]
complex64: Final = BY_NAME["complex64"]
complex128: Final = BY_NAME["complex128"]
float8_e4m3fn: Final = BY_NAME["float8_e4m3fn"]
float8_e5m2: Final = BY_NAME["float8_e5m2"]


#: Python's number types, which programs pass as dtypes.
_OF_PYTHON: Final[dict[type, DType]] = {bool: bool_, int: int64, float: float64, complex: complex128}


def as_dtype(value: object) -> DType | None:
    """Return ``value`` as an element type: one itself, or ``float``, ``int``, ``bool``, ``complex``; None otherwise."""
    if isinstance(value, DType):
        return value
    return _OF_PYTHON.get(value) if isinstance(value, type) else None


def dtype_from_name(name: str) -> DType:
    """Return the element type called ``name`` (long or short).

    Raises:
        KeyError: No element type has this name.
    """
    return BY_NAME.get(name) or BY_SHORT[name]
