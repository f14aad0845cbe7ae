"""Normalisation, with PyTorch's signatures."""

# The operators of the core are generated and typed Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tensocket.errors import ArgumentError
from tensocket_operators import Tensor
from tensocket_operators import functions as ops

local_response_norm: Callable[..., Tensor] = ops.local_response_norm


def layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
               bias: Tensor | None = None, eps: float = 1e-5) -> Tensor:
    """Normalise to zero mean and unit variance over the last dimensions, then multiply by ``weight`` and add ``bias``.

    Raises:
        ShapeError: ``normalized_shape`` is not the end of the input's shape.
    """
    return ops.layer_norm(input, tuple(normalized_shape), weight, bias, eps)


def rms_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None,
             eps: float | None = None) -> Tensor:
    """Normalise to unit mean square over the last dimensions, then multiply by ``weight``.

    Raises:
        ShapeError: ``normalized_shape`` is not the end of the input's shape.
    """
    return ops.rms_norm(input, tuple(normalized_shape), weight, eps)


def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
               bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """Normalise each channel of (N, C, ...) to zero mean and unit variance, then multiply by ``weight`` and add
    ``bias``.

    Args:
        input: (N, C, ...).
        running_mean: Mean of earlier batches, (C); changed in place while training.
        running_var: Variance of earlier batches, likewise.
        weight: A factor per channel.
        bias: The number to add per channel.
        training: Whether the batch's own statistics are used.
        momentum: Share of this batch in the new running statistics.
        eps: Added to the variance.

    Raises:
        ArgumentError: Training has a single value per channel, or ``eps`` is out of range.
        ShapeError: The shapes do not fit.
    """
    if training:
        _check_count("batch_norm", input, (0, *range(2, input.dim())), "value per channel")
    if eps < 0 or (training and eps == 0):
        raise ArgumentError("batch_norm", f"eps={eps}", "eps is positive, or zero out of training",
                            "pass a small positive number")
    return ops.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, False)


def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
                  weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True,
                  momentum: float = 0.1, eps: float = 1e-5) -> Tensor:
    """Normalise each channel of each example of (N, C, ...), then multiply by ``weight`` and add ``bias``.

    Args:
        input: (N, C, ...).
        running_mean: Mean of earlier instances, (C); changed in place with the input's own statistics.
        running_var: Variance of earlier instances, likewise.
        weight: A factor per channel.
        bias: The number to add per channel.
        use_input_stats: Whether the input's own statistics are used.
        momentum: Share of this batch in the new running statistics.
        eps: Added to the variance.

    Raises:
        ArgumentError: There is a single value per channel.
        ShapeError: The shapes do not fit.
    """
    if use_input_stats:
        _check_count("instance_norm", input, range(2, input.dim()), "spatial element")
    return ops.instance_norm(input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, False)


def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
               eps: float = 1e-5) -> Tensor:
    """Normalise each group of channels of (N, C, ...), then multiply by ``weight`` and add ``bias``.

    Raises:
        ArgumentError: Each group is a single value.
        ShapeError: The shapes do not fit.
    """
    if input.dim() >= 2 and num_groups > 0 and math.prod(input.shape) // num_groups == 1:
        raise ArgumentError("group_norm", f"input {list(input.shape)} in {num_groups} groups",
                            "more than one value per group is normalised", "use fewer groups")
    return ops.group_norm(input, num_groups, weight, bias, eps)


def normalize(input: Tensor, p: float = 2.0, dim: int | Sequence[int] = 1, eps: float = 1e-12,
              out: Tensor | None = None) -> Tensor:
    """Return ``input / max(|input|_p, eps)`` with the p-norm along ``dim``."""
    return ops.normalize(input, p, dim if isinstance(dim, int) else tuple(dim), eps, out=out)


def _check_count(operator: str, input: Tensor, dims: Sequence[int], count: str) -> None:
    """Refuse statistics of single values.

    Raises:
        ArgumentError: There is one value for each statistic.
    """
    shape = tuple(input.shape)
    if len(shape) >= 2 and math.prod([shape[d] for d in dims]) == 1:
        raise ArgumentError(operator, f"input {list(input.shape)}", f"Expected more than 1 {count} when training, got "
                            f"input size {input.shape}", "use a larger batch, or evaluation mode")
