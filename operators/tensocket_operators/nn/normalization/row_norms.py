"""Normalised rows with scale and shift as one operator: layer, group, instance and batch normalisation.

With ``y = (x - mean) * r``, ``r = 1 / sqrt(var + eps)`` and an upstream gradient g of ``y * weight + bias``, the
gradient of the input is ``r * (h - mean(h) - y * mean(h * y))`` with ``h = g * weight``; the gradients of weight and
bias are sums of ``g * y`` and of g. The forward pass saves the statistics, and not the normalised values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import product
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.device import DeviceState
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.geometry import contiguous
from tensocket_core.launch.plan import STATIC, TENSOR, Plan, Role, planned

from ...kinds.composite import composite
from ...kinds.normalized_row import RowOperator
from ...kinds.private import private
from ...kinds.programs import processors_only
from ...kinds.row_blocks import RowLayout, RowsAndColumnSums


def _scale_and_shift(y: Any, weight: Any, bias: Any) -> Any:
    """Return ``y * weight + bias`` as a function of the position."""
    if weight is None:
        return y if bias is None else lambda j: y(j) + bias(j)
    return (lambda j: y(j) * weight(j)) if bias is None else (lambda j: y(j) * weight(j) + bias(j))


def _scale(row: Any, square: Any, eps: Any) -> Any:
    return row.once(1 / row.m.sqrt(square + eps))


def _standardize(row: Any, x: Any, mean: Any, square: Any, eps: Any, one: bool = True) -> tuple[Any, Any]:
    """Return reciprocal deviation and normalised values from known statistics, which are constant per row if ``one``.

    Rows without mean are not centred.
    """
    known = _scale(row, square(None), eps) if one else None

    def scale(j: Any) -> Any:
        return known if one else 1 / row.m.sqrt(square(j) + eps)

    if mean is None:
        return scale, lambda j: x(j) * scale(j)
    return scale, lambda j: (x(j) - mean(j)) * scale(j)


def _forward(row: Any, x: Any, weight: Any, bias: Any, eps: Any) -> tuple[Any, ...]:
    mean, var = row.moments(x)
    scale = _scale(row, var, eps)
    return _scale_and_shift(lambda j: (x(j) - mean) * scale, weight, bias), mean, var


def _rms_forward(row: Any, x: Any, weight: Any, eps: Any) -> tuple[Any, ...]:
    (square,) = row.means(lambda j: x(j) * x(j))
    scale = _scale(row, square, eps)
    return _scale_and_shift(lambda j: x(j) * scale, weight, None), square


def _input_gradient(row: Any, scale: Any, y: Any, h: Any, centred: bool) -> Any:
    if not centred:
        (slope,) = row.means(lambda j: h(j) * y(j))
        return lambda j: scale(j) * (h(j) - y(j) * slope)
    shift, slope = row.means(h, lambda j: h(j) * y(j))
    return lambda j: scale(j) * ((h(j) - shift) - y(j) * slope)


def _backward(row: Any, grad: Any, x: Any, weight: Any, mean: Any, square: Any, eps: Any) -> tuple[Any, ...]:
    scale, y = _standardize(row, x, mean, square, eps)
    return (_input_gradient(row, scale, y, _scale_and_shift(grad, weight, None), mean is not None),)


def _backward_and_columns(row: Any, grad: Any, x: Any, weight: Any, mean: Any, square: Any,
                          eps: Any) -> tuple[Any, ...]:
    """Return the input's gradient, and the terms whose sums over rows are the gradients of weight and bias, if these
    have a value per position.
    """
    scale, y = _standardize(row, x, mean, square, eps)
    first = _input_gradient(row, scale, y, _scale_and_shift(grad, weight, None), mean is not None)
    return first, lambda j: grad(j) * y(j), grad


def _sums(row: Any, grad: Any, x: Any, mean: Any, square: Any, eps: Any) -> tuple[Any, ...]:
    _, y = _standardize(row, x, mean, square, eps, False)
    along, total = row.sums(lambda j: grad(j) * y(j), grad)
    return along, total


def _backward_and_sums(row: Any, grad: Any, x: Any, weight: Any, mean: Any, square: Any, eps: Any) -> tuple[Any, ...]:
    """Return the input's gradient and the sums that it needs, which are the gradients of weight and bias if these have
    one value per row.
    """
    scale, y = _standardize(row, x, mean, square, eps)
    along, total = row.sums(lambda j: grad(j) * y(j), grad)
    slope, shift = row.once(along / row.count()), row.once(total / row.count())
    factor = row.once(_scale_and_shift(scale, weight, None)(None))
    if mean is None:
        return lambda j: factor * (grad(j) - y(j) * slope), along, total
    return lambda j: factor * ((grad(j) - shift) - y(j) * slope), along, total


def _functions() -> Any:
    return functions


# ------------------------------------------------------------------------------------------ derivatives


def _normalized(x: Any, eps: float, dims: Any, centred: bool) -> tuple[Any, Any, Any]:
    """Return normalised values, mean (None if not centred) and variance or mean square, differentiable in ``x``."""
    if centred:
        y, mean, square = call(normalize_rows, x, None, None, eps, dims)
        return y, mean, square
    y, square = call(normalize_rms, x, None, eps, dims)
    return y, None, square


def _normalization_jvp(v: Any, x: Any, mean: Any, square: Any, eps: float, dims: Any) -> Any:
    """Return the derivative of the normalisation, which is symmetric, times ``v``."""
    return call(normalize_backward, v, x, None, mean, square, eps, dims)


def _weighted(grad: Any, weight: Any) -> Any:
    return grad if weight is None else grad * weight


def _curvature(v: Any, g: Any, x: Any, eps: float, dims: Any, centred: bool) -> Any:
    """Return the gradient of <v, J(x) g>, where J is the derivative of the normalisation."""
    y, mean, square = _normalized(x, eps, dims, centred)
    scale = (square + eps).rsqrt()
    along_v, along_g = (v * y).mean(dims, True), (g * y).mean(dims, True)
    common = (v * g).mean(dims, True) - along_v * along_g
    if centred:
        common = common - v.mean(dims, True) * g.mean(dims, True)
    turned = along_g * _normalization_jvp(v, x, mean, square, eps, dims) + along_v * _normalization_jvp(g, x, mean,
            square, eps, dims)
    return -scale * (common * scale * y + turned)


def sum_present(*terms: Any) -> Any:
    """Return the sum of the terms that are not None; None if all are."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


def _of_upstream(grads: Any, x: Any, weight: Any, mean: Any, square: Any, eps: float, rows: Any) -> Any:
    """Return the gradient of the backward pass with respect to its upstream gradient; ``grads`` are the gradients of
    its results: of the input's gradient, of the sums of ``g * y`` and of the sums of g.
    """
    first, along, total = grads
    first = None if first is None else _weighted(_normalization_jvp(first, x, mean, square, eps, rows), weight)
    along = None if along is None else along * _normalized(x, eps, rows, mean is not None)[0]
    return sum_present(first, along, None if total is None else total.expand(tuple(x.shape)))


def _of_input(grads: Any, g: Any, x: Any, weight: Any, mean: Any, square: Any, eps: float, rows: Any) -> Any:
    """Return the gradient of the backward pass with respect to the input; see ``_of_upstream``."""
    first, along, _ = grads
    return sum_present(
        None if first is None else _curvature(first, _weighted(g, weight), x, eps, rows, mean is not None),
        None if along is None else _normalization_jvp(along * g, x, mean, square, eps, rows))


def _of_weight(grads: Any, g: Any, x: Any, mean: Any, square: Any, eps: float, rows: Any) -> Any:
    """Return the gradient of the backward pass with respect to the weight; see ``_of_upstream``."""
    return None if grads[0] is None else g * _normalization_jvp(grads[0], x, mean, square, eps, rows)


def _summed_dims(weight: Any, rank: int) -> tuple[int, ...]:
    """Return the dimensions along which a parameter is constant."""
    shape = tuple(weight.shape)
    return tuple([d for d in range(-rank, 0) if -d > len(shape) or shape[d] == 1])


def _parts(x: Any, dims: Any) -> int:
    """Return the number of parts into which the sums for parameters are divided; it depends on sizes alone."""
    if dims[0] != -x.ndim or x.numel() < _DIVIDED:
        return 1
    sums = x.numel() // math.prod([x.shape[d] for d in dims])
    return math.gcd(x.shape[0], _PARTS) if sums <= _FEW_SUMS else 1


def _parameter_sums(grad: Any, x: Any, mean: Any, square: Any, eps: float, rows: Any, dims: Any) -> tuple[Any, Any]:
    """Return the sums of ``grad * y`` and of ``grad`` along ``dims``."""
    if dims:
        parts = _parts(x, dims)
        if parts > 1:  # few sums, each of which one thread computes: parts give more threads work
            grad, x, mean, square = (
                None if t is None else t.reshape((parts if t.shape[0] > 1 else 1, -1, *t.shape[1:]))
                for t in (grad, x, mean, square))
        along, total = call(normalize_sums, grad, x, mean, square, eps, rows, dims)
        return (along.sum(0), total.sum(0)) if parts > 1 else (along, total)
    return grad * _normalized(x, eps, rows, mean is not None)[0], grad


def _shaped(total: Any, parameter: Any) -> Any:
    """Return a sum as the gradient of a parameter."""
    shape = parameter.shape
    if total.shape == shape:
        return total
    if total.numel() != parameter.numel():  # several rows share the parameter
        extra = tuple([d for d in _summed_dims(parameter, total.ndim) if total.shape[d] != 1])
        total = total.sum(extra, True)
    return total.reshape(shape)


def _gradients(grad: Any, x: Any, weight: Any, bias: Any, mean: Any, square: Any, eps: float, dims: Any,
               wanted: Any) -> Any:
    """Return the gradients of input, weight and bias; None for those that are not wanted."""
    made = iter(call(COMPOSITES["normalize_gradients"], grad, x, weight, bias, mean, square, eps, dims,
                     WANTED[wanted]))
    return tuple([next(made) if there else None for there in wanted])


def joint_gradients(grads: Any, input: Any, weight: Any, bias: Any, result1: Any, result2: Any, eps: Any, dims: Any,
                    wanted: Any) -> tuple[Any, Any, Any]:
    """Return the gradients of input, weight and bias from those of normalised values, means and variances."""
    found: tuple[Any, Any, Any] = (None, None, None)
    if grads[0] is not None:
        found = _gradients(grads[0], input, weight, bias, result1, result2, eps, dims, wanted)
    if (grads[1] is None and grads[2] is None) or not wanted[0]:
        return found
    count = math.prod([input.shape[d] for d in dims])
    of_mean = None if grads[1] is None else (grads[1] / count).expand(tuple(input.shape))
    of_var = None if grads[2] is None else grads[2] * (input - result1) * (2 / count)
    return sum_present(found[0], of_mean, of_var), found[1], found[2]


def _rms_joint(grads: Any, input: Any, weight: Any, result1: Any, eps: Any, dims: Any,
               wanted: Any) -> tuple[Any, Any]:
    first, along = None, None
    if grads[0] is not None:
        first, along, _ = _gradients(grads[0], input, weight, None, None, result1, eps, dims, (*wanted, False))
    if grads[1] is not None and wanted[0]:
        first = sum_present(first, grads[1] * input * (2 / math.prod([input.shape[d] for d in dims])))
    return first, along


#: One tuple per choice of wanted gradients, so that every call passes the same object.
WANTED: Final = {wanted: wanted for wanted in product((False, True), repeat=3)}


# ------------------------------------------------------------------------------------------ operators

#: Elements from which and number of sums up to which sums are divided into parts, and the most parts.
_DIVIDED: Final = 1 << 17
_FEW_SUMS: Final = 512
_PARTS: Final = 16

_HIDDEN: Final[dict[str, Any]] = {"method": False, "function": False, "functions": _functions}

normalize_rows: Final = RowOperator(
    "normalize_rows(Tensor input, Tensor? weight, Tensor? bias, float eps, int[] dims) -> (Tensor, Tensor, Tensor)",
    "((input - mean) / sqrt(var + eps) * weight + bias, mean, var) along dims.",
    _forward, ("full", "row", "row"), label="normalization", derivative=Derivative(joint_gradients), **_HIDDEN)
normalize_rms: Final = RowOperator(
    "normalize_rms(Tensor input, Tensor? weight, float eps, int[] dims) -> (Tensor, Tensor)",
    "(input / sqrt(mean(input²) + eps) * weight, mean(input²)) along dims.",
    _rms_forward, ("full", "row"), label="rms_norm", derivative=Derivative(_rms_joint), **_HIDDEN)

SAVED: Final = "Tensor? mean, Tensor square, float eps"
normalize_backward: Final[RowOperator] = RowOperator(
    f"normalize_backward(Tensor upstream, Tensor input, Tensor? weight, {SAVED}, int[] dims) -> Tensor",
    "Gradient of the input of normalize_rows, or of normalize_rms without mean.",
    _backward, ("full",), **_HIDDEN, derivative=Derivative(
        upstream=lambda grad, input, weight, mean, square, eps, dims: _of_upstream(
            (grad, None, None), input, weight, mean, square, eps, dims),
        input=lambda grad, upstream, input, weight, mean, square, eps, dims: _of_input(
            (grad, None, None), upstream, input, weight, mean, square, eps, dims),
        weight=lambda grad, upstream, input, mean, square, eps, dims: _of_weight(
            (grad, None, None), upstream, input, mean, square, eps, dims)))
normalize_sums: Final[RowOperator] = RowOperator(
    f"normalize_sums(Tensor upstream, Tensor input, {SAVED}, int[] rows, int[] dims) -> (Tensor, Tensor)",
    "Sums of upstream * y and of upstream along dims, where y is the input normalised along rows.",
    _sums, ("row", "row"), **_HIDDEN, derivative=Derivative(
        upstream=lambda grads, input, mean, square, eps, rows: _of_upstream(
            (None, *grads), input, None, mean, square, eps, rows),
        input=lambda grads, upstream, input, mean, square, eps, rows: _of_input(
            (None, *grads), upstream, input, None, mean, square, eps, rows)))
normalize_backward_sums: Final[RowOperator] = RowOperator(
    f"normalize_backward_sums(Tensor upstream, Tensor input, Tensor? weight, {SAVED}, int[] dims) -> "
    "(Tensor, Tensor, Tensor)",
    "normalize_backward with a weight for each row, and the sums of upstream * y and of upstream along dims.",
    _backward_and_sums, ("full", "row", "row"), **_HIDDEN, derivative=Derivative(
        upstream=lambda grads, input, weight, mean, square, eps, dims: _of_upstream(
            grads, input, weight, mean, square, eps, dims),
        input=lambda grads, upstream, input, weight, mean, square, eps, dims: _of_input(
            grads, upstream, input, weight, mean, square, eps, dims),
        weight=lambda grads, upstream, input, mean, square, eps, dims: _of_weight(
            grads, upstream, input, mean, square, eps, dims)))


@processors_only("row_norm_gradients")
def _one_pass(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the closure that reads both arrays once for all three gradients, if rows are contiguous in memory."""
    roles: list[Role] = [*[TENSOR] * 5, float, STATIC, STATIC]
    return private("normalize_backward", planned(state, roles, partial(_plan_all, state), next_path))


def _plan_all(state: DeviceState, args: Sequence[Any], arrays: Sequence[Any]) -> Plan | None:
    """Plan all three gradients in one launch; None if the layouts do not allow it."""
    *operands, _, rows, dims = args
    upstream, input, weight, _, square = operands
    shape = input._array.shape
    lead = len(shape) - len(rows)
    sizes = shape[lead:]
    length = math.prod(sizes)
    count = input._array.size // length if length else 0
    if (rows[0] != -len(rows) or len(dims) != lead or dims[-1] != rows[0] - 1 or not count
            or upstream._array.shape != shape or square._array.size != count
            or (weight is not None and weight._array.size != length) or not all(map(contiguous, arrays))):
        return None
    lying = [None if x is None else (x.dtype, lies) for x, lies in zip(operands, _LYING, strict=True)]
    return _ALL_GRADIENTS.plan(state, lying, shape, (count, length), 1, sizes)


_LYING: Final[tuple[RowLayout, ...]] = ("full", "full", "column", "row", "row")
_ALL_GRADIENTS: Final = RowsAndColumnSums("normalize_backward_columns", _backward_and_columns, 2)


@composite(
    f"normalize_backward_columns(Tensor upstream, Tensor input, Tensor? weight, {SAVED}, int[] rows, int[] dims) -> "
    "(Tensor, Tensor, Tensor)", method=False, function=False, host_path=_one_pass, replayable=True)
def normalize_backward_columns(upstream: Any, input: Any, weight: Any, mean: Any, square: Any, eps: float, rows: Any,
                               dims: Any) -> Any:
    """Return normalize_backward along rows, and the sums of upstream * y and of upstream along dims.

    If all dims precede the rows' dimensions, the sums have the rows' dimensions only.
    """
    first = call(normalize_backward, upstream, input, weight, mean, square, eps, rows)
    sums = _parameter_sums(upstream, input, mean, square, eps, rows, dims)
    if len(dims) == input.ndim + rows[0] and dims[-1] < rows[0]:
        shape = tuple(input.shape[rows[0]:])
        sums = sums[0].reshape(shape), sums[1].reshape(shape)
    return first, *sums


@composite(
    f"normalize_gradients(Tensor upstream, Tensor input, Tensor? weight, Tensor? bias, {SAVED}, int[] dims, "
    "any wanted) -> Tensor[]", method=False, function=False, replayable=True)
def normalize_gradients(upstream: Any, input: Any, weight: Any, bias: Any, mean: Any, square: Any, eps: float,
                        dims: Any, wanted: tuple[bool, bool, bool]) -> tuple[Any, ...]:
    """Return the wanted gradients of input, weight and bias, for values that are normalised along dims."""
    parameter = weight if weight is not None else bias
    if parameter is None or not (wanted[1] or wanted[2]):
        return (call(normalize_backward, upstream, input, weight, mean, square, eps, dims),) if wanted[0] else ()
    summed = _summed_dims(parameter, input.ndim)
    first: Sequence[Any] = ()
    if wanted[0] and set(dims) <= set(summed):
        *first, along, total = call(normalize_backward_sums, upstream, input, weight, mean, square, eps, dims)
    elif wanted[0] and summed:
        gradients = COMPOSITES["normalize_backward_columns"]
        *first, along, total = call(gradients, upstream, input, weight, mean, square, eps, dims, summed)
    else:
        if wanted[0]:
            first = (call(normalize_backward, upstream, input, weight, mean, square, eps, dims),)
        along, total = _parameter_sums(upstream, input, mean, square, eps, dims, summed)
    return (*first, *([_shaped(along, weight)] if wanted[1] else ()), *([_shaped(total, bias)] if wanted[2] else ()))
