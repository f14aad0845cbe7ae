"""Loss functions."""

from __future__ import annotations

from tensocket.errors import ArgumentError
from tensocket.nn import functional as F
from tensocket.nn.functions.reductions import reduction_of
from tensocket.nn.modules.module import Module
from tensocket_core import Tensor


class _Loss(Module):
    """A loss with a reduction over its elements."""

    def __init__(self, size_average: bool | None, reduce: bool | None, reduction: str) -> None:
        super().__init__()
        reduction = reduction_of(size_average, reduce, reduction)
        if reduction not in ("mean", "sum", "none"):
            raise ArgumentError(type(self).__name__, f"reduction={reduction!r}", "reduction is 'mean', 'sum' or 'none'",
                                "pass one of the three")
        self.reduction = reduction


class _WeightedLoss(_Loss):
    """A loss over classes, with a weight for each and an index of none."""

    def __init__(
        self, weight: Tensor | None, size_average: bool | None, ignore_index: int, reduce: bool | None, reduction: str
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index


class L1Loss(_Loss):
    """``|input - target|``."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar; of the inputs' shape for reduction ``none``."""
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """``(input - target)²``."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__(size_average, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar; of the inputs' shape for reduction ``none``."""
        return F.mse_loss(input, target, reduction=self.reduction)


class NLLLoss(_WeightedLoss):
    """Negative log likelihood of (N, C, ...) log probabilities for (N, ...) class indices.

    Args:
        weight: A weight for each class.
        size_average: Replaced by ``reduction``.
        ignore_index: Elements with this class do not count.
        reduce: Replaced by ``reduction``.
        reduction: ``mean`` (weighted), ``sum`` or ``none``.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar; of the target's shape for reduction ``none``."""
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of (N, C, ...) logits for (N, ...) class indices or (N, C, ...) probabilities.

    Args:
        weight: A weight for each class.
        size_average: Replaced by ``reduction``.
        ignore_index: Elements with this class do not count.
        reduce: Replaced by ``reduction``.
        reduction: ``mean`` (weighted), ``sum`` or ``none``.
        label_smoothing: How much of the target is spread over all classes.
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, ignore_index, reduce, reduction)
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """A scalar; of the target's shape for reduction ``none``."""
        return F.cross_entropy(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
                               label_smoothing=self.label_smoothing)
