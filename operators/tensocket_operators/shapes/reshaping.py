"""More views: windows, splits, written parts, and in-place changes of a tensor's geometry."""

from __future__ import annotations

import math
import operator
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.autograd.inplace import check_no_leaf
from tensocket_core.autograd.view_history import reattach_view
from tensocket_core.dispatch.call import call, tensor_key
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import is_grad_enabled
from tensocket_core.dispatch.versions import bump
from tensocket_core.geometry import as_strided as strided_view
from tensocket_core.geometry import broadcast_shapes as common_shape
from tensocket_core.geometry import element_strides, normalize_axis
from tensocket_core.keys import AUTOGRAD, DIM0
from tensocket_core.tensor import Size
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import ArgumentError, ShapeError

from ..indexing.gather_scatter import rows_index, scatter_valid
from ..kinds.composite import composite
from ..kinds.view import View
from ..reductions.value_checks import writable_copy
from .arrangements import with_part
from .views import sizes

#: More sections than this are treated as a mistake: no machine holds that many tensors.
_SECTIONS: Final = 1 << 32


def _unfold(array: Any, dimension: int, size: int, step: int) -> Any:
    shape, strides = array.shape, element_strides(array)
    axis = normalize_axis("unfold", dimension, len(shape))
    length = shape[axis] if shape else 1
    if not 0 <= size <= length or step <= 0:
        raise ShapeError("unfold", f"size {size}, step {step} of a dimension of size {length}",
                         "a window fits the dimension, and steps are positive", "choose a smaller size")
    if not shape:
        return strided_view(array, (size,), (1,), 0)
    count = (length - size) // step + 1
    sizes = (*shape[:axis], count, *shape[axis + 1:], size)
    return strided_view(array, sizes, (*strides[:axis], strides[axis] * step, *strides[axis + 1:], strides[axis]), 0)


def fold_windows(grad: Any, shape: tuple[int, ...], dimension: int, size: int, step: int) -> Any:
    """Return a tensor of a shape from its windows as ``unfold`` makes them; overlapping elements are added up."""
    if not shape:
        return grad.sum()
    axis = normalize_axis("unfold", dimension, len(shape))
    count = grad.shape[axis]
    first = grad.new_arange(0, count * step, step) if count else grad.new_arange(0, 0, 1)
    places = (first.unsqueeze(1) + grad.new_arange(0, size, 1)).reshape(-1)
    moved = grad.movedim(-1, axis + 1)
    merged = moved.reshape((*moved.shape[:axis], count * size, *moved.shape[axis + 2:]))
    index = rows_index(places, tuple(merged.shape), axis)
    return call(scatter_valid, grad.new_zeros(shape), axis, index, merged, True)


unfold: Final = View(
    "unfold(Tensor input, int dimension, int size, int step) -> Tensor~",
    "Windows of ``size`` elements along a dimension, ``step`` apart; their elements are a new last dimension.",
    _unfold,
    function=False,
    derivative=Derivative(
        input=lambda grad, input_shape, dimension, size, step: fold_windows(grad, input_shape, dimension, size, step)
    ),
)


@composite("unflatten(Tensor input, int dim, int[] sizes) -> Tensor~")
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """Split one dimension into several; one of the sizes may be -1.

    Raises:
        ShapeError: The sizes are empty, or do not multiply to that of the dimension.
    """
    if input.ndim == 0:
        raise ShapeError("unflatten", "a 0-dimensional tensor", "the tensor has at least one dimension",
                         "unsqueeze it first")
    axis = normalize_axis("unflatten", dim, input.ndim)
    wanted = tuple(sizes)
    given = input._array.shape[axis]
    known = math.prod(n for n in wanted if n != -1)
    inferred = wanted.count(-1)
    if not wanted or inferred > 1 or (known != given if not inferred else not known or given % known):
        raise ShapeError("unflatten", f"sizes {list(wanted)} for a dimension of size {given}",
                         "the sizes multiply to the dimension's, with at most one -1", "choose fitting sizes")
    full = tuple(given // known if n == -1 else n for n in wanted)
    shape = tuple(input.shape)
    return input.reshape((*shape[:axis], *full, *shape[axis + 1:]))


@composite("ravel(Tensor input) -> Tensor~")
def ravel(input: Any) -> Any:
    """Return the tensor with one dimension; a view if the tensor is contiguous."""
    return input.contiguous().view(-1)


@composite("reshape_as(Tensor input, Tensor other) -> Tensor~", function=False)
def reshape_as(input: Any, other: Any) -> Any:
    """Return the same elements in another tensor's shape."""
    return input.reshape(tuple(other.shape))


@composite("sum_to_size(Tensor input, int... size) -> Tensor~", function=False)
def sum_to_size(input: Any, *size: Any) -> Any:
    """Sum over dimensions so that the result has the given shape, which broadcasts to the tensor's.

    Raises:
        ShapeError: The given shape does not broadcast to the tensor's.
    """
    shape, own = sizes(size), tuple(input.shape)
    lead = len(own) - len(shape)
    if lead < 0 or any(n not in (1, m) for n, m in zip(shape, own[lead:], strict=True)):
        raise ShapeError("sum_to_size", f"size {list(shape)} for shape {list(own)}",
                         "the size broadcasts to the tensor's shape", "choose a fitting size")
    axes = [k for k, n in enumerate(own) if k < lead or (shape[k - lead] == 1 and n != 1)]
    summed = input.sum(axes, keepdim=True) if axes or not shape else input
    return summed.reshape(shape) if lead else summed


# ----------------------------------------------------------------------------------------- parts of a tensor, written


def _copy_with_view_written(name: str, input: Any, src: Any, view: Any) -> Any:
    """Return a copy of the tensor with one of its views overwritten."""
    result = writable_copy(input, src)
    part = view(result)
    if part.shape != src.shape:
        raise ShapeError(name, f"src of shape {list(src.shape)} for a part of shape {list(part.shape)}",
                         "src has the shape of the part", "reshape src")
    part.copy_(src)
    return result


def _with_part(name: str, input: Any, src: Any, view: str, part: Any, where: tuple[Any, ...]) -> Any:
    """Return a copy of the tensor with ``src`` in place of ``part``, one of its views."""
    if part.shape != src.shape:
        raise ShapeError(name, f"src of shape {list(src.shape)} for a part of shape {list(part.shape)}",
                         "src has the shape of the part", "reshape src")
    return call(with_part, input, src.to(input.dtype), view, where)


@composite("select_scatter(Tensor input, Tensor src, int dim, int index) -> Tensor", replayable=True)
def select_scatter(input: Any, src: Any, dim: int, index: int) -> Any:
    """Return a copy of the tensor with ``src`` at one position of a dimension."""
    part = input.detach().select(dim, index)
    axis = normalize_axis("select_scatter", dim, input.ndim)
    return _with_part("select_scatter", input, src, "select", part, (axis - input.ndim, index % input.shape[axis]))


@composite("slice_scatter(Tensor input, Tensor src, int dim=0, int? start=None, int? end=None, int step=1) -> Tensor",
           replayable=True)
def slice_scatter(input: Any, src: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    """Return a copy of the tensor with ``src`` at a slice of a dimension."""
    axis = normalize_axis("slice_scatter", dim, input.ndim)
    part = input.detach().basic_index((slice(None),) * axis + (slice(start, end, step),))
    return _with_part("slice_scatter", input, src, "slice", part, (axis - input.ndim, start, end, step))


@composite("diagonal_scatter(Tensor input, Tensor src, int offset=0, int dim1=0, int dim2=1) -> Tensor",
           replayable=True)
def diagonal_scatter(input: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Return a copy of the tensor with ``src`` on a diagonal."""
    part, rank = input.detach().diagonal(offset, dim1, dim2), input.ndim
    where = offset, dim1 % rank - rank, dim2 % rank - rank
    return _with_part("diagonal_scatter", input, src, "diagonal", part, where)


@composite(
    "as_strided_scatter(Tensor input, Tensor src, int[] size, int[] stride, int? storage_offset=None) -> Tensor"
)
def as_strided_scatter(input: Any, src: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """Return a copy of the tensor with ``src`` at a view of any geometry."""
    return _copy_with_view_written("as_strided_scatter", input, src, lambda x: x.as_strided(size, stride,
                                                                                            storage_offset))


# ------------------------------------------------------------------------------------------------ geometry, in place


def _adopt_geometry(operator: str, input: Any, view: Any) -> Any:
    """Give the tensor the geometry (and the history) of one of its views, and return it."""
    if input._key & AUTOGRAD and is_grad_enabled():
        check_no_leaf(operator, input)
    if input._level:
        input._become(view)
    input._array = view._array
    input._key = input._key & ~DIM0 | (0 if view._array.shape else DIM0)
    if view._grad_fn is not None:
        input._grad_fn = view._grad_fn
    elif input._grad_fn is not None and input._base is not None and input._fixed_view is None:
        reattach_view(input)
    bump(input)
    return input


@composite("transpose_(Tensor! input, int dim0, int dim1) -> Tensor", function=False, lazy=True,
           aliases=("swapaxes_", "swapdims_"))
def transpose_(input: Any, dim0: int, dim1: int) -> Any:
    """Apply ``transpose`` in place."""
    return _adopt_geometry("transpose_", input, input.transpose(dim0, dim1))


@composite("t_(Tensor! input) -> Tensor", function=False, lazy=True)
def t_(input: Any) -> Any:
    """Apply ``t`` in place."""
    return _adopt_geometry("t_", input, input.t())


@composite("squeeze_(Tensor! input, any dim=None) -> Tensor", function=False, lazy=True)
def squeeze_(input: Any, dim: Any = None) -> Any:
    """Apply ``squeeze`` in place."""
    return _adopt_geometry("squeeze_", input, input.squeeze(dim))


@composite("unsqueeze_(Tensor! input, int dim) -> Tensor", function=False, lazy=True)
def unsqueeze_(input: Any, dim: int) -> Any:
    """Apply ``unsqueeze`` in place."""
    return _adopt_geometry("unsqueeze_", input, input.unsqueeze(dim))


@composite("as_strided_(Tensor! input, int[] size, int[] stride, int? storage_offset=None) -> Tensor", lazy=True)
def as_strided_(input: Any, size: Any, stride: Any, storage_offset: Any = None) -> Any:
    """Apply ``as_strided`` in place."""
    return _adopt_geometry("as_strided_", input, input.as_strided(size, stride, storage_offset))


# ------------------------------------------------------------------------------------------------- splitting, joining


@composite("split_with_sizes(Tensor input, int[] split_sizes, int dim=0) -> any~")
def split_with_sizes(input: Any, split_sizes: Any, dim: int = 0) -> tuple[Any, ...]:
    """Return views of consecutive parts of the listed sizes."""
    return tuple(input.split(list(split_sizes), dim))


@composite("tensor_split(Tensor input, any indices_or_sections=None, int dim=0, *, any sections=None, any indices=None)"
           " -> any~")
def tensor_split(input: Any, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None,
                 indices: Any = None) -> tuple[Any, ...]:
    """Return views of a number of parts whose sizes differ by at most one, or of the parts between positions.

    Raises:
        ArgumentError: The number of parts is not positive, or so large that no memory holds the tuple.
        ShapeError: The tensor has no dimension.
    """
    if input.ndim == 0:
        raise ShapeError("tensor_split", "a 0-dimensional tensor", "the tensor has at least one dimension",
                             "unsqueeze it")
    axis = normalize_axis("tensor_split", dim, input.ndim)
    size = input._array.shape[axis]
    if indices_or_sections is None:
        indices_or_sections = indices if sections is None else sections
    if hasattr(indices_or_sections, "_key"):
        if indices_or_sections.dtype is not int64 or indices_or_sections.ndim > 1:
            raise ShapeError("tensor_split", f"a tensor of dtype {indices_or_sections.dtype.name} with "
                             f"{indices_or_sections.ndim} dimensions", "sections are a number, and indices a vector, "
                             "of dtype int64", "pass integers")
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        parts = indices_or_sections
        if parts <= 0:
            raise ArgumentError("tensor_split", f"{parts} sections", "there is at least one section",
                                "pass a positive number")
        if parts > _SECTIONS:
            raise ArgumentError("tensor_split", f"{parts} sections", "a tuple of so many tensors fits no memory",
                                "pass a smaller number")
        bounds = [k * (size // parts) + min(k, size % parts) for k in range(1, parts)]
    else:
        bounds = [operator.index(k) for k in indices_or_sections]
    ends = [slice(a, b) for a, b in zip([0, *bounds], [*bounds, size], strict=True)]
    return tuple(input.basic_index((slice(None),) * axis + (part,)) for part in ends)


def _split_along(name: str, input: Any, indices_or_sections: Any, rank: int, dim: int) -> tuple[Any, ...]:
    if input.ndim < rank:
        raise ShapeError(name, f"a {input.ndim}-dimensional tensor",
                             f"the tensor has at least {rank} dimension{'s' * (rank > 1)}", "unsqueeze it")
    if isinstance(indices_or_sections, int):
        size = input._array.shape[dim]
        if indices_or_sections <= 0 or size % indices_or_sections:
            raise ShapeError(name, f"{indices_or_sections} sections of a dimension of size {size}",
                             "the size is a multiple of the number of sections", "use tensor_split")
    parts: tuple[Any, ...] = input.tensor_split(indices_or_sections, dim)
    return parts


@composite("hsplit(Tensor input, any indices_or_sections) -> any~")
def hsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Return views of the parts along the second dimension, or along the only one."""
    return _split_along("hsplit", input, indices_or_sections, 1, 1 if input.ndim > 1 else 0)


@composite("vsplit(Tensor input, any indices_or_sections) -> any~")
def vsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Return views of the parts along the first of at least two dimensions."""
    return _split_along("vsplit", input, indices_or_sections, 2, 0)


@composite("dsplit(Tensor input, any indices_or_sections) -> any~")
def dsplit(input: Any, indices_or_sections: Any) -> tuple[Any, ...]:
    """Return views of the parts along the third dimension."""
    return _split_along("dsplit", input, indices_or_sections, 3, 2)


def broadcast_shapes(*shapes: Any) -> Any:
    """Return the common shape of shapes (sequences, or numbers for vectors), as ``torch.broadcast_shapes`` does.

    Raises:
        ShapeError: The shapes do not broadcast, or a size is negative.
    """
    given = [(s,) if isinstance(s, int) else tuple(s) for s in shapes]
    if any(n < 0 for shape in given for n in shape):
        raise ShapeError("broadcast_shapes", f"shapes {given}", "sizes are not negative", "pass non-negative sizes")
    return Size(common_shape("broadcast_shapes", given) if given else ())


def _several(name: str, tensors: tuple[Any, ...], function: Any) -> Any:
    """Apply a function to one tensor, or to each of several tensors or of a list."""
    given = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    for x in given:
        tensor_key(name, x)
    return function(tensors[0]) if len(tensors) == 1 and given is tensors else tuple(function(x) for x in given)


def atleast_1d(*tensors: Any) -> Any:
    """Return tensors with at least one dimension; a tuple for several tensors or a list."""
    return _several("atleast_1d", tensors, lambda x: x if x.ndim else x.reshape(1))


def atleast_2d(*tensors: Any) -> Any:
    """Return tensors with at least two dimensions: vectors become rows."""
    return _several("atleast_2d", tensors,
                    lambda x: x if x.ndim > 1 else x.reshape(1, 1) if x.ndim == 0 else x.unsqueeze(0))


def atleast_3d(*tensors: Any) -> Any:
    """Return tensors with at least three dimensions: vectors become rows of a matrix, matrices get a last dimension."""

    def widened(x: Any) -> Any:
        if x.ndim < 2:
            return x.reshape(1, -1, 1)
        return x.unsqueeze(-1) if x.ndim == 2 else x

    return _several("atleast_3d", tensors, widened)


@composite("hstack(Tensor[] tensors) -> Tensor", method=False)
def hstack(tensors: Any) -> Any:
    """Join tensors along the second dimension, or along the only one."""
    parts = [atleast_1d(x) for x in tensors]
    return functions.cat(parts, 0 if parts and parts[0].ndim == 1 else 1)


@composite("vstack(Tensor[] tensors) -> Tensor", method=False, aliases=("row_stack",))
def vstack(tensors: Any) -> Any:
    """Join tensors along the first dimension; vectors are rows."""
    return functions.cat([atleast_2d(x) for x in tensors], 0)


@composite("dstack(Tensor[] tensors) -> Tensor", method=False)
def dstack(tensors: Any) -> Any:
    """Join tensors along the third dimension."""
    return functions.cat([atleast_3d(x) for x in tensors], 2)


@composite("column_stack(Tensor[] tensors) -> Tensor", method=False)
def column_stack(tensors: Any) -> Any:
    """Join tensors along the second dimension; vectors are columns."""
    return functions.cat([x.reshape(-1, 1) if x.ndim < 2 else x for x in tensors], 1)


__all__ = ["atleast_1d", "atleast_2d", "atleast_3d", "broadcast_shapes"]
