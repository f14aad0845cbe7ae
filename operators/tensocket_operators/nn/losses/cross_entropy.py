"""Negative log likelihood of class indices from many scores, which saves only the maximum and the sum of each row.

With ``top`` the largest score of a row and ``total = sum(exp(score - top))``, the loss of a class is
``log(total) - (score - top)`` and the gradient ``exp(score - top) / total``, less 1 at the class. ``top`` only keeps
numbers in range: results do not depend on it, so it counts as a constant.

Devices with memory of their own compute the losses of all rows in one kernel and the gradient in another one, without
index tensors between them, unless operations are recorded, traced or transformed.
"""

from __future__ import annotations

from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import STATE
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.geometry import contiguous
from tensocket_core.keys import AUTOGRAD, LAZY, WRAPPER
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.launch_recorder import is_recording
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS, checked_by_range

from ...indexing.gather_scatter import check_extremes
from ...kinds.composite import composite
from ...kinds.normalized_row import RowOperator
from ...reductions import minmax_kernel
from .losses import reduced


def factors(input: Any, target: Any, weight: Any, ignore_index: int) -> tuple[Any, Any]:
    """Return class indices, 0 for ignored ones, and the factor of every term: its class's weight, 0 if ignored."""
    keep = target != ignore_index
    index = target.masked_fill(~keep, 0)
    if weight is None:
        return index, keep.to(input.dtype)
    with blame("nll_loss"), checked_by_range(target._array, 0, input.shape[min(input.ndim - 1, 1)], ignore_index):
        weights = weight.index_select(0, index.reshape(-1))
    return index, weights.reshape(index.shape) * keep


def _totals(row: Any, x: Any) -> tuple[Any, ...]:
    top = row.amax(x)
    (total,) = row.sums(lambda j: row.m.exp(x(j) - top))
    return top, total


def _shares(row: Any, x: Any, top: Any, factor: Any, index: Any, less: Any) -> tuple[Any, ...]:
    def share(j: Any) -> Any:
        return row.m.exp(x(j) - top(j)) * factor(j)

    return (share if index is None else lambda j: row.m.where(
        row.m.eq(row.at(j), index(j)), share(j) - less(j), share(j)),)


def _terms(row: Any, x: Any, target: Any, factor: Any, ignored: Any) -> tuple[Any, ...]:
    m, top = row.m, row.amax(x)
    total, picked = row.sums(lambda j: m.exp(x(j) - top),
                             lambda j: m.where(m.eq(row.at(j), target(j)), x(j) - top, 0.0))
    term = m.log(total) - picked
    return top, total, _kept(m, target(None), ignored, term if factor is None else term * factor(None))


def _mean(row: Any, term: Any, target: Any, factor: Any, ignored: Any) -> tuple[Any, ...]:
    total, count = row.sums(term, lambda j: _kept(row.m, target(j), ignored, 1.0 if factor is None else factor(j)))
    return row.once(total / count), count


def _term_shares(row: Any, x: Any, target: Any, factor: Any, top: Any, total: Any, upstream: Any, count: Any,
                 ignored: Any) -> tuple[Any, ...]:
    m = row.m

    def share(j: Any) -> Any:
        scale = upstream(j) if count is None else upstream(j) / count(j)
        if factor is not None:  # Rows of weight 0 stay 0 even if all weights are 0 and the mean divides by zero.
            scale = m.where(m.eq(factor(j), 0.0), 0.0, scale * factor(j))
        scale = _kept(m, target(j), ignored, scale)
        return m.exp(x(j) - top(j)) * (scale / total(j)) - m.where(m.eq(row.at(j), target(j)), scale, 0.0)

    return (share,)


def _kept(m: Any, target: Any, ignored: Any, value: Any) -> Any:
    """Return a row's value, 0 if the row is ignored."""
    return m.where(m.eq(target, ignored), 0.0, value)


def _functions() -> Any:
    return functions


_HIDDEN: Final[dict[str, Any]] = {"method": False, "function": False, "functions": _functions}

score_totals: Final = RowOperator(
    "score_totals(Tensor input, int[] dims) -> (Tensor, Tensor)",
    "(top, sum(exp(input - top))) along dims, where top is the largest element.",
    _totals, ("row", "row"), **_HIDDEN, derivative=Derivative(
        input=lambda grads, input, result0, dims: None if grads[1] is None else (
            grads[1] * (input - result0.detach()).exp())))
score_shares: Final[RowOperator] = RowOperator(
    "score_shares(Tensor input, Tensor top, Tensor factor, Tensor? index, Tensor? less, int[] dims) -> Tensor",
    "exp(input - top) * factor, minus less at position index, with one value of each for a row.",
    _shares, ("full",), **_HIDDEN, derivative=Derivative(
        input=lambda grad, input, top, factor, dims: grad * call(score_shares, input, top, factor, None, None, dims),
        factor=lambda grad, input, top, dims: (grad * (input - top.detach()).exp()).sum(dims, True),
        less=lambda grad, index, dims: -grad.gather(dims[0], index)))

term_totals: Final = RowOperator(
    "term_totals(Tensor input, Tensor target, Tensor? factor, int ignore_index, int[] dims) -> "
    "(Tensor, Tensor, Tensor)",
    "(top, total, loss) of rows of scores for a class of each row, 0 for ignored ones; see ``score_totals``.",
    _terms, ("row", "row", "row"), **_HIDDEN)
term_mean: Final = RowOperator(
    "term_mean(Tensor input, Tensor target, Tensor? factor, int ignore_index, int[] dims) -> (Tensor, Tensor)",
    "The sum of losses divided by that of the factors (by default 1) of classes that are not ignored, and this sum.",
    _mean, ("row", "row"), **_HIDDEN)
term_shares: Final = RowOperator(
    "term_shares(Tensor input, Tensor target, Tensor? factor, Tensor top, Tensor total, Tensor upstream, "
    "Tensor? count, int ignore_index, int[] dims) -> Tensor",
    "The gradient of ``term_totals`` for that of the loss, which is divided by ``count``.",
    _term_shares, ("full",), **_HIDDEN)


def launches(*tensors: Any) -> bool:
    """Whether the device of some tensors (or None) has memory of its own, and nobody observes the operators called."""
    state, key = tensors[0]._device_state, 0
    if state.runtime.profile.host_resident or not state.holds_data or state.runtime.target is None:
        return False
    for x in tensors:
        key |= 0 if x is None else x._key
    traced = STATE.tracer and not is_recording()  # recordings trace operators in order to launch their kernels
    observed = VALUE_OBSERVERS or traced or STATE.transforms or STATE.function_modes or STATE.dispatch_modes
    return not (key & (AUTOGRAD | LAZY | WRAPPER) or observed)


def _fits(input: Any, target: Any, ignore_index: Any) -> bool:
    return bool(input._array.size) and target.dtype is int64 and type(ignore_index) is int


def _launched_loss(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str
                   ) -> tuple[Any, Any, Any, Any]:
    """Do the same as ``score_loss``."""
    labels = target if contiguous(target._array) else target.contiguous()
    extremes = minmax_kernel.both_extremes(labels._device_state, labels._array, int64, ignore_index)
    assert extremes is not None
    check_extremes("nll_loss", *extremes, 0, input.shape[1])
    factor = None if weight is None else factors(input, labels, weight, ignore_index)[1].unsqueeze(1)
    top, total, terms = call(term_totals, input, labels.unsqueeze(1), factor, ignore_index, (1 - input.ndim,))
    if reduction != "mean":
        return reduced(terms.squeeze(1), reduction, "nll_loss").to(input.dtype), top, total, None
    loss, count = call(term_mean, terms.reshape(-1), labels.reshape(-1), None if factor is None else factor.reshape(-1),
                       ignore_index, (-1,))
    return loss.reshape(()).to(input.dtype), top, total, count.reshape(())


def _launched_gradient(upstream: Any, input: Any, target: Any, weight: Any, ignore_index: int, top: Any, total: Any,
                       count: Any) -> Any:
    factor = None if weight is None else factors(input, target, weight, ignore_index)[1].unsqueeze(1)
    count = None if count is None else count.reshape((1,) * input.ndim)
    upstream = upstream.to(total.dtype)
    upstream = upstream.unsqueeze(1) if upstream.ndim else upstream.reshape((1,) * input.ndim)
    return call(term_shares, input, target.unsqueeze(1), factor, top, total, upstream, count, ignore_index,
                (1 - input.ndim,))


def _gradient(grads: Any, input: Any, target: Any, weight: Any, ignore_index: int, top: Any, total: Any,
              count: Any) -> Any:
    dims = (1 - input.ndim,)
    if grads[2] is not None:  # the gradient of a gradient
        further = call(score_shares, input, top, grads[2], None, None, dims)
        return further if grads[0] is None else further + _gradient(
            (grads[0], None, None), input, target, weight, ignore_index, top, total, count)
    if grads[0] is None:
        return None
    if launches(input, grads[0], target, weight, top, total) and _fits(input, target, ignore_index):
        return _launched_gradient(grads[0], input, target, weight, ignore_index, top, total, count)
    index, factor = factors(input, target, weight, ignore_index)
    upstream = grads[0] if count is None else grads[0] / count.detach().to(input.dtype)
    # Ignored rows stay 0 even if all are ignored and the mean divides by zero.
    scale = (upstream * factor).masked_fill(factor == 0, 0).unsqueeze(1)
    return call(score_shares, input, top, scale / total, index.unsqueeze(1), scale, dims)


@composite(
    "score_loss(Tensor input, Tensor target, Tensor? weight, int ignore_index, str reduction) -> "
    "(Tensor, Tensor, Tensor, Tensor?)", method=False, function=False,
    derivative=Derivative(input=lambda grads, input, target, weight, ignore_index, result1, result2, result3: (
        _gradient(grads, input, target, weight, ignore_index, result1, result2, result3))))
def score_loss(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """Return (loss, top, total, count); the loss is minus the log probability of each target class, times its factor.

    ``count`` is the sum of the factors, by which the mean divides; None for the other reductions.

    Args:
        input: Scores, [N, C, ...].
        target: Class indices.
        weight: A factor per class; it gets no gradient.
        ignore_index: Target value to ignore.
        reduction: ``none``, ``mean`` or ``sum``.
    """
    if launches(input, target, weight) and _fits(input, target, ignore_index):
        return _launched_loss(input, target, weight, ignore_index, reduction)
    index, factor = factors(input, target, weight, ignore_index)
    top, total = call(score_totals, input, (1 - input.ndim,))
    with blame("nll_loss"), checked_by_range(target._array, 0, input.shape[1], ignore_index):
        picked = input.gather(1, index.unsqueeze(1))
    loss = (total.log() - (picked - top)).squeeze(1) * factor
    if reduction != "mean":
        return reduced(loss, reduction, "nll_loss").to(input.dtype), top, total, None
    count = factor.sum()
    return (loss.sum() / count).to(input.dtype), top, total, count


def scored(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """Return the loss of ``score_loss``, recorded as one node."""
    return call(COMPOSITES["score_loss"], input, target, weight, ignore_index, reduction)[0]
