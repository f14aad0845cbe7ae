"""The shape of a product's tiles: how many sums stay in registers, which depends on the processor's vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: LLVM's types of the elements, and their bytes.
_ELEMENTS: Final = {"float32": ("float", 4), "float64": ("double", 8)}
#: The features of processors with 32 registers of 64 bytes and with masks.
_NEEDED: Final = ("avx512f", "avx512dq", "avx512bw", "avx512vl")
#: The bytes of a vector register.
REGISTER: Final = 64


@dataclass(frozen=True)
class Shape:
    """The sums that stay in registers while all terms of a panel are added.

    Attributes:
        element: LLVM's type of an element.
        size: The bytes of an element.
        lanes: The elements of a vector.
        rows: The most rows of a tile, a power of two.
        vectors: The vectors of a tile's row.
    """

    element: str
    size: int
    lanes: int
    rows: int
    vectors: int

    @property
    def columns(self) -> int:
        """The columns of a tile and of a panel."""
        return self.lanes * self.vectors

    @property
    def bytes(self) -> int:
        """The bytes of a row of a panel."""
        return self.columns * self.size

    @property
    def vector(self) -> str:
        """LLVM's type of a vector."""
        return f"<{self.lanes} x {self.element}>"

    @property
    def suffix(self) -> str:
        """The end of the names of LLVM's functions on vectors."""
        return f"v{self.lanes}f{8 * self.size}"

    @property
    def heights(self) -> tuple[int, ...]:
        """The rows of the code variants, most first; together they make any number of rows."""
        return tuple(self.rows >> k for k in range(self.rows.bit_length()))

    @property
    def narrow(self) -> tuple[Shape, Shape, Shape]:
        """The shapes of last panels with few columns: half a vector, one, and two."""
        return (Shape(self.element, self.size, self.lanes // 2, self.rows, 1),
                Shape(self.element, self.size, self.lanes, self.rows, 1),
                Shape(self.element, self.size, self.lanes, self.rows, 2))


def shape_of(dtype: str, features: Mapping[str, bool]) -> Shape | None:
    """Return the shape of tiles for a dtype; None if this code does not serve the dtype or the processor.

    Args:
        dtype: The dtype's name.
        features: LLVM's names of the processor's features.
    """
    if dtype not in _ELEMENTS or not all(features.get(name) for name in _NEEDED):
        return None
    element, size = _ELEMENTS[dtype]
    # Processors start one or two additions per cycle, and each takes four, so that 16 sums would hide that twice over.
    # 24 need fewer loads for each, which counts where another thread of the core takes half of its instructions.
    return Shape(element, size, REGISTER // size, 8, 3)
