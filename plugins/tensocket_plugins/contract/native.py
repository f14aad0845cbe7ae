"""Native entries: an optional way of host-resident devices to run a program without an interpreter in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .dtypes import DType


@dataclass(frozen=True, slots=True)
class NativeForm:
    """What a native entry is called with, and how that becomes a program's arguments.

    The entry is called with one array per operand and returns a new array. It serves dense arrays of the given dtypes
    and of one shape, with 1 to ``limit`` elements; everything else it hands to its fallback.

    Attributes:
        operands: Dtypes of the operands.
        result: Dtype of the result.
        shape: Of the result: ``same`` as the operands', ``rows``: without the last dimension, ``scalar``: none.
        scalars: Meaning of the program's scalars, in order: an int; ``size``, ``rows`` or ``columns`` of the first
            operand (``columns`` is the last size), with ``float_`` before it as a floating-point number; ``number1``:
            the value of operand 1, an array without dimensions.
        numbers: Positions of the operands that are such numbers, and no buffers of the program.
        limit: Most elements.
    """

    operands: tuple[DType, ...]
    result: DType
    shape: Literal["same", "rows", "scalar"]
    scalars: tuple[str | int, ...]
    numbers: frozenset[int] = frozenset()
    limit: int = 16384

    @property
    def rows(self) -> bool:
        """Whether rows and columns are asked for."""
        return any(isinstance(s, str) and s.endswith(("rows", "columns")) for s in self.scalars)
