"""Losses."""

from __future__ import annotations

from typing import Any

import tensocket as torch

from .table import operator, results
from .values import text


def _likelihood(scores: Any, target: Any, weight: Any, reduction: str, ignore_index: int | None) -> Any:
    """Return minus the scores of targets along dimension 1, times their weights; reduced."""
    target = target.to(torch.int64)
    ignored = torch.zeros_like(target, dtype=torch.bool) if ignore_index is None else target == ignore_index
    place = torch.where(ignored, torch.zeros_like(target), target)
    chosen = -torch.gather(scores, 1, place.unsqueeze(1)).squeeze(1)
    weights = torch.ones_like(chosen) if weight is None else weight.index_select(0, place.reshape(-1)).reshape(
        place.shape)
    weights = torch.where(ignored, torch.zeros_like(weights), weights)
    terms = chosen * weights
    terms = torch.where(ignored, torch.zeros_like(terms), terms)
    if text(reduction) == "mean":
        return terms.sum() / weights.sum()
    return terms.sum() if text(reduction) == "sum" else terms


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(x: Any, target: Any, weight: Any = None, ignore_index: int | None = None,
                            reduction: str = "mean") -> Any:
    """Return the loss of log-probabilities."""
    return _likelihood(x, target, weight, reduction, ignore_index)


@operator("SoftmaxCrossEntropyLoss", counts=True)
def softmax_cross_entropy(scores: Any, labels: Any, weights: Any = None, ignore_index: int | None = None,
                          reduction: str = "mean", outputs: int = 1) -> Any:
    """Return the loss of scores, and on request the log-probabilities."""
    logs = torch.log_softmax(scores, 1)
    return results([_likelihood(logs, labels, weights, reduction, ignore_index), logs], outputs)
