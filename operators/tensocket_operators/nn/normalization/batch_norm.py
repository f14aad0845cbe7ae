"""Normalisation with statistics of this batch or of earlier batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.dispatch.versions import bump
from tensocket_core.geometry import contiguous
from tensocket_core.keys import AUTOGRAD, DTYPE_MASK, DTYPE_OF, WRAPPER, dtype_bit
from tensocket_core.launch.pointwise_plan import run_generated
from tensocket_core.launch.programs import index_dtype, launch
from tensocket_core.launch.replay import replayed
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ShapeError
from tensocket_plugins.ir.element_types import arithmetic_dtype
from tensocket_plugins.ir.strategies import Strategy

from ...kinds.composite import composite
from ...kinds.pointwise_planner import is_same_or_disjoint
from ...kinds.private import private
from .normalization import (
    Form,
    _by_channel,
    _check_channels,
    _fits,
    _scaled,
    check_dtypes,
    check_running,
    normalized,
    normalized_parts,
)
from .row_norms import normalize_sums

if TYPE_CHECKING:
    from tensocket_plugins.ir.nodes import Program



def _update_statistic(running: Any, value: Any, momentum: float, factor: float = 1.0) -> None:
    """Move a running statistic towards ``factor`` times a new value with as many elements, in place."""
    if running is not None:
        running, value = running.detach(), value.detach().reshape(-1)
        value = value if value.dtype is running.dtype else value.to(running.dtype)
        running.mul_(1 - momentum).add_(value * (momentum * factor))  # shorter calls than with alpha


#: Names of kernels; every call uses the same objects.
_MOVING: Final = {dtype: ("running_statistics", dtype) for dtype in dtypes.ALL}


def _move_statistics(running: tuple[Any, Any], values: tuple[Any, Any], momentum: float, factor: float) -> bool:
    """Move running mean and variance like ``_update_statistic``, in one launch; return False if the tensors prevent
    it.
    """
    (mean, var), key = running, running[0]._key
    arrays = mean._array, var._array
    dtype = DTYPE_OF.get(key & DTYPE_MASK)
    if ACTIVE or dtype is None or not key == var._key == values[0]._key & ~AUTOGRAD or key & (AUTOGRAD | WRAPPER):
        return False
    state = mean._device_state
    if state.runtime.target is None or not is_same_or_disjoint(*arrays) or not (
            arrays[0].size == arrays[1].size == values[0]._array.size == values[1]._array.size):
        return False
    for x, array in zip(running, arrays, strict=True):
        counter = x._version_counter
        if not (counter is None or type(counter) is list) or not array.size:
            return False
        flags = array.flags if type(array) is np.ndarray else None
        if not (contiguous(array) if flags is None else flags.carray):
            return False
    if type(arrays[0]) is np.ndarray and arrays[0].size <= _SMALL:
        made = _small_move(key, state)(mean, var, *values, momentum, factor)
        for array, new in zip(arrays, made, strict=True):
            array[...] = new._array
    else:
        _move(state, dtype, arrays, (*arrays, values[0]._array, values[1]._array), momentum, factor)
    bump(mean)
    bump(var)
    return True


def _move(state: DeviceState, dtype: DType, outs: Sequence[Any], operands: Sequence[Any], momentum: float,
          factor: float) -> None:
    launch(state, _MOVING[dtype], partial(_moving_nest, dtype, state), Strategy.SERIAL, (*outs, *operands),
           (outs[0].size, 1 - momentum, momentum, momentum * factor))


def _moved_statistics(state: DeviceState, mean: Any, var: Any, first: Any, second: Any, momentum: float,
                      factor: float) -> tuple[Any, Any]:
    """Return new tensors with the next running mean and variance."""
    dtype, key = mean.dtype, state.key | dtype_bit(mean.dtype)
    outs = [state.runtime.empty(x._array.shape, dtype, state.stream) for x in (mean, var)]
    _move(state, dtype, outs, [x._array for x in (mean, var, first, second)], momentum, factor)
    return wrap(outs[0], key), wrap(outs[1], key)


#: ``_moved_statistics`` by the key of its arguments.
_SMALL_MOVES: Final[dict[int, Callable[..., Any]]] = {}


def _small_move(key: int, state: DeviceState) -> Callable[..., Any]:
    found = _SMALL_MOVES.get(key)
    if found is None:
        found = _SMALL_MOVES[key] = replayed(state, range(4), 6, partial(_moved_statistics, state))
    return found


def _moving_nest(dtype: DType, state: DeviceState) -> Program:
    from tensocket_plugins.ir.build.nest import Operand, pointwise_nest

    flat, number = Operand("flat", dtype), Operand("number", dtype)
    return pointwise_nest("running_statistics", lambda a, b, x, y, keep, first, second: (
        a * keep + x * first, b * keep + y * second), [flat] * 4 + [number] * 3, [flat] * 2, 1, index_dtype(state, ()))


@lru_cache(maxsize=256)
def _batch_form(shape: tuple[int, ...]) -> tuple[Form, float]:
    """Return the form in which a batch is normalised, and the factor that makes its variance unbiased."""
    rank, count = len(shape), math.prod(shape) // max(shape[1], 1)
    return (None, (-rank, *range(2 - rank, 0)), (shape[1], *[1] * (rank - 2))), count / max(count - 1, 1)


def _normalize_batch(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, momentum: float,
              eps: float) -> tuple[Any, Any, Any]:
    """Normalise a batch by its own statistics, which keep all dimensions, and update the running statistics."""
    form, factor = _batch_form(input._array.shape)
    with blame("batch_norm"):
        result, mean, var = normalized_parts(input, form, weight, bias, eps)
        if not input._array.size:  # no elements, no statistics
            return result, mean, var
        if running_mean is None or running_var is None or not _move_statistics((running_mean, running_var), (mean,
                var), momentum,
                                                                     factor):
            _update_statistic(running_mean, mean, momentum)
            _update_statistic(running_var, var, momentum, factor)
    return result, mean, var


def _checked(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
             momentum: float, eps: float) -> tuple[Any, Any, Any]:
    """Return normalised values and the statistics of the batch, which are None when not training."""
    if input.ndim == 1 and input.numel() == 0:
        return input.clone(), None, None
    _check_channels("batch_norm", input, weight=weight, bias=bias, running_mean=running_mean, running_var=running_var)
    check_dtypes("batch_norm", input, weight, bias)
    check_running("batch_norm", training, running_mean, running_var)
    if training:
        return _normalize_batch(input, weight, bias, running_mean, running_var, momentum, eps)
    return _normalize_running("batch_norm", input, weight, bias, running_mean, running_var, eps), None, None


def _normalize_running(operator: str, input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
    with blame(operator):
        return call(COMPOSITES["normalize_known"], input, weight, bias, mean, var, eps)


def _factor(weight: Any, var: Any, eps: float) -> Any:
    return (var + eps).rsqrt() if weight is None else weight * (var + eps).rsqrt()


def _known_sums(grad: Any, input: Any, mean: Any, var: Any, eps: float) -> tuple[Any, Any]:
    """Return the sums of ``grad * y`` and of ``grad`` per channel, where y are the normalised values."""
    rank = input.ndim
    dims = (-rank, *range(2 - rank, 0))
    center, square = _by_channel(mean, rank), _by_channel(var, rank)
    if (grad._key | input._key | mean._key | var._key) & AUTOGRAD or not _fits(input, grad, mean, var):
        y = (input - center) * (square + eps).rsqrt()
        return (grad * y).sum(dims), grad.sum(dims)
    along, total = call(normalize_sums, grad, input, center, square, eps, dims, dims)
    return along.reshape((-1,)), total.reshape((-1,))


def _known_gradients(grad: Any, input: Any, weight: Any, mean: Any, var: Any, eps: float, wanted: Any) -> Any:
    """Return the gradients of input, weight, bias, mean and variance."""
    scale = _factor(weight, var, eps)
    first = along = total = None
    if wanted[0]:
        first = (grad * _by_channel(scale, input.ndim)).to(input.dtype)
    if any(wanted[1:]):
        along, total = _known_sums(grad, input, mean, var, eps)
    of_mean = -scale * total if wanted[3] else None
    of_var = -0.5 * _factor(weight, var, eps) * (var + eps).rsqrt() * along if wanted[4] else None
    return first, along, total, of_mean, of_var


#: Elements up to which one launch computes scale and shift per element instead of per channel.
_SMALL: Final = 4096


def _known_formula(present: tuple[bool, ...], *values: Any) -> Any:
    from tensocket_plugins.ir.nodes import call as ir_call

    given = iter(values)
    operands: list[Any] = [next(given) if there else None for there in present]
    x, weight, bias, mean, var = operands
    scale = 1 / ir_call("sqrt", var + next(given))
    scale = scale if weight is None else scale * weight
    return x * scale + (-mean * scale if bias is None else bias - mean * scale)


def _known_at_once(state: DeviceState, values: Sequence[Any], eps: float) -> Any:
    """Compute ``normalize_known`` of a contiguous array in one kernel."""
    x, dtype = values[0]._array, values[0].dtype
    columns = (-1, *(1,) * (x.ndim - 2))
    operands = [(x, dtype), *[(v._array.reshape(columns), dtype) for v in values[1:] if v is not None], (eps, dtype)]
    present = tuple([v is not None for v in values])
    out = state.runtime.empty(x.shape, dtype, state.stream)
    run_generated(state, ("normalize_known", present), partial(_known_formula, present), operands, x.shape,
                  [(out, dtype)])
    return wrap(out, state.key | dtype_bit(dtype))


def _detach_inputs(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Run unrecorded by detaching the operands, which costs less than a mode that every operator inside would check."""
    if key & AUTOGRAD:
        return None

    dtype = DTYPE_OF.get(key & DTYPE_MASK)
    plain = dtype is not None and dtype.kind == "float" and state.runtime.target is not None and (
        arithmetic_dtype(dtype) is dtype)

    def known(*args: Any) -> Any:
        *values, eps = args
        x = values[0]._array
        if plain and 0 < x.size <= _SMALL and contiguous(x) and all(
                v is None or v._array.size == x.shape[1] for v in values[1:]):
            return _known_at_once(state, values, eps)
        return next_path(*[x if x is None or not x._key & AUTOGRAD else x.detach() for x in values], eps)

    return private("batch_norm", known)


@composite("normalize_known(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, float eps) -> Tensor",
           method=False, function=False, host_path=_detach_inputs, replayable=True, derivative=Derivative(
               lambda grad, input, weight, mean, var, eps, wanted: _known_gradients(
                   grad, input, weight, mean, var, eps, wanted)))
def normalize_known(input: Any, weight: Any, bias: Any, mean: Any, var: Any, eps: float) -> Any:
    """Return (input - mean) / sqrt(var + eps) * weight + bias as ``input * scale + shift``, with both per channel."""
    scale = _factor(weight, var, eps)
    shift = -mean * scale if bias is None else bias - mean * scale
    return _scaled(input, _by_channel(scale, input.ndim), _by_channel(shift, input.ndim), input)


@composite(
    "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool training, "
    "float momentum, float eps, bool cudnn_enabled) -> Tensor",
    method=False,
)
def batch_norm(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
               momentum: float, eps: float, cudnn_enabled: bool) -> Any:
    """Return (input - mean) / sqrt(var + eps) per channel, times weight plus bias.

    Args:
        input: [N, C, ...].
        weight: A factor per channel, [C].
        bias: A summand per channel, [C].
        running_mean: Mean of earlier batches, [C]; changed in place while training.
        running_var: Unbiased variance of earlier batches, [C]; changed in place while training.
        training: Whether the statistics are those of this batch.
        momentum: Share of this batch in the new running statistics.
        eps: Added to the variance.
        cudnn_enabled: Ignored.

    Raises:
        ShapeError: The shapes do not fit each other.
        ArgumentError: ``training`` is False and running statistics are missing.
    """
    return _checked(input, weight, bias, running_mean, running_var, training, momentum, eps)[0]


@composite(
    "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
    "bool training, float momentum, float eps) -> (Tensor, Tensor, Tensor)",
    method=False,
)
def native_batch_norm(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool,
                      momentum: float, eps: float) -> Any:
    """Return (batch_norm(input), mean, 1 / sqrt(var + eps)) of the batch; statistics are empty when not training.

    Statistics have no gradient. Their dtype is that of the weight, if given.

    Raises:
        ShapeError: The shapes do not fit each other.
        ArgumentError: ``training`` is False and running statistics are missing.
    """
    result, mean, var = _checked(input, weight, bias, running_mean, running_var, training, momentum, eps)
    dtype = next((x.dtype for x in (weight, bias, running_mean) if x is not None), input.dtype)
    if mean is None:
        return result, input.new_zeros((0,), dtype=dtype), input.new_zeros((0,), dtype=dtype)
    return result, mean.detach().reshape(-1).to(dtype), (var.detach().reshape(-1) + eps).rsqrt().to(dtype)


@composite("batch_norm_update_stats(Tensor input, Tensor? running_mean, Tensor? running_var, float momentum) -> "
           "(Tensor, Tensor)", method=False)
def batch_norm_update_stats(input: Any, running_mean: Any, running_var: Any, momentum: float) -> tuple[Any, Any]:
    """Return mean and variance per channel of [N, C, ...], and move the running statistics towards them in place.

    Raises:
        ShapeError: The input has no elements, or the shapes do not fit each other.
    """
    _check_channels("batch_norm_update_stats", input, running_mean=running_mean, running_var=running_var)
    if not input.numel():
        raise ShapeError("batch_norm_update_stats", f"input {list(input.shape)}", "the input has at least one element",
                         "leave out empty batches")
    dims = (0, *range(2, input.ndim))
    mean, var = input.mean(dims), input.var(dims, correction=0)
    _update_statistic(running_mean, mean, momentum)
    _update_statistic(running_var, var, momentum, _batch_form(input._array.shape)[1])
    return mean, var


@composite(
    "instance_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
    "bool use_input_stats, float momentum, float eps, bool cudnn_enabled) -> Tensor",
    method=False,
)
def instance_norm(input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool,
                  momentum: float, eps: float, cudnn_enabled: bool) -> Any:
    """Return (input - mean) / sqrt(var + eps) per example and channel, times weight plus bias.

    Args:
        input: [N, C, ...].
        weight: A factor per channel, [C].
        bias: A summand per channel, [C].
        running_mean: Mean of earlier instances, [C]; changed in place with the batch's own statistics.
        running_var: Unbiased variance of earlier instances, [C]; changed in place with the batch's own statistics.
        use_input_stats: Whether the statistics are those of the input.
        momentum: Share of this batch in the new running statistics.
        eps: Added to the variance.
        cudnn_enabled: Ignored.

    Raises:
        ShapeError: The shapes do not fit each other.
        ArgumentError: ``use_input_stats`` is False and running statistics are missing.
    """
    _check_channels("instance_norm", input, weight=weight, bias=bias, running_mean=running_mean,
                    running_var=running_var)
    check_dtypes("instance_norm", input, weight, bias)
    check_running("instance_norm", use_input_stats, running_mean, running_var)
    if not use_input_stats:
        return _normalize_running("instance_norm", input, weight, bias, running_mean, running_var, eps)
    shape = tuple(input.shape)
    count = math.prod(shape[2:])
    rows = input.reshape(shape[0], shape[1], count)
    with blame("instance_norm"):
        scale, shift = (None if x is None else x.unsqueeze(1) for x in (weight, bias))
        result, mean, var = normalized(rows, (-1,), scale, shift, eps)
        if running_mean is not None:
            _update_statistic(running_mean, mean.detach().mean((0, 2)), momentum)
        if running_var is not None:
            _update_statistic(running_var, var.detach().mean((0, 2)), momentum, count / max(count - 1, 1))
        return result.reshape(shape)
