"""Losses that are zero beyond a margin."""

from __future__ import annotations

from collections.abc import Callable

from tensocket.errors import ArgumentError, ShapeError
from tensocket.nn import functional as F
from tensocket_operators import Tensor

from ..distance import PairwiseDistance
from .loss_base import _Loss, _PairLoss, _WeightedLoss


class SoftMarginLoss(_PairLoss):
    """``log(1 + exp(-target * input))``."""

    _loss = staticmethod(F.soft_margin_loss)


class MultiLabelMarginLoss(_PairLoss):
    """Hinge loss between the classes that are listed before the first -1 and all others."""

    _loss = staticmethod(F.multilabel_margin_loss)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """Binary cross entropy of ``sigmoid(input)``, averaged over the classes, which may have weights."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Map (N, C) and (N, C) to a scalar; to (N) for reduction ``none``."""
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class _MarginLoss(_Loss):
    """A loss with a margin."""

    def __init__(self, margin: float = 0.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class HingeEmbeddingLoss(_MarginLoss):
    """``input`` for targets 1, ``max(0, margin - input)`` for targets -1."""

    def __init__(self, margin: float = 1.0, size_average: bool | None = None, reduce: bool | None = None,
                 reduction: str = "mean") -> None:
        super().__init__(margin, size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return a scalar; of the inputs' shape for reduction ``none``."""
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_MarginLoss):
    """``1 - cos`` for targets 1, ``max(0, cos - margin)`` for targets -1."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Map (N, D), (N, D) and (N) to a scalar; to (N) for reduction ``none``."""
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_MarginLoss):
    """``max(0, -target * (input1 - input2) + margin)``."""

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return a scalar; of the inputs' shape for reduction ``none``."""
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """The sum over the wrong classes i of ``max(0, margin - input[target] + input[i]) ** p``, divided by C.

    Args:
        p: 1 or 2.
        margin: The margin.
        weight: A weight for each class.
        size_average: Replaced by ``reduction``.
        reduce: Replaced by ``reduction``.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ArgumentError: ``p`` is neither 1 nor 2.
        ShapeError: The weight is not a vector.
    """

    def __init__(
        self, p: int = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: bool | None = None,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ArgumentError("MultiMarginLoss", f"p={p}", "only p == 1 and p == 2 supported", "pass one of the two")
        if weight is not None and weight.dim() != 1:
            raise ShapeError("MultiMarginLoss", f"weight of shape {list(weight.shape)}", "expected weight to be None "
                             "or 1D tensor", "pass a weight for each class")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Map (N, C) and classes (N) to a scalar; to (N) for reduction ``none``."""
        return F.multi_margin_loss(input, target, p=self.p, margin=self.margin, weight=self.weight,
                                   reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` with the p-norm of differences.

    Args:
        margin: The margin.
        p: Exponent of the norm.
        eps: Added to differences.
        swap: Whether the distance of positive and negative replaces that of anchor and negative if it is smaller.
        size_average: Replaced by ``reduction``.
        reduce: Replaced by ``reduction``.
        reduction: ``mean``, ``sum`` or ``none``.

    Raises:
        ArgumentError: The margin is not positive.
    """

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6, swap: bool = False,
        size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = _positive("TripletMarginLoss", margin)
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Map three tensors (N, D) to a scalar; to (N) for reduction ``none``."""
        return F.triplet_margin_loss(anchor, positive, negative, margin=self.margin, p=self.p, eps=self.eps,
                                     swap=self.swap, reduction=self.reduction)


class TripletMarginWithDistanceLoss(_Loss):
    """``TripletMarginLoss`` with a custom distance, a function or module; ``PairwiseDistance`` by default.

    Raises:
        ArgumentError: The margin is not positive.
    """

    def __init__(
        self, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0,
        swap: bool = False, reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin = _positive("TripletMarginWithDistanceLoss", margin)
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Map three tensors (N, D) to a scalar; to (N) for reduction ``none``."""
        return F.triplet_margin_with_distance_loss(anchor, positive, negative,
                                                   distance_function=self.distance_function, margin=self.margin,
                                                   swap=self.swap, reduction=self.reduction)


def _positive(name: str, margin: float) -> float:
    """Return the margin.

    Raises:
        ArgumentError: It is not positive.
    """
    if margin <= 0:
        raise ArgumentError(name, f"margin={margin}", "expected margin to be greater than 0", "pass a positive number")
    return margin


__all__ = [
    "CosineEmbeddingLoss", "HingeEmbeddingLoss", "MarginRankingLoss", "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss", "MultiMarginLoss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]
