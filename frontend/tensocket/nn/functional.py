"""Functions of neural networks, with PyTorch's signatures."""

# The operators of the core are generated and typed Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from tensocket.errors import ArgumentError
from tensocket_core import Tensor
from tensocket_core import functions as ops

from .activations import (
    celu,
    celu_,
    elu,
    elu_,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
    threshold_,
)
from .spatial import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    affine_grid,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    channel_shuffle,
    conv1d,
    conv2d,
    conv3d,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    fold,
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
    grid_sample,
    interpolate,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
    native_channel_shuffle,
    pad,
    pixel_shuffle,
    pixel_unshuffle,
    unfold,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)

Reduction = Literal["mean", "sum", "none"]

# ---- layers


linear: Callable[..., Tensor] = ops.linear


def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Rows of ``weight`` at integer indices; the row ``padding_idx`` gets no gradient.

    Raises:
        ShapeError: The weight is no matrix.
        ArgumentError: ``padding_idx`` is not one of its rows.
    """
    rows = ops.embedding(input, weight)
    if padding_idx is None:
        return rows
    count = weight.shape[0]
    if not -count <= padding_idx < count:
        raise ArgumentError("embedding", f"padding_idx={padding_idx} for {count} rows", "padding_idx is one of the "
                            "rows", f"pass an index from {-count} to {count - 1}")
    padding = (input == padding_idx % count).unsqueeze(-1)
    return ops.where(padding, rows.detach(), rows)


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeros with probability ``p`` while training, everything else divided by ``1 - p``.

    Raises:
        ArgumentError: ``p`` is not a probability.
    """
    result = ops.dropout(input, p, training)
    return input.copy_(result) if inplace and result is not input else result


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Zero mean and unit variance over the last dimensions, times ``weight`` plus ``bias``.

    Raises:
        ShapeError: ``normalized_shape`` is not the end of the input's shape.
    """
    return ops.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


# ---- activations; the others are in ``activations``


def gelu(input: Tensor, approximate: Literal["none", "tanh"] = "none") -> Tensor:
    """``input * Phi(input)`` with the normal distribution function, or its approximation through tanh."""
    return ops.gelu(input, approximate=approximate)


# ---- losses


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: None = None,
    ignore_index: int = -100,
    reduce: None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Negative log likelihood of (N, C, ...) log probabilities for (N, ...) class indices.

    Args:
        input: Log probabilities.
        target: Class indices, int64.
        weight: A weight for each class.
        size_average: Replaced by ``reduction``.
        ignore_index: Elements with this class do not count.
        reduce: Replaced by ``reduction``.
        reduction: ``mean`` (weighted), ``sum`` or ``none``.

    Raises:
        ShapeError: The shapes do not fit.
        ArgumentError: ``reduction`` is none of the three.
    """
    check_legacy("nll_loss", size_average, reduce)
    return ops.nll_loss(input, target, weight, ignore_index, reduction)


def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: None = None,
    ignore_index: int = -100,
    reduce: None = None,
    reduction: Reduction = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of (N, C, ...) logits for (N, ...) class indices or (N, C, ...) probabilities.

    Args:
        input: Logits.
        target: Class indices (int64) or probabilities.
        weight: A weight for each class.
        size_average: Replaced by ``reduction``.
        ignore_index: Elements with this class do not count.
        reduce: Replaced by ``reduction``.
        reduction: ``mean`` (weighted), ``sum`` or ``none``.
        label_smoothing: How much of the target is spread over all classes.

    Raises:
        ShapeError: The shapes do not fit.
        ArgumentError: ``reduction`` or ``label_smoothing`` is out of its range.
    """
    check_legacy("cross_entropy", size_average, reduce)
    return ops.cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing)


def mse_loss(
    input: Tensor, target: Tensor, size_average: None = None, reduce: None = None, reduction: Reduction = "mean"
) -> Tensor:
    """``(input - target)²``.

    Raises:
        ArgumentError: ``reduction`` is none of the three.
    """
    check_legacy("mse_loss", size_average, reduce)
    return ops.mse_loss(input, target, reduction=reduction)


def l1_loss(
    input: Tensor, target: Tensor, size_average: None = None, reduce: None = None, reduction: Reduction = "mean"
) -> Tensor:
    """``|input - target|``.

    Raises:
        ArgumentError: ``reduction`` is none of the three.
    """
    check_legacy("l1_loss", size_average, reduce)
    return ops.l1_loss(input, target, reduction=reduction)


def check_legacy(name: str, size_average: Any, reduce: Any) -> None:
    """Refuse the two arguments that ``reduction`` replaced.

    Raises:
        ArgumentError: One of them is given.
    """
    if size_average is not None or reduce is not None:
        raise ArgumentError(name, f"size_average={size_average!r}, reduce={reduce!r}", "these two were replaced by "
                            "reduction", "pass reduction='mean', 'sum' or 'none'")


# ---- vectors


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """int64 ones at the given classes along a new last dimension.

    Args:
        tensor: Class indices.
        num_classes: How many classes there are; one more than the largest index if -1.
    """
    return ops.one_hot(tensor, num_classes)


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """``input / max(|input|_p, eps)`` with the p-norm along ``dim``."""
    return input / ops.linalg_vector_norm(input, p, dim, True).clamp(min=eps)


__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices",
    "adaptive_max_pool2d",
    "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices",
    "affine_grid",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "celu",
    "celu_",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cross_entropy",
    "dropout",
    "elu",
    "elu_",
    "embedding",
    "fold",
    "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices",
    "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices",
    "gelu",
    "glu",
    "grid_sample",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "hardtanh_",
    "interpolate",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "leaky_relu_",
    "linear",
    "log_softmax",
    "logsigmoid",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_pool1d",
    "max_pool1d_with_indices",
    "max_pool2d",
    "max_pool2d_with_indices",
    "max_pool3d",
    "max_pool3d_with_indices",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
    "mish",
    "mse_loss",
    "native_channel_shuffle",
    "nll_loss",
    "normalize",
    "one_hot",
    "pad",
    "pixel_shuffle",
    "pixel_unshuffle",
    "prelu",
    "relu",
    "relu6",
    "relu_",
    "rrelu",
    "rrelu_",
    "selu",
    "selu_",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "tanh",
    "tanhshrink",
    "threshold",
    "threshold_",
    "unfold",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]
