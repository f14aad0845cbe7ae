"""Matrices made of diagonals and blocks, rotations, and indices of triangles and of flat positions."""

from __future__ import annotations

import math
import operator
from typing import Any

from tensocket_core import functions
from tensocket_core.device import open_device
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.modes import ACTIVE, as_leaf
from tensocket_core.geometry import normalize_axis
from tensocket_core.promotion import result_type
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, ShapeError, UndefinedDtype

from .. import creation
from ..creation.record import dispatch_factory, is_intercepted
from ..indexing.small_selections import nonzero_static_path
from ..kinds.composite import composite
from .arrangements import blocks_on_diagonal, on_diagonal

# ------------------------------------------------------------------------------------------------------- diagonals


@composite("diag_embed(Tensor input, int offset=0, int dim1=-2, int dim2=-1) -> Tensor", replayable=True)
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Return matrices of zeros with the last dimension of the input on a diagonal.

    Args:
        input: (..., n).
        offset: Column minus row of the diagonal.
        dim1: The result's dimension of rows.
        dim2: The result's dimension of columns.

    Returns:
        A tensor with the leading dimensions of the input and two dimensions of size n + |offset|.

    Raises:
        ShapeError: Both dims are equal.
    """
    rank = input.ndim + 1
    rows, columns = normalize_axis("diag_embed", dim1, rank), normalize_axis("diag_embed", dim2, rank)
    if rows == columns:
        raise ShapeError("diag_embed", f"dims {dim1} and {dim2}", "a diagonal lies between two different dims",
                         "pass two dims of the result")
    count = input.shape[-1]
    size = count + abs(offset)
    return call(on_diagonal, input, size, size, offset, rows - rank, columns - rank)


@composite("diag(Tensor input, int diagonal=0) -> Tensor", replayable=True)
def diag(input: Any, diagonal: int = 0) -> Any:
    """Return a square matrix with a vector on a diagonal, or a copy of a diagonal of a matrix.

    Raises:
        ShapeError: The tensor is neither a vector nor a matrix.
    """
    diagonal = operator.index(diagonal)
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim == 2:
        return input.diagonal(diagonal).clone()
    raise ShapeError("diag", f"a tensor of shape {list(input.shape)}", "the tensor is a vector or a matrix",
                     "use diag_embed or diagonal for batches")


@composite("diagflat(Tensor input, int offset=0) -> Tensor", replayable=True)
def diagflat(input: Any, offset: int = 0) -> Any:
    """Return a square matrix with all elements, in row-major order, on a diagonal."""
    return diag_embed(input.reshape(-1), offset)


@composite("block_diag(any tensors) -> Tensor", method=False)
def block_diag(*tensors: Any) -> Any:
    """Return a matrix with blocks along its diagonal and zeros elsewhere; vectors are rows, numbers single elements.

    Raises:
        ArgumentTypeError: An argument is not a tensor.
        ShapeError: An argument has more than two dimensions.
    """
    for k, x in enumerate(tensors):
        if not hasattr(x, "_key"):
            raise ArgumentTypeError("block_diag", f"a {type(x).__name__} as argument {k}", "arguments are tensors",
                                    "pass the tensors one by one")
        if x.ndim > 2:
            raise ShapeError("block_diag", f"a tensor of shape {list(x.shape)}", "blocks have at most two dimensions",
                             "pass the matrices of a batch one by one")
    if not tensors:
        return creation.empty(1, 0)
    typed = list(tensors)
    if len({x.dtype for x in tensors}) > 1:
        dtype = result_type(tensors)
        typed = [x.to(dtype) for x in tensors]
    blocks = [x if x.ndim == 2 else x.reshape((1,) * (2 - x.ndim) + tuple(x.shape)) for x in typed]
    return call(blocks_on_diagonal, blocks)


# ------------------------------------------------------------------------------------------------------- rotations


@composite("fliplr(Tensor input) -> Tensor", replayable=True)
def fliplr(input: Any) -> Any:
    """Return a copy with the columns, the second dimension, in reverse order.

    Raises:
        ShapeError: The tensor has no second dimension.
    """
    if input.ndim < 2:
        raise ShapeError("fliplr", f"a tensor of shape {list(input.shape)}", "there are at least two dimensions",
                         "use flipud, or unsqueeze it")
    return input.flip(1)


@composite("flipud(Tensor input) -> Tensor", replayable=True)
def flipud(input: Any) -> Any:
    """Return a copy with the rows, the first dimension, in reverse order.

    Raises:
        ShapeError: The tensor has no dimension.
    """
    if input.ndim < 1:
        raise ShapeError("flipud", "a 0-dimensional tensor", "there is at least one dimension", "unsqueeze it")
    return input.flip(0)


@composite("rot90(Tensor input, int k=1, any dims=(0, 1)) -> Tensor", replayable=True)
def rot90(input: Any, k: int = 1, dims: Any = (0, 1)) -> Any:
    """Return a copy rotated by k right angles in the plane of two dims, from the first towards the second.

    Raises:
        ShapeError: ``dims`` does not list two different dimensions.
    """
    given = tuple(dims)
    if len(given) != 2 or input.ndim < 2:
        raise ShapeError("rot90", f"dims {list(given)} of {input.ndim} dimensions", "a plane has two dims",
                         "pass two dims of the tensor")
    first, second = (normalize_axis("rot90", d, input.ndim) for d in given)
    if first == second:
        raise ShapeError("rot90", f"dims {list(given)}", "the dims of a plane are different", "pass two dims")
    match k % 4:
        case 1:
            return input.flip(second).transpose(first, second)
        case 2:
            return input.flip(first, second)
        case 3:
            return input.flip(first).transpose(first, second)
    return input.clone()


# --------------------------------------------------------------------------------------------------------- indices


def _count_below(row: int, col: int, offset: int) -> int:
    """Return the number of elements of a lower triangle.

    >>> _count_below(3, 3, 0), _count_below(3, 2, -1), _count_below(2, 3, 5)
    (6, 3, 6)
    """
    first = min(max(-offset, 0), row)  # earlier rows have no elements in the triangle
    full = min(max(col - offset, first), row)  # all elements of the rows from here on are in the triangle
    growing = full - first
    return growing * (first + offset + 1) + growing * (growing - 1) // 2 + (row - full) * col


def _triangle(name: str, row: int, col: int, offset: int, dtype: Any, device: Any, upper: bool) -> Any:
    """Return the rows and columns of the elements of a triangle.

    Raises:
        ArgumentError: A size is negative.
        UndefinedDtype: The dtype is not an integer dtype.
    """
    if row < 0 or col < 0:
        raise ArgumentError(name, f"{row} rows, {col} columns", "sizes are not negative", "pass 0 or more")
    chosen = dtypes.int64 if dtype is None else dtype
    if chosen.category != 1:
        raise UndefinedDtype(name, f"dtype {chosen.name}", "indices are integers", "leave dtype out")
    if not open_device(device).holds_data:
        below = _count_below(row, col, offset - upper)
        return creation.empty(2, row * col - below if upper else below, dtype=chosen, device=device)
    rows = creation.arange(row, device=device).unsqueeze(1)
    columns = creation.arange(col, device=device)
    distance = columns - rows
    inside = distance >= offset if upper else distance <= offset
    return inside.nonzero().t().contiguous().to(chosen)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None,
                 requires_grad: bool = False, **rest: Any) -> Any:
    """Return rows and columns of the lower triangle of a matrix, up to a diagonal, in row-major order: (2, n), int64.

    Raises:
        ArgumentError: A size is negative.
        UndefinedDtype: The dtype is not an integer dtype.
    """
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(tril_indices, row, col, offset, rest=rest, dtype=dtype, device=device,
                                requires_grad=requires_grad)
    found = _triangle("tril_indices", row, col, offset, dtype, device, False)
    return as_leaf(found) if requires_grad else found


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None,
                 requires_grad: bool = False, **rest: Any) -> Any:
    """Return rows and columns of the upper triangle of a matrix, from a diagonal on, in row-major order: (2, n), int64.

    Raises:
        ArgumentError: A size is negative.
        UndefinedDtype: The dtype is not an integer dtype.
    """
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(triu_indices, row, col, offset, rest=rest, dtype=dtype, device=device,
                                requires_grad=requires_grad)
    found = _triangle("triu_indices", row, col, offset, dtype, device, True)
    return as_leaf(found) if requires_grad else found


def _index_shape(shape: Any) -> tuple[int, ...]:
    """Return the shape that positions index into.

    Raises:
        ArgumentError: A size is negative.
        ArgumentTypeError: A size is not an integer.
    """
    try:
        sizes = tuple(map(operator.index, (shape,) if not isinstance(shape, (tuple, list)) else shape))
    except TypeError:
        raise ArgumentTypeError("unravel_index", f"shape={shape!r}", "a shape is an integer or a sequence of integers",
                                "pass integers") from None
    if any(n < 0 for n in sizes):
        raise ArgumentError("unravel_index", f"shape={list(sizes)}", "sizes are not negative", "pass 0 or more")
    return sizes


@composite("unravel_index(Tensor indices, any shape) -> any", method=False)
def unravel_index(indices: Any, shape: Any) -> tuple[Any, ...]:
    """Return the index along each dimension for row-major positions in a shape.

    Raises:
        ArgumentError: A size is negative.
        ArgumentTypeError: The positions or sizes are not integers.
    """
    if indices.dtype.category != 1:
        raise ArgumentTypeError("unravel_index", f"dtype {indices.dtype.name}", "positions are integers",
                                "convert with .long() first")
    sizes = _index_shape(shape)
    steps = [math.prod(sizes[k + 1:]) for k in range(len(sizes))]
    flat = indices.to(dtypes.int64)
    return tuple(flat.div(step, rounding_mode="floor") % size for step, size in zip(steps, sizes, strict=True))


@composite("nonzero_static(Tensor input, *, int size, int fill_value=-1) -> Tensor", host_path=nonzero_static_path)
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Any:
    """Return the indices of ``size`` nonzero elements: (size, dimensions). Surplus rows hold ``fill_value``.

    Raises:
        ArgumentError: The size is negative.
    """
    if size < 0:
        raise ArgumentError("nonzero_static", f"size={size}", "the size is not negative", "pass 0 or more")
    found = input.nonzero()
    if found.shape[0] >= size:
        return found.narrow(0, 0, size).clone()
    missing = found.new_full((size - found.shape[0], found.shape[1]), fill_value)
    return functions.cat([found, missing], 0)
