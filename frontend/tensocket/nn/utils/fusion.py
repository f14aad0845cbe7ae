"""Fusion of layers with the batch normalisation that follows them, for evaluation."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from tensocket.errors import ArgumentError
from tensocket.nn.modules.module import Module
from tensocket.nn.parameter import Parameter
from tensocket_operators import Tensor, ones_like, zeros_like

Layer = TypeVar("Layer", bound=Module)


def fuse_conv_bn_eval(conv: Layer, bn: Any, transpose: bool = False) -> Layer:
    """Return a copy of a convolution that computes both steps in evaluation.

    Args:
        conv: The convolution.
        bn: The batch normalisation of its outputs.
        transpose: Whether the convolution is transposed.

    Raises:
        ArgumentError: One of them is in training, or the normalisation tracks no statistics.
    """
    return _fused(conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Layer, bn: Any) -> Layer:
    """Return a copy of a linear layer that computes both steps in evaluation.

    Raises:
        ArgumentError: One of them is in training, the normalisation tracks no statistics, or the sizes differ.
    """
    width = linear.out_features
    if bn.num_features not in (1, width):
        raise ArgumentError("fuse_linear_bn_eval", f"{width} features before {bn.num_features}", "the normalisation "
                            "has the layer's number of features, or one", "fuse layers that follow each other")
    return _fused(linear, bn, 0)


def _fused(layer: Layer, bn: Any, dim: int) -> Layer:
    if layer.training or bn.training:
        raise ArgumentError("fuse", "a layer in training", "layers are fused for evaluation", "call eval() first")
    if bn.running_mean is None or bn.running_var is None:
        raise ArgumentError("fuse", "a batch normalisation without statistics", "the statistics of training are part "
                            "of the fused layer", "use track_running_stats=True")
    result: Any = copy.deepcopy(layer)
    result.weight, result.bias = _fused_weights(result.weight, result.bias, bn.running_mean, bn.running_var, bn.eps,
                                                bn.weight, bn.bias, dim)
    fused: Layer = result
    return fused


def fuse_conv_bn_weights(
    conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor | None,
    bn_b: Tensor | None, transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a convolution that includes the normalisation.

    Args:
        conv_w: Its weight.
        conv_b: Its bias.
        bn_rm: Means, one for each output channel.
        bn_rv: Variances.
        bn_eps: Added to variances.
        bn_w: The normalisation's scale.
        bn_b: The normalisation's shift.
        transpose: Whether the convolution is transposed.
    """
    return _fused_weights(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(
    linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float, bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a linear layer that includes the normalisation; same arguments as above."""
    return _fused_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fused_weights(weight: Tensor, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float, scale: Tensor | None,
                   shift: Tensor | None, dim: int) -> tuple[Parameter, Parameter]:
    """Return the weight and bias for ``scale * (x - mean) / sqrt(var + eps) + shift`` of outputs along ``dim``."""
    bias_learns = weight.requires_grad if bias is None else bias.requires_grad
    bias = zeros_like(mean) if bias is None else bias
    scale = ones_like(mean) if scale is None else scale
    shift = zeros_like(mean) if shift is None else shift
    factor = scale * (var + eps).rsqrt()
    shape = [1] * weight.dim()
    shape[dim] = -1
    new = (weight * factor.reshape(shape)).to(weight.dtype), ((bias - mean) * factor + shift).to(bias.dtype)
    return Parameter(new[0], weight.requires_grad), Parameter(new[1], bias_learns)


__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]
