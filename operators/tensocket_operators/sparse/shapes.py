"""Shapes of sparse tensors: order and number of dimensions, slices, concatenation, changes of size in place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tensocket_core import functions
from tensocket_core.formats import sparse_coo
from tensocket_core.geometry import normalize_axes, normalize_axis
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import (
    ArgumentError,
    ArgumentTypeError,
    DimensionError,
    IndexOutOfRange,
    ShapeError,
    UnsupportedOperator,
)

from ..creation import shape_of
from . import gradients
from .compressed_shapes import select_compressed, transpose_compressed
from .layouts import as_coo, in_layout_of, split_positions
from .recording import differentiable
from .tensor import SparseTensor, is_sparse, replace_parts, sparse_rule, wrap_sparse


def _permuted(source: SparseTensor, order: Sequence[int]) -> SparseTensor:
    """Return the tensor with its dimensions permuted; sparse dimensions stay before dense ones."""
    count = source.sparse_dim()
    rows = source.positions.index_select(0, source.positions.new_tensor(order[:count]))
    values = source.stored.permute((0, *(k - count + 1 for k in order[count:])))
    same = list(order[:count]) == list(range(count)) or not source._nnz()
    return wrap_sparse(rows, values, [source.shape[k] for k in order], sparse_coo, same and source.coalesced)


@sparse_rule("permute")
@differentiable(gradients.of_permute)
def _permute(input: Any, *dims: Any) -> Any:
    given = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    order = [normalize_axis("permute", d, input.ndim) for d in given]
    if sorted(order) != list(range(input.ndim)):
        raise ShapeError("permute", f"dims {list(given)} of a {input.ndim}-dimensional tensor",
                             "every dimension appears once", "pass each dimension once")
    source = as_coo(input)
    if any((k < source.sparse_dim()) != (d < source.sparse_dim()) for k, d in enumerate(order)):
        raise ShapeError("permute", f"dims {list(given)} of {source.sparse_dim()} sparse dimensions",
                             "sparse dimensions stay in front of dense ones", "convert it with to_dense() first")
    made = _permuted(source, order)
    made.coalesced = made.coalesced and (not given or given[0] == 0)
    return in_layout_of(made, input)


@sparse_rule("transpose", "swapaxes", "swapdims")
@differentiable(gradients.of_transpose)
def _transpose(input: Any, dim0: int, dim1: int) -> Any:
    first, second = (normalize_axis("transpose", d, input.ndim) for d in (dim0, dim1))
    if input._kind is not sparse_coo:
        return transpose_compressed(input, first, second)
    source = as_coo(input)
    count, order = source.sparse_dim(), list(range(input.ndim))
    order[first], order[second] = order[second], order[first]
    if (first < count) != (second < count):
        raise DimensionError("transpose", f"dims {dim0} and {dim1} of {count} sparse dimensions",
                             "a sparse dimension is exchanged with a sparse one", "convert it with to_dense() first")
    return _permuted(source, order)


@sparse_rule("t")
@differentiable(gradients.of_t)
def _t(input: Any) -> Any:
    if input.ndim > 2:
        raise ShapeError("t", f"a sparse tensor of shape {list(input.shape)}", "t is for at most 2 dimensions",
                         "use transpose")
    return input if input.ndim < 2 else _transpose(input, 0, 1)


@sparse_rule("unsqueeze")
@differentiable(gradients.of_reshape)
def _unsqueeze(input: Any, dim: int) -> Any:
    source = as_coo(input)
    axis, count = normalize_axis("unsqueeze", dim, input.ndim + 1), source.sparse_dim()
    shape = (*source.shape[:axis], 1, *source.shape[axis:])
    if axis > count:
        return wrap_sparse(source.positions, source.stored.unsqueeze(axis - count + 1), shape, sparse_coo,
                           source.coalesced)
    zeros = source.positions.new_zeros((1, source._nnz()))
    rows = functions.cat([source.positions[:axis], zeros, source.positions[axis:]])
    return wrap_sparse(rows, source.stored, shape, sparse_coo, source.coalesced)


@sparse_rule("squeeze")
@differentiable(gradients.of_reshape)
def _squeeze(input: Any, dim: Any = None) -> Any:
    source = as_coo(input)
    count = source.sparse_dim()
    axes = range(input.ndim) if dim is None else normalize_axes("squeeze", dim, input.ndim)
    gone = {k for k in axes if source.shape[k] == 1}
    kept = [k for k in range(count) if k not in gone]
    rows = source.positions.index_select(0, source.positions.new_tensor(kept, dtype=int64))
    dense = [n for k, n in enumerate(source.shape) if k >= count and k not in gone]
    shape = [n for k, n in enumerate(source.shape) if k not in gone]
    return wrap_sparse(rows, source.stored.reshape((source._nnz(), *dense)), shape, sparse_coo, source.coalesced)


# ----------------------------------------------------------------------------------------------------------- parts


@sparse_rule("select")
@differentiable(gradients.of_select)
def _select(input: Any, dim: int, index: int) -> Any:
    axis = normalize_axis("select", dim, input.ndim)
    size = input.shape[axis]
    if not -size <= index < size:
        raise IndexOutOfRange("select", f"index {index} of dimension {dim} with size {size}",
                              f"an index is from {-size} to {size - 1}", "pass another index")
    number = index % size
    kept = None if input._kind is sparse_coo else select_compressed(input, axis, number)
    if kept is not None:
        return kept
    source = as_coo(input)
    count, shape = source.sparse_dim(), (*input.shape[:axis], *input.shape[axis + 1:])
    if axis >= count:
        return wrap_sparse(source.positions, source.stored.select(axis - count + 1, number), shape, sparse_coo,
                           source.coalesced)
    chosen = (source.positions.select(0, axis) == number).nonzero().squeeze(1)
    values = source.stored.index_select(0, chosen)
    if count == 1:
        return values.sum(0, dtype=values.dtype)
    rows = functions.cat([source.positions[:axis], source.positions[axis + 1:]]).index_select(1, chosen)
    return wrap_sparse(rows, values, shape, sparse_coo, source.coalesced)


@sparse_rule("index_select")
@differentiable(gradients.of_index_select)
def _index_select(input: Any, dim: int, index: Any) -> Any:
    axis = normalize_axis("index_select", dim, input.ndim)
    source, size = as_coo(input), input.shape[axis]
    if index.ndim > 1 or index.dtype.kind not in ("int", "uint"):
        raise ShapeError("index_select", f"an index of dtype {index.dtype.name} and shape {list(index.shape)}",
                         "an index is a vector of integers", "flatten it")
    wanted = index.reshape(-1).to(int64)
    if bool(((wanted < -size) | (wanted >= size)).any()):
        raise IndexOutOfRange("index_select", f"an index outside of dimension {dim} with size {size}",
                              f"indices are from {-size} to {size - 1}", "check the index")
    wanted = functions.where(wanted < 0, wanted + size, wanted)
    shape = (*input.shape[:axis], wanted.shape[0], *input.shape[axis + 1:])
    count = source.sparse_dim()
    if axis >= count:
        values = source.stored.index_select(axis - count + 1, wanted)
        return wrap_sparse(source.positions, values, shape, sparse_coo, source.coalesced)
    places, partners = _matches(source.positions.select(0, axis), wanted)
    rows = source.positions.index_select(1, places).index_copy(
        0, places.new_tensor([axis]), partners.unsqueeze(0))
    return wrap_sparse(rows, source.stored.index_select(0, places), shape, sparse_coo)


def _matches(given: Any, wanted: Any) -> tuple[Any, Any]:
    """Return all pairs of indices, one into each vector, at which both hold the same number."""
    ordered, order = wanted.sort(stable=True)
    begins = functions.searchsorted(ordered, given)
    counts = functions.searchsorted(ordered, given, right=True) - begins
    places = functions.repeat_interleave(counts.new_arange(0, counts.shape[0], 1), counts)
    before = counts.cumsum(0) - counts
    offsets = places.new_arange(0, places.shape[0], 1) - before.index_select(0, places)
    return places, order.index_select(0, begins.index_select(0, places) + offsets)


@sparse_rule("narrow_copy", "narrow")
@differentiable(gradients.of_narrow)
def _narrow(input: Any, dim: int, start: Any, length: int) -> Any:
    if not 0 <= dim < input.ndim:
        raise ShapeError("narrow", f"dim {dim} of a {input.ndim}-dimensional sparse tensor",
                         "dimensions of sparse tensors are counted from the first one", "pass a dim of the tensor")
    axis, source, size = dim, as_coo(input), input.shape[dim]
    begin = int(start) + (size if start < 0 else 0)
    if length < 0 or not 0 <= begin <= size - length:
        raise ShapeError("narrow", f"start {start} and length {length} of dimension {dim} with size {size}",
                              "the part lies inside of the dimension", "pass another start or length")
    count, shape = source.sparse_dim(), (*input.shape[:axis], length, *input.shape[axis + 1:])
    if axis >= count:
        return wrap_sparse(source.positions, source.stored.narrow(axis - count + 1, begin, length), shape, sparse_coo,
                           source.coalesced)
    places = source.positions.select(0, axis)
    chosen = ((places >= begin) & (places < begin + length)).nonzero().squeeze(1)
    shift = source.positions.new_zeros((count, 1))
    shift[axis] = begin
    return wrap_sparse(source.positions.index_select(1, chosen) - shift, source.stored.index_select(0, chosen), shape,
                       sparse_coo, source.coalesced)


@sparse_rule("__getitem__", "getitem")
def _getitem(input: Any, index: Any) -> Any:
    items = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [x for x in items if not hasattr(x, "_key")]:
        at = next(k for k, x in enumerate(items) if x is Ellipsis)
        used = sum(x is not None and x is not Ellipsis for x in items)
        items[at:at + 1] = [slice(None)] * (input.ndim - used)
    result, axis = input, 0
    for item in items:
        if item is None:
            result, axis = _unsqueeze(result, axis) if is_sparse(result) else result.unsqueeze(axis), axis + 1
        elif isinstance(item, int) and not isinstance(item, bool):
            result = _select(result, axis, item) if is_sparse(result) else result.select(axis, item)
        elif isinstance(item, slice) and item.step in (None, 1):
            start, stop, _ = item.indices(result.shape[axis])
            if (start, stop) != (0, result.shape[axis]):
                length = max(stop - start, 0)
                result = _narrow(result, axis, start, length) if is_sparse(result) else result.narrow(
                    axis, start, length)
            axis += 1
        elif hasattr(item, "_key") and item.ndim == 1 and item.dtype.kind in ("int", "uint"):
            result = _index_select(result, axis, item) if is_sparse(result) else result.index_select(axis, item)
            axis += 1
        else:
            raise UnsupportedOperator("__getitem__", f"an index {item!r} of a sparse tensor",
                                      "sparse tensors are indexed by numbers, slices without steps, None and vectors "
                                      "of integers", "convert it with to_dense() first")
    return result


@sparse_rule("__setitem__", "setitem")
def _setitem(input: Any, index: Any, value: Any) -> None:
    raise ArgumentTypeError("__setitem__", "assignment to a part of a sparse tensor", "parts of sparse tensors are not "
                            "written", "convert it with to_dense() first")


# --------------------------------------------------------------------------------------------------- several tensors


@sparse_rule("cat", "concat", "concatenate")
@differentiable(gradients.of_cat)
def _cat(tensors: Any, dim: int = 0) -> Any:
    for k, x in enumerate(tensors):
        if not is_sparse(x):
            raise ArgumentError("cat", f"a dense tensor at position {k} among sparse ones",
                                "sparse tensors are concatenated with sparse ones", "convert it with to_sparse()")
    sources = [as_coo(x) for x in tensors]
    first = sources[0]
    axis, count = normalize_axis("cat", dim, first.ndim), first.sparse_dim()
    for k, x in enumerate(sources):
        others = [(*y.shape[:axis], *y.shape[axis + 1:]) for y in (first, x)]
        if x.ndim != first.ndim or x.sparse_dim() != count or others[0] != others[1]:
            raise ShapeError("cat", f"shape {list(x.shape)} with {x.sparse_dim()} sparse dimensions at position {k} "
                             f"and {list(first.shape)} with {count} at position 0",
                             "all but the concatenated dimension are the same", "check the sizes")
    shape = list(first.shape)
    shape[axis] = sum(x.shape[axis] for x in sources)
    rows, values, before = [], [], 0
    for x in sources:
        shift = x.positions.new_zeros((count, 1))
        if axis < count:
            shift[axis] = before
        rows.append(x.positions + shift)
        values.append(x.stored if axis < count else _padded(x.stored, axis - count + 1, before, shape[axis]))
        before += x.shape[axis]
    whole = axis == 0 and count > 0 and all(x.coalesced for x in sources)
    made = wrap_sparse(functions.cat(rows, 1), functions.cat(values), shape, sparse_coo, whole)
    return in_layout_of(made, tensors[0])


def _padded(values: Any, axis: int, before: int, size: int) -> Any:
    """Pad the values with zeros along an axis."""
    parts = []
    for length in (before, None, size - before - values.shape[axis]):
        parts.append(values if length is None else values.new_zeros(
            (*values.shape[:axis], length, *values.shape[axis + 1:])))
    return functions.cat(parts, axis)


@sparse_rule("stack")
@differentiable(gradients.of_stack)
def _stack(tensors: Any, dim: int = 0) -> Any:
    axis = normalize_axis("stack", dim, tensors[0].ndim + 1)
    return _cat([_unsqueeze(x, axis) for x in tensors], axis)


# ------------------------------------------------------------------------------------------------------------- sizes


def broadcast_sparse(input: SparseTensor, size: Sequence[int]) -> SparseTensor:
    """Broadcast the tensor to a larger shape; new leading dimensions are sparse.

    Raises:
        ShapeError: The tensor does not broadcast to the shape.
    """
    source, shape = as_coo(input), tuple(size)
    more, count = len(shape) - source.ndim, source.sparse_dim()
    old = (*([1] * more), *source.shape)
    if more < 0 or any(m not in (n, 1) for m, n in zip(old, shape, strict=True)):
        raise ShapeError("sparse_broadcast_to", f"shape {list(source.shape)} for {list(shape)}",
                         "sizes are the same or 1", "check the sizes")
    if shape == tuple(source.shape):
        return source
    dense = shape[more + count:]
    values = source.stored.expand((source._nnz(), *dense))
    wide = [k for k in range(more + count) if old[k] != shape[k]]
    rows = functions.cat([source.positions.new_zeros((more, source._nnz())), source.positions])
    sizes = [shape[k] for k in wide]
    total = math.prod(sizes)
    if wide:
        rows, values = rows.repeat_interleave(total, 1), values.repeat_interleave(total, 0)
        grid = split_positions(rows.new_arange(0, total, 1), sizes).repeat((1, source._nnz()))
        rows = rows.index_copy(0, rows.new_tensor(wide), grid)
    return wrap_sparse(rows, values, shape, sparse_coo, source.coalesced and not wide)


@sparse_rule("_sparse_broadcast_to", "expand", "broadcast_to")
def _expand(input: Any, *size: Any) -> Any:
    return broadcast_sparse(input, shape_of("expand", size))


def sparse_resize_(input: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Change the size in place; a tensor with values keeps its sparse and dense dimensions, and its sizes only grow.

    Raises:
        ShapeError: The size violates these conditions.
    """
    shape = tuple(size)
    _check_resize(input, shape, sparse_dim, dense_dim)
    dense = shape[sparse_dim:]
    if not input._nnz():
        return replace_parts(input, input.positions.new_zeros((sparse_dim, 0)), input.stored.new_zeros((0, *dense)),
                             shape, input.coalesced)
    old = input.stored.reshape(-1)  # memory grows at its end: elements move to other positions
    more = input._nnz() * math.prod(dense) - old.shape[0]
    values = functions.cat([old, old.new_zeros((more,))]).reshape((input._nnz(), *dense))
    return replace_parts(input, input.positions, values, shape, input.coalesced)


def _check_resize(input: Any, shape: tuple[int, ...], sparse_dim: int, dense_dim: int) -> None:
    if sparse_dim + dense_dim != len(shape):
        raise ShapeError("sparse_resize_", f"{sparse_dim} sparse and {dense_dim} dense dimensions for {list(shape)}",
                         "a size has as many numbers as both together", "check the size")
    if not input._nnz():
        return
    count = input.sparse_dim()
    changed = "sparse" if sparse_dim != count else "dense" if dense_dim != input.dense_dim() else ""
    if changed:
        raise ShapeError("sparse_resize_", f"another number of {changed} dimensions: changing the number of {changed} "
                         "dimensions of a tensor with values", "a tensor with values keeps it",
                         "call sparse_resize_and_clear_")
    for kind, part in (("sparse", slice(count)), ("dense", slice(count, None))):
        if any(m > n for m, n in zip(input.shape[part], shape[part], strict=True)):
            raise ShapeError("sparse_resize_", f"size {list(shape)} for {list(input.shape)}: shrinking the size of "
                             f"{kind} dimensions of a tensor with values", "its sizes grow",
                             "call sparse_resize_and_clear_")


def sparse_resize_and_clear_(input: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Change the size in place to any other, and drop the values.

    Raises:
        ShapeError: The numbers of dimensions do not fit the size.
    """
    shape = tuple(size)
    if sparse_dim + dense_dim != len(shape):
        raise ShapeError("sparse_resize_and_clear_", f"{sparse_dim} sparse and {dense_dim} dense dimensions for "
                         f"{list(shape)}", "a size has as many numbers as both together", "check the size")
    return replace_parts(input, input.positions.new_zeros((sparse_dim, 0)),
                         input.stored.new_zeros((0, *shape[sparse_dim:])), shape, True)


@sparse_rule("resize_as_", "resize_as_sparse_")
def _resize_as_(input: Any, the_template: Any, *, memory_format: Any = None) -> Any:
    if not (is_sparse(input) and is_sparse(the_template)):
        raise ArgumentError("resize_as_", "a sparse and a dense tensor", "both have one layout", "convert one of them")
    if tuple(input.shape) == tuple(the_template.shape) and input.sparse_dim() == the_template.sparse_dim():
        return input
    return sparse_resize_(input, the_template.shape, the_template.sparse_dim(), the_template.dense_dim())


@sparse_rule("zero_")
def _zero_(input: Any) -> Any:
    return sparse_resize_and_clear_(input, input.shape, input.sparse_dim(), input.dense_dim())


for _function in (sparse_resize_, sparse_resize_and_clear_):
    setattr(SparseTensor, _function.__name__, _function)

__all__ = ["broadcast_sparse"]
