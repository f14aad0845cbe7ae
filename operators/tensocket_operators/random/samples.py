"""Samples of distributions whose parameters are tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import ACTIVE, as_leaf, is_grad_enabled
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.geometry import broadcast_shapes
from tensocket_core.keys import AUTOGRAD, WRAPPER
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ..call_forms import write_out
from ..creation import empty_like, options, shape_of
from ..creation.noted import noted
from ..creation.record import dispatch_factory, is_intercepted
from ..kinds.composite import composite
from ..kinds.view import Custom
from ..reductions.value_checks import any_true, value_range
from .ahead import noted_draw
from .distributions import NORMAL, NORMAL_SCALED
from .draws import drawn_tensor, floats
from .generator import Generator
from .inplace import check_floats, checked_probability, uniforms
from .small_samples import few_are_weights, small_bernoulli, small_normal, small_scaled

#: Connects a result to its parameters, with zero gradients, as PyTorch does for samples.
_drawn_from: Final = Custom(
    "drawn_from(Tensor drawn, Tensor parameters) -> Tensor", "Samples of a distribution with these parameters.",
    lambda state, drawn, parameters: drawn.detach(), method=False, function=False,
    derivative=Derivative(parameters=lambda grad, parameters_shape: grad.new_zeros(parameters_shape)))


def _connected(drawn: Any, *parameters: Any) -> Any:
    """Return samples that require grad, or have a zero tangent, if a parameter does."""
    for parameter in parameters:
        if (parameter._key & AUTOGRAD and is_grad_enabled()) or getattr(parameter, "is_dual", False):
            drawn = call(_drawn_from, drawn, parameter)
    return drawn


#: Mean from which counts are drawn by rejection; below it, by adding up probabilities.
_LARGE: Final = 10.0
#: Larger than any count that occurs with a mean below ``_LARGE``.
_MOST: Final = 80


def _watched(operator: str, *given: Any) -> bool:
    tensors = [x for x in given if hasattr(x, "_key")]
    for x in tensors:
        while x._level:
            x._transform.check_parameter(operator)
            x = x._value
    return bool(ACTIVE or any(x._key & WRAPPER for x in tensors)) and is_intercepted(*tensors)


@noted(note=noted_draw)
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None, dtype: Any = None,
           device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """Draw normal numbers.

    Args:
        mean: A number, or a tensor with one mean per sample.
        std: A number, or a tensor with one standard deviation per sample; both tensors broadcast.
        size: The shape, if both are numbers.
        generator: The source of random numbers.
        dtype: Dtype of the result, if both are numbers.
        device: Device of the result, if both are numbers.
        requires_grad: Whether gradients of the result are wanted.
        rest: ``layout``, ``pin_memory``, ``out``.

    Raises:
        ArgumentError: A standard deviation is negative.
        ArgumentTypeError: Both are numbers and the size is missing, or a size is given with a tensor.
        DtypeError: Standard deviations are complex.
    """
    if not (ACTIVE or VALUE_OBSERVERS or rest or requires_grad):
        small = None
        if type(mean) is float is type(std) and size is not None:
            chosen, state = options("normal", dtype, generator.device if device is None and generator else device)
            if chosen is dtypes.float32:
                small = small_scaled(mean, std, shape_of("normal", (size,)), state, generator)
        elif size is None and not (dtype or device):
            small = small_normal(mean, std, generator)
        if small is not None:
            return small
    if rest or _watched("normal", mean, std):
        return dispatch_factory(normal, mean, std, *(() if size is None else (size,)), rest=rest, generator=generator,
                                dtype=dtype,
                    device=device, requires_grad=requires_grad)
    given = [x.detach() for x in (mean, std) if hasattr(x, "_key")]
    if bool(given) == (size is not None):
        raise ArgumentTypeError("normal", f"mean of type {type(mean).__name__}, std of type {type(std).__name__}, "
                                f"size={size}", "numbers have a size, tensors have a shape",
                                "pass size with two numbers only")
    _check_deviation(std)
    if not given:
        chosen, state = options("normal", dtype, generator.device if device is None and generator else device)
        shape = shape_of("normal", (size,))
        if chosen is dtypes.float32 and state.runtime.target is not None:
            drawn = drawn_tensor("normal", NORMAL_SCALED[0], state, shape, chosen, 1, generator,
                                 (float(std), float(mean)))
            return as_leaf(drawn) if requires_grad else drawn
        drawn = floats("randn", NORMAL, shape, chosen, state, generator)
    else:
        shape = broadcast_shapes("normal", [tuple(x.shape) for x in given])
        chosen = given[0].dtype
        drawn = floats("randn", NORMAL, shape, chosen, given[0]._device_state, generator)
    parts = [x.detach() if hasattr(x, "_key") else x for x in (mean, std)]
    result = _connected((drawn * parts[1] + parts[0]).to(chosen if dtype is None else dtype),
                        *[x for x in (mean, std) if hasattr(x, "_key")])
    return as_leaf(result) if requires_grad else result


def _check_deviation(std: Any) -> None:
    if not hasattr(std, "_key"):
        wrong = std < 0
    elif std.dtype.is_complex:
        raise DtypeError("normal", f"std of dtype {std.dtype.name}", "standard deviations are real", "pass std.abs()")
    else:
        wrong = std._device_state.holds_data and std.numel() and any_true(std.detach() < 0)
    if wrong:
        raise ArgumentError("normal", f"std={std if not hasattr(std, '_key') else 'a tensor with negative elements'}",
                            "a standard deviation is not negative", "pass non-negative numbers")


def bernoulli(input: Any, p: Any = None, *, generator: Generator | None = None, out: Any = None) -> Any:
    """Draw 1 with the probabilities in ``input``, or with probability ``p``, else 0.

    Raises:
        ArgumentError: A probability is outside of [0, 1].
        UndefinedDtype: The probabilities are not floats.
    """
    if p is None and out is None and not (ACTIVE or VALUE_OBSERVERS):
        small = small_bernoulli(input, generator)
        if small is not None:
            return small
    if _watched("bernoulli", input):
        return dispatch_factory(bernoulli, input, *(() if p is None else (p,)), generator=generator)
    probability = checked_probability("bernoulli", input if p is None else p)
    drawn = uniforms(input.detach(), generator) < probability
    if out is not None and not input.requires_grad:
        return write_out("bernoulli", out, drawn)  # of any dtype
    result = _connected(drawn.to(input.dtype), input)
    return result if out is None else write_out("bernoulli", out, result)


# ------------------------------------------------------------------------------------------------------- categories


def _check_weights(input: Any, num_samples: int, replacement: bool) -> None:
    """Refuse weights from which no categories can be drawn.

    Raises:
        ArgumentError: There are too few categories, weights are negative or not finite, or all are zero.
        ShapeError: The weights are neither a vector nor a matrix.
        UndefinedDtype: The weights are not real floats.
    """
    if few_are_weights(input, num_samples, replacement):
        return
    check_floats("multinomial", input.dtype)
    if input.ndim not in (1, 2):
        raise ShapeError("multinomial", f"a tensor of shape {list(input.shape)}",
                         "weights are a vector, or the rows of a matrix", "reshape them")
    if num_samples <= 0:
        raise ArgumentError("multinomial", f"num_samples={num_samples}", "there is at least one sample",
                            "pass a positive number")
    if not replacement and num_samples > input.shape[-1]:
        raise ArgumentError("multinomial", f"{num_samples} samples of {input.shape[-1]} categories",
                            "a category is drawn once without replacement", "pass replacement=True")
    if not input._device_state.holds_data or not input.numel():
        return
    least, most = value_range(input.detach())
    if not (least >= 0 and most < math.inf):  # NaN is neither
        raise ArgumentError("multinomial", "weights that are negative or not finite",
                            "weights are finite and not negative", "check the weights")
    if any_true(input.sum(-1) <= 0):
        raise ArgumentError("multinomial", "only zero weights", "a category has a positive weight",
                            "check the weights")


@composite("first_to_come(Tensor weights, Tensor drawn, int count) -> Tensor", method=False, function=False)
def first_to_come(weights: Any, drawn: Any, count: int) -> Any:
    """Return the categories with the largest ratios of weight to an exponential number, from uniform numbers."""
    waiting = (-drawn).log1p().neg().clamp(min=2.0**-100)
    return functions.topk(weights / waiting, count, -1)[1]


def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Generator | None = None,
                out: Any = None) -> Any:
    """Draw categories with probabilities in proportion to weights: (num_samples,) or (rows, num_samples), int64.

    Without replacement, the samples are the categories with the largest ratios of weight to an exponential number.

    Raises:
        ArgumentError: There are too few categories, weights are negative or not finite, or all are zero.
        DtypeError: ``out`` does not hold int64.
        ShapeError: The weights are neither a vector nor a matrix.
    """
    if _watched("multinomial", input):
        return dispatch_factory(multinomial, input, num_samples, replacement, generator=generator)
    weights = input.detach()
    _check_weights(weights, num_samples, replacement)
    if out is not None and out.dtype is not dtypes.int64:
        raise DtypeError("multinomial", f"out of dtype {out.dtype.name}", "categories are int64",
                         "pass an out of int64")
    weights = weights.to(arithmetic_dtype(weights.dtype))
    if replacement:
        result = _with_replacement(weights, num_samples, generator)
    else:
        result = call(COMPOSITES["first_to_come"], weights, uniforms(weights, generator), num_samples)
    return result if out is None else write_out("multinomial", out, result)


def _with_replacement(weights: Any, num_samples: int, generator: Generator | None) -> Any:
    """Return the first category whose cumulative weight exceeds a uniform fraction of the total."""
    sums = weights.cumsum(-1)
    drawn = uniforms(weights.new_empty((*weights.shape[:-1], num_samples)), generator) * sums[..., -1:]
    places = functions.searchsorted(sums, drawn, right=True)
    return places.minimum(sums.argmax(-1, True))  # weights after the maximum are zero


# ------------------------------------------------------------------------------------------------------------ counts


def _log_tail(k: Any) -> Any:
    """Return log(k!) - k log(k) + k: half of log(2 pi k), and three terms of Stirling's series."""
    safe = k.clamp(min=1)
    square = safe * safe
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / safe
    return functions.where(k < 0.5, 0.0, series + (safe * (2 * math.pi)).log() * 0.5)


def _deviance(k: Any, mean: Any) -> Any:
    """Return k log(k / mean) - k + mean, accurate near the mean.

    C. Loader, "Fast and accurate computation of binomial probabilities", 2000.
    """
    distance = (k - mean) / mean
    return mean * ((1 + distance) * distance.clamp(min=-1 + 2.0**-20).log1p() - distance)


def _draw_by_inversion(start: Any, ratio: Callable[[int], Any], uniform: Any) -> Any:
    """Draw counts by inversion: the first k at which the sum of probabilities, from ``start``, exceeds ``uniform``."""
    count, probability, total = uniform.new_zeros(tuple(uniform.shape)), start, start
    for k in range(1, _MOST):
        beyond = uniform >= total
        if not any_true(beyond):
            break
        count = count + beyond.to(count.dtype)
        probability = probability * ratio(k)
        total = total + probability
    return count


def _draw_by_rejection(needed: Any, generator: Generator | None, propose: Callable[[Any, Any], tuple[Any, Any]]) -> Any:
    """Draw proposals from two uniform numbers each, all of them again until every needed one is accepted."""
    result, pending = needed.new_zeros(tuple(needed.shape), dtype=dtypes.float32), needed
    while True:
        shape = needed.new_empty(tuple(needed.shape), dtype=dtypes.float32)
        proposal, accepted = propose(uniforms(shape, generator) - 0.5, uniforms(shape, generator))
        result = functions.where(pending & accepted, proposal, result)
        pending = pending & ~accepted
        if not any_true(pending):
            return result


def _poisson_proposal(rate: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return the proposals of transformed rejection with squeeze for Poisson numbers.

    W. Hormann, "The transformed rejection method for generating Poisson random variables", 1993, algorithm PTRS.
    """
    b = 0.931 + 2.53 * rate.sqrt()
    a = -0.059 + 0.02483 * b
    log_inverse = (1.1239 + 1.1328 / (b - 3.4)).log()
    squeeze = 0.9277 - 3.6224 / (b - 2)

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        us = (0.5 - u.abs()).clamp(min=2.0**-24)
        k = ((2 * a / us + b) * u + rate + 0.43).floor()
        safe = k.clamp(min=0)
        fits = v.log() + log_inverse - (a / (us * us) + b).log() <= -_log_tail(safe) - _deviance(safe, rate)
        quick = (us >= 0.07) & (v <= squeeze)
        return safe, (k >= 0) & (quick | (((us >= 0.013) | (v <= us)) & fits))

    return propose


def poisson(input: Any, generator: Generator | None = None) -> Any:
    """Draw Poisson numbers with the rates in ``input``: P(k) = rate**k exp(-rate) / k!.

    Raises:
        ArgumentError: A rate is negative or NaN.
        UndefinedDtype: The rates are not floats.
    """
    if _watched("poisson", input):
        return dispatch_factory(poisson, input, *(() if generator is None else (generator,)))
    check_floats("poisson", input.dtype)
    rate = input.detach().to(arithmetic_dtype(input.dtype))
    if not rate._device_state.holds_data:
        return empty_like(input.detach())
    if any_true(~(rate >= 0)):
        raise ArgumentError("poisson", "a negative or undefined rate", "rates are not negative", "check the rates")
    few = rate.clamp(max=_LARGE)
    result = _draw_by_inversion((-few).exp(), lambda k: few / k, uniforms(rate, generator))
    large = rate >= _LARGE
    if any_true(large):
        many = _draw_by_rejection(large, generator, _poisson_proposal(rate.clamp(min=_LARGE)))
        result = functions.where(large, many.to(rate.dtype), result)
    return _connected(result.to(input.dtype), input)


def _binomial_proposal(n: Any, p: Any) -> Callable[[Any, Any], tuple[Any, Any]]:
    """Return the proposals of transformed rejection with squeeze for binomial numbers, for p <= 1/2 and n p >= 10.

    W. Hormann, "The generation of binomial random variates", 1993, algorithm BTRS.
    """
    mean, rest = n * p, n * (1 - p)
    spread = (mean * (1 - p)).sqrt()
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    alpha = (2.83 + 5.1 / b) * spread
    squeeze = 0.92 - 4.2 / b

    def weight(k: Any) -> Any:
        return -_log_tail(k) - _log_tail(n - k) - _deviance(k, mean) - _deviance(n - k, rest)

    highest = weight(((n + 1) * p).floor())

    def propose(u: Any, v: Any) -> tuple[Any, Any]:
        us = (0.5 - u.abs()).clamp(min=2.0**-24)
        k = ((2 * a / us + b) * u + mean + 0.5).floor()
        safe = k.clamp(min=0).minimum(n)
        fits = (v * alpha / (a / (us * us) + b)).log() <= weight(safe) - highest
        return safe, (k >= 0) & (k <= n) & (((us >= 0.07) & (v <= squeeze)) | fits)

    return propose


def binomial(count: Any, prob: Any, generator: Generator | None = None) -> Any:
    """Draw numbers of successes among ``count`` trials of probability ``prob``.

    Args:
        count: Numbers of trials, as floats; both broadcast.
        prob: Probabilities; those outside of [0, 1] count as the nearest bound.
        generator: The source of random numbers.

    Raises:
        DtypeError: The dtypes differ.
        UndefinedDtype: The dtypes are not floats.
    """
    if _watched("binomial", count, prob):
        return dispatch_factory(binomial, count, prob, *(() if generator is None else (generator,)))
    check_floats("binomial", count.dtype)
    if prob.dtype is not count.dtype:
        raise DtypeError("binomial", f"count of {count.dtype.name}, prob of {prob.dtype.name}",
                         "both have one dtype", "convert with .to(dtype)")
    work = arithmetic_dtype(count.dtype)
    n, p = functions.broadcast_tensors(count.detach().to(work).clamp(min=0), prob.detach().to(work).clamp(0, 1))
    if not n._device_state.holds_data:
        return count.new_empty(tuple(n.shape))
    rare = functions.where(p > 0.5, 1 - p, p)
    large = n * rare >= _LARGE
    few = functions.where(large, 0.0, rare)
    odds = few / (1 - few)
    result = _draw_by_inversion((n * (-few).log1p()).exp(), lambda k: odds * (n - (k - 1)).clamp(min=0) / k,
                       uniforms(n, generator))
    if any_true(large):
        many = _draw_by_rejection(large, generator, _binomial_proposal(
            functions.where(large, n, 4 * _LARGE), functions.where(large, rare, 0.5)))
        result = functions.where(large, many.to(work), result)
    result = result.minimum(n)
    return functions.where(p > 0.5, n - result, result).to(count.dtype)
