"""Losses, with PyTorch's signatures.

In all functions, ``reduction`` (``mean``, ``sum`` or ``none``) replaces ``size_average`` and ``reduce``.
"""

# The operators of the core are generated and typed Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import warnings
from collections.abc import Callable

from tensocket_operators import Tensor
from tensocket_operators import functions as ops

from ...errors import ShapeError
from .reductions import reduction_of, warn_of_broadcast


def mse_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
             reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Return ``(input - target)²``; with a weight for each element, the mean is weighted.

    Raises:
        ArgumentError: ``reduction`` is not one of the three.
        ShapeError: The weight has another shape than the input.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    warn_of_broadcast(input, target)
    return ops.mse_loss(input, target, reduction=reduction, weight=weight)


def l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
            reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """Return ``|input - target|``; with a weight for each element, the mean is weighted.

    Raises:
        ArgumentError: ``reduction`` is not one of the three.
        ShapeError: The weight has another shape than the input.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    warn_of_broadcast(input, target)
    return ops.l1_loss(input, target, reduction=reduction, weight=weight)


def smooth_l1_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                   reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """Return ``|input - target|``, with a parabola below ``beta``.

    Raises:
        ArgumentError: ``beta`` is negative.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    warn_of_broadcast(input, target)
    return ops.smooth_l1_loss(input, target, reduction, beta)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0,
               weight: Tensor | None = None) -> Tensor:
    """Return ``0.5 (input - target)²`` up to differences of ``delta``, a line beyond.

    Raises:
        ArgumentError: ``delta`` is not positive.
        ShapeError: The weight has another shape than the input.
    """
    warn_of_broadcast(input, target)
    return ops.huber_loss(input, target, reduction_of(None, None, reduction), delta, weight)


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
             ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """Return the negative log likelihood of (N, C, ...) log probabilities for (N, ...) class indices.

    Args:
        input: Log probabilities.
        target: Class indices, int64.
        weight: A weight for each class.
        size_average: Replaced by ``reduction``.
        ignore_index: Elements with this class are ignored.
        reduce: Replaced by ``reduction``.
        reduction: ``mean`` (weighted), ``sum`` or ``none``.

    Raises:
        ShapeError: The shapes do not fit.
        ArgumentError: ``reduction`` is not one of the three.
    """
    return ops.nll_loss(input, target, weight, ignore_index, reduction_of(size_average, reduce, reduction))


def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
                  ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Tensor:
    """Return the cross entropy of (N, C, ...) logits for (N, ...) class indices or (N, C, ...) probabilities.

    Args:
        input: Logits.
        target: Class indices (int64) or probabilities.
        weight: A weight for each class.
        size_average: Replaced by ``reduction``.
        ignore_index: Elements with this class are ignored.
        reduce: Replaced by ``reduction``.
        reduction: ``mean`` (weighted), ``sum`` or ``none``.
        label_smoothing: The share of the target that is spread over all classes.

    Raises:
        ShapeError: The shapes do not fit.
        ArgumentError: ``reduction`` or ``label_smoothing`` is out of its range.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object | None = None,
) -> Tensor:
    """Return ``cross_entropy(linear(input, linear_weight, linear_bias), target)``.

    Args:
        input: Samples, (N, D) or (D).
        linear_weight: (C, D), or (C, d1, ..., D) for a loss of several dimensions.
        target: Class indices, (N, d1, ...), or probabilities, (N, C, d1, ...).
        linear_bias: (C, d1, ...).
        weight: A weight for each class.
        reduction: ``mean`` (weighted), ``sum`` or ``none``.
        ignore_index: Elements with this class are ignored; -100 by default.
        label_smoothing: The share of the target that is spread over all classes.
        options: How PyTorch divides the product to save memory; without effect here, as results do not depend on it.

    Raises:
        ShapeError: The shapes do not fit.
        ArgumentError: ``ignore_index`` is given for probabilities.
    """
    return ops.linear_cross_entropy(input, linear_weight, target, linear_bias=linear_bias, weight=weight,
                                    reduction=reduction_of(None, None, reduction), ignore_index=ignore_index,
                                    label_smoothing=label_smoothing)


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None,
                         size_average: bool | None = None, reduce: bool | None = None,
                         reduction: str = "mean") -> Tensor:
    """Return the cross entropy of probabilities for probabilities ``target``; ``weight`` broadcasts.

    Raises:
        ShapeError: The target has another shape than the input.
        ArgumentError: An input is not a probability.
    """
    return ops.binary_cross_entropy(input, target, weight, reduction_of(size_average, reduce, reduction))


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     size_average: bool | None = None, reduce: bool | None = None,
                                     reduction: str = "mean", pos_weight: Tensor | None = None) -> Tensor:
    """Return the cross entropy of ``sigmoid(input)`` for probabilities ``target``, without overflow.

    Args:
        input: Logits.
        target: Probabilities, of the same shape.
        weight: A factor per element; broadcasts.
        size_average: Replaced by ``reduction``.
        reduce: Replaced by ``reduction``.
        reduction: ``mean``, ``sum`` or ``none``.
        pos_weight: A factor for positive targets; broadcasts.

    Raises:
        ShapeError: The target has another shape than the input.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


def kl_div(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
           reduction: str = "mean", log_target: bool = False) -> Tensor:
    """Return the Kullback-Leibler divergence of log probabilities ``input`` from ``target``.

    ``reduction`` may also be ``batchmean``; ``mean`` also divides by the number of classes, and warns about that.
    """
    if size_average is None and reduce is None and reduction == "mean":
        warnings.warn("reduction 'mean' divides the divergence by the number of classes, too; 'batchmean' does not",
                      UserWarning, stacklevel=2)
    return ops.kl_div(input, target, reduction_of(size_average, reduce, reduction), log_target=log_target)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False,
                     size_average: bool | None = None, eps: float = 1e-8, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:
    """Return the negative log likelihood of counts under Poisson distributions with rates exp(input), or ``input``.

    Args:
        input: Rates or their logarithms.
        target: Counts.
        log_input: Whether the input holds logarithms.
        full: Whether Stirling's approximation of ``log(target!)`` is added.
        size_average: Replaced by ``reduction``.
        eps: Keeps logarithms of rates finite.
        reduce: Replaced by ``reduction``.
        reduction: ``mean``, ``sum`` or ``none``.
    """
    return ops.poisson_nll_loss(input, target, log_input, full, eps, reduction_of(size_average, reduce, reduction))


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6,
                      reduction: str = "mean") -> Tensor:
    """Return the negative log likelihood under normal distributions with mean ``input`` and variance ``var``.

    Raises:
        ShapeError: The variances do not fit the input.
        ArgumentError: A variance is negative.
    """
    return ops.gaussian_nll_loss(input, target, var, full, eps, reduction_of(None, None, reduction))


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
                         reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """Return ``input`` for targets 1, ``max(0, margin - input)`` for targets -1."""
    return ops.hinge_embedding_loss(input, target, margin, reduction_of(size_average, reduce, reduction))


def soft_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
                     reduction: str = "mean") -> Tensor:
    """Return ``log(1 + exp(-target * input))``."""
    return ops.soft_margin_loss(input, target, reduction_of(size_average, reduce, reduction))


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                        size_average: bool | None = None, reduce: bool | None = None,
                        reduction: str = "mean") -> Tensor:
    """Return ``max(0, -target * (input1 - input2) + margin)``.

    Raises:
        ShapeError: The three have different numbers of dimensions.
    """
    if not input1.ndim == input2.ndim == target.ndim:
        shapes = [list(t.shape) for t in (input1, input2, target)]
        raise ShapeError("margin_ranking_loss", f"shapes {shapes[0]}, {shapes[1]} and {shapes[2]}",
                         "the inputs and the target have the same number of dimensions", "reshape them")
    return ops.margin_ranking_loss(input1, input2, target, margin, reduction_of(size_average, reduce, reduction))


def multi_margin_loss(input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
                      size_average: bool | None = None, reduce: bool | None = None,
                      reduction: str = "mean") -> Tensor:
    """Return the sum over the wrong classes i of ``max(0, margin - input[target] + input[i]) ** p``, divided by C.

    Raises:
        ArgumentError: ``p`` is neither 1 nor 2.
        ShapeError: The shapes do not fit.
    """
    return ops.multi_margin_loss(input, target, p, margin, weight, reduction_of(size_average, reduce, reduction))


def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: bool | None = None,
                           reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """Return the hinge loss between the classes that are listed before the first -1 and all others.

    Raises:
        ShapeError: The shapes differ.
    """
    return ops.multilabel_margin_loss(input, target, reduction_of(size_average, reduce, reduction))


def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                size_average: bool | None = None, reduce: bool | None = None,
                                reduction: str = "mean") -> Tensor:
    """Return the binary cross entropy of ``sigmoid(input)``, averaged over the classes."""
    return ops.multilabel_soft_margin_loss(input, target, weight, reduction_of(size_average, reduce, reduction))


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0,
                          size_average: bool | None = None, reduce: bool | None = None,
                          reduction: str = "mean") -> Tensor:
    """Return ``1 - cos`` for targets 1, ``max(0, cos - margin)`` for targets -1.

    Raises:
        ShapeError: The numbers of dimensions do not fit.
    """
    return ops.cosine_embedding_loss(input1, input2, target, margin, reduction_of(size_average, reduce, reduction))


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2,
                        eps: float = 1e-6, swap: bool = False, size_average: bool | None = None,
                        reduce: bool | None = None, reduction: str = "mean") -> Tensor:
    """Return ``max(0, d(anchor, positive) - d(anchor, negative) + margin)`` with the p-norm of differences.

    Raises:
        ArgumentError: The margin is not positive.
        ShapeError: The three have different numbers of dimensions.
    """
    reduction = reduction_of(size_average, reduce, reduction)
    return ops.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction)


triplet_margin_with_distance_loss: Callable[..., Tensor] = ops.triplet_margin_with_distance_loss


def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return the connectionist temporal classification loss: minus the log probability of all alignments.

    Args:
        log_probs: (T, N, C) log probabilities, or (T, C).
        targets: (N, S) classes, or the concatenated classes of all examples.
        input_lengths: Length of each input, (N).
        target_lengths: Length of each target, (N).
        blank: The class between labels.
        reduction: ``mean`` (of losses divided by target lengths), ``sum`` or ``none``.
        zero_infinity: Whether infinite losses, of targets too long for their inputs, become zero.

    Raises:
        ShapeError: The shapes do not fit.
        ArgumentError: A length or the blank is out of range.
    """
    reduction = reduction_of(None, None, reduction)
    return ops.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity)
