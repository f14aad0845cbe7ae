"""Parts and arrangements of tensors: triangles, diagonals, rolls, grids, repetitions, selections, small products."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.dispatch.call import call, tensor_key
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.geometry import (
    broadcast_shapes,
    is_integer,
    normalize_axes,
    normalize_axis,
)
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import (
    ArgumentError,
    DeviceMismatch,
    DimensionError,
    DtypeError,
    ShapeError,
    UndefinedDtype,
)

from ..kinds.composite import composite
from ..kinds.multi_kernel import SequenceOperator
from ..kinds.view import View
from ..shapes.arrangements import diagonal_view, on_diagonal, repeated_each, rolled
from ..shapes.views import sizes
from .gather_scatter import check_long, checked_index, gather_valid
from .gradients import along_dim_gradient
from .small_selections import count_nonzero_path, trace_path
from .vector_products import rolled_products, vector_product

# ---------------------------------------------------------------------------------------- triangles and diagonals


def positions(like: Any, size: int) -> Any:
    """Return 0, 1, ..., size - 1 on another tensor's device."""
    return like.new_arange(0, size, 1)


def _on_diagonal(grad: Any, shape: tuple[int, ...], offset: int, dim1: int, dim2: int) -> Any:
    """Return zeros of a shape, with ``grad`` on a diagonal."""
    rank = len(shape)
    return call(on_diagonal, grad, shape[dim1], shape[dim2], offset, dim1 % rank - rank, dim2 % rank - rank)


diagonal: Final = View(
    "diagonal(Tensor input, int offset=0, int dim1=0, int dim2=1) -> Tensor~",
    "The elements whose index along dim2 is that along dim1 plus offset, as a last dimension.", diagonal_view,
    derivative=Derivative(
        input=lambda grad, input_shape, offset, dim1, dim2: _on_diagonal(grad, input_shape, offset, dim1, dim2)))


@composite("trace(Tensor input) -> Tensor", host_path=trace_path)
def trace(input: Any) -> Any:
    """Sum the diagonal of a matrix."""
    if input.ndim != 2:
        raise ShapeError("trace", f"a tensor of shape {list(input.shape)}", "a trace is that of one matrix",
                         "sum input.diagonal(0, -2, -1) over its last dimension")
    return input.diagonal().sum()


# ---------------------------------------------------------------------------------------- arrangements and copies


@composite("roll(Tensor input, int[] shifts, any dims=None) -> Tensor", replayable=True)
def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """Move elements along dimensions, those beyond the end to the start; without dims, in row-major order.

    Raises:
        ShapeError: No shift is given, or the numbers of dims and shifts differ.
    """
    steps = (shifts,) if is_integer(shifts) else tuple(shifts)
    chosen = () if dims is None else (dims,) if is_integer(dims) else tuple(dims)
    if not steps:
        raise ShapeError("roll", "no shifts", "there is at least one shift", "pass a shift for every dim")
    if not chosen and len(steps) == 1:
        return roll(input.reshape(-1), steps, (0,)).reshape(tuple(input.shape))
    if len(chosen) != len(steps):
        raise ShapeError("roll", f"shifts {steps}, dims {chosen}", "every dim has a shift", "pass as many of both")
    if input.ndim == 0:
        raise DimensionError("roll", f"dims {chosen} of a 0-dimensional tensor", "a dim is one of the tensor",
                             "leave out dims")
    axes = [normalize_axis("roll", dim, input.ndim) - input.ndim for dim in chosen]
    return call(rolled, input, steps, tuple(axes))


@composite("meshgrid(any tensors, *, str indexing='ij') -> any~", method=False, hands_by_name=True)
def meshgrid(*tensors: Any, indexing: str = "ij") -> Any:
    """Return the coordinates of a grid: each vector expanded along the dimensions of the others.

    Args:
        tensors: Vectors or numbers (or one list of these).
        indexing: ``ij``: the first vector runs along the first dimension. ``xy``: along the second.

    Raises:
        ArgumentError: ``indexing`` is neither.
        ArgumentTypeError: An argument is not a tensor.
        ShapeError: An argument has more than one dimension.
    """
    given = tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    if indexing not in ("ij", "xy"):
        raise ArgumentError("meshgrid", f"indexing={indexing!r}", "the order is 'ij' or 'xy'", "pass one of both")
    for x in given:
        tensor_key("meshgrid", x)
        if x.ndim > 1:
            raise ShapeError("meshgrid", f"a tensor of shape {list(x.shape)}", "coordinates are vectors or numbers",
                             "flatten it")
        if x.dtype is not given[0].dtype:
            raise DtypeError("meshgrid", f"{given[0].dtype.name} and {x.dtype.name}", "all vectors have one dtype",
                             "convert them with .to(dtype)")
        if x._device_state is not given[0]._device_state and x.device != given[0].device:
            raise DeviceMismatch("meshgrid", f"{given[0].device} and {x.device}", "all vectors are on one device",
                                 "move them with .to(device)")
    swap = indexing == "xy" and len(given) > 1
    vectors = (given[1], given[0], *given[2:]) if swap else given
    shape = tuple([x.shape[0] if x.ndim else 1 for x in vectors])
    rank = len(shape)
    grids = [x.reshape(tuple([-1 if k == axis else 1 for k in range(rank)])).expand(shape)
             for axis, x in enumerate(vectors)]
    return (grids[1], grids[0], *grids[2:]) if swap else tuple(grids)


@composite("tile(Tensor input, int... dims) -> Tensor", replayable=True)
def tile(input: Any, *dims: Any) -> Any:
    """Return copies of the tensor along its last dimensions (or new leading ones)."""
    counts = sizes(dims)
    return input.repeat((1,) * max(input.ndim - len(counts), 0) + counts)


def _repeated(repeats: Any) -> Any:
    """Return each position repeated by its count; each result searches for its place in the running sums."""
    sums = repeats.to(dtypes.int64).cumsum(0)
    size = repeats.shape[0]
    total = int(sums.select(0, size - 1).item()) if size else 0
    return functions.searchsorted(sums, positions(repeats, total), right=True)


#: Position k, repeated ``repeats[k]`` times.
repeated: Final[SequenceOperator] = SequenceOperator(
    "repeat_interleave(Tensor repeats) -> Tensor", "Every position as often as its count says.",
    lambda repeats: np.repeat(np.arange(len(repeats), dtype=np.int64), repeats), _repeated, shape=None, kinds="i",
    method=False, function=False)


@composite("repeat_interleave(Tensor input, any repeats=None, int? dim=None, *, int? output_size=None) -> Tensor",
           replayable=True)
def repeat_interleave(input: Any, repeats: Any = None, dim: int | None = None, *,
                      output_size: int | None = None) -> Any:
    """Repeat every element (or slice along a dimension); with counts alone, repeat their positions.

    Raises:
        ArgumentError: A count is negative.
        ShapeError: The number of counts differs from that of elements.
    """
    if repeats is None:
        return call(repeated, _counts(input, input.numel()))
    if dim is None:
        input, dim = input.reshape(-1), 0
    axis = normalize_axis("repeat_interleave", dim, input.ndim)
    if input.ndim == 0:
        raise DimensionError("repeat_interleave", f"dim {dim} of a 0-dimensional tensor",
                             "slices lie along a dim of the tensor", "leave out dim")
    if hasattr(repeats, "_key") and repeats.numel() != 1:
        return input.index_select(axis, call(repeated, _counts(repeats, input.shape[axis])))
    count = int(repeats)
    if count < 0:
        raise ArgumentError("repeat_interleave", f"repeats={count}", "counts are not negative", "pass 0 or more")
    return call(repeated_each, input, count, axis - input.ndim)


def _counts(repeats: Any, size: int) -> Any:
    """Return counts after a check."""
    if repeats.ndim != 1 or repeats.shape[0] != size:
        raise ShapeError("repeat_interleave", f"counts of shape {list(repeats.shape)} for {size} slices",
                         "there is one count for every slice, in a vector", "pass one number, or a vector of that size")
    if repeats.numel() and repeats.amin().item() < 0:
        raise ArgumentError("repeat_interleave", "a negative count", "counts are not negative", "pass 0 or more")
    return repeats.detach()


# ------------------------------------------------------------------------------------------------------ selections


@composite("take(Tensor input, Tensor index) -> Tensor", replayable=True, derivative=Derivative(
    input=lambda grad, input_shape, index: call(COMPOSITES["take_gradient"], grad, input_shape, index)))
def take(input: Any, index: Any) -> Any:
    """Return the elements at row-major positions, in the index's shape."""
    check_long("take", index)
    flat = input.reshape(-1)
    places = checked_index("take", index, flat._array.shape[0], negative=True).reshape(-1)
    return call(gather_valid, flat, 0, places).reshape(tuple(index.shape))


@composite("take_along_dim(Tensor input, Tensor indices, int? dim=None) -> Tensor", replayable=True,
           derivative=Derivative(input=lambda grad, input_shape, indices, dim: along_dim_gradient(
               grad, input_shape, indices, dim)))
def take_along_dim(input: Any, indices: Any, dim: int | None = None) -> Any:
    """Return the elements at positions along a dimension, one for each element of ``indices``; the rest broadcasts.

    Negative positions count from the end of ``dim``.

    Raises:
        IndexOutOfRange: A position is outside the dimension.
        ShapeError: The tensors have different numbers of dimensions.
    """
    check_long("take_along_dim", indices)
    if dim is None:
        return input.reshape(-1).gather(0, indices.reshape(-1))
    axis = normalize_axis("take_along_dim", dim, input.ndim)
    if input.ndim != indices.ndim:
        raise ShapeError("take_along_dim", f"input {list(input.shape)}, indices {list(indices.shape)}",
                         "both have the same number of dimensions", "unsqueeze the indices")
    ones = [tuple(1 if k == axis else n for k, n in enumerate(x.shape)) for x in (input, indices)]
    lead = broadcast_shapes("take_along_dim", ones)
    wide = [x.expand(tuple(x.shape[axis] if k == axis else n for k, n in enumerate(lead))) for x in (input, indices)]
    valid = checked_index("take_along_dim", wide[1], input.shape[axis], negative=True)
    return call(gather_valid, wide[0], axis, valid)


@composite("count_nonzero(Tensor input, any dim=None) -> Tensor", host_path=count_nonzero_path)
def count_nonzero(input: Any, dim: Any = None) -> Any:
    """Count the nonzero elements."""
    counted = input if input.dtype is dtypes.bool_ else input != 0
    return counted.sum(normalize_axes("count_nonzero", dim, input.ndim))


@composite("positive(Tensor input) -> Tensor~")
def positive(input: Any) -> Any:
    """Return the tensor itself.

    Raises:
        UndefinedDtype: The tensor has dtype bool.
    """
    if input.dtype.kind == "bool":
        raise UndefinedDtype("positive", "dtype bool", "positive is defined for numbers",
                             "convert with .to(dtype) first")
    return input


# -------------------------------------------------------------------------------------------------- small products


@composite("outer(Tensor input, Tensor vec2) -> Tensor", aliases=("ger",))
def outer(input: Any, vec2: Any) -> Any:
    """Return the products of all pairs of elements of two vectors."""
    for x in (input, vec2):
        if x.ndim != 1:
            raise ShapeError("outer", f"a tensor of shape {list(x.shape)}", "both are vectors", "flatten it")
    return input.unsqueeze(1) * vec2


@composite("cross(Tensor input, Tensor other, int? dim=None) -> Tensor")
def cross(input: Any, other: Any, dim: int | None = None) -> Any:
    """Return the vector product along a dimension of size 3, by default the first one."""
    if dim is None:
        dim = next((k for k, n in enumerate(input.shape) if n == 3), -1)
    return crossed("cross", input, other, dim)


def crossed(operator: str, input: Any, other: Any, dim: int) -> Any:
    """Return the vector product.

    Raises:
        ShapeError: The dimension does not have size 3, or the operands have different numbers of dimensions.
    """
    if input.ndim != other.ndim:
        raise ShapeError(operator, f"shapes {list(input.shape)} and {list(other.shape)}",
                         "both have the same number of dimensions", "unsqueeze one of them")
    axis = normalize_axis(operator, dim, input.ndim)
    if input.ndim == 0 or input.shape[axis] != 3 or other.shape[axis] != 3:
        raise ShapeError(operator, f"shapes {list(input.shape)} and {list(other.shape)}, dim {dim}",
                         "vectors have three elements", "choose the dim of the vectors")
    if input.dtype is not other.dtype or input.dtype.category > 2:
        return rolled_products(input, other, axis)
    return call(vector_product, input, other, axis - input.ndim)


def _contracted(input: Any, other: Any, dims: Any) -> tuple[list[int], list[int]]:
    """Return the dimensions of both operands that the product sums over."""
    if isinstance(dims, int):
        if not 0 <= dims <= min(input.ndim, other.ndim):
            raise ArgumentError("tensordot", f"dims={dims}", "both operands have that many dimensions",
                                "pass a smaller number")
        return list(range(input.ndim - dims, input.ndim)), list(range(dims))
    first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    return ([normalize_axis("tensordot", d, input.ndim) for d in first],
            [normalize_axis("tensordot", d, other.ndim) for d in second])


@composite("tensordot(Tensor a, Tensor b, any dims=2) -> Tensor", method=False, hands_by_name=True)
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """Sum products over dimensions of both: the last n of a with the first n of b, or two lists of dims.

    Raises:
        ArgumentError: dims is out of range.
        ShapeError: The dimensions have different sizes.
    """
    first, second = _contracted(a, b, dims)
    # As in broadcasting, a dimension of size 1 meets the sum over the other operand's dimension.
    for k, m in zip(first, second, strict=True):
        if a.shape[k] != b.shape[m]:
            a, b = (a.sum(k, True, dtype=a.dtype) if b.shape[m] == 1 else a,
                    b.sum(m, True, dtype=b.dtype) if a.shape[k] == 1 else b)
    if [a.shape[k] for k in first] != [b.shape[k] for k in second]:
        raise ShapeError("tensordot", f"shapes {list(a.shape)} and {list(b.shape)}, dims {first} and {second}",
                         "the dims summed over have equal sizes", "check dims")
    left = [k for k in range(a.ndim) if k not in first]
    right = [k for k in range(b.ndim) if k not in second]
    size = math.prod(a.shape[k] for k in first)
    lead, tail = tuple(a.shape[k] for k in left), tuple(b.shape[k] for k in right)
    rows = a.permute((*left, *first)).reshape((math.prod(lead), size))
    columns = b.permute((*second, *right)).reshape((size, math.prod(tail)))
    return rows.mm(columns).reshape((*lead, *tail))
