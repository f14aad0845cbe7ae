"""Construction of tensors in compressed layouts, and checks of their parts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tensocket_core import functions
from tensocket_core.dispatch.modes import as_leaf
from tensocket_core.formats import layout, sparse_bsc, sparse_bsr, sparse_csc, sparse_csr
from tensocket_plugins.contract.dtypes import int32, int64
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, IndexOutOfRange, ShapeError

from .. import creation
from ..creation.record import under_modes
from . import invariants
from .layouts import COMPRESSED
from .tensor import SparseTensor, wrap_sparse


def given(value: Any, dtype: Any, device: Any) -> Any:
    """Convert data to a dense tensor; tensors keep their history."""
    if not hasattr(value, "_key"):
        return creation.tensor(value, dtype=dtype, device=device)
    value = value if device is None else value.to(device)
    return value if dtype is None else value.to(dtype)


def finished(made: SparseTensor, requires_grad: bool) -> SparseTensor:
    """Return the tensor, as a leaf if ``requires_grad`` is set."""
    if requires_grad:
        made = as_leaf(made.alias())
    return made


def _default_size(starts: Any, others: Any, values: Any, kind: layout) -> tuple[int, ...]:
    """Return the smallest size for these parts."""
    rule, lead = COMPRESSED[kind], tuple(starts.shape[:-1])
    count, most = starts.shape[-1] - 1, int(others.amax().item()) + 1 if others.numel() else 0
    at = len(lead) + 1
    block = tuple(values.shape[at:at + 2]) if rule.blocked else (1, 1)
    rows, columns = (count, most) if rule.rows else (most, count)
    return (*lead, rows * block[0], columns * block[1], *values.shape[at + (2 if rule.blocked else 0):])


def check_parts(operator: str, starts: Any, others: Any, values: Any, shape: tuple[int, ...], kind: layout) -> None:
    """Check that sizes and dtypes of parts fit together, without reading positions.

    Raises:
        ShapeError: Sizes do not fit.
        DtypeError: Positions are not integers of one dtype.
    """
    rule = COMPRESSED[kind]
    lead, inner = starts.ndim - 1, 2 if rule.blocked else 0
    dense = values.ndim - lead - 1 - inner
    if starts.ndim < 1 or others.ndim != starts.ndim or dense < 0 or len(shape) != lead + 2 + dense:
        raise ShapeError(operator, f"compressed indices {list(starts.shape)}, plain indices {list(others.shape)}, "
                         f"values {list(values.shape)}, size {list(shape)}",
                         "indices have one dimension more than batches, and values fit them",
                         "check the numbers of dimensions")
    if starts.dtype is not others.dtype or starts.dtype not in (int32, int64):
        raise DtypeError(operator, f"indices of {starts.dtype.name} and {others.dtype.name}",
                         "compressed and plain indices are both int32 or both int64", "convert them with .to(dtype)")
    block = tuple(values.shape[lead + 1:lead + 3]) if rule.blocked else (1, 1)
    sizes = shape[lead:lead + 2]
    if any(b < 1 or n % b for n, b in zip(sizes, block, strict=True)):
        raise ShapeError(operator, f"blocks {block} for matrices of {sizes}", "blocks divide the matrix",
                         "check the size")
    lines = (sizes[0] // block[0]) if rule.rows else (sizes[1] // block[1])
    fits = tuple(starts.shape) == (*shape[:lead], lines + 1) and tuple(others.shape[:-1]) == shape[:lead] and (
        tuple(values.shape) == (*others.shape, *values.shape[lead + 1:lead + 1 + inner], *shape[lead + 2:]))
    if not fits:
        raise ShapeError(operator, f"compressed indices {list(starts.shape)}, plain indices {list(others.shape)}, "
                         f"values {list(values.shape)}, size {list(shape)}",
                         "there is one more start than rows, and as many plain indices as values", "check the size")


def check_positions(operator: str, starts: Any, others: Any, values: Any, shape: tuple[int, ...],
                    kind: layout) -> None:
    """Check the positions themselves.

    Raises:
        ArgumentError: Starts do not ascend from 0 to the number of elements.
        IndexOutOfRange: An index is outside of the size.
    """
    rule, lead, nnz = COMPRESSED[kind], starts.ndim - 1, others.shape[-1]
    steps = starts.diff()
    ends = bool((starts[..., 0] != 0).any()) or bool((starts[..., -1] != nnz).any())
    if ends or bool((steps < 0).any()):
        words = ("crow", "ncols") if rule.rows else ("ccol", "nrows")
        raise ArgumentError(operator, f"compressed indices that break `{words[0]}_indices[..., 0] == 0`, "
                            f"`{words[0]}_indices[..., -1] == nnz` or `0 <= {words[0]}_indices[..., 1:] - "
                            f"{words[0]}_indices[..., :-1] <= {words[1]}`",
                            "row starts ascend from 0 to the number of values", "check the compressed indices")
    block = tuple(values.shape[lead + 1:lead + 3]) if rule.blocked else (1, 1)
    limit = shape[lead + 1] // block[1] if rule.rows else shape[lead] // block[0]
    if others.numel() and bool(((others < 0) | (others >= limit)).any()):
        words = ("col", "ncols") if rule.rows else ("row", "nrows")
        raise IndexOutOfRange(operator, f"size {list(shape)}: `0 <= {words[0]}_indices < {words[1]}` is not satisfied.",
                              "plain indices are from 0 to the size of their dimension", "pass a larger size")


def _ascends(starts: Any, others: Any) -> bool:
    """Whether the plain indices of each row are sorted and distinct."""
    nnz = others.shape[-1]
    if nnz < 2:
        return True
    first = starts.new_zeros((math.prod(starts.shape[:-1]), nnz + 1))
    first = first.scatter(1, starts.reshape((first.shape[0], -1)).to(int64), 1).to(starts.dtype)
    inside = first[:, 1:nnz] == 0
    ascends = others.reshape((first.shape[0], nnz)).diff() > 0
    return not bool((inside & ~ascends).any())


def _in_order(operator: str, starts: Any, others: Any, values: Any, may_sort: bool) -> tuple[Any, Any]:
    """Return plain indices and values with the indices of each row sorted.

    Raises:
        ArgumentError: Indices of a row repeat, or do not ascend and may not be sorted.
    """
    if not _ascends(starts, others) and may_sort and starts.ndim == 1:
        rows = functions.repeat_interleave(starts.diff().to(int64))
        order = (rows * (others.max().to(int64) + 1) + others).argsort()
        others, values = others[order], values[order]
    if not _ascends(starts, others):
        raise ArgumentError(operator, "indices of a row that do not ascend",
                            "plain indices of a row are sorted and distinct",
                            "sort them, and add values at one position up")
    return others, values


def _made(operator: str, compressed_indices: Any, plain_indices: Any, values: Any, size: Any, dtype: Any,
          kind: layout, device: Any, requires_grad: bool, check_invariants: bool | None) -> SparseTensor:
    stored = given(values, dtype, device)
    starts, others = (given(x, None, stored.device).detach() for x in (compressed_indices, plain_indices))
    if starts.ndim < 1:
        raise ShapeError(operator, "compressed indices without dimensions", "compressed indices must have "
                         "dimensionality >= 1", "pass the start of each row")
    shape = _default_size(starts, others, stored, kind) if size is None else tuple(size)
    check_parts(operator, starts, others, stored, shape, kind)
    if invariants.should_check(check_invariants) and stored.device.type != "meta":
        check_positions(operator, starts, others, stored, shape, kind)
        may_sort = check_invariants is None and not invariants.check_sparse_tensor_invariants.is_enabled()
        others, stored = _in_order(operator, starts, others, stored, may_sort)
    stored = stored[...] if stored.requires_grad else stored.detach()
    return finished(wrap_sparse((starts, others), stored, shape, kind, True), requires_grad)


@under_modes
def sparse_compressed_tensor(compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *,
                             dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
                             requires_grad: bool = False, check_invariants: bool | None = None) -> SparseTensor:
    """Return matrices in a compressed layout.

    Args:
        compressed_indices: Start of each row (CSR, BSR) or column (CSC, BSC) in ``plain_indices``, [..., rows + 1].
        plain_indices: Columns (or rows), ascending in every row (or column), [..., nnz].
        values: [..., nnz], in layouts with blocks [..., nnz, rows and columns of a block]; then dense dimensions.
        size: Batches, rows, columns, dense dimensions; by default large enough.
        dtype: Dtype of the result; by default that of the values.
        layout: ``sparse_csr``, ``sparse_csc``, ``sparse_bsr`` or ``sparse_bsc``.
        device: Device of the result; by default that of the values.
        pin_memory: Accepted as in PyTorch if positions are in ordinary memory on the host.
        requires_grad: Whether the result is a leaf that requires grad.
        check_invariants: Whether to check positions; see ``check_sparse_tensor_invariants`` for the default. Unless a
            program asks for checks, unsorted indices of a row are sorted, with their values.

    Raises:
        ArgumentError: The layout is none of these, or the positions are not valid in it.
        IndexOutOfRange: A position is outside of the size.
        ShapeError: The arguments do not fit together.
    """
    if layout not in COMPRESSED:
        raise ArgumentError("sparse_compressed_tensor", f"layout={layout!r}: expected sparse compressed tensor layout",
                            "the layout is sparse_csr, sparse_csc, sparse_bsr or sparse_bsc", "pass one of these")
    return _made("sparse_compressed_tensor", compressed_indices, plain_indices, values, size, dtype, layout, device,
                 requires_grad, check_invariants)


def _constructor(kind: layout, first: str, second: str) -> Callable[..., SparseTensor]:
    name = f"{kind.name}_tensor"

    def make(compressed: Any, plain: Any, values: Any, size: Any = None, *, dtype: Any = None, layout: Any = None,
             device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
             check_invariants: bool | None = None) -> SparseTensor:
        if layout not in (None, kind):
            raise ArgumentError(name, f"layout={layout!r}", f"the layout is {kind.name}", "leave layout out")
        return _made(name, compressed, plain, values, size, dtype, kind, device, requires_grad,
                     check_invariants)

    def named(*args: Any, **kwargs: Any) -> SparseTensor:
        """Return matrices in this layout; the arguments are those of ``sparse_compressed_tensor``."""
        for old, new in ((first, "compressed"), (second, "plain")):
            if old in kwargs:
                kwargs[new] = kwargs.pop(old)
        return make(*args, **kwargs)

    named.__name__ = named.__qualname__ = name
    return under_modes(named)


sparse_csr_tensor = _constructor(sparse_csr, "crow_indices", "col_indices")
sparse_csc_tensor = _constructor(sparse_csc, "ccol_indices", "row_indices")
sparse_bsr_tensor = _constructor(sparse_bsr, "crow_indices", "col_indices")
sparse_bsc_tensor = _constructor(sparse_bsc, "ccol_indices", "row_indices")

__all__ = ["sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_csc_tensor",
           "sparse_csr_tensor"]
