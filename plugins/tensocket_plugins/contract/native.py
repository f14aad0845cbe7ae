"""Native entries: an optional way of host-resident devices to run a program without an interpreter in between."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Literal

from .dtypes import DType


class _Last(Enum):
    LAST = "last"


#: An argument of a native entry that is the number of the last dimension.
LAST: Final = _Last.LAST


@dataclass(frozen=True, slots=True)
class Box:
    """Objects that hold an array in one of their slots, as operands and results of a native entry.

    Attributes:
        kind: The class of new objects, made as ``object.__new__`` makes them; operands are of it or of a subclass.
        array: Name of the slot with the array.
        slots: The other slots of a new object: name, value, and the value where the array has no dimensions.
        counter: Name of the slot with a list whose first element counts changes in place, or None before the first one.
    """

    kind: type
    array: str
    slots: tuple[tuple[str, Any, Any], ...]
    counter: str


@dataclass(frozen=True, slots=True)
class NativeForm:
    """The arguments of a native entry, and how they become a program's arguments.

    The entry is called with one array per operand and returns a new array; with a ``box``, with objects around arrays,
    and it returns such an object. It serves dense arrays of the given dtypes and of one shape, with 1 to ``limit``
    elements; everything else it hands to its fallback.

    Attributes:
        operands: Dtypes of the operands.
        result: Dtype of the result.
        shape: Of the result: ``same`` as the operands', ``rows``: without the last dimension, ``scalar``: none.
            ``into``: there is none; operand 0, which comes in a box, is written, counted as changed, and returned.
        scalars: Meaning of the program's scalars, in order: an int; ``size``, ``rows`` or ``columns`` of the first
            operand (``columns`` is the last size), with ``float_`` before it as a floating-point number; ``number1``:
            the value of operand 1, an array without dimensions; with a ``box`` a Python float, or an int that the
            dtype holds exactly if it is a float dtype. Others are cut to the dtype's bits.
        numbers: Positions of the operands that are such numbers, and no buffers of the program.
        limit: Most elements.
        box: Class of the objects that hold operands and result; None for plain arrays.
        rest: The objects that arguments behind the operands must be; others go to the fallback. They may be given by
            name: the fallback has no other names than theirs. ``LAST`` stands for the number of the last dimension,
            counted from either end.
    """

    operands: tuple[DType, ...]
    result: DType
    shape: Literal["same", "rows", "scalar", "into"]
    scalars: tuple[str | int, ...]
    numbers: frozenset[int] = frozenset()
    limit: int = 16384
    box: Box | None = None
    rest: tuple[Any, ...] = ()

    @property
    def rows(self) -> bool:
        """Whether rows and columns are asked for."""
        return any(isinstance(s, str) and s.endswith(("rows", "columns")) for s in self.scalars)


@dataclass(frozen=True, slots=True)
class ProductForm:
    """A native entry that multiplies two matrices in boxes, which the backend's library does, not a program.

    The entry is called as ``entry(x, y)`` for x @ y; ``affine``: as ``entry(x, weight, bias)`` for
    x @ weight.T + bias, where the bias is a vector or None. It serves matrices of the dtype with contiguous rows or
    columns, as long as the product is small; everything else it hands to its fallback.

    Attributes:
        dtype: Of operands and result.
        box: Class of the objects that hold operands and result.
        affine: Which of the two it is.
    """

    dtype: DType
    box: Box
    affine: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """The result of a function whose launches are kept.

    Attributes:
        arrays: New arrays.
        boxes: Classes of the objects that hold them.
        many: Whether they come as a tuple.
    """

    arrays: tuple[Any, ...]
    boxes: tuple[Box, ...]
    many: bool
