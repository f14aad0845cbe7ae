"""Composites of views and copies: reshapes, contiguous forms, slices and splits."""

from __future__ import annotations

import math
import operator
from itertools import accumulate
from typing import Any

import numpy as np

from tensocket_core.autograd.inplace import fix_views
from tensocket_core.dispatch.call import call
from tensocket_core.formats import check_format, contiguous_format, preserve_format
from tensocket_core.geometry import (
    element_strides,
    is_integer,
    memory_nbytes,
    memory_offset,
    normalize_axis,
    normalize_shape,
)
from tensocket_core.strides import in_format, reach
from tensocket_plugins.contract.arrays import view_strides
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimensionError,
    IndexOutOfRange,
    ShapeError,
    TensocketError,
)

from ..kinds.composite import composite
from ..kinds.private import part_from_base
from .views import sizes, strided


@composite("reshape(Tensor input, int... shape) -> Tensor~")
def reshape(input: Any, *shape: Any) -> Any:
    """Return the same elements in another shape; a view where possible, else a copy. -1 is inferred."""
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], tuple) else shape
    if given and type(given[0]) is int and type(input._array) is np.ndarray and input._array.flags.c_contiguous:
        try:
            return input.view(*given)
        except (ShapeError, ArgumentTypeError, ArgumentError):
            pass  # the code below raises the error under this operator's name
    wanted = normalize_shape("reshape", sizes(shape), input._array.size)
    if 0 in wanted or view_strides(input._array.shape, element_strides(input._array), wanted) is not None:
        return input.view(wanted)
    return part_from_base(input.clone(memory_format=contiguous_format).view(wanted))


@composite("as_strided(Tensor input, int[] size, int[] stride, int? storage_offset=None) -> Tensor~",
           by_layout="owners")
def as_strided(input: Any, size: Any, stride: Any, storage_offset: int | None = None) -> Any:
    """Return a view with any geometry. The offset counts from the storage's start; by default it is the tensor's."""
    shape, strides, first = checked_geometry("as_strided", input, size, stride, storage_offset)
    base = (input._array.shape, element_strides(input._array))
    return call(strided, input, shape, strides, first - memory_offset(input._array), base)


def checked_geometry(operator: str, input: Any, size: Any, stride: Any, storage_offset: Any) -> tuple[Any, ...]:
    """Return a geometry within a tensor's storage: shape, strides, and offset from the storage's start.

    Raises:
        ShapeError: The geometry is invalid, or it reaches beyond the storage.
    """
    shape, strides = sizes((size,)), sizes((stride,))
    offset = memory_offset(input._array) if storage_offset is None else sizes((storage_offset,))[0]
    held = memory_nbytes(input._array) // input.dtype.itemsize
    valid = len(shape) == len(strides) and offset >= 0 and all(n >= 0 for n in (*shape, *strides))
    if not valid or (0 not in shape and offset + reach(shape, strides) > held):
        raise ShapeError(
            operator,
            f"size {list(shape)}, stride {list(strides)}, offset {offset} on {held} elements",
            "a view stays within the tensor's memory",
            "choose a smaller size, stride or offset",
        )
    return shape, strides, offset


@composite("contiguous(Tensor input, *, any memory_format=None) -> Tensor~", function=False)
def contiguous(input: Any, *, memory_format: Any = None) -> Any:
    """Return the tensor if it has a memory format (row-major by default), else a copy in that format."""
    format = check_format("contiguous", memory_format) or contiguous_format
    if format is preserve_format:
        raise ArgumentError("contiguous", "preserve_format", "a format says how elements lie in memory",
                            "use clone() to keep the order of dimensions")
    return input if in_format(input._array, format) else input.clone(memory_format=format)


@composite("flatten(Tensor input, int start_dim=0, int end_dim=-1) -> Tensor~")
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Merge the dimensions from ``start_dim`` to ``end_dim`` into one."""
    rank = input.ndim
    first, last = normalize_axis("flatten", start_dim, rank), normalize_axis("flatten", end_dim, rank)
    if first > last:
        raise ShapeError(
            "flatten",
            f"start_dim {start_dim}, end_dim {end_dim}",
            "start_dim does not come after end_dim",
            "exchange them",
        )
    if first == last and input.ndim:
        return input
    shape = tuple(input.shape)
    return input.reshape((*shape[:first], math.prod(shape[first:last + 1]), *shape[last + 1:]))


def _own_axis(name: str, input: Any, dim: int, error: type[TensocketError] = ShapeError) -> int:
    """Return a non-negative axis of a tensor that has dimensions.

    Raises:
        DimensionError: The axis is out of range.
        ShapeError: The tensor is zero-dimensional; ``error`` replaces this class.
    """
    if input.ndim == 0:
        raise error(
            name, "a 0-dimensional tensor", "the tensor has at least one dimension", "use it as it is, or unsqueeze it"
        )
    return normalize_axis(name, dim, input.ndim)


@composite("select(Tensor input, int dim, int index) -> Tensor~")
def select(input: Any, dim: int, index: int) -> Any:
    """Return one position of a dimension: a view without that dimension."""
    axis = _own_axis("select", input, dim, DimensionError)
    return input.basic_index((slice(None),) * axis + (operator.index(index),))


@composite("narrow(Tensor input, int dim, any start, int length) -> Tensor~")
def narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    """Return a view of ``length`` positions of a dimension from ``start``, a number or a tensor of one integer."""
    axis = _own_axis("narrow", input, dim)
    if type(start) is not int and hasattr(start, "_key"):
        if start.ndim or start.dtype.category != 1:
            raise ArgumentError("narrow", f"start of shape {list(start.shape)} and dtype {start.dtype.name}",
                                "a start is an integer, or a 0-dimensional tensor of one", "pass start.item()")
        start = start.item()
    size = input._array.shape[axis]
    first = start + size if start < 0 else start
    if length < 0 or not 0 <= first <= size or first + length > size:
        raise IndexOutOfRange("narrow", f"start {start}, length {length} of a dimension of size {size}",
                              "the range lies within the dimension", "choose a smaller start or length")
    return input.basic_index((slice(None),) * axis + (slice(first, first + length),))


@composite("split(Tensor input, any split_size_or_sections=None, int dim=0, *, any split_size=None) -> any~")
def split(input: Any, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None) -> tuple[Any, ...]:
    """Return views of consecutive parts, of one size (the last may be smaller) or of the listed sizes.

    Args:
        input: Any shape.
        split_size_or_sections: The size, or the sizes.
        dim: The dimension to split.
        split_size: The name that the method uses for ``split_size_or_sections``.

    Raises:
        ArgumentTypeError: No size is given.
        ArgumentError: The size is not positive.
        ShapeError: The sizes do not add up to that of the dimension.
    """
    if split_size_or_sections is None:
        if split_size is None:
            raise ArgumentTypeError("split", "no sizes", "the size of parts is required", "pass split_size_or_sections")
        split_size_or_sections = split_size
    size = input._array.shape[_own_axis("split", input, dim)]
    if is_integer(split_size_or_sections):
        step = int(split_size_or_sections)
        if step <= 0 and size:
            raise ArgumentError("split", f"split size {step}", "a split size is positive", "pass a positive size")
        parts = [min(step, size - start) for start in range(0, size, step)] if size else [0]
    else:
        parts = list(split_size_or_sections)
        if sum(parts) != size or any(n < 0 for n in parts):
            raise ShapeError(
                "split",
                f"sections {parts} of a dimension of size {size}",
                "sections add up to the size",
                "change the sections",
            )
    before, part = (slice(None),) * _own_axis("split", input, dim), input.basic_index
    views = tuple([part((*before, slice(end - length, end))) for length, end in zip(
        parts, accumulate(map(operator.index, parts)), strict=True)])
    return fix_views(views, "split")


@composite("chunk(Tensor input, int chunks, int dim=0) -> any~")
def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    """Return views of at most ``chunks`` consecutive parts of equal size (the last may be smaller)."""
    if chunks <= 0:
        raise ArgumentError("chunk", f"chunks={chunks}", "there is at least one chunk", "pass a positive number")
    size = input._array.shape[_own_axis("chunk", input, dim)]
    if size == 0:
        return (input.narrow(dim, 0, 0),) * chunks
    return tuple(input.split(-(-size // int(chunks)), dim))


@composite("unbind(Tensor input, int dim=0) -> any~")
def unbind(input: Any, dim: int = 0) -> tuple[Any, ...]:
    """Return a view of every position of a dimension."""
    axis = _own_axis("unbind", input, dim, DimensionError)
    before, part = (slice(None),) * axis, input.basic_index
    return fix_views(tuple([part((*before, k)) for k in range(input._array.shape[axis])]), "unbind")
