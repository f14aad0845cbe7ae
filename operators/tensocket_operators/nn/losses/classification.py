"""Losses of classification: likelihoods of class indices and cross entropies."""

from __future__ import annotations

from typing import Any

from tensocket_core import functions
from tensocket_plugins.contract.errors import ArgumentError, ShapeError
from tensocket_plugins.contract.launch_recorder import forbid_replay

from ...kinds.composite import composite
from ...unrolled.recomputed import Recomputed
from .losses import reduced, reduction_name
from .nll import classified


def _check_indices(input: Any, target: Any, weight: Any) -> None:
    shape, rank = input._array.shape, input.ndim
    if rank == 0 or target._array.shape != (shape[1:] if rank == 1 else (shape[0], *shape[2:])):
        raise ShapeError(
            "nll_loss",
            f"input {list(input.shape)} and target {list(target.shape)}",
            "the target has the input's shape without the class dimension",
            "check the order of dimensions",
        )
    classes = shape[0 if rank == 1 else 1]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise ShapeError("nll_loss", f"weight {list(weight.shape)} for {classes} classes",
                         "the weight has a factor for each class", "pass a weight [C]")


@composite(
    "nll_loss(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, any reduction='mean') -> Tensor",
    method=False, replayable=True,
    namespace="nn.functional", hands_by_name=True,
)
def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: Any = "mean") -> Any:
    """Return the negative log likelihood: minus the log probability of each target class.

    Args:
        input: Log probabilities, [N, C], [C] or [N, C, d1, ...].
        target: Class indices, [N], [] or [N, d1, ...]; int64.
        weight: A factor per class, [C].
        ignore_index: Target value to ignore.
        reduction: ``none``, ``mean`` (weighted) or ``sum``.

    Raises:
        ShapeError: Target or weight does not fit the input.
    """
    reduction = reduction_name("nll_loss", reduction)
    _check_indices(input, target, weight)
    return classified(input, target, weight, False, ignore_index, reduction)


@composite(
    "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, any reduction='mean', "
    "float label_smoothing=0.0) -> Tensor",
    method=False, replayable=True,
    namespace="nn.functional", hands_by_name=True,
)
def cross_entropy(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: Any = "mean",
                  label_smoothing: float = 0.0) -> Any:
    """Return the cross entropy between logits and targets: nll_loss(log_softmax(input), target).

    Args:
        input: Logits, [N, C], [C] or [N, C, d1, ...].
        target: Class indices (int64), or probabilities of the input's shape (floating point).
        weight: A factor per class, [C].
        ignore_index: Target value to ignore; for class indices only.
        reduction: ``none``, ``mean`` (weighted) or ``sum``.
        label_smoothing: Share of the target that is distributed evenly over the classes, 0 to 1.
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(
            "cross_entropy",
            f"label_smoothing={label_smoothing}",
            "label smoothing lies between 0 and 1",
            "pass a value in that range",
        )
    reduction = reduction_name("cross_entropy", reduction)
    axis = 0 if input.ndim == 1 else 1
    if label_smoothing == 0.0 and not target.dtype.is_floating_point:
        _check_indices(input, target, weight)
        return classified(input, target, weight, True, ignore_index, reduction)
    forbid_replay()  # compares labels without a launch
    log_probabilities = input.log_softmax(axis)
    if target.dtype.is_floating_point:
        return _soft_cross_entropy(log_probabilities, target, weight, reduction, label_smoothing, axis)
    loss = functions.nll_loss(log_probabilities, target, weight, ignore_index, reduction)
    keep = (target != ignore_index).to(input.dtype)
    weighted = log_probabilities if weight is None else log_probabilities * _class_shape(weight, input.ndim, axis)
    smooth = -weighted.sum(axis) * keep / input.shape[axis]
    if reduction == "mean":
        total = (
            keep.sum()
            if weight is None
            else (
                weight.index_select(0, target.masked_fill(keep == 0, 0).reshape(-1)).reshape(target.shape) * keep
            ).sum()
        )
        smooth = smooth.sum() / total
    else:
        smooth = reduced(smooth, reduction, "cross_entropy")
    return (1 - label_smoothing) * loss + label_smoothing * smooth


def _class_shape(weight: Any, rank: int, axis: int) -> Any:
    return weight.reshape(tuple(-1 if k == axis else 1 for k in range(rank)))


def _soft_cross_entropy(
    log_probabilities: Any, target: Any, weight: Any, reduction: Any, smoothing: float, axis: int
) -> Any:
    if tuple(target.shape) != tuple(log_probabilities.shape):
        raise ShapeError(
            "cross_entropy",
            f"input {list(log_probabilities.shape)} and target {list(target.shape)}",
            "target probabilities have the input's shape",
            "pass class indices, or probabilities for every class",
        )
    if smoothing:
        target = target * (1 - smoothing) + smoothing / target.shape[axis]
    if weight is not None:
        target = target * _class_shape(weight, target.ndim, axis)
    loss = -(log_probabilities * target).sum(axis)
    return loss.sum() / loss.numel() if reduction == "mean" else reduced(loss, reduction, "cross_entropy")


@composite(
    "linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, *, Tensor? linear_bias=None, "
    "Tensor? weight=None, any reduction='mean', int? ignore_index=None, float label_smoothing=0.0) -> Tensor",
    method=False,
    namespace="nn.functional", hands_by_name=True,
    recomputed=Recomputed(saved=("input", "linear_weight", "target", "weight"), copied=("linear_bias",)))
def linear_cross_entropy(input: Any, linear_weight: Any, target: Any, *, linear_bias: Any = None, weight: Any = None,
                         reduction: Any = "mean", ignore_index: int | None = None,
                         label_smoothing: float = 0.0) -> Any:
    """Return cross_entropy(linear(input, linear_weight, linear_bias), target).

    Args:
        input: Samples, [N, D] or [D].
        linear_weight: [C, D], or [C, d1, ..., D] for a loss of several dimensions.
        target: Class indices, [N, d1, ...], or probabilities, [N, C, d1, ...].
        linear_bias: [C, d1, ...].
        weight: A factor per class, [C].
        reduction: ``none``, ``mean`` (weighted) or ``sum``.
        ignore_index: Target value to ignore, -100 by default; for class indices only.
        label_smoothing: Share of the target that is distributed evenly over the classes, 0 to 1.

    Raises:
        ShapeError: The shapes do not fit each other.
        ArgumentError: ``ignore_index`` is given for probabilities.
    """
    outer = tuple(linear_weight.shape[:-1])
    fits = input.ndim in (1, 2) and linear_weight.ndim >= 2 and input.shape[-1] == linear_weight.shape[-1] and (
        input.ndim == 2 or linear_weight.ndim == 2)
    if not fits or (linear_bias is not None and tuple(linear_bias.shape) != outer):
        given = f"input {list(input.shape)}, linear_weight {list(linear_weight.shape)}"
        raise ShapeError("linear_cross_entropy", given + (
            "" if linear_bias is None else f", linear_bias {list(linear_bias.shape)}"),
            "an input [N, D] goes with a weight [C, ..., D] and a bias [C, ...]", "check the layer's sizes")
    shape = (*input.shape[:-1], *outer)
    if ignore_index is not None and tuple(target.shape) == shape:
        raise ArgumentError("linear_cross_entropy", f"ignore_index={ignore_index} and probabilities",
                            "an index is ignored among class indices only", "leave ignore_index out")
    flat = linear_weight.reshape(-1, linear_weight.shape[-1])
    logits = functions.linear(input, flat, None if linear_bias is None else linear_bias.reshape(-1)).reshape(shape)
    return cross_entropy(logits, target, weight, -100 if ignore_index is None else ignore_index, reduction,
                         label_smoothing)
