"""Negative log likelihood of class indices as one operator with one node, from log probabilities or from scores.

On the host, NumPy picks one element of each row; a row operator computes the probabilities.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import AUTOGRAD, DIM0, DTYPE_MASK, dtype_bit
from tensocket_core.launch.host_kernels import REFUSED
from tensocket_core.launch.replay import guard_range
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.launch_recorder import forbid_replay
from tensocket_plugins.contract.value_observers import checked_by_range
from tensocket_plugins.kit.host_kernels_quiet import quiet

from ...kinds.composite import composite
from ...kinds.private import private
from ..normalization.softmax import log_softmax_rows, softmax_rows
from . import nll_nest
from .cross_entropy import factors, scored
from .losses import reduced

_INT64: Final = dtype_bit(dtypes.int64)
_FLOATS: Final[dict[int, DType]] = {_INT64 | dtype_bit(x): x for x in (dtypes.float32, dtypes.float64)}
_ROW_NUMBERS: Final[dict[int, Any]] = {}
#: Rows up to which row numbers are cached.
_KEPT: Final = 4096
#: Number of scores from which on these are read twice instead of saved as probabilities.
#: The second number is that of dtypes and shapes without kernels.
_MANY: Final = 1 << 19
_MANY_OTHERS: Final = 1 << 14


# ------------------------------------------------------------------------------------------ on arrays of the host


def _row_numbers(count: int) -> Any:
    numbers = _ROW_NUMBERS.get(count)
    if numbers is None:
        numbers = np.arange(count)
        if count <= _KEPT:
            _ROW_NUMBERS[count] = numbers
    return numbers


def _gather_targets(x: Any, target: Any, weight: Any, ignore_index: int) -> tuple[Any, Any, Any] | None:
    """Return indices, factors (None if all are 1) and their sum for a matrix, or None to use the general closure."""
    if x.ndim != 2 or target.ndim != 1 or not 0 < x.shape[0] == target.shape[0] or target.dtype != np.int64:
        return None
    index, factor = target, None
    if ignore_index >= 0 or np.maximum.reduce(target.view(np.uint64)) >= x.shape[1]:
        keep = target != ignore_index
        index = np.where(keep, target, 0)
        if np.maximum.reduce(index.view(np.uint64)) >= x.shape[1]:
            return None  # an index out of range
        factor = keep.astype(x.dtype)
    if weight is not None:
        weights = weight._array
        if weights.dtype is not x.dtype or weights.shape != (x.shape[1],):
            return None
        factor = weights[index] if factor is None else weights[index] * factor
    total = x.dtype.type(x.shape[0]) if factor is None else np.add.reduce(factor)
    return index, factor, total


def _has_places(x: Any, labels: Any) -> bool:
    """Whether each example has labels at several places, and there are few scores [N, C, ...]; recordings end here."""
    if not (x.ndim > 2 and labels.shape == (*x.shape[:1], *x.shape[2:]) and 0 < x.size < _MANY_OTHERS):
        return False
    forbid_replay()
    return True


def _as_matrix(x: Any) -> Any:
    """Return scores [N, C, ...] as a matrix with a row for each place."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1)).reshape(-1, x.shape[1])


def _can_use_kernel(state: DeviceState, x: Any, labels: Any, weight: Any, ignore_index: int) -> bool:
    """Whether kernels can compute the loss: the matrix is small, nothing is converted, and all labels are valid."""
    if x.ndim != 2 or labels.ndim != 1 or not 0 < x.shape[0] == labels.shape[0] or not 0 < x.size < _MANY or (
            labels.dtype != np.int64 or not labels.flags.c_contiguous or type(ignore_index) is not int):
        return False
    if weight is not None:
        weights = weight._array
        if weights.dtype is not x.dtype or weights.shape != (x.shape[1],) or not weights.flags.c_contiguous:
            return False
    return guard_range(labels, 0, x.shape[1], ignore_index)


def _along_last(operator: str, state: DeviceState, dtype: DType) -> Callable[[Any], Any]:
    """Return a row operator as a function from a matrix to an array."""
    key = state.key | dtype_bit(dtype)
    run = COMPOSITES[operator].below(key)
    return lambda array: run(wrap(array, key), -1, dtype=None)._array


def _loss_host_path(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    dtype = _FLOATS.get(key & DTYPE_MASK)
    if key & AUTOGRAD or dtype is None:
        return None
    log_softmax, launched = _along_last("log_softmax", state, dtype), state.runtime.target is not None
    out = state.key | dtype_bit(dtype)

    def direct_loss(input: Any, target: Any, weight: Any, scores: bool, ignore_index: int, reduction: str) -> Any:
        x, labels = input._array, target._array
        if x.ndim == 1 and labels.ndim == 0:  # scores of one example: a matrix of one row
            row = wrap(x.reshape(1, -1), out), wrap(labels.reshape(1), target._key & ~DIM0)
            loss = direct_loss(*row, weight, scores, ignore_index, reduction)
            return wrap(loss._array.reshape(()), out)
        if _has_places(x, labels):
            rows, classes = _as_matrix(x), np.ascontiguousarray(labels).reshape(-1)
            loss = direct_loss(wrap(rows, out), wrap(classes, target._key), weight, scores, ignore_index, reduction)
            return wrap(loss._array.reshape(labels.shape), out) if reduction == "none" else loss
        if launched and _can_use_kernel(state, x, labels, weight, ignore_index):
            form = nll_nest.Form(dtype, weight is not None, reduction)
            values = log_softmax_rows.below(out)(input, 1)._array if scores else x
            return wrap(nll_nest.class_terms(
                state, form, values, labels, None if weight is None else weight._array, ignore_index), out)
        try:
            found = _gather_targets(x, labels, weight, ignore_index)
            if found is None:
                return next_path(input, target, weight, scores, ignore_index, reduction)
            index, factor, total = found
            terms = np.negative((log_softmax(x) if scores else x)[_row_numbers(len(index)), index])
            if factor is not None:
                terms = terms * factor
            if reduction != "none":
                terms = np.asarray(np.add.reduce(terms) / total if reduction == "mean" else np.add.reduce(terms))
        except REFUSED:
            return next_path(input, target, weight, scores, ignore_index, reduction)
        return wrap(terms, out)

    return private("cross_entropy", quiet(direct_loss))


def _backward_host_path(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    key &= ~DIM0  # the upstream gradient's
    dtype = _FLOATS.get(key & DTYPE_MASK)
    if key & AUTOGRAD or dtype is None:
        return None
    softmax, launched = _along_last("softmax", state, dtype), state.runtime.target is not None
    out = state.key | dtype_bit(dtype)

    def direct_backward(upstream: Any, input: Any, target: Any, weight: Any, scores: bool, ignore_index: int,
                        reduction: str) -> Any:
        x, labels, scale = input._array, target._array, upstream._array
        if _has_places(x, labels):
            rows, classes = _as_matrix(x), np.ascontiguousarray(labels).reshape(-1)
            slope = direct_backward(wrap(scale.reshape(-1), out) if scale.ndim else upstream, wrap(rows, out),
                                    wrap(classes, target._key), weight, scores, ignore_index, reduction)._array
            return wrap(np.ascontiguousarray(np.moveaxis(slope.reshape(*labels.shape, -1), -1, 1)), out)
        if launched and _can_use_kernel(state, x, labels, weight, ignore_index):
            form = nll_nest.Form(dtype, weight is not None, reduction)
            shares = softmax_rows.below(out)(input, 1)._array if scores else None
            return wrap(nll_nest.class_gradient(state, form, scale, shares, x.shape, labels, (
                None if weight is None else weight._array), ignore_index), out)
        try:
            found = _gather_targets(x, labels, weight, ignore_index)
            if found is None:
                return next_path(upstream, input, target, weight, scores, ignore_index, reduction)
            index, factor, total = found
            if not total:
                return next_path(upstream, input, target, weight, scores, ignore_index, reduction)
            scale = scale / total if reduction == "mean" else scale
            scale = scale if factor is None else scale * factor
            result = softmax(x) if scores else np.zeros(x.shape, x.dtype)
            if scores:
                np.multiply(result, scale[:, None] if scale.ndim else scale, result)
            result[_row_numbers(len(index)), index] -= scale
        except REFUSED:
            return next_path(upstream, input, target, weight, scores, ignore_index, reduction)
        return wrap(result, out)

    return private("cross_entropy", quiet(direct_backward))


# ------------------------------------------------------------------------------------------ operators


@composite(
    "class_loss_backward(Tensor upstream, Tensor input, Tensor target, Tensor? weight, bool scores, int ignore_index, "
    "str reduction) -> Tensor", method=False, function=False, host_path=_backward_host_path, replayable=True)
def class_loss_backward(upstream: Any, input: Any, target: Any, weight: Any, scores: bool, ignore_index: int,
                        reduction: str) -> Any:
    """Return the gradient of ``class_loss``: (softmax(input) - 1 at the target) times factor and upstream gradient."""
    forbid_replay()
    axis = 0 if input.ndim == 1 else 1
    index, factor = factors(input, target, weight, ignore_index)
    if reduction == "mean":
        upstream = upstream / factor.sum()
    # Ignored rows stay 0 even if all are ignored and the mean divides by zero.
    scale = (upstream * factor).masked_fill(factor == 0, 0).unsqueeze(axis)
    start = input.softmax(axis) * scale if scores else input.new_zeros(tuple(input.shape))
    with checked_by_range(target._array, 0, input.shape[axis], ignore_index):
        return start.scatter_add(axis, index.unsqueeze(axis), -scale)


@composite(
    "class_loss(Tensor input, Tensor target, Tensor? weight, bool scores, int ignore_index, str reduction) -> Tensor",
    method=False, function=False, host_path=_loss_host_path, replayable=True,
    derivative=Derivative(input=lambda grad, input, target, weight, scores, ignore_index, reduction: call(
        COMPOSITES["class_loss_backward"], grad, input, target, weight, scores, ignore_index, reduction)))
def class_loss(input: Any, target: Any, weight: Any, scores: bool, ignore_index: int, reduction: str) -> Any:
    """Return minus the log probability of each target class, times its factor.

    Args:
        input: Log probabilities, or scores, to which log_softmax is applied.
        target: Class indices.
        weight: A factor per class; it gets no gradient.
        scores: Whether ``input`` holds scores.
        ignore_index: Target value to ignore.
        reduction: ``none``, ``mean`` or ``sum``.
    """
    forbid_replay()
    axis = 0 if input.ndim == 1 else 1
    index, factor = factors(input, target, weight, ignore_index)
    values = input.log_softmax(axis) if scores else input
    with blame("nll_loss"), checked_by_range(target._array, 0, input.shape[axis], ignore_index):
        loss = -(values.gather(axis, index.unsqueeze(axis)).squeeze(axis)) * factor
    return loss.sum() / factor.sum() if reduction == "mean" else reduced(loss, reduction, "nll_loss")


def classified(input: Any, target: Any, weight: Any, scores: bool, ignore_index: int, reduction: str) -> Any:
    """Return ``class_loss``, recorded as one node if the weights need no gradient."""
    if weight is not None and weight.requires_grad:
        return class_loss(input, target, weight, scores, ignore_index, reduction)
    many = _MANY if input.dtype in _FLOATS.values() and input.ndim == 2 else _MANY_OTHERS
    if scores and input.ndim > 1 and input.dtype.kind == "float" and (
            input.numel() >= many or not input._device_state.runtime.profile.host_resident):
        return scored(input, target, weight, ignore_index, reduction)
    return call(COMPOSITES["class_loss"], input, target, weight, scores, ignore_index, reduction)
