"""Shapes of compressed layouts: operators that keep the positions compressed, and sums over rows or columns."""

from __future__ import annotations

from typing import Any

from tensocket_core.formats import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from tensocket_core.geometry import normalize_axes
from tensocket_plugins.contract.errors import ArgumentError, DimensionError, ShapeError

from .layouts import block_of, coalesced, compress, coo_positions, elements
from .tensor import SparseTensor, wrap_sparse

#: By layout of a matrix, the layout of its transpose.
TRANSPOSED = {sparse_csr: sparse_csc, sparse_csc: sparse_csr, sparse_bsr: sparse_bsc, sparse_bsc: sparse_bsr}


def transpose_compressed(input: SparseTensor, first: int, second: int) -> SparseTensor:
    """Transpose two dimensions of one kind; for the dimensions of the matrix, rows and columns of the layout swap.

    Raises:
        DimensionError: The dimensions are of different kinds.
    """
    first, second = sorted((first, second))
    lead, shape = input.batch_dim(), list(input.shape)
    shape[first], shape[second] = shape[second], shape[first]
    starts, others = input.positions
    values, inner = input.stored, 0 if block_of(input) is None else 2
    if first == second:
        return wrap_sparse((starts, others), values, shape, input._kind, True)
    if second < lead:
        return wrap_sparse((starts.transpose(first, second), others.transpose(first, second)),
                           values.transpose(first, second), shape, input._kind, True)
    if first >= lead + 2:
        values = values.transpose(first - 1 + inner, second - 1 + inner)
        return wrap_sparse((starts, others), values, shape, input._kind, True)
    if (first, second) != (lead, lead + 1):
        raise DimensionError("transpose", f"dims {first} and {second} of {lead} batch and 2 sparse dimensions",
                             "dimensions of one kind are exchanged", "convert it with to_dense() first")
    values = values.transpose(lead + 1, lead + 2) if inner else values
    return wrap_sparse((starts, others), values, shape, TRANSPOSED[input._kind], True)


def select_compressed(input: SparseTensor, axis: int, index: int) -> SparseTensor | None:
    """Select a matrix of a batch, or an index of a dense dimension; return None for rows and columns."""
    lead = input.batch_dim()
    shape = [*input.shape[:axis], *input.shape[axis + 1:]]
    starts, others = input.positions
    if axis < lead:
        return wrap_sparse((starts.select(axis, index), others.select(axis, index)), input.stored.select(axis, index),
                           shape, input._kind, True)
    if axis >= lead + 2:
        at = axis - 1 + (0 if block_of(input) is None else 2)
        return wrap_sparse((starts, others), input.stored.select(at, index), shape, input._kind, True)
    if block_of(input) is not None:
        raise ArgumentError("select", f"a row or column of layout {input._kind!r}", "rows of blocks have no layout",
                            "convert it with to_dense() first")
    return None


def sum_compressed(input: SparseTensor, dim: Any, keepdim: bool, dtype: Any) -> Any:
    """Add up rows or columns of a matrix in layout ``sparse_csr``; the result has this layout.

    Raises:
        ArgumentError: ``keepdim`` is not set, or the tensor has another layout.
        ShapeError: The tensor has batch dimensions.
    """
    stored = elements(input) if dtype is None else elements(input).to(dtype)
    if dim is None:
        return stored.sum()
    if input._kind is not sparse_csr or not keepdim:
        raise ArgumentError("sum", f"dim={dim}, keepdim={keepdim} for layout {input._kind!r}",
                            "sums of layout sparse_csr keep the dimensions", "pass keepdim=True, or convert it with "
                            "to_sparse_coo()")
    if input.ndim != 2:
        raise ShapeError("sum", f"shape {list(input.shape)}", "sums of layout sparse_csr are those of matrices",
                         "convert it with to_dense() first")
    gone = normalize_axes("sum", dim, 2)
    positions = coo_positions(input)
    shape = [1 if k in gone else n for k, n in enumerate(input.shape)]
    for axis in gone:
        positions = positions.index_fill(0, positions.new_tensor([axis]), 0)
    return compress(coalesced(wrap_sparse(positions, stored, shape, sparse_coo)), sparse_csr)
