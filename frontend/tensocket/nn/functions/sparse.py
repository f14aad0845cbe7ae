"""Functions of indices, with PyTorch's signatures."""

# The operators of the core are generated and typed Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import warnings

from tensocket.errors import PaddingIndexError
from tensocket_operators import Tensor, int64, no_grad
from tensocket_operators import functions as ops


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Return the rows of ``weight`` at integer indices.

    Args:
        input: Indices of any shape.
        weight: The table, (V, D).
        padding_idx: A row that gets no gradient.
        max_norm: Rows with a larger norm are scaled down to it first, in place.
        norm_type: Exponent of that norm.
        scale_grad_by_freq: Whether a row's gradient is divided by the number of its lookups.
        sparse: Whether the gradient is a sparse tensor with the looked up rows only.

    Raises:
        ShapeError: The weight is not a matrix.
        PaddingIndexError: ``padding_idx`` is not one of its rows.
    """
    padding = -1
    if padding_idx is not None:
        count = weight.shape[0]
        if not -count <= padding_idx < count:
            raise PaddingIndexError("embedding", f"padding_idx={padding_idx} for {count} rows",
                                    "padding_idx is one of the rows", f"pass an index from {-count} to {count - 1}")
        padding = padding_idx % count
    if max_norm is not None:
        with no_grad():
            ops.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    return ops.embedding(weight, input, padding, scale_grad_by_freq, sparse)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Return the sums, means or largest elements of the rows of ``weight`` in bags of indices.

    Args:
        input: Indices: one bag in each row of (B, L), or all bags concatenated, (N).
        weight: The table, (V, D).
        offsets: Where each bag of a flat input starts, (B).
        max_norm: Rows with a larger norm are scaled down to it first, in place.
        norm_type: Exponent of that norm.
        scale_grad_by_freq: Whether a row's gradient is divided by the number of its lookups.
        mode: ``sum``, ``mean`` or ``max``.
        sparse: Whether the gradient is a sparse tensor with the looked up rows only.
        per_sample_weights: A factor for each index; for sums only.
        include_last_offset: Whether the last offset is the end of the last bag.
        padding_idx: A row that is ignored.

    Raises:
        ShapeError: The shapes do not fit.
        ArgumentError: The offsets or the mode are invalid.
        UnsupportedOperator: Weights are given for another mode than ``sum``.
    """
    if weight.dtype is int64 and input.is_floating_point():
        warnings.warn("Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag(weight, input, "
                      "...)` is deprecated, and should now be `embedding_bag(input, weight, ...)`.", stacklevel=2)
        input, weight = weight, input
    if max_norm is not None:
        with no_grad():
            ops.embedding_renorm_(weight.detach(), input, max_norm, norm_type)
    return ops.embedding_bag(input, weight, offsets, scale_grad_by_freq, mode, sparse, per_sample_weights,
                             include_last_offset, padding_idx)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Return int64 ones at the given classes along a new last dimension.

    Args:
        tensor: Class indices.
        num_classes: The number of classes; -1 for one more than the largest index.
    """
    return ops.one_hot(tensor, num_classes)
