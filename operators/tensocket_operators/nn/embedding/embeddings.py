"""Lookups in tables of vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.device import DeviceState
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import STATE
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.geometry import element_strides
from tensocket_core.keys import AUTOGRAD, DIM0, DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.launch.replay import guard_range
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import int32, int64
from tensocket_plugins.contract.errors import (
    ArgumentError,
    DtypeError,
    IndexDtypeError,
    ShapeError,
    UnsupportedOperator,
)
from tensocket_plugins.contract.launch_recorder import forbid_replay, is_recording, note_range

from ...indexing import kernel
from ...indexing.gather_scatter import SMALL, checked_index, rows_index, scatter_add_to_zeros
from ...kinds.composite import composite
from ...kinds.private import private
from ...kinds.programs import processors_only
from ...linalg.distances import lengths
from ...reductions.value_checks import checked_range, value_range
from ...unrolled.checks import run_check
from . import bag_kernel_cpu

_INT64: Final = dtype_bit(int64)
#: Keeps the factor of a renormalised row finite.
_RENORM_EPS: Final = 1e-7


def _check_table(operator: str, weight: Any) -> None:
    if weight.ndim != 2:
        raise ShapeError(
            operator, f"weight {list(weight.shape)}", "the weight is a matrix", "pass a tensor of shape [V, D]"
        )


def _check_indices(operator: str, indices: Any) -> None:
    if indices.dtype not in (int32, int64):
        raise IndexDtypeError(operator, f"indices of dtype {indices.dtype.name}", "indices are int32 or int64",
                              "convert them with .long()")


@composite(
    "embedding_gradient(Tensor grad, Tensor indices, int[] shape, int padding_idx, bool scale_grad_by_freq, "
    "bool sparse) -> Tensor", method=False, function=False, replayable=True)
def embedding_gradient(grad: Any, indices: Any, shape: tuple[int, ...], padding_idx: int, scale_grad_by_freq: bool,
                       sparse: bool) -> Any:
    """Sum the gradients of each row, without those of the padding; by frequency, take their means.

    Raises:
        UnsupportedOperator: The gradient is sparse and by frequency.
    """
    if padding_idx >= 0 or scale_grad_by_freq or sparse:
        forbid_replay()  # compares positions without a launch
    index = indices.reshape(-1).to(int64)
    rows = grad.reshape(index.shape[0], shape[1])
    if sparse:
        return _sparse_gradient(rows, shape, index, padding_idx, scale_grad_by_freq)
    counted: Any = None
    if padding_idx >= 0 or scale_grad_by_freq:
        counted = index.new_ones(tuple(index.shape), dtype=grad.dtype)
    if padding_idx >= 0:
        skipped = index == padding_idx
        counted = counted.masked_fill(skipped, 0)
        rows = rows.masked_fill(skipped.unsqueeze(1), 0)  # a factor would keep non-finite values
    if is_recording():  # a replay has other positions than the forward pass
        index = checked_index("embedding", index, shape[0])
    total = scatter_add_to_zeros(rows, 0, rows_index(index, tuple(rows.shape), 0), shape)
    if not scale_grad_by_freq:
        return total
    count = grad.new_zeros((shape[0],)).index_add(0, index, counted)
    return total / count.clamp_min(1).unsqueeze(1)


def _sparse_gradient(rows: Any, shape: tuple[int, ...], index: Any, padding_idx: int, by_freq: bool) -> Any:
    """Return the gradients of rows unsummed, each with its index."""
    if by_freq:
        raise UnsupportedOperator("embedding", "scale_grad_by_freq=True, sparse=True", "sparse gradients are not "
                                  "scaled by frequency", "pass sparse=False")
    if padding_idx >= 0:
        kept = (index != padding_idx).nonzero().squeeze(1)
        index, rows = index.index_select(0, kept), rows.index_select(0, kept)
    return rows._sparse_at(index.unsqueeze(0), shape)


def _rows_host_path(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return a closure for small lookups in tables and at positions that need no conversion."""
    kinds = key & DTYPE_MASK & ~_INT64
    if key & (AUTOGRAD | DIM0) or kinds & (kinds - 1) or not kinds or not key & _INT64:
        return None
    dtype, out, processor = DTYPE_OF[kinds], key & ~_INT64, state.runtime.target is not None

    def direct_rows(weight: Any, indices: Any, *rest: Any) -> Any:
        table, places = weight._array, indices._array
        if (table.ndim != 2 or places.dtype != np.int64 or not places.flags.c_contiguous
                or not 0 < places.size * table.shape[1] <= SMALL or not table.flags.c_contiguous
                or not guard_range(places, 0, table.shape[0])):
            return next_path(weight, indices, *rest)
        rows = kernel.table_rows(state, table, places, dtype) if processor and is_recording() else table.take(places, 0)
        return wrap(rows, out)

    return direct_rows


@composite(
    "embedding(Tensor weight, Tensor indices, int padding_idx=-1, bool scale_grad_by_freq=False, bool sparse=False) "
    "-> Tensor",
    method=False, host_path=_rows_host_path, replayable=True,
    derivative=Derivative(weight=lambda grad, weight_shape, indices, padding_idx, scale_grad_by_freq, sparse: call(
        COMPOSITES["embedding_gradient"], grad, indices, weight_shape, padding_idx, scale_grad_by_freq, sparse)),
)
def embedding(weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False,
              sparse: bool = False) -> Any:
    """Return the rows of ``weight`` [V, D] at integer indices of any shape; the result is [*indices.shape, D].

    Args:
        weight: The table.
        indices: int32 or int64.
        padding_idx: A row that gets no gradient; -1 for none.
        scale_grad_by_freq: Whether a row's gradient is divided by the number of its lookups.
        sparse: Whether the gradient is a sparse tensor that holds only the rows that were looked up.

    Raises:
        ShapeError: The weight is not a matrix.
        IndexDtypeError: The indices are not integers of 32 or 64 bits.
    """
    _check_table("embedding", weight)
    _check_indices("embedding", indices)
    with blame("embedding"):
        if indices.ndim == 1:
            return weight.index_select(0, indices)
        rows = weight.index_select(0, indices.reshape(-1))
    return rows.reshape((*indices.shape, weight.shape[1]))


@composite("embedding_renorm_(Tensor! input, Tensor indices, float max_norm, float norm_type) -> Tensor",
           method=False)
def embedding_renorm_(input: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    """Scale the rows at ``indices`` whose norm exceeds ``max_norm`` down to it, in place.

    Raises:
        ShapeError: The input is not a matrix.
        IndexDtypeError: The indices are not integers of 32 or 64 bits.
    """
    _check_table("embedding_renorm_", input)
    _check_indices("embedding_renorm_", indices)
    index = indices.reshape(-1).to(int64)
    rows = input.index_select(0, index)
    norm = lengths(rows, norm_type, 1, True)
    factor = (max_norm / (norm + _RENORM_EPS)).masked_fill(norm <= max_norm, 1)
    return input.index_copy_(0, index, rows * factor)


@composite(
    "embedding_bag(Tensor input, Tensor weight, Tensor? offsets=None, bool scale_grad_by_freq=False, "
    "str mode='mean', bool sparse=False, Tensor? per_sample_weights=None, bool include_last_offset=False, "
    "int? padding_idx=None) -> Tensor",
    method=False,
    namespace="nn.functional", hands_by_name=True,
)
def embedding_bag(input: Any, weight: Any, offsets: Any = None, scale_grad_by_freq: bool = False, mode: str = "mean",
                  sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
                  padding_idx: int | None = None) -> Any:
    """Return sums, means or largest elements of the rows of each bag of indices; an empty bag gives zeros.

    Args:
        input: Indices: a bag in each row of [B, L], or all bags one after the other, [N].
        weight: The table, [V, D].
        offsets: The start of each bag of a flat input, [B].
        scale_grad_by_freq: Whether a row's gradient is divided by the number of its lookups.
        mode: ``sum``, ``mean`` or ``max``.
        sparse: Whether the gradient is a sparse tensor that holds only the rows that were looked up.
        per_sample_weights: A factor for each index; for sums only.
        include_last_offset: Whether the last offset is the end of the last bag.
        padding_idx: A row to leave out.

    Raises:
        ShapeError: The shapes do not fit each other.
        ArgumentError: The offsets or the mode are invalid.
        UnsupportedOperator: Weights for another mode than ``sum``.
    """
    _check_bags(input, weight, offsets, mode, scale_grad_by_freq, per_sample_weights)
    if mode == "max" and sparse:
        raise ArgumentError("embedding_bag", "mode='max', sparse=True", "gradients of largest elements are dense",
                            "pass sparse=False")
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ArgumentError("embedding_bag", f"padding_idx={padding_idx} for {weight.shape[0]} rows",
                            "padding_idx is one of the rows", "pass another one")
    if offsets is not None and offsets.shape[0] and offsets._device_state.holds_data:
        run_check(_check_offsets, offsets, input.numel())
    index = input.reshape(-1)
    skipped = -1 if padding_idx is None else padding_idx % weight.shape[0]
    if mode == "max":
        with blame("embedding_bag"):
            rows = functions.embedding(weight, index, -1, scale_grad_by_freq, sparse)
        kept = None if padding_idx is None else index != skipped
        if offsets is None and input.shape[1]:
            return _largest_of_even(rows, tuple(input.shape), kept)
        return _largest(rows, *_bags(input, offsets, include_last_offset), kept)
    with blame("embedding_bag"):
        index = checked_index("embedding_bag", index, weight.shape[0])
    factors = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    starts = _starts(input, offsets, include_last_offset)
    return call(COMPOSITES["bag_sums"], weight, index, starts, factors, mode == "mean", skipped, scale_grad_by_freq,
                sparse)


def _check_offsets(offsets: Any, size: int) -> None:
    """Check that the first bag begins with the first index, and that no bag begins after the last.

    Raises:
        ArgumentError: A bag begins elsewhere.
    """
    if STATE.transforms or offsets._level or not offsets._device_state.runtime.profile.host_resident:
        first, last = value_range(offsets.select(0, 0))[0], value_range(offsets.select(0, -1))[1]
    else:
        first, last = (int(offsets._host()[place]) for place in (0, -1))
    if first or last > size:
        raise ArgumentError("embedding_bag", f"offsets from {first} to {last} for {size} indices",
                            "the first offset is 0, and the last one is at most the number of indices",
                            "pass where each bag begins")


def _starts(input: Any, offsets: Any, last: bool) -> Any:
    """Return the beginnings of the bags and the end of the last one; int64."""
    size = input.numel()
    if offsets is None:
        return input.new_arange(0, input.shape[0] + 1, 1).to(int64) * input.shape[1]
    begins = offsets.to(int64)
    if last:  # the last bag ends with the indices; its offset is ignored
        begins = begins.narrow(0, 0, max(begins.shape[0] - 1, 0))
    return functions.cat([begins, begins.new_full((1,), size)])


def _bag_of_each(starts: Any, size: int) -> Any:
    """Return the bag of each index."""
    return functions.searchsorted(starts[:-1], starts.new_arange(0, size, 1), right=True) - 1


def _counts(index: Any, starts: Any, dtype: Any, skipped: int) -> Any:
    """Return the number of rows that count in each bag, at least 1; [bags, 1]."""
    kept = None if skipped < 0 else (index != skipped).to(dtype)
    if kept is None:
        counts = starts.diff().to(dtype)
    else:
        bags = starts.shape[0] - 1
        counts = kept.new_zeros((bags,)).index_add(0, _bag_of_each(starts, index.shape[0]), kept)
    return counts.clamp_min(1).unsqueeze(1)


def _rows_gradient(grad: Any, index: Any, starts: Any, mean: bool, skipped: int) -> Any:
    """Return the gradient of each added row, before its factor."""
    grad = grad / _counts(index, starts, grad.dtype, skipped) if mean else grad
    return grad.index_select(0, _bag_of_each(starts, index.shape[0]))


def _table_gradient(grad: Any, shape: tuple[int, ...], index: Any, starts: Any, factors: Any, mean: bool, skipped: int,
                    by_freq: bool, sparse: bool) -> Any:
    rows = _rows_gradient(grad, index, starts, mean, skipped)
    rows = rows if factors is None else rows * factors.unsqueeze(1)
    return call(COMPOSITES["embedding_gradient"], rows, index, shape, skipped, by_freq, sparse)


def _factors_gradient(grad: Any, weight: Any, index: Any, starts: Any, skipped: int) -> Any:
    slopes = (_rows_gradient(grad, index, starts, False, skipped) * weight.index_select(0, index)).sum(1)
    return slopes if skipped < 0 else slopes.masked_fill(index == skipped, 0)


@processors_only("bags")
def _bags_host_path(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return a closure that launches one kernel, on processors with a code generator."""
    def host_path(weight: Any, index: Any, starts: Any, factors: Any, mean: bool, skipped: int, by_freq: bool,
               sparse: bool) -> Any:
        table, begins, dtype = weight._array, starts._array, weight.dtype
        plain = dtype.kind == "float" and dtype.itemsize >= 2 and (factors is None or factors.dtype is dtype)
        falls = begins.size > 1 and bool((begins[1:] < begins[:-1]).any())
        if not plain or falls or not begins.size or begins[0] < 0 or begins[-1] > index.shape[0] or (
                element_strides(table)[1] != 1 < table.shape[1]):
            return next_path(weight, index, starts, factors, mean, skipped, by_freq, sparse)
        places, begins = index.contiguous()._array, starts.contiguous()._array
        weights = None if factors is None else factors.contiguous()._array
        made = bag_kernel_cpu.sum_bags(state, table, places, begins, weights, dtype, mean, skipped)
        return wrap(made, state.key | dtype_bit(dtype))

    return private("embedding_bag", host_path)


@composite(
    "bag_sums(Tensor weight, Tensor index, Tensor starts, Tensor? factors, bool mean, int skipped, bool by_freq, "
    "bool sparse) -> Tensor", method=False, function=False, host_path=_bags_host_path, derivative=Derivative(
        weight=lambda grad, weight_shape, index, starts, factors, mean, skipped, by_freq, sparse: _table_gradient(
            grad, weight_shape, index, starts, factors, mean, skipped, by_freq, sparse),
        factors=lambda grad, weight, index, starts, skipped: _factors_gradient(grad, weight, index, starts, skipped)))
def bag_sums(weight: Any, index: Any, starts: Any, factors: Any, mean: bool, skipped: int, by_freq: bool,
             sparse: bool) -> Any:
    """Return sums or means of the rows of each bag.

    Args:
        weight: The table, [V, D].
        index: int64 rows, one bag after the other; all valid.
        starts: The beginnings of the bags and the end of the last one.
        factors: Factor of each row, or None.
        mean: Whether sums are divided by the number of rows.
        skipped: A row to leave out; -1 for none.
        by_freq: Whether gradients are scaled by frequency; see ``embedding``.
        sparse: Whether the gradient is sparse; see ``embedding``.
    """
    rows = weight.index_select(0, index)
    rows = rows if factors is None else rows * factors.unsqueeze(1)
    rows = rows if skipped < 0 else rows.masked_fill((index == skipped).unsqueeze(1), 0)
    total = rows.new_zeros((starts.shape[0] - 1, rows.shape[1])).index_add(
        0, _bag_of_each(starts, index.shape[0]), rows)
    return total / _counts(index, starts, total.dtype, skipped) if mean else total


def _largest_of_even(rows: Any, shape: tuple[int, int], kept: Any) -> Any:
    """Return the largest elements of bags of one size along a dimension; the first of equals gets the gradient."""
    rows = rows.reshape((*shape, rows.shape[1]))
    if kept is None:
        return rows.max(1)[0]
    held = kept.reshape(shape)
    return rows.masked_fill(~held.unsqueeze(2), float("-inf")).max(1)[0].masked_fill(~held.any(1, True), 0)


def _check_bags(input: Any, weight: Any, offsets: Any, mode: str, by_freq: bool, factors: Any) -> None:
    _check_table("embedding_bag", weight)
    _check_indices("embedding_bag", input)
    if weight.dtype.kind != "float":
        raise DtypeError("embedding_bag", f"a table of dtype {weight.dtype.name}", "the table holds floats",
                         "convert it with .to(dtype)")
    if input.ndim not in (1, 2):
        raise ShapeError("embedding_bag", f"input {list(input.shape)}", "indices have one or two dimensions",
                         "pass [B, L], or [N] with offsets")
    if (offsets is None) != (input.ndim == 2) or (offsets is not None and offsets.ndim != 1):
        raise ArgumentError("embedding_bag", f"offsets={'None' if offsets is None else list(offsets.shape)} for input "
                            f"{list(input.shape)}", "flat indices have offsets in one dimension, rows of indices none",
                            "pass offsets [B] for [N] alone")
    if mode not in ("sum", "mean", "max"):
        raise ArgumentError("embedding_bag", f"mode={mode!r}", "the mode is 'sum', 'mean' or 'max'",
                            "pass one of these")
    if by_freq and mode == "max":
        raise ArgumentError("embedding_bag", "scale_grad_by_freq=True, mode='max'",
                            "gradients of largest elements are not scaled", "use mode='sum' or 'mean'")
    if factors is None:
        return
    if tuple(factors.shape) != tuple(input.shape):
        raise ShapeError("embedding_bag", f"per_sample_weights {list(factors.shape)} and input {list(input.shape)}",
                         "there is one weight for each index", "reshape the weights")
    if factors.dtype is not weight.dtype:
        raise DtypeError("embedding_bag", f"per_sample_weights of {factors.dtype.name} for a table of "
                         f"{weight.dtype.name}", "weights and the table have the same type", "convert the weights")
    if mode != "sum":
        raise UnsupportedOperator("embedding_bag", f"per_sample_weights, mode={mode!r}", "only sums are weighted",
                                  "use mode='sum'")


def _bags(input: Any, offsets: Any, last: bool) -> tuple[Any, int]:
    """Return the bag of each index, and the number of bags."""
    size = input.numel()
    starts = _starts(input, offsets, last)
    return _bag_of_each(starts, size), starts.shape[0] - 1


def _largest(rows: Any, bag: Any, count: int, kept: Any) -> Any:
    """Return the largest elements of each bag, 0 for empty bags; the first of equals gets the gradient."""
    index = bag.unsqueeze(1).expand(tuple(rows.shape))
    low = float("-inf")
    rows = rows if kept is None else rows.masked_fill(~kept.unsqueeze(1), low)
    ones = rows.new_ones((rows.shape[0],)) if kept is None else kept.to(rows.dtype)
    empty = rows.new_zeros((count,)).index_add(0, bag, ones) == 0
    if not rows.shape[0]:
        return rows.sum(0, True).expand((count, rows.shape[1])).clone()
    values = rows.detach()
    top = values.new_full((count, rows.shape[1]), low).scatter_reduce(0, index, values, "amax")
    found = (values == top.index_select(0, bag)) | (values != values)
    places = index.new_arange(0, rows.shape[0], 1).unsqueeze(1).expand(tuple(rows.shape))
    first = index.new_zeros((count, rows.shape[1])).scatter_reduce(
        0, index, places.masked_fill(~found, rows.shape[0]), "amin", include_self=False)
    return rows.gather(0, first).masked_fill(empty.unsqueeze(1), 0)


@composite("one_hot(Tensor input, int num_classes=-1) -> Tensor", method=False, namespace="nn.functional")
def one_hot(input: Any, num_classes: int = -1) -> Any:
    """Return int64 ones at the given classes along a new last dimension.

    Raises:
        DtypeError: The classes are not int64.
        ArgumentError: A class is negative or not below ``num_classes``, or the input is empty without ``num_classes``.
    """
    if input.dtype is not int64:
        raise DtypeError(
            "one_hot", f"classes of dtype {input.dtype.name}", "classes are int64", "convert them with .long()"
        )
    if num_classes == -1 and input.numel() == 0:
        raise ArgumentError(
            "one_hot",
            f"classes of shape {list(input.shape)}",
            "the number of classes cannot be counted",
            "pass num_classes",
        )
    classes = int(input.amax().item()) + 1 if num_classes == -1 else num_classes
    if input.numel() and input._device_state.holds_data:
        low, high = checked_range(input)
        if not 0 <= low <= high < classes:
            raise ArgumentError("one_hot", f"classes from {low} to {high} of {classes}",
                                "classes lie between 0 and num_classes - 1", "pass a larger num_classes")
        note_range(input._array, 0, classes)
    return (input.unsqueeze(-1) == input.new_arange(0, classes, 1)).to(input.dtype)


