"""Normalisation: scale values to mean 0 and variance 1 over some dimensions, then apply a factor and a summand."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.limits import finfo
from tensocket_plugins.contract.dtypes import bfloat16, float16, float32
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ...kinds.composite import composite
from ...reductions.value_checks import promoted_for_arithmetic
from ...unrolled.recomputed import Recomputed
from .grouped_norms import normalize_parts
from .row_norms import normalize_rms, normalize_rows

#: The shape of the input for the rows, a row's dims, and the shape of weight and bias; see ``normalize_parts``.
Form = tuple[tuple[int, ...] | None, tuple[int, ...], tuple[int, ...] | None]
_PARTS: Final = COMPOSITES[normalize_parts.__name__]
#: The last dimensions, by their number; every call uses the same objects.
_LAST: Final = tuple([tuple(range(-count, 0)) for count in range(65)])


def _scaled(result: Any, weight: Any, bias: Any, input: Any) -> Any:
    """Return ``result * weight + bias`` in the input's dtype."""
    if weight is not None and bias is not None:
        result = functions.addcmul(bias, result, weight)
    elif weight is not None:
        result = result * weight
    elif bias is not None:
        result = result + bias
    return result if result.dtype is input.dtype else result.to(input.dtype)


def _fits(input: Any, *parameters: Any) -> bool:
    """Whether factor and summand have the input's arithmetic dtype, so that one kernel computes everything."""
    dtype = input.dtype
    for x in parameters:
        if x is not None and x.dtype is not dtype and arithmetic_dtype(x.dtype) is not arithmetic_dtype(dtype):
            return False
    return True


def normalized(input: Any, dims: tuple[int, ...], weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Return (input - mean) / sqrt(var + eps) over ``dims``, times weight plus bias; mean and variance keep ``dims``.

    Args:
        input: A floating-point tensor.
        dims: Negative numbers of dimensions, in ascending order.
        weight: Factors that broadcast to the input's shape, or None.
        bias: Summands that broadcast to the input's shape, or None.
        eps: Added to the variance.
    """
    if _fits(input, weight, bias):
        result, mean, var = call(normalize_rows, input, weight, bias, eps, dims)
        return result, mean, var
    result, mean, var = call(normalize_rows, input, None, None, eps, dims)
    return _scaled(result, weight, bias, input), mean, var


def normalized_parts(input: Any, form: Form, weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    """Apply ``normalized`` to an input in another shape; see ``normalize_parts``."""
    if _fits(input, weight, bias):
        result, mean, var = call(_PARTS, input, weight, bias, eps, form)
        return result, mean, var
    result, mean, var = call(_PARTS, input, None, None, eps, form)
    return _scaled(result, _by_channel(weight, input.ndim), _by_channel(bias, input.ndim), input), mean, var


@lru_cache(maxsize=1024)
def _group_form(shape: tuple[int, ...], groups: int) -> Form:
    each = shape[1] // groups
    return (shape[0], groups, each, math.prod(shape[2:])), (-2, -1), (groups, each, 1)


def check_dtypes(operator: str, input: Any, *parameters: Any) -> None:
    """Check that parameters have the input's dtype; those of a 16-bit input may be float32.

    Raises:
        DtypeError: A parameter has another dtype, or the parameters' dtypes differ.
    """
    own = input.dtype
    given = {x.dtype for x in parameters if x is not None}
    if given and given != {own} and not (own in (float16, bfloat16) and given == {float32}):
        names = ", ".join(sorted(dtype.name for dtype in given))
        raise DtypeError(operator, f"parameters of {names} for an input of {own.name}",
                         "parameters have the input's dtype, or are float32 for an input in half precision",
                         "convert them with .to(dtype)")


def _check_end(operator: str, input: Any, shape: tuple[int, ...], weight: Any, bias: Any) -> None:
    # Handles have their shape as a plain tuple.
    if not shape or input._array.shape[-len(shape):] != shape:
        raise ShapeError(operator, f"input {list(input.shape)} and normalized_shape {list(shape)}",
                         "the normalized shape is the end of the input's shape", "check the layer's size")
    for name, x in (("weight", weight), ("bias", bias)):
        if x is not None and x._array.shape != shape:
            raise ShapeError(operator, f"{name} {list(x.shape)} and normalized_shape {list(shape)}",
                             "weight and bias have the normalized shape", "check the layer's size")


@composite(
    "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
    "bool cudnn_enable=True) -> Tensor",
    method=False, replayable=True,
)
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enable: bool = True) -> Any:
    """Return (input - mean) / sqrt(var + eps) over the last dimensions, times weight plus bias.

    Args:
        input: A tensor whose shape ends with ``normalized_shape``.
        normalized_shape: Sizes of the dimensions that are normalised.
        weight: Factors, of that shape.
        bias: Summands, of that shape.
        eps: Added to the variance.
        cudnn_enable: Ignored.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    shape = tuple(normalized_shape)
    _check_end("layer_norm", input, shape, weight, bias)
    check_dtypes("layer_norm", input, weight, bias)
    with blame("layer_norm"):
        return normalized(input, _LAST[len(shape)], weight, bias, eps)[0]


@composite("rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor",
           method=False, replayable=True)
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Any:
    """Return input / sqrt(mean(input²) + eps) over the last dimensions, times weight.

    Args:
        input: A tensor whose shape ends with ``normalized_shape``; complex numbers are squared without conjugation.
        normalized_shape: Sizes of the dimensions that are normalised.
        weight: Factors, of that shape.
        eps: Added to the mean square; by default the machine epsilon of the arithmetic dtype.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    shape = tuple(normalized_shape)
    _check_end("rms_norm", input, shape, weight, None)
    with blame("rms_norm"):
        small = finfo(arithmetic_dtype(input.dtype)).eps if eps is None else eps
        if input.dtype.is_complex:
            squares = (input * input).mean(tuple(range(input.ndim - len(shape), input.ndim)), True)
            return _scaled(input * (squares + small).rsqrt(), weight, None, input)
        fits, dims = _fits(input, weight), _LAST[len(shape)]
        result = call(normalize_rms, input, weight if fits else None, small, dims)[0]
        return result if fits else _scaled(result, weight, None, input)


@composite(
    "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
    "(Tensor, Tensor, Tensor)",
    method=False,
)
def native_layer_norm(input: Any, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> Any:
    """Return (layer_norm(input), mean, 1 / sqrt(var + eps)); statistics have no gradient.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    shape = tuple(normalized_shape)
    _check_end("layer_norm", input, shape, weight, bias)
    check_dtypes("layer_norm", input, weight, bias)
    with blame("layer_norm"):
        result, mean, var = normalized(input, _LAST[len(shape)], weight, bias, eps)
    kept = input.dtype if weight is None else weight.dtype
    return result, mean.detach().to(kept), (var.detach() + eps).rsqrt().to(kept)


def _statistics(input: Any, dims: tuple[int, ...], eps: float, keepdim: bool, weight: Any) -> tuple[Any, Any]:
    """Return mean and reciprocal standard deviation, in the dtype of the weight, if given."""
    dtype, input = promoted_for_arithmetic(input)
    mean, var = input.mean(dims, keepdim), input.var(dims, keepdim=keepdim, correction=0)
    kept = dtype if weight is None else weight.dtype
    return mean.to(kept), (var + eps).rsqrt().to(kept)


def _by_channel(x: Any, rank: int) -> Any:
    """Return values per channel in a shape that broadcasts with [N, C, ...]."""
    return x if x is None or rank == 2 else x.reshape((-1, *[1] * (rank - 2)))


@composite(
    "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-05, "
    "bool cudnn_enabled=True) -> Tensor",
    method=False, replayable=True,
)
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-5,
               cudnn_enabled: bool = True) -> Any:
    """Return (input - mean) / sqrt(var + eps) over each group of channels, times weight plus bias.

    Args:
        input: [N, C, ...].
        num_groups: The number of groups, all of the same size.
        weight: A factor per channel, [C].
        bias: A summand per channel, [C].
        eps: Added to the variance.
        cudnn_enabled: Ignored.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    if input.ndim < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise ShapeError("group_norm", f"input {list(input.shape)} in {num_groups} groups",
                         "the input is [N, C, ...] and the groups divide its channels", "check num_groups")
    _check_channels("group_norm", input, weight=weight, bias=bias)
    check_dtypes("group_norm", input, weight, bias)
    shape = tuple(input.shape)
    with blame("group_norm"):
        return normalized_parts(input, _group_form(shape, num_groups), weight, bias, eps)[0]


@composite(
    "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int N, int C, int HxW, int group, float eps) -> "
    "(Tensor, Tensor, Tensor)",
    method=False,
)
def native_group_norm(input: Any, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    """Return (group_norm(input), mean, 1 / sqrt(var + eps)) of N examples of C channels with HxW elements each.

    Raises:
        ShapeError: The shapes do not fit each other.
    """
    if input.numel() != N * C * HxW:
        raise ShapeError("native_group_norm", f"input {list(input.shape)} for N={N}, C={C}, HxW={HxW}",
                         "the input has N * C * HxW elements", "pass the sizes of the input")
    result = group_norm(input, group, weight, bias, eps)
    return result, *_statistics(input.reshape(N, group, C * HxW // max(group, 1)), (2,), eps, False, weight)


def _check_channels(operator: str, input: Any, **values: Any) -> None:
    shape = input._array.shape
    if len(shape) < 2:
        raise ShapeError(operator, f"input {list(input.shape)}", "channels are the second dimension",
                         "pass [N, C, ...]")
    wanted = shape[1:2]
    for name, x in values.items():
        if x is not None and x._array.shape != wanted:
            raise ShapeError(operator, f"{name} {list(x.shape)} for {shape[1]} channels",
                             "weights and statistics have one value for each channel", "check num_features")


def check_running(operator: str, training: bool, mean: Any, var: Any) -> None:
    """Refuse to normalise with missing running statistics.

    Raises:
        ArgumentError: ``training`` is False and a statistic is missing.
    """
    if not training and (mean is None or var is None):
        raise ArgumentError(operator, "no running_mean or running_var", "statistics are given where the batch's are "
                            "not used", "pass both, or normalise with the batch's own")


@composite("local_response_norm(Tensor input, int size, float alpha=0.0001, float beta=0.75, float k=1.0) -> Tensor",
           method=False, namespace="nn.functional", hands_by_name=True, recomputed=Recomputed(saved=("input",)))
def local_response_norm(input: Any, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Any:
    """Return input / (k + alpha * mean of input² over ``size`` adjacent channels) ** beta, with zeros beyond the edges.

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
