"""Records of arrangements: rolls, repetitions, diagonals of zeros, blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, Final

import numpy as np

from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.geometry import as_strided, element_strides, normalize_axis
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.copies import converted, copy_elements
from tensocket_core.launch.fill import fill_array
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.errors import ShapeError
from tensocket_plugins.contract.launch_recorder import RECORDERS

from ..kinds.view import Custom
from .arranged import Arranged
from .views import sliced

Shape = tuple[int, ...]


def diagonal_view(array: Any, offset: int, dim1: int, dim2: int) -> Any:
    """Return a diagonal of a handle as its last dimension.

    Raises:
        ShapeError: Both dimensions are the same.
    """
    rank = len(array.shape)
    first, second = normalize_axis("diagonal", dim1, rank), normalize_axis("diagonal", dim2, rank)
    if first == second:
        raise ShapeError("diagonal", f"dims {dim1} and {dim2} of a {rank}-dimensional tensor",
                         "a diagonal lies between two different dims", "pass two dims of the tensor")
    row, column = max(-offset, 0), max(offset, 0)
    length = max(min(array.shape[first] - row, array.shape[second] - column), 0)
    strides, rest = element_strides(array), [k for k in range(rank) if k not in (first, second)]
    start = row * strides[first] + column * strides[second] if length else 0
    return as_strided(array, (*(array.shape[k] for k in rest), length),
                      (*(strides[k] for k in rest), strides[first] + strides[second]), start)


def _with_diagonal(shape: Shape, rows: int, columns: int, offset: int, dim1: int, dim2: int) -> Shape:
    sizes = list(shape[:-1])
    for dim, size in sorted(((dim1 % (len(shape) + 1), rows), (dim2 % (len(shape) + 1), columns))):
        sizes.insert(dim, size)
    return tuple(sizes)


#: ``dim1`` and ``dim2`` are negative.
on_diagonal: Final[Arranged] = Arranged(
    "on_diagonal(Tensor input, int rows, int columns, int offset, int dim1, int dim2) -> Tensor",
    "Matrices of zeros in two new dimensions, with the last dimension of input on a diagonal.",
    _with_diagonal,
    lambda out, array, rows, columns, offset, dim1, dim2: [(diagonal_view(out, offset, dim1, dim2), array)],
    zeros=True,
    derivative=Derivative(input=lambda grad, offset, dim1, dim2: grad.diagonal(offset, dim1, dim2)))


def _rolled_parts(out: Any, array: Any, shifts: Shape, dims: Shape) -> Iterator[tuple[Any, Any]]:
    rank = len(array.shape)
    steps = [0] * rank
    for shift, dim in zip(shifts, dims, strict=True):
        steps[dim % rank] += shift
    choices = []
    for step, size in zip(steps, array.shape, strict=True):
        split = step % size if size else 0
        whole = [(slice(None), slice(None))]
        choices.append([(slice(split, None), slice(size - split)), (slice(split), slice(size - split, None))]
                       if split else whole)
    for chosen in product(*choices):
        yield out[tuple([to for to, _ in chosen])], array[tuple([source for _, source in chosen])]


def _part(view: str, array: Any, where: Shape) -> Any:
    """Return a view of a handle or of a tensor by name; dimensions count from the last one."""
    if view == "diagonal":
        return diagonal_view(array, *where) if not hasattr(array, "_key") else array.diagonal(*where)
    dim, *index = where
    chosen = index[0] if view == "select" else slice(*index)
    place = (Ellipsis, chosen, *(slice(None),) * (-dim - 1))
    return sliced(array, place) if not hasattr(array, "_key") else array.basic_index(place)


def _write_part(state: Any, input: Any, src: Any, view: str, where: Shape) -> Any:
    dtype = input.dtype
    out = converted(state, input._array, dtype, dtype)
    copy_elements(state, _part(view, out, where), dtype, src._array, dtype)
    return wrap(out, state.key | dtype_bit(dtype))


#: ``view`` is ``select``, ``slice`` or ``diagonal``; ``where`` has its arguments, with negative dimensions.
with_part: Final[Custom] = Custom(
    "with_part(Tensor input, Tensor src, str view, any where) -> Tensor", "A copy with src in place of a view.",
    _write_part, method=False, function=False, replayable=True,
    derivative=Derivative(
        input=lambda grad, src_shape, view, where: call(
            with_part, grad, grad.new_zeros(()).expand(src_shape), view, where),
        src=lambda grad, view, where: _part(view, grad, where)))


#: ``dims`` are negative.
rolled: Final[Arranged] = Arranged(
    "rolled(Tensor input, int[] shifts, int[] dims) -> Tensor",
    "Elements moved along dimensions, those beyond the end to the start.",
    lambda shape, shifts, dims: shape, _rolled_parts, follows=True,
    derivative=Derivative(input=lambda grad, shifts, dims: call(rolled, grad, tuple([-n for n in shifts]), dims)))


def _every_copy(out: Any, array: Any, repeats: Shape) -> list[tuple[Any, Any]]:
    """Return the result, with each dimension split into repeats and size, and the array expanded to this shape."""
    shape: list[int] = []
    to: list[int] = []
    source: list[int] = []
    for count, size, written, read in zip(repeats, array.shape, element_strides(out), element_strides(array),
                                          strict=True):
        shape += count, size
        to += size * written, written
        source += 0, read
    return [(as_strided(out, tuple(shape), tuple(to), 0), as_strided(array, tuple(shape), tuple(source), 0))]


def _sum_of_copies(grad: Any, input_shape: Shape, repeats: Shape) -> Any:
    lead, rank = tuple(grad.shape)[:grad.ndim - len(repeats)], len(repeats)
    shape = input_shape[len(input_shape) - rank:]
    split = grad.reshape((*lead, *[n for pair in zip(repeats, shape, strict=True) for n in pair]))
    return split.sum(tuple(range(len(lead), len(lead) + 2 * rank, 2))) if rank else grad


def _leading(array: Any, counts: Shape) -> Shape:
    """Return counts for all dimensions of an array: 1 for the leading ones."""
    return (1,) * (len(array.shape) - len(counts)) + counts


repeated_whole: Final[Arranged] = Arranged(
    "repeated_whole(Tensor input, int[] repeats) -> Tensor", "Copies of the tensor along its last dimensions.",
    lambda shape, repeats: (*shape[:len(shape) - len(repeats)],
                            *[count * size for count, size in zip(repeats, shape[len(shape) - len(repeats):],
                                                                  strict=True)]),
    lambda out, array, repeats: _every_copy(out, array, _leading(array, repeats)),
    derivative=Derivative(input=_sum_of_copies))


def _few_blocks(blocks: Sequence[Any], size: Shape) -> Any:
    """Return a matrix with blocks along its diagonal by NumPy, which moves few elements faster than kernels."""
    out = np.zeros(size, blocks[0].dtype)
    row = column = 0
    for block in blocks:
        rows, columns = block.shape
        out[row: row + rows, column: column + columns] = block
        row, column = row + rows, column + columns
    return out


#: The most elements that NumPy arranges faster than kernels; three blocks of a row or a few take 16 us by kernels.
_FEW: Final = 1 << 10


def _blocks(state: Any, blocks: Sequence[Any]) -> Any:
    dtype, shapes = blocks[0].dtype, [x._array.shape for x in blocks]
    size = sum([shape[-2] for shape in shapes]), sum([shape[-1] for shape in shapes])
    on_host = state.runtime.profile.host_resident and state.holds_data and not RECORDERS
    if on_host and len(shapes[0]) == 2 and size[0] * size[1] <= _FEW:
        return wrap(_few_blocks([x._array for x in blocks], size), state.key | dtype_bit(dtype))
    out = state.runtime.empty((*shapes[0][:-2], *size), dtype, state.stream)
    fill_array("block_diag", state, out, 0, dtype)
    row = column = 0
    for x, (*_, rows, columns) in zip(blocks, shapes, strict=True):
        part = out[..., row: row + rows, column: column + columns]
        copy_elements(state, part, dtype, x._array, dtype)
        row, column = row + rows, column + columns
    return wrap(out, state.key | dtype_bit(dtype))


def _block_gradients(grad: Any, blocks: Sequence[Any]) -> tuple[Any, ...]:
    made, row, column = [], 0, 0
    for x in blocks:
        rows, columns = x.shape[-2:]
        made.append(grad.basic_index((Ellipsis, slice(row, row + rows), slice(column, column + columns))))
        row, column = row + rows, column + columns
    return tuple(made)


blocks_on_diagonal: Final[Custom] = Custom(
    "blocks_on_diagonal(Tensor[] blocks) -> Tensor", "A matrix of zeros with matrices of one dtype along its diagonal.",
    _blocks, method=False, function=False, derivative=Derivative(_block_gradients))


def _each_repeated(out: Any, array: Any, count: int, dim: int) -> list[tuple[Any, Any]]:
    axis = dim % len(array.shape)
    written, read = element_strides(out), element_strides(array)
    shape = (*array.shape[:axis + 1], count, *array.shape[axis + 1:])
    to = (*written[:axis], written[axis] * count, *written[axis:])
    return [(as_strided(out, shape, to, 0), as_strided(array, shape, (*read[:axis + 1], 0, *read[axis + 1:]), 0))]


#: ``dim`` is negative.
repeated_each: Final[Arranged] = Arranged(
    "repeated_each(Tensor input, int count, int dim) -> Tensor", "Every slice along a dimension, count times.",
    lambda shape, count, dim: tuple([n * count if k == dim % len(shape) else n for k, n in enumerate(shape)]),
    _each_repeated,
    derivative=Derivative(input=lambda grad, input_shape, count, dim: grad.unflatten(
        dim, (input_shape[dim], count)).sum(dim)))
