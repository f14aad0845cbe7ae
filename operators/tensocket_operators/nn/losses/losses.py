"""Elementwise losses: one kernel for the terms and one for their reduction."""

from __future__ import annotations

import math
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.blame import blame
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from ...kinds.composite import composite
from ...kinds.pointwise import Pointwise
from ...reductions.value_checks import any_outside, any_true, value_range
from ...unrolled.checks import declared, run_check
from ...unrolled.recomputed import Recomputed

_HALF_LOG_2PI: Final = 0.5 * math.log(2 * math.pi)
#: Reductions in the order of PyTorch's numbers.
_NUMBERED: Final = ("none", "mean", "sum")
#: The smallest logarithm of a probability that a cross entropy uses.
_LOG_FLOOR: Final = -100.0


def reduction_name(operator: str, reduction: Any) -> str:
    """Return the name of a reduction, given its name or its number, which ``torch``'s own functions also take.

    Raises:
        ArgumentError: The reduction is unknown.
    """
    name = _NUMBERED[reduction] if type(reduction) is int and 0 <= reduction < 3 else reduction
    if name in _NUMBERED:
        return str(name)
    raise ArgumentError(
        operator, f"reduction={reduction!r}", "the reduction is 'none', 'mean' or 'sum'", "pass one of these"
    )


def reduced(loss: Any, reduction: Any, operator: str) -> Any:
    """Return the terms of a loss, their mean or their sum."""
    name = reduction_name(operator, reduction)
    return loss if name == "none" else loss.mean() if name == "mean" else loss.sum()


def weighted(terms: Any, weight: Any, reduction: Any, operator: str, *, by_weight: bool) -> Any:
    """Return weighted terms, reduced; ``by_weight`` divides the mean by the sum of weights.

    Raises:
        ShapeError: The weights have another shape than the terms.
    """
    if tuple(weight.shape) != tuple(terms.shape):
        raise ShapeError(operator, f"weight {list(weight.shape)} for terms {list(terms.shape)}",
                         "there is one weight for each element", "pass weights of the input's shape")
    terms = terms * weight
    if by_weight and reduction_name(operator, reduction) == "mean":
        return terms.sum() / weight.sum()
    return reduced(terms, reduction, operator)


def _softplus_of_minus(m: Any, x: Any) -> Any:
    """Return log(1 + exp(-x)) without overflow."""
    return m.maximum(-x, 0) + m.log1p(m.exp(-m.abs(x)))


# ------------------------------------------------------------------------------------------- distances of elements


def _as_large(input: Any, target: Any) -> tuple[Any, Any]:
    """Expand a 0-dimensional operand to the other one's shape, so that its dtype counts as much."""
    if (input.ndim and target.ndim) or input.ndim == target.ndim:
        return input, target
    return tuple(functions.broadcast_tensors(input, target))


@composite(
    "mse_loss(Tensor input, Tensor target, *, any reduction='mean', Tensor? weight=None) -> Tensor",
    method=False, namespace="nn.functional", hands_by_name=True,
)
def mse_loss(input: Any, target: Any, *, reduction: Any = "mean", weight: Any = None) -> Any:
    """Return squared differences; with weights, the mean is the weighted mean."""
    with blame("mse_loss"):
        difference = functions.sub(*_as_large(input, target))
    terms = difference * difference
    return reduced(terms, reduction, "mse_loss") if weight is None else (
        weighted(terms, weight, reduction, "mse_loss", by_weight=True))


@composite(
    "l1_loss(Tensor input, Tensor target, *, any reduction='mean', Tensor? weight=None) -> Tensor",
    method=False, namespace="nn.functional", hands_by_name=True,
)
def l1_loss(input: Any, target: Any, *, reduction: Any = "mean", weight: Any = None) -> Any:
    """Return absolute differences; with weights, the mean is the weighted mean."""
    with blame("l1_loss"):
        terms = functions.sub(*_as_large(input, target)).abs()
    return reduced(terms, reduction, "l1_loss") if weight is None else (
        weighted(terms, weight, reduction, "l1_loss", by_weight=True))


def _huber(m: Any, x: Any, y: Any, delta: float) -> Any:
    size = m.abs(x - y)
    return m.where(size < delta, 0.5 * size * size, delta * (size - 0.5 * delta))


def _smooth(m: Any, x: Any, y: Any, beta: float) -> Any:
    size = m.abs(x - y)
    return m.where(size < beta, 0.5 * size * size / beta, size - 0.5 * beta)


huber_terms: Final = Pointwise(
    "huber_terms(Tensor input, Tensor target, float delta) -> Tensor",
    "Half the squared difference up to delta, a line beyond.",
    _huber, kinds="f", method=False, function=False,
    derivative=Derivative(
        input=lambda grad, input, target, delta: grad * (input - target).clamp(-delta, delta),
        target=lambda grad, input, target, delta: grad * (target - input).clamp(-delta, delta)),
)
smooth_l1_terms: Final = Pointwise(
    "smooth_l1_terms(Tensor input, Tensor target, float beta) -> Tensor",
    "The absolute difference, smoothed by a parabola up to beta.",
    _smooth, kinds="f", method=False, function=False,
    derivative=Derivative(
        input=lambda grad, input, target, beta: grad * ((input - target) / beta).clamp(-1, 1),
        target=lambda grad, input, target, beta: grad * ((target - input) / beta).clamp(-1, 1)),
)


@composite(
    "huber_loss(Tensor input, Tensor target, any reduction='mean', float delta=1.0, Tensor? weight=None) -> Tensor",
    method=False, namespace="nn.functional", hands_by_name=True,
)
def huber_loss(input: Any, target: Any, reduction: Any = "mean", delta: float = 1.0, weight: Any = None) -> Any:
    """Return 0.5 d² for differences |d| up to ``delta``, delta * (|d| - 0.5 delta) for larger ones.

    Raises:
        ArgumentError: ``delta`` is not positive.
    """
    if not delta > 0:
        raise ArgumentError("huber_loss", f"delta={delta}", "delta is positive", "use l1_loss for a plain distance")
    with blame("huber_loss"):
        terms = call(huber_terms, *_as_large(input, target), delta)
    return reduced(terms, reduction, "huber_loss") if weight is None else (
        weighted(terms, weight, reduction, "huber_loss", by_weight=False))


@composite(
    "smooth_l1_loss(Tensor input, Tensor target, any reduction='mean', float beta=1.0) -> Tensor",
    method=False, namespace="nn.functional", hands_by_name=True,
)
def smooth_l1_loss(input: Any, target: Any, reduction: Any = "mean", beta: float = 1.0) -> Any:
    """Return 0.5 d² / beta for differences |d| below ``beta``, |d| - 0.5 beta for larger ones; l1_loss for beta 0.

    Raises:
        ArgumentError: ``beta`` is negative.
    """
    if beta < 0:
        raise ArgumentError("smooth_l1_loss", f"beta={beta}", "beta is not negative", "pass a positive number")
    with blame("smooth_l1_loss"):
        input, target = _as_large(input, target)
        terms = (input - target).abs() if beta == 0 else call(smooth_l1_terms, input, target, beta)
    return reduced(terms, reduction, "smooth_l1_loss")


# ------------------------------------------------------------------------------------------------ likelihoods


bce_terms: Final = Pointwise(
    "bce_terms(Tensor input, Tensor target) -> Tensor",
    "-target * log(input) - (1 - target) * log(1 - input), with logarithms of at least -100.",
    lambda m, p, t: (t - 1) * m.maximum(m.log1p(-p), _LOG_FLOOR) - t * m.maximum(m.log(p), _LOG_FLOOR),
    kinds="f", method=False, function=False,
    derivative=Derivative(
        input=lambda grad, input, target: grad * (input - target) / ((1 - input) * input).clamp(min=1e-12),
        target=lambda grad, input: grad * ((-input).log1p() - input.log())),
)
bce_logits_terms: Final = Pointwise(
    "bce_logits_terms(Tensor input, Tensor target, Operand pos_weight) -> Tensor",
    "-pos_weight * target * log(sigmoid(input)) - (1 - target) * log(1 - sigmoid(input)).",
    lambda m, x, t, w: (1 - t) * x + ((w - 1) * t + 1) * _softplus_of_minus(m, x),
    kinds="f", method=False, function=False,
    derivative=Derivative(
        input=lambda grad, input, target, pos_weight: grad * (
            (1 - target) - ((pos_weight - 1) * target + 1) * (-input).sigmoid()),
        target=lambda grad, input, pos_weight: grad * ((pos_weight - 1) * _minus_log_sigmoid(input) - input),
        pos_weight=lambda grad, input, target: grad * target * _minus_log_sigmoid(input)),
)


def _minus_log_sigmoid(x: Any) -> Any:
    """Return log(1 + exp(-x)) of a tensor without overflow."""
    return call(bce_logits_terms, x, x.new_ones(()), 1.0)


def log_sigmoid(x: Any) -> Any:
    """Return log(sigmoid(x)) without overflow, in one kernel."""
    return -_minus_log_sigmoid(x)


def _same_shape(operator: str, input: Any, target: Any) -> None:
    if tuple(input.shape) != tuple(target.shape):
        raise ShapeError(operator, f"input {list(input.shape)} and target {list(target.shape)}",
                         "the target has the input's shape", "reshape or expand one of them")


@declared
def _check_probabilities(name: str, values: Any) -> None:
    values = values.detach()
    if any_outside(values, 0, 1):
        low, high = value_range(values)
        raise ArgumentError("binary_cross_entropy", f"{name} from {low} to {high}",
                            "inputs and targets are probabilities",
                            "apply sigmoid first, or use binary_cross_entropy_with_logits")


@composite(
    "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, any reduction='mean') -> Tensor",
    method=False, namespace="nn.functional", hands_by_name=True,
)
def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: Any = "mean") -> Any:
    """Return the cross entropy of probabilities ``input`` for probabilities ``target``.

    Logarithms are clamped to at least -100. On the host, inputs are checked to be probabilities.

    Raises:
        ShapeError: The target has another shape.
        DtypeError: The target has another dtype.
        ArgumentError: An input or a target is not a probability.
    """
    _same_shape("binary_cross_entropy", input, target)
    if input.dtype is not target.dtype:
        raise DtypeError("binary_cross_entropy", f"a target of {target.dtype.name} for an input of {input.dtype.name}",
                         "input and target have one dtype", "convert the target with .to(input.dtype)")
    for name, values in (("inputs", input), ("targets", target)):
        if values._device_state.runtime.profile.host_resident and values._device_state.holds_data:
            run_check(_check_probabilities, name, values)
    with blame("binary_cross_entropy"):
        terms = call(bce_terms, input, target)
    return reduced(terms if weight is None else terms * weight, reduction, "binary_cross_entropy")


@composite(
    "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, Tensor? pos_weight=None, "
    "any reduction='mean') -> Tensor",
    method=False,
)
def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, pos_weight: Any = None,
                                     reduction: Any = "mean") -> Any:
    """Return the cross entropy of sigmoid(input) for probabilities ``target``, without overflow.

    Args:
        input: Logits.
        target: Probabilities, of the same shape.
        weight: A factor per element, broadcast to the input's shape.
        pos_weight: A factor for the positive terms, broadcast to the input's shape.
        reduction: ``none``, ``mean`` or ``sum``.

    Raises:
        ShapeError: The target has another shape.
    """
    _same_shape("binary_cross_entropy_with_logits", input, target)
    with blame("binary_cross_entropy_with_logits"):
        terms = call(bce_logits_terms, input, target, 1.0 if pos_weight is None else pos_weight)
    return reduced(terms if weight is None else terms * weight, reduction, "binary_cross_entropy_with_logits")


def _xlogy(m: Any, t: Any) -> Any:
    return m.where(m.eq(t, 0), 0, t * m.log(t))


kl_terms: Final = Pointwise(
    "kl_terms(Tensor input, Tensor target) -> Tensor",
    "target * (log(target) - input); where the target is 0, minus target * input.",
    lambda m, x, t: _xlogy(m, t) - t * x,
    kinds="f", method=False, function=False,
    derivative=Derivative(
        input=lambda grad, target: -grad * target,
        target=lambda grad, input, target: grad * (target.log().masked_fill(target == 0, 0) + 1 - input)
        .where(target != 0, -input)),
)
kl_log_terms: Final = Pointwise(
    "kl_log_terms(Tensor input, Tensor target) -> Tensor",
    "exp(target) * (target - input).",
    lambda m, x, t: m.exp(t) * (t - x),
    kinds="f", method=False, function=False,
    derivative=Derivative(
        input=lambda grad, target: -grad * target.exp(),
        target=lambda grad, input, target: grad * target.exp() * (target + 1 - input)),
)


@composite("kl_div(Tensor input, Tensor target, any reduction='mean', *, bool log_target=False) -> Tensor",
           method=False)
def kl_div(input: Any, target: Any, reduction: Any = "mean", *, log_target: bool = False) -> Any:
    """Return the Kullback-Leibler divergence of log probabilities ``input`` from probabilities ``target``.

    Args:
        input: Log probabilities.
        target: Probabilities, or their logarithms.
        reduction: ``none``, ``mean`` (of all elements), ``batchmean`` (of the first dimension) or ``sum``.
        log_target: Whether the target holds logarithms.
    """
    with blame("kl_div"):
        terms = call(kl_log_terms if log_target else kl_terms, input, target)
    if reduction == "batchmean":
        return terms.sum() / input.shape[0] if input.ndim else terms.sum()
    return reduced(terms, reduction, "kl_div")


@composite(
    "poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, float eps=1e-08, "
    "any reduction='mean') -> Tensor",
    method=False,
)
def poisson_nll_loss(input: Any, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8,
                     reduction: Any = "mean") -> Any:
    """Return the negative log likelihood of counts ``target`` under Poisson distributions.

    Args:
        input: Logarithms of the rates, or the rates.
        target: Counts.
        log_input: Whether the input holds logarithms: exp(input) - target * input; else input - target *
            log(input + eps).
        full: Whether Stirling's approximation of log(target!) is added for targets above 1.
        eps: Keeps the logarithm of a rate finite.
        reduction: ``none``, ``mean`` or ``sum``.
    """
    with blame("poisson_nll_loss"):
        terms = input.exp() - target * input if log_input else input - target * (input + eps).log()
        if full:
            stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
            terms = terms + stirling.masked_fill(target <= 1, 0)
    return reduced(terms, reduction, "poisson_nll_loss")


@composite(
    "gaussian_nll_loss(Tensor input, Tensor target, Operand var, bool full=False, float eps=1e-06, "
    "any reduction='mean') -> Tensor",
    method=False, namespace="nn.functional", hands_by_name=True,
    recomputed=Recomputed(copied=("input", "target", "var")))
def gaussian_nll_loss(input: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6,
                      reduction: Any = "mean") -> Any:
    """Return the negative log likelihood of ``target`` under normal distributions of mean ``input``, variance ``var``.

    Args:
        input: Means.
        target: Values.
        var: Variances of the input's shape, or one for each row of the last dimension, or a number; clamped to at least
            ``eps``. The gradient is that at the given value.
        full: Whether the constant 0.5 * log(2 pi) is added.
        eps: The smallest variance.
        reduction: ``none``, ``mean`` or ``sum``.

    Raises:
        ShapeError: The variances do not fit the input.
        ArgumentError: A variance is negative.
    """
    var = _variances(input, var)
    if var._device_state.holds_data:
        run_check(_check_variances, var)
    given = var.detach()
    var = functions.where(given < eps, var + (eps - given), var)
    with blame("gaussian_nll_loss"):
        terms = 0.5 * (var.log() + (input - target).square() / var)
    return reduced(terms + _HALF_LOG_2PI if full else terms, reduction, "gaussian_nll_loss")


@declared
def _check_variances(var: Any) -> None:
    if any_true(var.detach() < 0):
        raise ArgumentError("gaussian_nll_loss", "a negative variance", "variances are not negative",
                            "predict their logarithm or apply softplus")


def _variances(input: Any, var: Any) -> Any:
    """Return variances as a tensor that broadcasts with the input."""
    if not hasattr(var, "_key"):
        return input.new_full(tuple(input.shape), var)
    given, wanted = tuple(var.shape), tuple(input.shape)
    if given == wanted:
        return var
    if given == wanted[:-1]:
        return var.unsqueeze(-1)
    if len(given) == len(wanted) and [v for v, n in zip(given, wanted, strict=True) if v != n] == [1]:
        return var
    raise ShapeError("gaussian_nll_loss", f"var {list(given)} and input {list(wanted)}",
                     "there is a variance for each element or for each row", "check the shape of var")
