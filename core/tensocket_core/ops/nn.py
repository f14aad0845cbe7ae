"""Operators of neural networks: softmax, losses, dropout, embedding."""

from __future__ import annotations

from typing import Any, Final

from tensocket_plugins.contract.dtypes import int64
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from .._generated import functions
from ..autograd.derivative import Derivative
from ..dispatch.blame import blame
from ..dispatch.call import call
from ..dispatch.composite import composite
from ..execute.geometry import normalize_axis
from ..execute.rows import Row
from ..random import rand_like
from .choices import extremes


def _softmax(row: Any, x: Any) -> Any:
    top = row.amax(x)
    total = row.sum(lambda j: row.m.exp(x(j) - top))
    return lambda j: row.m.exp(x(j) - top) / total


def _log_softmax(row: Any, x: Any) -> Any:
    top = row.amax(x)
    total = row.m.log(row.sum(lambda j: row.m.exp(x(j) - top)))
    return lambda j: (x(j) - top) - total


def _softmax_backward(row: Any, grad: Any, y: Any) -> Any:
    total = row.sum(lambda j: grad(j) * y(j))
    return lambda j: (grad(j) - total) * y(j)


def _log_softmax_backward(row: Any, grad: Any, y: Any) -> Any:
    total = row.sum(grad)
    return lambda j: grad(j) - row.m.exp(y(j)) * total


def _functions() -> Any:
    return functions


softmax_rows: Final = Row(
    "softmax_rows(Tensor input, int dim) -> Tensor",
    "exp(input) / sum(exp(input)) along dim.",
    _softmax,
    _functions,
    method=False,
    function=False,
    derivative=Derivative(input=lambda grad, result, dim: call(softmax_backward, grad, result, dim)),
)
log_softmax_rows: Final = Row(
    "log_softmax_rows(Tensor input, int dim) -> Tensor",
    "log(softmax(input)) along dim.",
    _log_softmax,
    _functions,
    method=False,
    function=False,
    derivative=Derivative(input=lambda grad, result, dim: call(log_softmax_backward, grad, result, dim)),
)
softmax_backward: Final[Row] = Row(
    "softmax_backward(Tensor upstream, Tensor output, int dim) -> Tensor",
    "Gradient of softmax.",
    _softmax_backward,
    _functions,
    method=False,
    function=False,
    derivative=Derivative(
        upstream=lambda grad, output, dim: call(softmax_backward, grad, output, dim),
        output=lambda grad, upstream, output, dim: (
            grad * (upstream - (upstream * output).sum(dim, True)) - upstream * (grad * output).sum(dim, True)
        ),
    ),
)
log_softmax_backward: Final[Row] = Row(
    "log_softmax_backward(Tensor upstream, Tensor output, int dim) -> Tensor",
    "Gradient of log_softmax.",
    _log_softmax_backward,
    _functions,
    method=False,
    function=False,
    derivative=Derivative(
        upstream=lambda grad, output, dim: grad - (grad * output.exp()).sum(dim, True),
        output=lambda grad, upstream, output, dim: -grad * output.exp() * upstream.sum(dim, True),
    ),
)


@composite("softmax(Tensor input, int dim, *, dtype? dtype=None) -> Tensor", direct=softmax_rows.direct)
def softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """exp(input) / sum(exp(input)) along ``dim``, without overflow."""
    return call(softmax_rows, input if dtype is None else input.to(dtype), dim)


@composite("log_softmax(Tensor input, int dim, *, dtype? dtype=None) -> Tensor", direct=log_softmax_rows.direct)
def log_softmax(input: Any, dim: int, *, dtype: Any = None) -> Any:
    """log(softmax(input)) along ``dim``, accurate for small probabilities."""
    return call(log_softmax_rows, input if dtype is None else input.to(dtype), dim)


def _reduced(loss: Any, reduction: str, operator: str) -> Any:
    if reduction == "mean":
        return loss.mean()
    if reduction == "sum":
        return loss.sum()
    if reduction == "none":
        return loss
    raise ArgumentError(
        operator, f"reduction={reduction!r}", "the reduction is 'none', 'mean' or 'sum'", "pass one of these"
    )


@composite(
    "nll_loss(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction='mean') -> Tensor",
    method=False,
    namespace="nn.functional",
)
def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Any:
    """Negative log likelihood: minus the log probability of each target class.

    Args:
        input: Log probabilities, [N, C], [C] or [N, C, d1, ...].
        target: Class indices, [N], [] or [N, d1, ...]; int64.
        weight: A factor per class, [C].
        ignore_index: Target value that counts for nothing.
        reduction: ``none``, ``mean`` (weighted) or ``sum``.
    """
    axis = 0 if input.ndim == 1 else 1
    expected = tuple(n for k, n in enumerate(input.shape) if k != axis)
    if input.ndim == 0 or tuple(target.shape) != expected:
        raise ShapeError(
            "nll_loss",
            f"input {list(input.shape)} and target {list(target.shape)}",
            "the target has the input's shape without the class dimension",
            "check the order of dimensions",
        )
    keep = target != ignore_index
    index = target.masked_fill(~keep, 0)
    factor = (
        keep.to(input.dtype)
        if weight is None
        else weight.index_select(0, index.reshape(-1)).reshape(index.shape) * keep
    )
    with blame("nll_loss"):
        loss = -(input.gather(axis, index.unsqueeze(axis)).squeeze(axis)) * factor
    return loss.sum() / factor.sum() if reduction == "mean" else _reduced(loss, reduction, "nll_loss")


@composite(
    "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction='mean', "
    "float label_smoothing=0.0) -> Tensor",
    method=False,
    namespace="nn.functional",
)
def cross_entropy(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean",
                  label_smoothing: float = 0.0) -> Any:
    """Cross entropy between logits and targets: nll_loss(log_softmax(input), target).

    Args:
        input: Logits, [N, C], [C] or [N, C, d1, ...].
        target: Class indices (int64), or probabilities of the input's shape (floating point).
        weight: A factor per class, [C].
        ignore_index: Target value that counts for nothing; for class indices only.
        reduction: ``none``, ``mean`` (weighted) or ``sum``.
        label_smoothing: Share of the target that is spread evenly over the classes, 0 to 1.
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(
            "cross_entropy",
            f"label_smoothing={label_smoothing}",
            "label smoothing lies between 0 and 1",
            "pass a value in that range",
        )
    axis = 0 if input.ndim == 1 else 1
    log_probabilities = input.log_softmax(axis)
    if target.dtype.is_floating_point:
        return _soft_cross_entropy(log_probabilities, target, weight, reduction, label_smoothing, axis)
    loss = functions.nll_loss(log_probabilities, target, weight, ignore_index, reduction)
    if label_smoothing == 0.0:
        return loss
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
        smooth = _reduced(smooth, reduction, "cross_entropy")
    return (1 - label_smoothing) * loss + label_smoothing * smooth


def _class_shape(weight: Any, rank: int, axis: int) -> Any:
    return weight.reshape(tuple(-1 if k == axis else 1 for k in range(rank)))


def _soft_cross_entropy(
    log_probabilities: Any, target: Any, weight: Any, reduction: str, smoothing: float, axis: int
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
    return loss.sum() / max(loss.numel(), 1) if reduction == "mean" else _reduced(loss, reduction, "cross_entropy")


@composite(
    "mse_loss(Tensor input, Tensor target, *, str reduction='mean') -> Tensor", method=False, namespace="nn.functional"
)
def mse_loss(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Squared difference."""
    difference = input - target
    return _reduced(difference * difference, reduction, "mse_loss")


@composite(
    "l1_loss(Tensor input, Tensor target, *, str reduction='mean') -> Tensor", method=False, namespace="nn.functional"
)
def l1_loss(input: Any, target: Any, *, reduction: str = "mean") -> Any:
    """Absolute difference."""
    return _reduced((input - target).abs(), reduction, "l1_loss")


@composite("dropout(Tensor input, float p=0.5, bool training=True) -> Tensor", method=False, namespace="nn.functional")
def dropout(input: Any, p: float = 0.5, training: bool = True) -> Any:
    """Zeros with probability ``p``, everything else divided by 1 - p; the identity when not training."""
    if not 0.0 <= p <= 1.0:
        raise ArgumentError("dropout", f"p={p}", "a probability lies between 0 and 1", "pass a value in that range")
    if not training or p == 0.0:
        return input
    if p == 1.0:
        return input * 0
    keep = rand_like(input) >= p
    return input * keep * (1 / (1 - p))


@composite("embedding(Tensor input, Tensor weight) -> Tensor", method=False, namespace="nn.functional")
def embedding(input: Any, weight: Any) -> Any:
    """Rows of ``weight`` [V, D] at integer indices of any shape; the result has shape [*input.shape, D]."""
    if weight.ndim != 2:
        raise ShapeError(
            "embedding", f"weight {list(weight.shape)}", "the weight is a matrix", "pass a tensor of shape [V, D]"
        )
    with blame("embedding"):
        rows = weight.index_select(0, input.reshape(-1))
    return rows.reshape((*input.shape, weight.shape[1]))


@composite("one_hot(Tensor input, int num_classes=-1) -> Tensor", method=False, namespace="nn.functional")
def one_hot(input: Any, num_classes: int = -1) -> Any:
    """int64 ones at the given classes along a new last dimension.

    Raises:
        DtypeError: The classes are not int64.
        ArgumentError: A class is negative or not below ``num_classes``, or there are none to count.
    """
    if input.dtype is not int64:
        raise DtypeError(
            "one_hot", f"classes of dtype {input.dtype.name}", "classes are int64", "convert them with .long()"
        )
    if num_classes == -1 and input.numel() == 0:
        raise ArgumentError(
            "one_hot",
            f"classes of shape {list(input.shape)}",
            "the number of classes cannot be counted",
            "pass num_classes",
        )
    classes = int(input.amax().item()) + 1 if num_classes == -1 else num_classes
    if input.numel() and input._entry.holds_data:
        low, high = extremes(input)
        if not 0 <= low <= high < classes:
            raise ArgumentError("one_hot", f"classes from {low} to {high} of {classes}",
                                "classes lie between 0 and num_classes - 1", "pass a larger num_classes")
    return (input.unsqueeze(-1) == input.new_arange(0, classes, 1)).to(input.dtype)


@composite(
    "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, "
    "float eps=1e-05) -> Tensor",
    method=False,
    namespace="nn.functional",
)
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """(input - mean) / sqrt(var + eps) over the last dimensions, times weight plus bias."""
    shape = tuple(normalized_shape)
    if not shape or tuple(input.shape[-len(shape):]) != shape:
        raise ShapeError("layer_norm", f"input {list(input.shape)} and normalized_shape {list(shape)}",
                         "the normalized shape is the end of the input's shape", "check the layer's size")
    dims = tuple(normalize_axis("layer_norm", k - len(shape), input.ndim) for k in range(len(shape)))
    centred = input - input.mean(dims, True)
    result = centred * ((centred * centred).mean(dims, True) + eps).rsqrt()
    result = result if weight is None else result * weight
    return result if bias is None else result + bias
