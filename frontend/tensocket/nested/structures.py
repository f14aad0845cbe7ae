"""Structures: the positions of the components of a nested tensor in its dense tensor."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from tensocket_plugins.contract.arrays import contiguous_strides, is_contiguous
from tensocket_plugins.contract.errors import ShapeError

Shape = tuple[int, ...]


class Pieces:
    """Components of any shapes in a line of memory (layout ``strided``).

    Attributes:
        shapes: Shape of each component.
        strides: Its strides, in elements.
        starts: Start of each component.
        ndim: Number of dimensions, including that of the batch.
    """

    __slots__ = ("ndim", "shapes", "starts", "strides")

    def __init__(self, shapes: list[Shape], strides: list[Shape] | None = None, starts: list[int] | None = None,
                 ndim: int | None = None) -> None:
        self.shapes = shapes
        self.strides = [contiguous_strides(shape) for shape in shapes] if strides is None else strides
        self.starts = _running(shapes) if starts is None else starts
        self.ndim = ndim if ndim is not None else 1 + (len(shapes[0]) if shapes else 0)

    def __len__(self) -> int:
        return len(self.shapes)

    def numel(self) -> int:
        """Return the number of elements of all components."""
        return sum(_count(shape) for shape in self.shapes)

    def is_contiguous(self, line: Any) -> bool:
        """Whether the components fill the line in order, each of them row-major."""
        return (self.starts == _running(self.shapes) and line.numel() == self.numel()
                and all(is_contiguous(shape, steps) for shape, steps in zip(self.shapes, self.strides, strict=True)))

    def parts(self, line: Any) -> list[Any]:
        """Return the components as views of the line."""
        if self.is_contiguous(line):
            counts = [_count(shape) for shape in self.shapes]
            return [x.view(shape) for x, shape in zip(line.split(counts), self.shapes, strict=True)] if counts else []
        first = line.storage_offset()
        return [line.as_strided(shape, steps, first + start)
                for shape, steps, start in zip(self.shapes, self.strides, self.starts, strict=True)]

    def places(self, line: Any) -> list[int]:
        """Return the start of each component in memory."""
        return self.starts

    def lies_like(self, other: Any) -> bool:
        """Whether components of another structure have the same shapes and positions."""
        return isinstance(other, Pieces) and (self.shapes, self.strides, self.starts) == (
            other.shapes, other.strides, other.starts)

    def matches(self, line: Any, other: Any, other_line: Any) -> bool:
        """Whether components of another structure have the same shapes."""
        return isinstance(other, Pieces) and self.shapes == other.shapes


class Ragged:
    """Components that are concatenated along a dimension of a dense tensor (layout ``jagged``).

    Attributes:
        offsets: Start of each component, and end of the last one.
        lengths: Sizes of the components; None if each ends where the next begins.
        axis: The ragged dimension, counting that of the batch.
        ndim: Number of dimensions, including that of the batch.
    """

    __slots__ = ("_bounds", "_longest", "_shortest", "axis", "lengths", "ndim", "offsets")

    def __init__(self, offsets: Any, lengths: Any, axis: int, ndim: int, shortest: int | None = None,
                 longest: int | None = None) -> None:
        self.offsets = offsets
        self.lengths = lengths
        self.axis = axis
        self.ndim = ndim
        self._bounds: tuple[list[int], list[int]] | None = None
        self._shortest = shortest
        self._longest = longest

    def moved(self, axis: int, ndim: int) -> Ragged:
        """Return the same components, with the ragged dimension at another position."""
        other = Ragged(self.offsets, self.lengths, axis, ndim, self._shortest, self._longest)
        other._bounds = self._bounds
        return other

    def __len__(self) -> int:
        return int(self.offsets._array.shape[0]) - 1

    @property
    def source(self) -> Any:
        """The tensor whose identity defines the ragged size."""
        return self.offsets if self.lengths is None else self.lengths

    def bounds(self) -> tuple[list[int], list[int]]:
        """Return starts and lengths of the components, on the host; read once."""
        if self._bounds is None:
            places = self.offsets.tolist()
            lengths = ([b - a for a, b in pairwise(places)] if self.lengths is None
                       else self.lengths.tolist())
            self._bounds = places[:-1], lengths
        return self._bounds

    @property
    def longest(self) -> int:
        """The largest ragged size."""
        return max(self.bounds()[1], default=0) if self._longest is None else self._longest

    @property
    def shortest(self) -> int:
        """The smallest ragged size."""
        return min(self.bounds()[1], default=0) if self._shortest is None else self._shortest

    def is_contiguous(self, values: Any) -> bool:
        """Whether the dense tensor is contiguous and has no gaps between components."""
        if not values.is_contiguous():
            return False
        starts, lengths = self.bounds()
        return self.lengths is None or all(
            a + n == b for a, n, b in zip(starts, lengths, starts[1:], strict=False))

    def parts(self, values: Any) -> list[Any]:
        """Return the components as views of the dense tensor.

        Raises:
            ShapeError: The structure does not fit the dense tensor.
        """
        if not 1 <= self.axis < self.ndim:
            raise ShapeError("unbind", f"ragged dimension {self.axis}",
                             f"unbind(): nested tensor ragged dimension is out of bounds of 1 to {self.ndim - 1}",
                             "pass another _ragged_idx")
        starts, lengths = self.bounds()
        axis = self.axis - 1
        size = values.shape[axis]
        if any(a + n > size for a, n in zip(starts, lengths, strict=True)):
            raise ShapeError("unbind", f"offsets up to {max(starts)} for values of size {size}",
                             "unbind(): nested tensor offsets and lengths do not match ragged_idx dimension "
                             f"{self.axis}", "pass offsets and lengths within the values")
        return [values.narrow(axis, a, n) for a, n in zip(starts, lengths, strict=True)]

    def places(self, values: Any) -> list[int]:
        """Return the start of each component in memory."""
        step = values.stride(self.axis - 1)
        return [start * step for start in self.bounds()[0]]

    def lies_like(self, other: Any) -> bool:
        """Whether components of another structure have the same positions."""
        return isinstance(other, Ragged) and self.axis == other.axis and (
            self.source is other.source or self.bounds() == other.bounds())

    def matches(self, values: Any, other: Any, other_values: Any) -> bool:
        """Whether another structure has the same ragged size, and the dense tensors have the same sizes."""
        return (isinstance(other, Ragged) and self.source is other.source and self.axis == other.axis
                and values.shape == other_values.shape)


def _count(shape: Shape) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def _running(shapes: list[Shape]) -> list[int]:
    """Return the starts of adjacent components."""
    starts, at = [], 0
    for shape in shapes:
        starts.append(at)
        at += _count(shape)
    return starts
