"""Normalization and dropout."""

from __future__ import annotations

from typing import Any

import tensocket as torch
from tensocket.nn import functional as F

from .table import operator, results
from .values import DTYPES, axes_in, axis_in, number


def _channels(x: Any, value: Any) -> Any:
    return value.reshape(1, -1, *[1] * (x.dim() - 2))


@operator("BatchNormalization", counts=True)
def batch_norm(x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float = 1e-5, momentum: float = 0.9,
               training_mode: int = 0, spatial: int = 1, is_test: int = 0, outputs: int = 1) -> Any:
    """Return x, normalized by given statistics; in training by those of x, and new running statistics."""
    if not training_mode:
        if x.dtype is scale.dtype is mean.dtype:
            return F.batch_norm(x, mean, var, scale, bias, False, eps=epsilon)
        root = torch.sqrt(_channels(x, var) + epsilon)
        return ((x - _channels(x, mean)) / root * _channels(x, scale) + _channels(x, bias)).to(x.dtype)
    dims = [0, *range(2, x.dim())]
    now, spread = x.mean(dims), x.var(dims, unbiased=False)
    y = (x - _channels(x, now)) / torch.sqrt(_channels(x, spread) + epsilon) * _channels(x, scale) + _channels(x, bias)
    kept = [(old * momentum + new * (1 - momentum)).to(old.dtype) for old, new in ((mean, now), (var, spread))]
    return results([y.to(x.dtype), *kept], outputs)


@operator("InstanceNormalization")
def instance_norm(x: Any, scale: Any, bias: Any, epsilon: float = 1e-5) -> Any:
    """Return each channel of each example, normalized."""
    return F.instance_norm(x, weight=scale, bias=bias, eps=epsilon)


def _standardized(x: Any, dims: list[int], epsilon: float, stash_type: int) -> tuple[Any, Any, Any]:
    """Return x less its mean, over its deviation, in the dtype of the computation; mean and 1 / deviation."""
    wide = x.to(DTYPES[stash_type]) if x.dtype in (torch.float16, torch.bfloat16) else x
    mean = wide.mean(dims, True)
    centred = wide - mean
    inverse = torch.rsqrt((centred * centred).mean(dims, True) + epsilon)
    return centred * inverse, mean, inverse


@operator("LayerNormalization", counts=True)
def layer_norm(x: Any, scale: Any, bias: Any = None, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1,
               outputs: int = 1) -> Any:
    """Return x, normalized over its last dimensions, and on request mean and inverse deviation."""
    dims = list(range(axis_in(axis, x.dim()), x.dim()))
    shape = [x.shape[d] for d in dims]
    if outputs == 1 and list(scale.shape) == shape and (bias is None or list(bias.shape) == shape):
        return F.layer_norm(x, shape, scale, bias, epsilon)
    found, mean, inverse = _standardized(x, dims, epsilon, stash_type)
    y = found.to(x.dtype) * scale
    return results([y if bias is None else y + bias, mean, inverse], outputs)


@operator("RMSNormalization")
def rms_norm(x: Any, scale: Any, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """Return x over the root of the mean of its squares along its last dimensions, times a scale."""
    dims = list(range(axis_in(axis, x.dim()), x.dim()))
    wide = x.to(DTYPES[stash_type]) if x.dtype in (torch.float16, torch.bfloat16) else x
    return (wide * torch.rsqrt((wide * wide).mean(dims, True) + epsilon)).to(x.dtype) * scale


@operator("GroupNormalization", since=18)
def group_norm_of_groups(x: Any, scale: Any, bias: Any, num_groups: int, epsilon: float = 1e-5) -> Any:
    """Return groups of channels, normalized; scale and bias belong to groups, as before version 21."""
    each = x.shape[1] // num_groups
    return group_norm(x, scale.repeat_interleave(each), bias.repeat_interleave(each), num_groups, epsilon)


@operator("GroupNormalization", since=21)
def group_norm(x: Any, scale: Any, bias: Any, num_groups: int, epsilon: float = 1e-5, stash_type: int = 1) -> Any:
    """Return groups of channels, normalized; scale and bias belong to channels."""
    return F.group_norm(x, num_groups, scale, bias, epsilon)


@operator("LpNormalization")
def lp_norm(x: Any, axis: int = -1, p: int = 2) -> Any:
    """Return x over its p-norm along an axis; 0 where that is 0."""
    norm = x.abs().sum(axis, True) if p == 1 else torch.sqrt((x * x).sum(axis, True))
    return torch.where(norm == 0, torch.zeros_like(x), x / torch.where(norm == 0, torch.ones_like(norm), norm))


@operator("MeanVarianceNormalization")
def mean_variance_norm(x: Any, axes: Any = (0, 2, 3)) -> Any:
    """Return (x - mean) / (deviation + 1e-9), over axes."""
    dims = axes_in(list(axes), x.dim())
    mean = x.mean(dims, True)
    return (x - mean) / (torch.sqrt((x * x).mean(dims, True) - mean * mean) + 1e-9)


@operator("LRN")
def local_response_norm(x: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    """Return x over a power of the sum of squares of nearby channels."""
    widths = [0, 0] * (x.dim() - 2) + [(size - 1) // 2, size // 2]
    squares = F.pad(x * x, widths).unfold(1, size, 1).sum(-1)
    return x / (bias + alpha / size * squares) ** beta


@operator("Dropout", counts=True)
def dropout_by_attribute(x: Any, ratio: float = 0.5, is_test: int = 0, outputs: int = 1) -> Any:
    """Return x and a mask of ones: before version 12, models are for inference."""
    return results([x, torch.ones_like(x, dtype=torch.bool)], outputs)


@operator("Dropout", since=12, counts=True)
def dropout(x: Any, ratio: Any = None, training_mode: Any = None, seed: int | None = None, outputs: int = 1) -> Any:
    """Return x, in training with elements set to 0 at random and the others scaled, and the mask of those."""
    share = float(number(ratio, 0.5))
    if not number(training_mode, False) or share == 0:
        return results([x, torch.ones_like(x, dtype=torch.bool)], outputs)
    generator = None if seed is None else torch.Generator(x.device).manual_seed(seed)
    mask = torch.rand(x.shape, generator=generator, device=x.device) >= share
    return results([x * mask.to(x.dtype) / (1 - share), mask], outputs)
