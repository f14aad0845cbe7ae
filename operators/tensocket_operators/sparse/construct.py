"""Construction of sparse tensors, and conversions between layouts."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.formats import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr, strided
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import ArgumentError, IndexOutOfRange, ShapeError

from .. import creation
from ..creation import shape_of
from ..creation.record import under_modes
from . import gradients
from .compressed import finished, given
from .invariants import should_check
from .layouts import COMPRESSED, as_coo, block_of, coalesced, compress, dense_of, flat_positions, in_layout, values_at
from .recording import differentiable
from .tensor import CAMEL, LayoutError, SparseTensor, expect, is_sparse, wrap_sparse

#: Maximum number of elements of a tensor, including those that are not stored.
_MOST: Final = (1 << 63) - 1


def _check_bounds(operator: str, positions: Any, size: tuple[int, ...]) -> None:
    if not positions.numel():
        return
    limits = positions.new_tensor(list(size)).unsqueeze(1)
    if bool(((positions < 0) | (positions >= limits)).any()):
        raise IndexOutOfRange(operator, f"positions outside of the size {list(size)}",
                              "positions are from 0 to the size of their dimension", "pass a larger size")


@under_modes
def sparse_coo_tensor(indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None,
                      device: Any = None, requires_grad: bool = False, check_invariants: bool | None = None,
                      is_coalesced: bool | None = None) -> SparseTensor:
    """Return a tensor of values at positions, zeros elsewhere; values at the same position are added.

    Args:
        indices: Positions, [sparse dimensions, nnz]; or, as the only argument, the size of a tensor without values.
        values: [nnz, ...]; dimensions after the first are dense.
        size: Shape; by default large enough for all positions.
        dtype: Dtype of the result; by default that of the values.
        device: Device of the result; by default that of the values.
        requires_grad: Whether the result is a leaf that requires grad.
        check_invariants: Whether to check positions; see ``check_sparse_tensor_invariants`` for the default.
        is_coalesced: Whether every position appears once, in row-major order.

    Raises:
        IndexOutOfRange: A position is outside of the size.
        ShapeError: Positions, values and size do not fit together.
    """
    if values is None:
        shape = shape_of("sparse_coo_tensor", (size if indices is None else indices,))
        stored = creation.zeros(0, dtype=dtype, device=device)
        none = stored.new_zeros((len(shape), 0), dtype=int64)
        return finished(wrap_sparse(none, stored, shape, sparse_coo, True), requires_grad)
    stored = given(values, dtype, device)
    positions = given(indices, None, stored.device).detach().to(int64)
    stored = stored.unsqueeze(0) if not stored.ndim and positions.ndim == 2 else stored
    if positions.ndim != 2 or positions.shape[1] != stored.shape[0]:
        raise ShapeError("sparse_coo_tensor", f"indices {list(positions.shape)}, values {list(stored.shape)}",
                         "indices are [sparse dimensions, nnz] and values [nnz, ...]", "transpose the indices")
    count, dense = positions.shape[0], tuple(stored.shape[1:])
    if size is None:
        known = (positions.amax(1) + 1).tolist() if positions.numel() else [0] * count
        size = (*known, *dense)
    shape = tuple(size)
    if len(shape) != count + len(dense) or shape[count:] != dense:
        raise ShapeError("sparse_coo_tensor", f"size {list(shape)} for {count} sparse dimensions and values "
                         f"{list(stored.shape)}", "the size has the sparse dimensions, then those of a value",
                         "check the size")
    if should_check(check_invariants):
        _check_bounds("sparse_coo_tensor", positions, shape[:count])
    if math.prod(shape) > _MOST:
        raise ShapeError("sparse_coo_tensor", f"size {list(shape)}", "positions are counted by 63 bits",
                         "make the tensor smaller")
    if is_coalesced and not _ascending(positions, shape[:count]):
        raise ArgumentError("sparse_coo_tensor", "is_coalesced=True for positions that are not in row-major order, "
                            "each once", "a coalesced tensor has each position once, in order", "call coalesce()")
    stored = stored[...] if stored.requires_grad else stored.detach()
    whole = stored.shape[0] < 2 if is_coalesced is None else is_coalesced
    return finished(wrap_sparse(positions, stored, shape, sparse_coo, whole), requires_grad)


def _ascending(positions: Any, sizes: tuple[int, ...]) -> bool:
    """Whether every position appears once, in row-major order."""
    return bool((flat_positions(positions, sizes).diff() > 0).all())


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> SparseTensor:
    """Return a matrix with given diagonals.

    Args:
        diagonals: [diagonals, length], or a single one, [length]; an element's index in a diagonal is its column.
        offsets: Distinct int64 [diagonals]: 0 is the main diagonal, diagonals above it are positive.
        shape: Rows and columns.
        layout: ``sparse_coo`` (by default), ``sparse_csr`` or ``sparse_csc``.

    Raises:
        ArgumentError: The layout is unknown, or an offset appears twice.
        ShapeError: The arguments do not fit together.
    """
    rows = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    places = offsets.reshape(1) if offsets.ndim == 0 else offsets
    if layout not in (None, sparse_coo, sparse_csr, sparse_csc):
        raise ArgumentError("spdiags", f"layout={layout!r}", "the layout is sparse_coo, sparse_csr or sparse_csc (only "
                            "output layouts of these)", "pass one of these")
    if len(shape) != 2 or rows.ndim != 2 or places.ndim != 1 or places.shape[0] != rows.shape[0]:
        raise ShapeError("spdiags", f"diagonals {list(diagonals.shape)}, offsets {list(offsets.shape)}, shape "
                         f"{list(shape)}", "there is an offset for each diagonal, and the shape is a matrix's",
                         "check the sizes")
    if places.dtype is not int64 or len(set(places.tolist())) != places.shape[0]:
        raise ArgumentError("spdiags", f"offsets {places.tolist()} of dtype {places.dtype.name}",
                            "offsets are int64 and different", "add diagonals with one offset")
    columns = places.new_arange(0, rows.shape[1], 1).unsqueeze(0).expand(tuple(rows.shape))
    lines = columns - places.unsqueeze(1)
    inside = (lines >= 0) & (lines < shape[0]) & (columns < shape[1])
    positions = functions.stack([lines[inside], columns[inside]])
    made = wrap_sparse(positions, rows[inside], tuple(shape), sparse_coo)
    return in_layout(made, layout or sparse_coo)


def from_dense(tensor: Any, sparse_dim: int | None = None) -> SparseTensor:
    """Return a sparse tensor of the nonzero elements (or nonzero slices at the first ``sparse_dim`` dimensions).

    Raises:
        ArgumentError: The tensor has fewer than ``sparse_dim`` dimensions.
    """
    count = tensor.ndim if sparse_dim is None else sparse_dim
    if not 0 <= count <= tensor.ndim or (tensor.ndim and not count):
        raise ArgumentError("to_sparse", f"sparse_dim={sparse_dim} of a {tensor.ndim}-dimensional tensor",
                            "at least one and at most all dimensions are sparse", "pass another number")
    marks = tensor.detach() != 0
    marks = marks.reshape((*tensor.shape[:count], -1)).any(-1) if count < tensor.ndim else marks
    positions = marks.nonzero().mT.contiguous()
    if not tensor.ndim:
        return at_positions(tensor, positions)
    values = tensor.masked_select(marks) if count == tensor.ndim else tensor[marks]
    return wrap_sparse(positions, values, tensor.shape, sparse_coo, True)


def at_positions(tensor: Any, positions: Any, whole: bool = True) -> SparseTensor:
    """Return a sparse tensor of a dense tensor's elements (or slices) at positions."""
    return wrap_sparse(positions, values_at(tensor, positions), tensor.shape, sparse_coo, whole)


# --------------------------------------------------------------------------------------------------------- methods


@differentiable(gradients.of_to_sparse)
def to_sparse(self: Any, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None,
              dense_dim: int | None = None) -> Any:
    """Convert to a sparse layout, by default ``sparse_coo``.

    Args:
        self: A tensor in any layout.
        sparse_dim: Number of dimensions of a dense tensor that get positions; by default all.
        layout: Any sparse layout.
        blocksize: Rows and columns of a block, in layouts with blocks.
        dense_dim: Number of dimensions of a dense tensor that stay dense; by default none.

    Raises:
        ArgumentError: The layout is unknown, or does not take one of the arguments.
    """
    kind = layout or sparse_coo
    if kind is strided and not is_sparse(self):
        return self
    if kind is not sparse_coo and kind not in COMPRESSED:
        raise ArgumentError("to_sparse", f"layout={layout!r}", "the layout is a sparse one", "pass a sparse layout")
    if sparse_dim is not None and (layout is not None or blocksize is not None or dense_dim is not None):
        raise ArgumentError("to_sparse", f"sparse_dim={sparse_dim} with other arguments", "sparse_dim stands alone",
                            "leave the others out")
    block = None if blocksize is None else _block(kind, blocksize)
    if is_sparse(self):
        return _converted(self, kind, block, sparse_dim, dense_dim)
    if kind is not sparse_coo and (self.ndim < 2 or (dense_dim is not None and not 0 <= dense_dim <= self.ndim - 2)):
        raise ArgumentError(f"to_{kind.name}", f"a {self.ndim}-dimensional tensor and dense_dim={dense_dim}",
                            "compressed layouts are those of matrices", "keep two dimensions sparse")
    if kind in COMPRESSED and COMPRESSED[kind].blocked and block is None:
        raise ArgumentError(f"to_{kind.name}", f"no blocksize: conversion from Strided to {CAMEL[kind.name]} without "
                            "blocksize argument given is not supported", "layouts of blocks have a size of these",
                            "pass blocksize=(rows, columns)")
    made = from_dense(self, self.ndim - dense_dim if dense_dim is not None else sparse_dim)
    return made if kind is sparse_coo else compress(made, kind, block)


def _block(kind: Any, blocksize: Any) -> tuple[int, int]:
    """Check and return the size of blocks."""
    sizes = (blocksize, blocksize) if isinstance(blocksize, int) else tuple(blocksize)
    if kind not in COMPRESSED or not COMPRESSED[kind].blocked:
        raise ArgumentError("to_sparse", f"blocksize={sizes} for layout {kind!r}: conversion to {CAMEL[kind.name]} "
                            "with blocksize argument given is not supported",
                            "only sparse_bsr and sparse_bsc have blocks",
                            "leave blocksize out")
    if len(sizes) != 2 or min(sizes) < 1:
        raise ArgumentError(f"to_{kind.name}", f"blocksize {sizes}: blocksize needs to be a tuple of size 2",
                            "a block has at least a row and a column", "pass two positive numbers")
    return sizes


def _converted(tensor: Any, kind: Any, block: tuple[int, int] | None, sparse_dim: int | None,
               dense_dim: int | None) -> Any:
    """Convert a tensor to another sparse layout."""
    old = tensor._kind
    for name, value, own in (("sparse_dim", sparse_dim, tensor.sparse_dim()), ("dense_dim", dense_dim,
                                                                             tensor.dense_dim())):
        if value is not None and value != own:
            raise ArgumentError("to_sparse", f"{name}={value} for a sparse tensor with {own}: conversion from "
                                f"{CAMEL[old.name]} to {CAMEL[kind.name]} with {name} argument !={own} is not "
                                "supported",
                                "kinds of dimensions stay", f"leave {name} out")
    known = block_of(tensor)
    if kind is sparse_coo:
        return tensor if old is kind else coalesced(as_coo(tensor))
    if known is not None and (not COMPRESSED[kind].blocked or block not in (None, known)):
        raise ArgumentError(f"to_{kind.name}", f"layout {old!r} with blocks of {known}: conversion from "
                            f"{CAMEL[old.name]} to {CAMEL[kind.name]} with blocksize changed from {list(known)} to "
                            f"{list(block or (1, 1))} is not supported", "blocks stay",
                            "convert it with to_dense() first")
    return in_layout(tensor, kind, block)


def to_sparse_coo(self: Any) -> Any:
    """Convert to layout ``sparse_coo``."""
    return to_sparse(self, layout=sparse_coo)


def to_sparse_csr(self: Any, dense_dim: int | None = None) -> Any:
    """Convert matrices to layout ``sparse_csr``."""
    return to_sparse(self, layout=sparse_csr, dense_dim=dense_dim)


def to_sparse_csc(self: Any, dense_dim: int | None = None) -> Any:
    """Convert matrices to layout ``sparse_csc``."""
    return to_sparse(self, layout=sparse_csc, dense_dim=dense_dim)


def to_sparse_bsr(self: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    """Convert matrices to layout ``sparse_bsr``, with blocks of a given size."""
    return to_sparse(self, layout=sparse_bsr, blocksize=blocksize, dense_dim=dense_dim)


def to_sparse_bsc(self: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    """Convert matrices to layout ``sparse_bsc``, with blocks of a given size."""
    return to_sparse(self, layout=sparse_bsc, blocksize=blocksize, dense_dim=dense_dim)


@differentiable(gradients.of_to_dense)
def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """Convert to a dense tensor.

    Args:
        self: A tensor in any layout.
        dtype: Dtype of the result.
        masked_grad: Whether the gradient of a sparse tensor has its positions (the default), or all nonzero positions.
    """
    made = dense_of(self) if is_sparse(self) else self
    return made if dtype is None else made.to(dtype)


@differentiable(gradients.same)
def coalesce(self: Any) -> Any:
    """Return the tensor with every position once, in row-major order, with the sum of its values."""
    return coalesced(_coo("coalesce", self))


@differentiable(gradients.of_mask)
def sparse_mask(self: Any, mask: Any) -> Any:
    """Return the elements at the positions of a sparse tensor.

    Raises:
        ShapeError: Both have different shapes.
    """
    if tuple(self.shape) != tuple(mask.shape):
        raise ShapeError("sparse_mask", f"shapes {list(self.shape)} and {list(mask.shape)}",
                         "mask and tensor have one shape", "expand one of them")
    made = mask.alias().values_in(self)
    return wrap_sparse(mask.positions, made, mask.shape, mask._kind, mask.coalesced)


def _coo(name: str, tensor: Any) -> Any:
    return expect(tensor, (sparse_coo,), name)


#: By method that returns or describes a part, the layouts that have it.
_PART_LAYOUTS: Final = {
    "is_coalesced": (sparse_coo,), "indices": (sparse_coo,), "_indices": (sparse_coo,), "_nnz": (sparse_coo,),
    "crow_indices": (sparse_csr, sparse_bsr), "col_indices": (sparse_csr, sparse_bsr),
    "ccol_indices": (sparse_csc, sparse_bsc), "row_indices": (sparse_csc, sparse_bsc)}


def _only_sparse(name: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        if is_sparse(self):
            return getattr(type(self), name)(self, *args)
        if name in ("sparse_dim", "dense_dim"):  # all dimensions of dense tensors are dense
            return self.ndim if name == "dense_dim" else 0
        if name in _PART_LAYOUTS:
            return expect(self, _PART_LAYOUTS[name], name)
        raise LayoutError(name, f"a tensor of layout {self.layout!r}: {name} expected sparse tensor layout but got "
                          f"{CAMEL[self.layout.name]}", "only sparse tensors have positions",
                          "convert it with to_sparse()")

    method.__name__ = name
    method.__doc__ = f"``{name}`` of sparse tensors."
    return method


def _sparse_at(self: Any, positions: Any, size: tuple[int, ...]) -> SparseTensor:
    """Return a sparse tensor whose elements (or slices) at ``positions`` are those of ``self``, without checks."""
    return wrap_sparse(positions.detach(), self, size, sparse_coo)


# Dense tensors have these methods as well: conversions, and methods that raise because the tensor is not sparse.
for _function in (to_sparse, to_sparse_coo, to_sparse_csr, to_sparse_csc, to_sparse_bsr, to_sparse_bsc, to_dense,
                  coalesce, sparse_mask, _sparse_at):
    setattr(Tensor, _function.__name__, _function)
for _name in ("is_coalesced", "indices", "values", "_nnz", "_indices", "crow_indices", "col_indices", "ccol_indices",
              "row_indices", "sparse_dim", "dense_dim"):
    setattr(Tensor, _name, _only_sparse(_name))

__all__ = ["sparse_coo_tensor", "spdiags"]
