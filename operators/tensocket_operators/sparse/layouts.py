"""Positions of stored elements, and conversions between layouts, composed of operators on dense tensors."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.formats import layout, sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from tensocket_core.promotion import can_cast
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from .tensor import RULES, SparseTensor, adopt, is_sparse, like, wrap_sparse


@dataclass(frozen=True)
class Compression:
    """A compressed layout.

    Attributes:
        rows: Whether the tensor stores starts of rows; else it stores those of columns.
        blocked: Whether an element is a block of a matrix.
    """

    rows: bool
    blocked: bool


COMPRESSED: Final = {
    sparse_csr: Compression(True, False), sparse_csc: Compression(False, False),
    sparse_bsr: Compression(True, True), sparse_bsc: Compression(False, True)}


def block_of(tensor: SparseTensor) -> tuple[int, int] | None:
    """Return rows and columns of a block; None in layouts without blocks."""
    if tensor._kind is sparse_coo or not COMPRESSED[tensor._kind].blocked:
        return None
    at = tensor.batch_dim()
    return int(tensor.raw.shape[at + 1]), int(tensor.raw.shape[at + 2])


def position_dims(tensor: SparseTensor) -> int:
    """Return the number of dimensions that ``coo_positions`` index."""
    return tensor.batch_dim() + tensor.sparse_dim()


def coo_positions(tensor: SparseTensor) -> Any:
    """Return the positions of the stored elements in COO form and in stored order."""
    if tensor._kind is sparse_coo:
        return tensor.positions
    starts, others = tensor.positions
    lead, count, nnz = tuple(starts.shape[:-1]), starts.shape[-1] - 1, others.shape[-1]
    batches = math.prod(lead)
    lengths = starts.reshape((batches, count + 1)).to(int64).diff().reshape(-1)
    lines = functions.repeat_interleave(lengths.new_arange(0, count, 1).repeat(batches), lengths)
    batch = functions.repeat_interleave(lengths.new_arange(0, batches, 1), nnz)
    other = others.reshape(-1).to(int64)
    row, column = (lines, other) if COMPRESSED[tensor._kind].rows else (other, lines)
    block = block_of(tensor)
    if block is not None:
        height, width = block
        inner = row.new_arange(0, height * width, 1)
        row = ((row * height).unsqueeze(1) + inner.floor_divide(max(width, 1))).reshape(-1)
        column = ((column * width).unsqueeze(1) + inner.remainder(max(width, 1))).reshape(-1)
        batch = functions.repeat_interleave(batch, height * width)
    return functions.cat([split_positions(batch, lead), functions.stack([row, column])])


def elements(tensor: SparseTensor) -> Any:
    """Return the stored values, one row per position."""
    if tensor._kind is sparse_coo:
        return tensor.stored
    dense = tuple(tensor.shape[position_dims(tensor):])
    return tensor.stored.reshape((_element_count(tensor), *dense))


def _element_count(tensor: SparseTensor) -> int:
    return int(math.prod(tensor.raw.shape[:tensor.raw.ndim - tensor.dense_dim()]))


def flat_positions(positions: Any, sizes: Any) -> Any:
    """Return the row-major indices of positions, [nnz]."""
    total = positions.new_zeros((positions.shape[1],))
    for k, size in enumerate(sizes):
        total = total * size + positions.select(0, k)
    return total


def split_positions(numbers: Any, sizes: Any) -> Any:
    """Return positions from row-major indices; the inverse of ``flat_positions``."""
    rows = []
    for size in reversed(tuple(sizes)):
        rows.append(numbers.remainder(max(size, 1)))
        numbers = numbers.floor_divide(max(size, 1))
    return functions.stack(rows[::-1]) if rows else numbers.new_zeros((0, numbers.shape[0]))


def summed_rows(count: int, numbers: Any, values: Any) -> Any:
    """Add up the rows of ``values`` that have the same number; return [count, ...]."""
    return values.new_zeros((count, *values.shape[1:])).index_add(0, numbers, values)


def coalesced(tensor: SparseTensor) -> SparseTensor:
    """Return the tensor with every position once, in row-major order, with the sum of its values."""
    if tensor.coalesced:
        return tensor
    sizes = tensor.shape[:tensor.sparse_dim()]
    numbers = flat_positions(tensor.positions, sizes)
    distinct, places = functions.unique(numbers, return_inverse=True)
    values = summed_rows(distinct.shape[0], places, tensor.stored)
    return wrap_sparse(split_positions(distinct, sizes), values, tensor.shape, sparse_coo, True)


def dense_of(tensor: SparseTensor) -> Any:
    """Return all elements as a dense tensor."""
    sizes = tuple(tensor.shape[:position_dims(tensor)])
    numbers = flat_positions(coo_positions(tensor), sizes)
    return summed_rows(math.prod(sizes), numbers, elements(tensor)).reshape(tuple(tensor.shape))


def as_coo(tensor: SparseTensor) -> SparseTensor:
    """Return the same tensor in COO layout, with a position for every stored element."""
    if tensor._kind is sparse_coo:
        return tensor
    return wrap_sparse(coo_positions(tensor), elements(tensor), tensor.shape, sparse_coo, tensor._kind is sparse_csr)


# ------------------------------------------------------------------------------------------------------- compressing


def compress(tensor: SparseTensor, kind: layout, block: tuple[int, int] | None = None) -> SparseTensor:
    """Convert a tensor from COO to a compressed layout; sparse dimensions before the last two are batches.

    Raises:
        ArgumentError: The tensor is not a matrix or a batch of matrices, or these have different numbers of elements.
        ShapeError: The blocks do not divide the matrix.
    """
    rule = COMPRESSED[kind]
    if tensor.sparse_dim() < 2:
        raise ArgumentError(f"to_{kind.name}", f"{tensor.sparse_dim()} sparse dimensions",
                            f"the layout {kind.name} is one of matrices and of batches of them", "keep sparse_coo")
    source = coalesced(tensor)
    count = source.sparse_dim()
    lead, (height, width) = tuple(source.shape[:count - 2]), source.shape[count - 2:count]
    batch = flat_positions(source.positions[:count - 2], lead)
    row, column = source.positions.select(0, count - 2), source.positions.select(0, count - 1)
    values = source.stored
    if rule.blocked:
        if block is None:
            raise ArgumentError(f"to_{kind.name}", "no blocksize", "layouts of blocks have a size of these",
                                "pass blocksize=(rows, columns)")
        tall, wide = block
        if tall < 1 or wide < 1 or height % tall or width % wide:
            raise ShapeError(f"to_{kind.name}", f"blocksize {(tall, wide)} for matrices of {height} x {width}: "
                             f"tensor sparse size ({height},{width}) must be divisible by given blocksize "
                             f"({tall},{wide})", "blocks divide the matrix", "pass another blocksize")
        inner = row.remainder(tall) * wide + column.remainder(wide)
        row, column = row.floor_divide(tall), column.floor_divide(wide)
        height, width = height // tall, width // wide
    lines, others, many, few = (row, column, height, width) if rule.rows else (column, row, width, height)
    numbers = (batch * many + lines) * few + others
    if rule.blocked:
        numbers, places = functions.unique(numbers, return_inverse=True)
        cells = summed_rows(numbers.shape[0] * tall * wide, places * (tall * wide) + inner, values)
        values = cells.reshape((numbers.shape[0], tall, wide, *values.shape[1:]))
    elif not rule.rows:
        numbers, order = numbers.sort()
        values = values.index_select(0, order)
    return _packed(numbers, values, (lead, many, few), tuple(source.shape), kind)


def _packed(numbers: Any, values: Any, sizes: tuple[tuple[int, ...], int, int], shape: tuple[int, ...],
            kind: layout) -> SparseTensor:
    """Return a compressed tensor from ascending row-major indices of elements (or blocks) and their values."""
    lead, many, few = sizes
    batches = math.prod(lead)
    lines = numbers.floor_divide(max(few, 1))
    counts = summed_rows(batches * many, lines, lines * 0 + 1).reshape((batches, many))
    totals = counts.sum(1)
    if batches > 1 and numbers.shape[0] and bool((totals != totals[:1]).any()):
        raise ArgumentError(f"to_{kind.name}", f"{totals.tolist()}: Expect the same number of specified elements "
                            "per batch.",
                            "a compressed layout stores as many elements of every matrix of a batch", "keep sparse_coo")
    starts = functions.cat([counts.new_zeros((batches, 1)), counts.cumsum(1)], 1).reshape((*lead, many + 1))
    nnz = numbers.shape[0] // max(batches, 1)
    others = numbers.remainder(max(few, 1)).reshape((*lead, nnz))
    values = values.reshape((*lead, nnz, *values.shape[1:]))
    return wrap_sparse((starts, others), values, shape, kind, True)


def in_layout(tensor: SparseTensor, kind: layout, block: tuple[int, int] | None = None) -> SparseTensor:
    """Convert to another layout; layouts with blocks need ``block``, unless the tensor has blocks already."""
    block = block_of(tensor) if block is None else block
    if tensor._kind is kind and (kind is sparse_coo or block == block_of(tensor)):
        return tensor
    return as_coo(tensor) if kind is sparse_coo else compress(as_coo(tensor), kind, block)


def in_layout_of(tensor: SparseTensor, model: SparseTensor) -> SparseTensor:
    """Convert to the layout of another tensor."""
    return in_layout(tensor, model._kind, block_of(model))


def become(target: Any, made: Any, name: str) -> Any:
    """Write a result to a sparse tensor, in the target's dtype.

    Raises:
        DtypeError: The result's dtype is of a higher category.
    """
    if not can_cast(made.dtype, target.dtype):
        raise DtypeError(name, f"a result of dtype {made.dtype.name} for a tensor of dtype {target.dtype.name}: result "
                         f"type {made.dtype.name} can't be cast to it",
                         "what is written can be cast to the tensor's dtype", f"use {name.removesuffix('_')}")
    made = in_layout_of(made, target)
    return adopt(target, made if made.dtype is target.dtype else RULES["to"](made, target.dtype))


# ------------------------------------------------------------------------------------------ values at other positions


def values_at(plain: Any, positions: Any) -> Any:
    """Return a dense tensor's elements (or slices over the dense dimensions) at positions, [nnz, ...]."""
    if not positions.shape[0]:
        return plain.unsqueeze(0).expand((positions.shape[1], *plain.shape))
    return plain[tuple(positions.unbind(0))]


def _looked_up(source: SparseTensor, positions: Any, count: int) -> Any:
    """Return elements of a tensor in COO layout at positions in its first ``count`` dimensions; 0 if not stored."""
    if source.sparse_dim() != count:
        return values_at(dense_of(source), positions)
    source = coalesced(source)
    sizes, values = source.shape[:count], source.stored
    if not source._nnz():
        return values.new_zeros((positions.shape[1], *values.shape[1:]))
    known, wanted = flat_positions(source.positions, sizes), flat_positions(positions, sizes)
    places = functions.searchsorted(known, wanted).clamp(max=known.shape[0] - 1)
    found = known.index_select(0, places) == wanted
    chosen = values.index_select(0, places)
    return functions.where(found.reshape((-1, *([1] * (values.ndim - 1)))), chosen, chosen.new_zeros(()))


def with_gradient(self: SparseTensor, grad: Any) -> SparseTensor:
    """Return the gradient of the tensor from the gradient of its stored values."""
    if self.coalesced:
        return like(self, grad)
    # All values at one position have the gradient of their sum.
    total, count = coalesced(like(self, grad)), coalesced(like(self, grad * 0 + 1))
    return like(total, total.stored / count.stored)


def values_in(self: SparseTensor, other: Any) -> Any:
    """Return the elements of another tensor at the positions of this one, in the shape of its values."""
    if not is_sparse(other):
        found = values_at(other, coo_positions(self))
    elif other.positions is self.positions and other.raw.shape == self.raw.shape:
        return other.stored
    else:
        found = _looked_up(as_coo(other), coo_positions(self), position_dims(self))
    return found.reshape(tuple(self.raw.shape))


SparseTensor.with_gradient = with_gradient  # type: ignore[attr-defined]
SparseTensor.values_in = values_in  # type: ignore[attr-defined]
