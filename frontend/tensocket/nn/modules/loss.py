"""Loss functions. ``reduction`` is ``mean``, ``sum`` or ``none`` and replaces ``size_average`` and ``reduce``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from tensocket.nn import functional as F
from tensocket_operators import Tensor

from .layers.loss_base import _Loss, _PairLoss, _WeightedLoss
from .layers.margins import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from .linear import Linear
from .linear_cross_entropy_options import LinearCrossEntropyOptions

# ---- differences


class L1Loss(_PairLoss):
    """``|input - target|``."""

    _loss = staticmethod(F.l1_loss)


class MSELoss(_PairLoss):
    """``(input - target)²``."""

    _loss = staticmethod(F.mse_loss)


class SmoothL1Loss(_Loss):
    """``|input - target| - beta / 2``, with the parabola ``(input - target)² / (2 beta)`` below ``beta``."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                 beta: float = 1.0) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return a scalar; of the inputs' shape for reduction ``none``."""
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """``0.5 (input - target)²`` up to differences of ``delta``, a line beyond."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return a scalar; of the inputs' shape for reduction ``none``."""
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


# ---- classes


class NLLLoss(_WeightedLoss):
    """Negative log likelihood of (N, C, ...) log probabilities for (N, ...) class indices.

    Args:
        weight: A weight for each class.
        size_average: Replaced by ``reduction``.
        ignore_index: Elements with this class are ignored.
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
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return a scalar; of the target's shape for reduction ``none``."""
        return F.nll_loss(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class NLLLoss2d(NLLLoss):
    """The older name of ``NLLLoss`` for images."""

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, ignore_index: int = -100,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:
        warnings.warn("NLLLoss2d is deprecated; use NLLLoss", FutureWarning, stacklevel=2)
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_WeightedLoss):
    """Cross entropy of (N, C, ...) logits for (N, ...) class indices or (N, C, ...) probabilities.

    Args:
        weight: A weight for each class.
        size_average: Replaced by ``reduction``.
        ignore_index: Elements with this class are ignored.
        reduce: Replaced by ``reduction``.
        reduction: ``mean`` (weighted), ``sum`` or ``none``.
        label_smoothing: The share of the target that is spread over all classes.
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
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return a scalar; of the target's shape for reduction ``none``."""
        return F.cross_entropy(input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction,
                               label_smoothing=self.label_smoothing)


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer, followed by ``CrossEntropyLoss``.

    Args:
        in_features: Size of the last dimension of the input.
        num_classes: Number of classes.
        out_features: Additional dimensions of the layer's output, each with its own target.
        bias: Whether the layer has a bias.
        device: Device of the parameters.
        dtype: Their dtype.
        reduction: ``mean`` (weighted), ``sum`` or ``none``.
        weight: A weight for each class.
        ignore_index: Elements with this class are ignored.
        label_smoothing: The share of the target that is spread over all classes.
        options: How PyTorch saves memory; results do not depend on it.
    """

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: Sequence[int] = (), bias: bool = False,
        device: Any = None, dtype: Any = None, reduction: str = "mean", weight: Tensor | None = None,
        ignore_index: int | None = None, label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.options = options
        self.linear = Linear(in_features, num_classes * math.prod(self.out_features), bias, device, dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Map samples (N, in_features) with classes (N, *out_features) or probabilities to a scalar."""
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape(*shape, self.linear.in_features), target,
            linear_bias=None if bias is None else bias.reshape(shape), weight=self.weight, reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options)

    def extra_repr(self) -> str:
        """Return the arguments."""
        return (f"in_features={self.linear.in_features}, num_classes={self.num_classes}, "
                f"out_features={self.out_features}, bias={self.linear.bias is not None}, reduction={self.reduction}, "
                f"ignore_index={self.ignore_index}, label_smoothing={self.label_smoothing}, options={self.options}")


# ---- probabilities


class BCELoss(_WeightedLoss):
    """Cross entropy of probabilities for probabilities ``target``; ``weight`` broadcasts."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return a scalar; of the inputs' shape for reduction ``none``."""
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """Cross entropy of ``sigmoid(input)`` for probabilities ``target``, without overflow.

    Args:
        weight: A factor per element; broadcasts.
        size_average: Replaced by ``reduction``.
        reduce: Replaced by ``reduction``.
        reduction: ``mean``, ``sum`` or ``none``.
        pos_weight: A factor for positive targets; broadcasts.
    """

    weight: Any
    pos_weight: Any

    def __init__(
        self, weight: Tensor | None = None, size_average: bool | None = None, reduce: bool | None = None,
        reduction: str = "mean", pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return a scalar; of the inputs' shape for reduction ``none``."""
        return F.binary_cross_entropy_with_logits(input, target, self.weight, pos_weight=self.pos_weight,
                                                  reduction=self.reduction)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of log probabilities ``input`` from ``target`` (or its logarithm, ``log_target``).

    ``reduction`` may also be ``batchmean``, which divides only by the number of examples.
    """

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
                 log_target: bool = False) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return a scalar; of the inputs' shape for reduction ``none``."""
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """Negative log likelihood of counts under Poisson distributions.

    Args:
        log_input: Whether the input holds logarithms of rates.
        full: Whether Stirling's approximation of ``log(target!)`` is added.
        size_average: Replaced by ``reduction``.
        eps: Keeps logarithms of rates finite.
        reduce: Replaced by ``reduction``.
        reduction: ``mean``, ``sum`` or ``none``.
    """

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: bool | None = None, eps: float = 1e-8,
        reduce: bool | None = None, reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Return a scalar; of the inputs' shape for reduction ``none``."""
        return F.poisson_nll_loss(log_input, target, log_input=self.log_input, full=self.full, eps=self.eps,
                                  reduction=self.reduction)


class GaussianNLLLoss(_Loss):
    """Negative log likelihood under normal distributions.

    Args:
        full: Whether the constant ``log(2 pi) / 2`` is added.
        eps: Smallest variance.
        reduction: ``mean``, ``sum`` or ``none``.
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        """Map means, values and variances to a scalar; to the inputs' shape for reduction ``none``."""
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class CTCLoss(_Loss):
    """Connectionist temporal classification: minus the log probability of all alignments (Graves et al., 2006).

    Args:
        blank: The class between labels.
        reduction: ``mean`` (of losses divided by target lengths), ``sum`` or ``none``.
        zero_infinity: Whether infinite losses, of targets too long for their inputs, become zero.
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        """Map (T, N, C) log probabilities and (N, S) classes, with the length of each, to a scalar or (N)."""
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction,
                          self.zero_infinity)


__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "LinearCrossEntropyLoss", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "NLLLoss2d", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]
