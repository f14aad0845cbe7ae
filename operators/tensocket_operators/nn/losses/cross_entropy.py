"""Negative log likelihood of class indices from many scores, which saves only the maximum and the sum of each row.

With ``top`` the largest score of a row and ``total = sum(exp(score - top))``, the loss of a class is
``log(total) - (score - top)`` and the gradient ``exp(score - top) / total``, less 1 at the class. ``top`` only keeps
numbers in range: results do not depend on it, so it counts as a constant.
"""

from __future__ import annotations

from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_plugins.contract.value_observers import checked_by_range

from ...kinds.composite import composite
from ...kinds.normalized_row import RowOperator
from .losses import reduced


def factors(input: Any, target: Any, weight: Any, ignore_index: int) -> tuple[Any, Any]:
    """Return class indices, 0 for ignored ones, and the factor of every term: its class's weight, 0 if ignored."""
    keep = target != ignore_index
    index = target.masked_fill(~keep, 0)
    if weight is None:
        return index, keep.to(input.dtype)
    with checked_by_range(target._array, 0, input.shape[min(input.ndim - 1, 1)], ignore_index):
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


def _gradient(grads: Any, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, top: Any,
              total: Any) -> Any:
    dims = (1 - input.ndim,)
    if grads[2] is not None:  # the gradient of a gradient
        further = call(score_shares, input, top, grads[2], None, None, dims)
        return further if grads[0] is None else further + _gradient(
            (grads[0], None, None), input, target, weight, ignore_index, reduction, top, total)
    if grads[0] is None:
        return None
    index, factor = factors(input, target, weight, ignore_index)
    upstream = grads[0] / factor.sum() if reduction == "mean" else grads[0]
    # Ignored rows stay 0 even if all are ignored and the mean divides by zero.
    scale = (upstream * factor).masked_fill(factor == 0, 0).unsqueeze(1)
    return call(score_shares, input, top, scale / total, index.unsqueeze(1), scale, dims)


@composite(
    "score_loss(Tensor input, Tensor target, Tensor? weight, int ignore_index, str reduction) -> "
    "(Tensor, Tensor, Tensor)", method=False, function=False,
    derivative=Derivative(input=lambda grads, input, target, weight, ignore_index, reduction, result1, result2: (
        _gradient(grads, input, target, weight, ignore_index, reduction, result1, result2))))
def score_loss(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """Return (loss, top, total); the loss is minus the log probability of each target class, times its factor.

    Args:
        input: Scores, [N, C, ...].
        target: Class indices.
        weight: A factor per class; it gets no gradient.
        ignore_index: Target value to ignore.
        reduction: ``none``, ``mean`` or ``sum``.
    """
    index, factor = factors(input, target, weight, ignore_index)
    top, total = call(score_totals, input, (1 - input.ndim,))
    with blame("nll_loss"), checked_by_range(target._array, 0, input.shape[1], ignore_index):
        picked = input.gather(1, index.unsqueeze(1))
    loss = (total.log() - (picked - top)).squeeze(1) * factor
    loss = loss.sum() / factor.sum() if reduction == "mean" else reduced(loss, reduction, "nll_loss")
    return loss.to(input.dtype), top, total


def scored(input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """Return the loss of ``score_loss``, recorded as one node."""
    return call(COMPOSITES["score_loss"], input, target, weight, ignore_index, reduction)[0]
