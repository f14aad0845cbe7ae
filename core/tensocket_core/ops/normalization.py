"""Normalisation: values brought to mean 0 and variance 1 over some dimensions, then scaled and shifted.

Rows (layers, groups, instances) are one kernel each way; statistics over a batch are reductions. The derivative of
``y = (x - mean) * r`` with ``r = 1 / sqrt(var + eps)`` in the direction g is ``r * (g - mean(g) - y * mean(g * y))``,
which is symmetric, so that the gradient is the same function.
"""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_plugins.contract.errors import ArgumentError, ShapeError

from .._generated import functions
from ..autograd.derivative import Derivative
from ..dispatch.blame import blame
from ..dispatch.call import call
from ..dispatch.composite import composite
from ..execute.math import arithmetic_dtype
from ..execute.rows import Row
from ..limits import finfo


def _standardize(row: Any, x: Any, eps: Any) -> Any:
    mean = row.mean(x)
    scale = 1 / row.m.sqrt(row.mean(lambda j: (x(j) - mean) * (x(j) - mean)) + eps)
    return lambda j: (x(j) - mean) * scale


def _standardize_gradient(row: Any, grad: Any, x: Any, eps: Any) -> Any:
    mean = row.mean(x)
    scale = 1 / row.m.sqrt(row.mean(lambda j: (x(j) - mean) * (x(j) - mean)) + eps)
    shift = row.mean(grad)
    slope = row.mean(lambda j: grad(j) * ((x(j) - mean) * scale))
    return lambda j: scale * ((grad(j) - shift) - (x(j) - mean) * scale * slope)


def _rms(row: Any, x: Any, eps: Any) -> Any:
    scale = 1 / row.m.sqrt(row.mean(lambda j: x(j) * x(j)) + eps)
    return lambda j: x(j) * scale


def _rms_gradient(row: Any, grad: Any, x: Any, eps: Any) -> Any:
    scale = 1 / row.m.sqrt(row.mean(lambda j: x(j) * x(j)) + eps)
    slope = row.mean(lambda j: grad(j) * (x(j) * scale))
    return lambda j: scale * (grad(j) - x(j) * scale * slope)


def _functions() -> Any:
    return functions


_HIDDEN: Final[dict[str, Any]] = {"method": False, "function": False}

standardize_rows: Final = Row(
    "standardize_rows(Tensor input, float eps, int dim) -> Tensor",
    "(input - mean) / sqrt(var + eps) along dim.",
    _standardize, _functions, **_HIDDEN,
    derivative=Derivative(input=lambda grad, input, eps, dim: call(standardize_backward, grad, input, eps, dim)),
)
standardize_backward: Final[Row] = Row(
    "standardize_backward(Tensor upstream, Tensor input, float eps, int dim) -> Tensor",
    "Gradient of standardize_rows.",
    _standardize_gradient, _functions, **_HIDDEN,
    derivative=Derivative(
        upstream=lambda grad, input, eps, dim: call(standardize_backward, grad, input, eps, dim),
        input=lambda grad, upstream, input, eps, dim: _curvature(grad, upstream, input, eps, dim, True)),
)
rms_rows: Final = Row(
    "rms_rows(Tensor input, float eps, int dim) -> Tensor",
    "input / sqrt(mean(input²) + eps) along dim.",
    _rms, _functions, **_HIDDEN,
    derivative=Derivative(input=lambda grad, input, eps, dim: call(rms_backward, grad, input, eps, dim)),
)
rms_backward: Final[Row] = Row(
    "rms_backward(Tensor upstream, Tensor input, float eps, int dim) -> Tensor",
    "Gradient of rms_rows.",
    _rms_gradient, _functions, **_HIDDEN,
    derivative=Derivative(
        upstream=lambda grad, input, eps, dim: call(rms_backward, grad, input, eps, dim),
        input=lambda grad, upstream, input, eps, dim: _curvature(grad, upstream, input, eps, dim, False)),
)


def _curvature(v: Any, g: Any, x: Any, eps: float, dim: int, centred: bool) -> Any:
    """Gradient of <v, J(x) g>, where J is the derivative of the normalisation."""
    forward, backward = (standardize_rows, standardize_backward) if centred else (rms_rows, rms_backward)
    y = call(forward, x, eps, dim)
    middle = x - x.mean(dim, True) if centred else x
    scale = (middle.square().mean(dim, True) + eps).rsqrt()
    along_v, along_g = (v * y).mean(dim, True), (g * y).mean(dim, True)
    common = (v * g).mean(dim, True) - along_v * along_g
    if centred:
        common = common - v.mean(dim, True) * g.mean(dim, True)
    turned = along_g * call(backward, v, x, eps, dim) + along_v * call(backward, g, x, eps, dim)
    return -scale * (common * scale * y + turned)


# --------------------------------------------------------------------------------------------- layers and groups


def _scaled(result: Any, weight: Any, bias: Any, input: Any) -> Any:
    """``result * weight + bias`` in the input's dtype."""
    if weight is not None and bias is not None:
        result = functions.addcmul(bias, result, weight)
    elif weight is not None:
        result = result * weight
    elif bias is not None:
        result = result + bias
    return result if result.dtype is input.dtype else result.to(input.dtype)


def _over_last(record: Row, input: Any, count: int, eps: float) -> Any:
    """A row operator over the last dimensions, taken as one."""
    if count == 1:
        return call(record, input, eps, -1)
    shape = tuple(input.shape)
    rows = (*shape[:len(shape) - count], math.prod(shape[len(shape) - count:]))
    return call(record, input.reshape(rows), eps, -1).reshape(shape)


def _check_end(operator: str, input: Any, shape: tuple[int, ...], weight: Any, bias: Any) -> None:
    if not shape or tuple(input.shape[-len(shape):]) != shape:
        raise ShapeError(operator, f"input {list(input.shape)} and normalized_shape {list(shape)}",
                         "the normalized shape is the end of the input's shape", "check the layer's size")
    for name, x in (("weight", weight), ("bias", bias)):
        if x is not None and tuple(x.shape) != shape:
            raise ShapeError(operator, f"{name} {list(x.shape)} and normalized_shape {list(shape)}",
                             "weight and bias have the normalized shape", "check the layer's size")


@composite(
    "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
    "bool cudnn_enable=True) -> Tensor",
    method=False,
)
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enable: bool = True) -> Any:
    """(input - mean) / sqrt(var + eps) over the last dimensions, times weight plus bias.

    Args:
        input: A tensor whose shape ends with ``normalized_shape``.
        normalized_shape: Sizes of the dimensions that are normalised.
        weight: Factors, of that shape.
        bias: What is added, of that shape.
        eps: Added to the variance.
        cudnn_enable: Without effect.

    Raises:
        ShapeError: The shapes do not fit.
    """
    shape = tuple(normalized_shape)
    _check_end("layer_norm", input, shape, weight, bias)
    with blame("layer_norm"):
        return _scaled(_over_last(standardize_rows, input, len(shape), eps), weight, bias, input)


@composite("rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
           method=False)
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Input / sqrt(mean(input²) + eps) over the last dimensions, times weight.

    Args:
        input: A tensor whose shape ends with ``normalized_shape``; complex numbers are squared as they are.
        normalized_shape: Sizes of the dimensions that are normalised.
        weight: Factors, of that shape.
        eps: Added to the mean square; by default the distance from 1 to the next number that is computed with.

    Raises:
        ShapeError: The shapes do not fit.
    """
    shape = tuple(normalized_shape)
    _check_end("rms_norm", input, shape, weight, None)
    with blame("rms_norm"):
        small = finfo(arithmetic_dtype(input.dtype)).eps if eps is None else eps
        if input.dtype.is_complex:
            squares = (input * input).mean(tuple(range(input.ndim - len(shape), input.ndim)), True)
            return _scaled(input * (squares + small).rsqrt(), weight, None, input)
        return _scaled(_over_last(rms_rows, input, len(shape), small), weight, None, input)


@composite(
    "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
    "(Tensor, Tensor, Tensor)",
    method=False,
)
def native_layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """(layer_norm(input), mean, 1 / sqrt(var + eps)); statistics have no gradient.

    Raises:
        ShapeError: The shapes do not fit.
    """
    result = layer_norm(input, normalized_shape, weight, bias, eps)
    dims = tuple(range(input.ndim - len(tuple(normalized_shape)), input.ndim))
    return result, *_statistics(input.detach(), dims, eps, True)


def _statistics(input: Any, dims: tuple[int, ...], eps: float, keepdim: bool) -> tuple[Any, Any]:
    """Mean and reciprocal standard deviation."""
    return input.mean(dims, keepdim), (input.var(dims, keepdim=keepdim, correction=0) + eps).rsqrt()


def _by_channel(x: Any, rank: int) -> Any:
    """Values per channel, to go with [N, C, ...]."""
    return None if x is None else x.reshape((1, -1, *(1 for _ in range(rank - 2))))


@composite(
    "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
    "bool cudnn_enabled=True) -> Tensor",
    method=False,
)
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enabled: bool = True) -> Any:
    """(input - mean) / sqrt(var + eps) over each group of channels, times weight plus bias.

    Args:
        input: [N, C, ...].
        num_groups: Groups of equal size that the channels are divided into.
        weight: A factor per channel, [C].
        bias: What is added per channel, [C].
        eps: Added to the variance.
        cudnn_enabled: Without effect.

    Raises:
        ShapeError: The shapes do not fit.
    """
    if input.ndim < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise ShapeError("group_norm", f"input {list(input.shape)} in {num_groups} groups",
                         "the input is [N, C, ...] and the groups divide its channels", "check num_groups")
    _check_channels("group_norm", input, weight=weight, bias=bias)
    shape = tuple(input.shape)
    rows = (shape[0], num_groups, math.prod(shape[1:]) // num_groups)
    with blame("group_norm"):
        result = call(standardize_rows, input.reshape(rows), eps, -1).reshape(shape)
        return _scaled(result, _by_channel(weight, input.ndim), _by_channel(bias, input.ndim), input)


@composite(
    "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) -> "
    "(Tensor, Tensor, Tensor)",
    method=False,
)
def native_group_norm(input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    """(group_norm(input), mean, 1 / sqrt(var + eps)) of N examples of C channels with HxW elements each.

    Raises:
        ShapeError: The shapes do not fit.
    """
    if input.numel() != N * C * HxW:
        raise ShapeError("native_group_norm", f"input {list(input.shape)} for N={N}, C={C}, HxW={HxW}",
                         "the input has N * C * HxW elements", "pass the sizes of the input")
    result = group_norm(input, group, weight, bias, eps)
    return result, *_statistics(input.reshape(N, group, C * HxW // max(group, 1)), (2,), eps, False)


def _check_channels(operator: str, input: Any, **values: Any) -> None:
    if input.ndim < 2:
        raise ShapeError(operator, f"input {list(input.shape)}", "channels are the second dimension",
                         "pass [N, C, ...]")
    for name, x in values.items():
        if x is not None and tuple(x.shape) != (input.shape[1],):
            raise ShapeError(operator, f"{name} {list(x.shape)} for {input.shape[1]} channels",
                             "weights and statistics have one value for each channel", "check num_features")


def check_running(operator: str, training: bool, mean: Any, var: Any) -> None:
    """Statistics of earlier batches are given where they are what is normalised with.

    Raises:
        ArgumentError: They are missing.
    """
    if not training and (mean is None or var is None):
        raise ArgumentError(operator, "no running_mean or running_var", "statistics are given where the batch's are "
                            "not used", "pass both, or normalise with the batch's own")


@composite("local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor",
           method=False, namespace="nn.functional")
def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """Input / (k + alpha * mean of input² over ``size`` neighbouring channels) ** beta, with zeros beyond the edges.

    Raises:
        ShapeError: The input has fewer than three dimensions.
    """
    if input.ndim < 3:
        raise ShapeError("local_response_norm", f"input {list(input.shape)}", "the input has at least three dimensions",
                         "pass [N, C, ...]")
    if input.numel() == 0:
        return input
    squares = input * input
    before, after = size // 2, (size - 1) // 2
    edges = [squares.new_zeros((input.shape[0], n, *input.shape[2:])) for n in (before, after)]
    with blame("local_response_norm"):
        window = functions.cat([edges[0], squares, edges[1]], 1).unfold(1, size, 1)
        window = window.mean(-1) if input.dtype.category > 1 else window.sum(-1).floor_divide(size)
    return input / (window * alpha + k) ** beta
