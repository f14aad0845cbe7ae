"""Non-adjacent elements of small local arrays: the array is read and written as a whole, as one long vector.

So it can stay in registers, where reads and writes are permutations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ..nodes import Local
from .llvm_values import memory_type
from .llvm_writer import Writer

#: Maximum number of vectors in such an array.
_VECTORS: Final = 4


def fits(local: Local, lanes: int) -> bool:
    """Whether an array is small enough."""
    return local.size <= _VECTORS * lanes


def shuffled(w: Writer, kind: str, first: str, second: str, numbers: Sequence[str]) -> str:
    """Return the elements of two vectors selected by their numbers."""
    chosen = ", ".join(f"i32 {number}" for number in numbers)
    return w.op(f"shufflevector {kind} {first}, {kind} {second}, <{len(numbers)} x i32> <{chosen}>")


@dataclass(frozen=True)
class Spread:
    """The elements at ``places`` of a local array, one for each lane.

    In a correct program, lanes with places beyond the end are masked off.

    Attributes:
        w: Writer of the instructions.
        local: The array.
        pointer: Its address.
        places: The element of each lane; no two lanes have the same one.
    """

    w: Writer
    local: Local
    pointer: str
    places: Sequence[int]

    @property
    def _element(self) -> str:
        return memory_type(self.local.dtype)

    @property
    def _kind(self) -> str:
        return f"<{self.local.size} x {self._element}>"

    def _whole(self) -> str:
        return self.w.op(f"load {self._kind}, ptr {self.pointer}, align {self.local.dtype.itemsize}")

    def read(self) -> str:
        """Return the elements as a vector."""
        numbers = [str(place) if place < self.local.size else "poison" for place in self.places]
        return shuffled(self.w, self._kind, self._whole(), "poison", numbers)

    def write(self, text: str) -> None:
        """Replace the elements by those of a vector."""
        size, lanes = self.local.size, len(self.places)
        old = self._whole()
        wide = shuffled(self.w, f"<{lanes} x {self._element}>", text, "poison",
                        [str(k) if k < lanes else "poison" for k in range(size)])
        source = {place: str(size + lane) for lane, place in enumerate(self.places)}
        new = shuffled(self.w, self._kind, old, wide, [source.get(k, str(k)) for k in range(size)])
        self.w.do(f"store {self._kind} {new}, ptr {self.pointer}, align {self.local.dtype.itemsize}")
