"""Losses with a margin, over signs, classes and sets of classes."""

from __future__ import annotations

from typing import Any, Final

from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, IndexOutOfRange, ShapeError
from tensocket_plugins.contract.launch_recorder import note_range

from ...indexing.gather_scatter import gather_valid, scatter_valid
from ...kinds.composite import composite
from ...kinds.pointwise import Pointwise
from ...reductions.value_checks import checked_range
from ...unrolled.checks import declared, run_check
from ...unrolled.recomputed import Recomputed
from .losses import log_sigmoid, reduced, reduction_name

soft_margin_terms: Final = Pointwise(
    "soft_margin_terms(Tensor input, Tensor target) -> Tensor",
    "log(1 + exp(-target * input)).",
    lambda m, x, t: m.maximum(-(t * x), 0) + m.log1p(m.exp(-m.abs(t * x))),
    kinds="f", method=False, function=False,
    derivative=Derivative(
        input=lambda grad, input, target: -grad * target * (-target * input).sigmoid(),
        target=lambda grad, input, target: -grad * input * (-target * input).sigmoid()),
)


@composite("soft_margin_loss(Tensor input, Tensor target, any reduction='mean') -> Tensor", method=False,
           namespace="nn.functional", hands_by_name=True)
def soft_margin_loss(input: Any, target: Any, reduction: Any = "mean") -> Any:
    """Return log(1 + exp(-target * input)) for targets 1 and -1."""
    with blame("soft_margin_loss"):
        terms = call(soft_margin_terms, input, target)
    return reduced(terms, reduction, "soft_margin_loss")


@composite("hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, any reduction='mean') -> Tensor",
           method=False, recomputed=Recomputed(copied=("input",), constant=("target",)))
def hinge_embedding_loss(input: Any, target: Any, margin: float = 1.0, reduction: Any = "mean") -> Any:
    """Return ``input`` where the target is 1, and max(0, margin - input) where it is -1."""
    with blame("hinge_embedding_loss"):
        far = (margin - input).clamp_min(0).masked_fill(target == 1, 0)
        near = input.masked_fill(target == -1, 0)
    return reduced(far + near, reduction, "hinge_embedding_loss")


@composite(
    "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, any reduction='mean') -> "
    "Tensor",
    method=False,
)
def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: Any = "mean") -> Any:
    """Return max(0, -target * (input1 - input2) + margin): with target 1, the first should be larger."""
    with blame("margin_ranking_loss"):
        terms = (float(margin) - target * (input1 - input2)).clamp_min(0)
    return reduced(terms, reduction, "margin_ranking_loss")


def _rows(operator: str, input: Any) -> Any:
    """Return scores as a matrix of examples and classes."""
    if input.ndim > 2 or (input.ndim and input.shape[-1] == 0):
        raise ShapeError(operator, f"input {list(input.shape)}", "the input is [N, C] or [C] with at least one class",
                         "reshape it")
    return input if input.ndim == 2 else input.reshape(1, -1)


@composite(
    "multi_margin_loss(Tensor input, Tensor target, Scalar p=1, Scalar margin=1.0, Tensor? weight=None, "
    "any reduction='mean') -> Tensor",
    method=False, namespace="nn.functional", hands_by_name=True,
    recomputed=Recomputed(saved=("input", "target", "weight")))
def multi_margin_loss(input: Any, target: Any, p: float = 1, margin: float = 1.0, weight: Any = None,
                      reduction: Any = "mean") -> Any:
    """Return the sum over wrong classes i of max(0, margin - input[target] + input[i]) ** p, divided by their number C.

    Args:
        input: Scores, [N, C] or [C].
        target: Class indices, [N] or one; int64.
        p: 1 or 2.
        margin: The distance by which the score of the right class should exceed the others.
        weight: A factor per class, [C].
        reduction: ``none``, ``mean`` or ``sum``.

    Raises:
        ArgumentError: ``p`` is another number.
        ShapeError: The shapes do not fit each other.
    """
    reduction = reduction_name("multi_margin_loss", reduction)
    if p not in (1, 2):
        raise ArgumentError("multi_margin_loss", f"p={p}", "the exponent is 1 or 2", "pass p=1 or p=2")
    rows = _rows("multi_margin_loss", input)
    count, classes = rows.shape
    if target.numel() != count or target.ndim > 1 or (weight is not None and tuple(weight.shape) != (classes,)):
        given = f"input {list(input.shape)}, target {list(target.shape)}"
        given += "" if weight is None else f", weight {list(weight.shape)}"
        raise ShapeError("multi_margin_loss", given, "there is one class for each example and one weight for each "
                         "class", "check the order of arguments")
    with blame("multi_margin_loss"):
        loss = call(COMPOSITES["class_margins"], rows, target.reshape(count, 1), int(p), margin, weight)
    return reduced(loss if target.ndim else loss.reshape(()), reduction, "multi_margin_loss")


def _gaps(input: Any, index: Any, margin: float) -> tuple[Any, Any]:
    """Return by how much each score is too large, and where it counts: at wrong classes, if it is positive."""
    gaps = margin - input.gather(1, index) + input
    return gaps, (gaps > 0) & (input.new_arange(0, input.shape[1], 1) != index)


def _class_margins_slope(grad: Any, input: Any, index: Any, p: int, margin: float, weight: Any) -> Any:
    gaps, counts = _gaps(input, index, margin)
    slopes = counts.to(input.dtype) if p == 1 else (2 * gaps).masked_fill(~counts, 0)
    factors = grad if weight is None else grad * weight.index_select(0, index.reshape(-1))
    slopes = slopes * (factors / input.shape[1]).unsqueeze(1)
    return slopes.scatter_add(1, index, -slopes.sum(1, True))


def _class_weights_slope(grad: Any, input: Any, index: Any, p: int, margin: float, weight: Any) -> Any:
    losses = call(COMPOSITES["class_margins"], input, index, p, margin, None)
    return grad.new_zeros((input.shape[1],)).index_add(0, index.reshape(-1), grad * losses)


@composite("class_margins(Tensor input, Tensor index, int p, Scalar margin, Tensor? weight) -> Tensor",
           method=False, function=False,
           derivative=Derivative(input=_class_margins_slope, weight=_class_weights_slope))
def class_margins(input: Any, index: Any, p: int, margin: float, weight: Any) -> Any:
    """Return the loss of each row of ``multi_margin_loss``, [N], for scores [N, C] and right classes [N, 1]."""
    gaps, counts = _gaps(input, index, margin)
    terms = gaps.masked_fill(~counts, 0)  # NaN counts as 0, too, as in PyTorch
    loss = (terms if p == 1 else terms * terms).sum(1)
    return (loss if weight is None else loss * weight.index_select(0, index.reshape(-1))) / input.shape[1]


@declared
def _check_classes(target: Any, classes: int) -> None:
    if target.numel():
        note_range(target._array, -1, classes)
        least, most = checked_range(target)
        if least < -1 or most >= classes:
            raise IndexOutOfRange("multilabel_margin_loss", f"targets for {classes} classes",
                                  "targets are classes, or -1 at the end", "check the number of classes")


@composite("multilabel_margin_loss(Tensor input, Tensor target, any reduction='mean') -> Tensor", method=False,
           namespace="nn.functional", hands_by_name=True, recomputed=Recomputed(saved=("input", "target")))
def multilabel_margin_loss(input: Any, target: Any, reduction: Any = "mean") -> Any:
    """Sum max(0, 1 - input[right] + input[wrong]) over right and wrong classes, and divide by the number of classes.

    Args:
        input: Scores, [N, C] or [C].
        target: The right classes of each example, then -1; of the input's shape, int64.
        reduction: ``none``, ``mean`` or ``sum``.

    Raises:
        ShapeError: The shapes differ.
        DtypeError: The target is not int64.
        IndexOutOfRange: A target is not a class.
    """
    reduction = reduction_name("multilabel_margin_loss", reduction)
    rows = _rows("multilabel_margin_loss", input)
    if tuple(target.shape) != tuple(input.shape):
        raise ShapeError("multilabel_margin_loss", f"input {list(input.shape)} and target {list(target.shape)}",
                         "the target has the input's shape", "fill the target with -1")
    if target.dtype is not int64:
        raise DtypeError("multilabel_margin_loss", f"target of dtype {target.dtype.name}", "classes are int64",
                         "convert them with .long()")
    target, classes = target.reshape(tuple(rows.shape)), rows.shape[1]
    if target._device_state.holds_data:
        run_check(_check_classes, target, classes)
    loss = call(COMPOSITES["label_margins"], rows, target)
    return reduced(loss if input.ndim == 2 else loss.reshape(()), reduction, "multilabel_margin_loss")


def _label_gaps(input: Any, target: Any) -> tuple[Any, Any, Any]:
    """Return for right classes [N, C, 1] and wrong ones [N, 1, C] by how much these score too high, where that counts,
    and the right classes.
    """
    classes = input.shape[1]
    listed = (target < 0).cumsum(1) == 0
    index = target.masked_fill(~listed, 0).clamp(0, classes - 1)
    right = (index.unsqueeze(2) == input.new_arange(0, classes, 1)).logical_and(listed.unsqueeze(2)).any(1)
    gaps = 1 - call(gather_valid, input, 1, index).unsqueeze(2) + input.unsqueeze(1)
    return gaps, (gaps > 0) & listed.unsqueeze(2) & ~right.unsqueeze(1), index


def _label_margins_slope(grad: Any, input: Any, target: Any) -> Any:
    _, counts, index = _label_gaps(input, target)
    slopes = counts.to(input.dtype)
    total = call(scatter_valid, slopes.sum(1), 1, index, -slopes.sum(2), True)
    return total * (grad / input.shape[1]).unsqueeze(1)


@composite("label_margins(Tensor input, Tensor target) -> Tensor", method=False, function=False,
           derivative=Derivative(input=_label_margins_slope))
def label_margins(input: Any, target: Any) -> Any:
    """Return the loss of each row of ``multilabel_margin_loss``, [N], for scores and targets [N, C]."""
    gaps, counts, _ = _label_gaps(input, target)
    count, classes = input.shape
    return gaps.masked_fill(~counts, 0).reshape(count, classes * classes).sum(1) / classes


@composite(
    "multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, any reduction='mean') -> Tensor",
    method=False, namespace="nn.functional", hands_by_name=True,
    recomputed=Recomputed(saved=("input", "target", "weight")))
def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, reduction: Any = "mean") -> Any:
    """Return the binary cross entropy of sigmoid(input) for every class, averaged over the last dimension.

    Args:
        input: Logits, [..., C].
        target: Probabilities, of a shape that broadcasts with the input's.
        weight: A factor per class, broadcast.
        reduction: ``none`` (a value for each row), ``mean`` or ``sum``.
    """
    with blame("multilabel_soft_margin_loss"):
        terms = -(target * log_sigmoid(input) + (1 - target) * log_sigmoid(-input))
    terms = terms if weight is None else terms * weight
    return reduced(terms.sum(-1) / input.shape[-1], reduction, "multilabel_soft_margin_loss")
