"""Making sparse tensors, and converting between layouts."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_plugins.contract.dtypes import int32, int64
from tensocket_plugins.contract.errors import ArgumentError, IndexOutOfRange, ShapeError

from .. import creation
from .._generated import functions
from ..creation import shape_of
from ..dispatch.factories import under_modes
from ..dispatch.modes import as_leaf
from ..formats import sparse_coo, sparse_csr
from ..tensors import Tensor
from . import gradients
from .recording import differentiable
from .tensor import (
    SparseTensor,
    as_coo,
    as_csr,
    coalesced,
    dense_of,
    flat_positions,
    in_layout,
    is_sparse,
    values_at,
    wrap_sparse,
)

#: Most elements of a tensor, with those that are not stored.
_MOST: Final = (1 << 63) - 1


def _given(value: Any, dtype: Any, device: Any) -> Any:
    """A plain tensor of data; tensors keep their history."""
    if not hasattr(value, "_key"):
        return creation.tensor(value, dtype=dtype, device=device)
    value = value if device is None else value.to(device)
    return value if dtype is None else value.to(dtype)


def _finished(made: SparseTensor, requires_grad: bool) -> SparseTensor:
    """A leaf where that is asked for."""
    if requires_grad:
        made = as_leaf(made.alias())
    return made


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
    """A tensor of values at positions, zeros elsewhere; values at the same position are added.

    Args:
        indices: Positions, [sparse dimensions, nnz]; or, alone, the size of a tensor without values.
        values: [nnz, ...]; dimensions behind the first one are dense.
        size: Shape; by default large enough for all positions.
        dtype: Of the values; by default theirs.
        device: By default that of the values.
        requires_grad: Whether it is a leaf that requires grad.
        check_invariants: Positions are always checked.
        is_coalesced: Whether every position appears once, in row-major order.

    Raises:
        IndexOutOfRange: A position is outside of the size.
        ShapeError: Positions, values and size do not fit together.
    """
    if values is None:
        shape = shape_of("sparse_coo_tensor", (size if indices is None else indices,))
        stored = creation.zeros(0, dtype=dtype, device=device)
        none = stored.new_zeros((len(shape), 0), dtype=int64)
        return _finished(wrap_sparse(none, stored, shape, sparse_coo, True), requires_grad)
    stored = _given(values, dtype, device)
    positions = _given(indices, None, stored.device).detach().to(int64)
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
    _check_bounds("sparse_coo_tensor", positions, shape[:count])
    if math.prod(shape) > _MOST:
        raise ShapeError("sparse_coo_tensor", f"size {list(shape)}", "positions are counted by 63 bits",
                         "make the tensor smaller")
    if is_coalesced and not _ascending(positions, shape[:count]):
        raise ArgumentError("sparse_coo_tensor", "is_coalesced=True for positions that are not in row-major order, "
                            "each once", "a coalesced tensor has each position once, in order", "call coalesce()")
    stored = stored[...] if stored.requires_grad else stored.detach()
    whole = stored.shape[0] < 2 if is_coalesced is None else is_coalesced
    return _finished(wrap_sparse(positions, stored, shape, sparse_coo, whole), requires_grad)


def _ascending(positions: Any, sizes: tuple[int, ...]) -> bool:
    """Whether every position appears once, in row-major order."""
    return bool((flat_positions(positions, sizes).diff() > 0).all())


def spdiags(diagonals: Any, offsets: Any, shape: Any, layout: Any = None) -> SparseTensor:
    """A matrix with given diagonals.

    Args:
        diagonals: [diagonals, length], or one of them, [length]; an element's place in it is its column.
        offsets: int64 [diagonals], different ones: 0 is the main diagonal, those above it are positive.
        shape: Rows and columns.
        layout: ``sparse_coo`` (by default) or ``sparse_csr``.

    Raises:
        ArgumentError: There is no such layout, or an offset appears twice.
        ShapeError: The arguments do not fit together.
    """
    rows = diagonals.unsqueeze(0) if diagonals.ndim == 1 else diagonals
    places = offsets.reshape(1) if offsets.ndim == 0 else offsets
    if layout not in (None, sparse_coo, sparse_csr):
        raise ArgumentError("spdiags", f"layout={layout!r}", "the layout is sparse_coo or sparse_csr (only output "
                            "layouts of these)", "pass one of both")
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


@under_modes
def sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
                      device: Any = None, requires_grad: bool = False,
                      check_invariants: bool | None = None) -> SparseTensor:
    """A matrix of values in compressed rows.

    Args:
        crow_indices: Where each row starts in the other two, [rows + 1].
        col_indices: Columns, ascending in every row, [nnz].
        values: [nnz].
        size: Rows and columns; by default large enough.
        dtype: Of the values; by default theirs.
        device: By default that of the values.
        requires_grad: Whether it is a leaf that requires grad.
        check_invariants: Positions are always checked.

    Raises:
        IndexOutOfRange: A column is outside of the size.
        ShapeError: The arguments do not fit together.
    """
    stored = _given(values, dtype, device)
    starts, columns = (_given(x, None, stored.device).detach() for x in (crow_indices, col_indices))
    if starts.dtype is not int32 or columns.dtype is not int32:
        starts, columns = starts.to(int64), columns.to(int64)
    if size is None:
        size = (starts.shape[0] - 1, int(columns.amax().item()) + 1 if columns.numel() else 0)
    shape = tuple(size)
    fits = starts.ndim == columns.ndim == stored.ndim == 1 and columns.shape == stored.shape and (
        len(shape) == 2 and starts.shape[0] == shape[0] + 1)
    if not fits:
        raise ShapeError("sparse_csr_tensor", f"crow_indices {list(starts.shape)}, col_indices {list(columns.shape)}, "
                         f"values {list(stored.shape)}, size {list(shape)}",
                         "there is one more row start than rows, and as many columns as values", "check the size")
    steps = starts.diff()
    if starts[0].item() != 0 or starts[-1].item() != columns.shape[0] or bool((steps < 0).any()):
        raise ArgumentError("sparse_csr_tensor", f"row starts from {starts[0].item()} to {starts[-1].item()}",
                            "row starts ascend from 0 to the number of values", "check crow_indices")
    _check_bounds("sparse_csr_tensor", columns.unsqueeze(0), shape[1:])
    return _finished(wrap_sparse((starts, columns), stored, shape, sparse_csr, True), requires_grad)


@under_modes
def sparse_compressed_tensor(compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
                             dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
                             check_invariants: bool | None = None) -> SparseTensor:
    """A matrix in a compressed layout; arguments as those of ``sparse_csr_tensor``.

    Raises:
        ArgumentError: The layout is not ``sparse_csr``.
    """
    if layout is not sparse_csr:
        raise ArgumentError("sparse_compressed_tensor", f"layout={layout!r}", "the compressed layout is sparse_csr",
                            "pass layout=tensocket.sparse_csr")
    return sparse_csr_tensor(compressed_indices, plain_indices, values, size, dtype=dtype, device=device,
                             requires_grad=requires_grad)


def from_dense(tensor: Any, sparse_dim: int | None = None) -> SparseTensor:
    """The elements (or slices behind the first ``sparse_dim`` dimensions) that are not zero.

    Raises:
        ArgumentError: The tensor has not as many dimensions.
    """
    count = tensor.ndim if sparse_dim is None else sparse_dim
    if not 0 <= count <= tensor.ndim or (tensor.ndim and not count):
        raise ArgumentError("to_sparse", f"sparse_dim={sparse_dim} of a {tensor.ndim}-dimensional tensor",
                            "at least one and at most all dimensions are sparse", "pass another number")
    marks = tensor.detach() != 0
    marks = marks.reshape((*tensor.shape[:count], -1)).any(-1) if count < tensor.ndim else marks
    positions = marks.nonzero().mT.contiguous()
    return at_positions(tensor, positions)


def at_positions(tensor: Any, positions: Any, whole: bool = True) -> SparseTensor:
    """A plain tensor's elements (or slices) at positions."""
    return wrap_sparse(positions, values_at(tensor, positions), tensor.shape, sparse_coo, whole)


# --------------------------------------------------------------------------------------------------------- methods


@differentiable(gradients.of_to_sparse)
def to_sparse(self: Any, sparse_dim: int | None = None, *, layout: Any = None) -> Any:
    """In a sparse layout, by default ``sparse_coo``.

    Raises:
        ArgumentError: There is no such layout.
    """
    if layout not in (None, sparse_coo, sparse_csr):
        raise ArgumentError("to_sparse", f"layout={layout!r}", "the layout is sparse_coo or sparse_csr",
                            "pass one of both")
    made = self if is_sparse(self) else from_dense(self, sparse_dim)
    return in_layout(made, layout or sparse_coo)


def to_sparse_coo(self: Any) -> Any:
    """In layout ``sparse_coo``."""
    return to_sparse(self)


@differentiable(gradients.of_to_sparse)
def to_sparse_csr(self: Any) -> Any:
    """A matrix in layout ``sparse_csr``."""
    return as_csr(self if is_sparse(self) else from_dense(self))


@differentiable(gradients.of_to_dense)
def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """As a plain tensor.

    Args:
        self: In any layout.
        dtype: To convert to.
        masked_grad: Whether the gradient of a sparse tensor has its positions (the default), or all where it is not 0.
    """
    made = dense_of(self) if is_sparse(self) else self
    return made if dtype is None else made.to(dtype)


@differentiable(gradients.same)
def coalesce(self: Any) -> Any:
    """Every position once, in row-major order, with the sum of its values."""
    return coalesced(_coo("coalesce", self))


@differentiable(gradients.of_mask)
def sparse_mask(self: Any, mask: Any) -> Any:
    """The elements at the positions of a sparse tensor.

    Raises:
        ShapeError: Both have different shapes.
    """
    if tuple(self.shape) != tuple(mask.shape):
        raise ShapeError("sparse_mask", f"shapes {list(self.shape)} and {list(mask.shape)}",
                         "mask and tensor have one shape", "expand one of them")
    pattern = as_coo(mask)
    plain = dense_of(self) if is_sparse(self) else self
    return in_layout(at_positions(plain, pattern.positions, pattern.coalesced), mask._kind)


def _coo(name: str, tensor: Any) -> Any:
    if not is_sparse(tensor) or tensor._kind is not sparse_coo:
        raise ArgumentError(name, f"a tensor of layout {tensor.layout!r}", "the layout is sparse_coo",
                            "convert it with to_sparse()")
    return tensor


def _only_sparse(name: str) -> Any:
    def method(self: Any, *args: Any) -> Any:
        raise ArgumentError(name, f"a tensor of layout {self.layout!r}", "only sparse tensors have positions",
                            "convert it with to_sparse()")

    method.__name__ = name
    method.__doc__ = f"``{name}`` of sparse tensors."
    return method


def _sparse_at(self: Any, positions: Any, size: tuple[int, ...]) -> SparseTensor:
    """A sparse tensor whose elements (or slices) at ``positions`` are those of this one; both are right already."""
    return wrap_sparse(positions.detach(), self, size, sparse_coo)


#: What plain tensors have of this: conversions, and what says that they are not sparse.
for _function in (to_sparse, to_sparse_coo, to_sparse_csr, to_dense, coalesce, sparse_mask, _sparse_at):
    setattr(Tensor, _function.__name__, _function)
for _name in ("is_coalesced", "indices", "values", "_nnz", "_indices", "crow_indices", "col_indices",
              "sparse_dim", "dense_dim"):
    setattr(Tensor, _name, _only_sparse(_name))

__all__ = ["sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csr_tensor", "spdiags"]
