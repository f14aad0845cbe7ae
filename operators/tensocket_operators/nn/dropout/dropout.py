"""Dropout: random elements or whole channels become 0, and the others are scaled so that the mean stays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.geometry import contiguous
from tensocket_core.keys import DTYPE_MASK, DTYPE_OF, dtype_bit
from tensocket_core.limits import finfo
from tensocket_core.tensor import wrap
from tensocket_plugins.contract.dtypes import bool_
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError
from tensocket_plugins.ir.element_types import COMPONENT, arithmetic_dtype

from ...kinds.composite import composite
from ...kinds.pointwise import Pointwise
from ...random import rand, rand_like
from ...random.distributions import UNIFORM
from ...random.draws import draw_array

#: Limit of selu for large negative numbers: minus scale * alpha (Klambauer et al., 2017).
_SELU_FLOOR: Final = -1.0507009873554804934193349852946 * 1.6732632423543772848170429916717

kept: Final[Pointwise] = Pointwise(
    "kept(Tensor input, Tensor draw, float p, float scale) -> Tensor",
    "input * scale where the draw is at least p, input * 0 elsewhere.",
    lambda m, x, u, p, scale: x * m.where(u < p, 0 * u, scale),
    kinds="f", method=False, function=False, launched=True,
    derivative=Derivative(input=lambda grad, draw, p, scale: call(kept, grad, draw, p, scale)),
)


def _check_probability(operator: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(operator, f"p={p}", "a probability lies between 0 and 1", "pass a value in that range")


def _check_floats(operator: str, input: Any) -> None:
    if not (input.dtype.is_floating_point or input.dtype.is_complex):
        raise DtypeError(operator, f"dtype {input.dtype.name}", "floats and complex numbers are scaled",
                         "convert with .float() first")


def _draw(input: Any, shape: tuple[int, ...] | None = None) -> Any:
    """Draw uniform numbers for the elements of a tensor, or of a shape; half precision gets unrounded ones."""
    dtype = arithmetic_dtype(COMPONENT.get(input.dtype, input.dtype))
    if shape is None or shape == tuple(input.shape):
        return rand_like(input, dtype=dtype)
    return rand(shape, dtype=dtype, device=input.device)


def _scaled(input: Any, draw: Any, p: float) -> Any:
    if input.dtype.is_complex or draw.dtype is not input.dtype:
        return input * ((draw >= p).to(draw.dtype) / (1 - p)).to(input.dtype)
    return call(kept, input, draw, p, 1 / (1 - p))


def _at_once(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return a closure that draws for arrays without gaps where no mode or transform intercepts calls."""
    dtype = DTYPE_OF.get(key & DTYPE_MASK)
    if dtype is None or dtype.kind != "float" or arithmetic_dtype(dtype) is not dtype:
        return None
    made, wide = state.key | dtype_bit(dtype), dtype.itemsize > 4

    def dropped(input: Any, p: float, train: bool) -> Any:
        array = input._array
        if ACTIVE or not train or not 0 < p < 1 or not array.size or not contiguous(array):
            return next_path(input, p, train)
        draw = draw_array("rand", UNIFORM[wide], state, array.shape, dtype, 1 + wide, None)
        return call(kept, input, wrap(draw, made), p, 1 / (1 - p))

    return dropped


@composite("dropout(Tensor input, float p=0.5, bool train=True) -> Tensor~", method=False, host_path=_at_once,
           by_layout=False)
def dropout(input: Any, p: float = 0.5, train: bool = True) -> Any:
    """Zero elements with probability ``p`` and divide the others by 1 - p; the identity when not training.

    Raises:
        ArgumentError: ``p`` is not a probability.
        DtypeError: The input has an integer dtype.
    """
    _check_probability("dropout", p)
    if not train or p == 0.0:
        return input
    if p == 1.0:
        return input * 0
    _check_floats("dropout", input)
    return _scaled(input, _draw(input), p)


@composite("native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)", method=False)
def native_dropout(input: Any, p: float, train: bool | None) -> Any:
    """Return (dropout(input), the bool mask of the elements that stay); None for ``train`` trains.

    Raises:
        ArgumentError: ``p`` is not a probability.
        DtypeError: The input has an integer dtype.
    """
    _check_probability("native_dropout", p)
    _check_floats("native_dropout", input)
    if train is False or p == 0.0:
        return input.clone(), input.new_ones(tuple(input.shape), dtype=bool_)
    if p == 1.0:
        return input * 0, input.new_zeros(tuple(input.shape), dtype=bool_)
    draw = _draw(input)
    return _scaled(input, draw, p), draw >= p


@composite("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor", method=False)
def native_dropout_backward(grad_output: Any, mask: Any, scale: float) -> Any:
    """Return the gradient of native_dropout: grad_output * mask * scale."""
    return grad_output * mask * scale


def _channels(operator: str, input: Any) -> tuple[int, ...]:
    """Return a shape with one element for each channel of each example."""
    if input.ndim < 2:
        raise ShapeError(operator, f"input {list(input.shape)}", "channels are dropped of at least two dimensions",
                         "pass [N, C, ...]")
    return (*input.shape[:2], *(1 for _ in range(input.ndim - 2)))


@composite("feature_dropout(Tensor input, float p, bool train) -> Tensor~", method=False, by_layout=False)
def feature_dropout(input: Any, p: float, train: bool) -> Any:
    """Drop whole channels; input is [N, C, ...].

    Raises:
        ArgumentError: ``p`` is not a probability.
        ShapeError: The input has fewer than two dimensions.
        DtypeError: The input has an integer dtype.
    """
    _check_probability("feature_dropout", p)
    if not train or p == 0.0 or input.numel() == 0:
        return input
    shape = _channels("feature_dropout", input)
    if p == 1.0:
        return input * 0
    _check_floats("feature_dropout", input)
    return _scaled(input, _draw(input, shape), p)


def _alpha(operator: str, input: Any, p: float, train: bool, channels: bool) -> Any:
    """Set dropped elements to the limit of selu at -inf; then scale and shift to mean 0 and variance 1."""
    _check_probability(operator, p)
    if not train or p == 0.0 or input.numel() == 0:
        return input
    shape = _channels(operator, input) if channels else tuple(input.shape)
    if p == 1.0:
        return input * 0
    _check_floats(operator, input)
    scale = 1 / math.sqrt((_SELU_FLOOR * _SELU_FLOOR * p + 1) * (1 - p))
    mask = _draw(input, shape) >= p
    shift = (~mask).to(input.dtype) * (_SELU_FLOOR * scale) - _SELU_FLOOR * scale * p
    return input * (mask.to(input.dtype) * scale) + shift


@composite("alpha_dropout(Tensor input, float p=0.5, bool train=False) -> Tensor~", method=False, by_layout=False)
def alpha_dropout(input: Any, p: float = 0.5, train: bool = False) -> Any:
    """Apply dropout that keeps mean 0 and variance 1: dropped elements become selu's limit at -inf; all are scaled.

    Raises:
        ArgumentError: ``p`` is not a probability.
        DtypeError: The input has an integer dtype.
    """
    return _alpha("alpha_dropout", input, p, train, channels=False)


@composite("feature_alpha_dropout(Tensor input, float p=0.5, bool train=False) -> Tensor~", method=False,
           by_layout=False)
def feature_alpha_dropout(input: Any, p: float = 0.5, train: bool = False) -> Any:
    """Apply alpha_dropout to whole channels; input is [N, C, ...].

    Raises:
        ArgumentError: ``p`` is not a probability.
        ShapeError: The input has fewer than two dimensions.
        DtypeError: The input has an integer dtype.
    """
    return _alpha("feature_alpha_dropout", input, p, train, channels=True)


def _written(input: Any, result: Any) -> Any:
    return input if result is input else input.copy_(result)


@composite("dropout_(Tensor! input, float p, bool train) -> Tensor", method=False)
def dropout_(input: Any, p: float, train: bool) -> Any:
    """Apply ``dropout`` in place."""
    return _written(input, dropout(input, p, train))


@composite("feature_dropout_(Tensor! input, float p, bool train) -> Tensor", method=False)
def feature_dropout_(input: Any, p: float, train: bool) -> Any:
    """Apply ``feature_dropout`` in place."""
    return _written(input, feature_dropout(input, p, train))


@composite("alpha_dropout_(Tensor! input, float p, bool train) -> Tensor", method=False)
def alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """Apply ``alpha_dropout`` in place."""
    return _written(input, alpha_dropout(input, p, train))


@composite("feature_alpha_dropout_(Tensor! input, float p, bool train) -> Tensor", method=False)
def feature_alpha_dropout_(input: Any, p: float, train: bool) -> Any:
    """Apply ``feature_alpha_dropout`` in place."""
    return _written(input, feature_alpha_dropout(input, p, train))


@composite("gumbel_softmax(Tensor logits, float tau=1.0, bool hard=False, int dim=-1) -> Tensor", method=False,
           namespace="nn.functional", hands_by_name=True)
def gumbel_softmax(logits: Any, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Any:
    """Return softmax((logits + g) / tau) with draws g from Gumbel's distribution (Jang et al., 2017).

    Args:
        logits: Unnormalised log probabilities.
        tau: Temperature.
        hard: Whether the result is one-hot, with the gradient of the soft one.
        dim: The dimension of the classes.
    """
    waiting = (-(-_draw(logits)).log1p()).clamp_min(finfo(arithmetic_dtype(logits.dtype)).tiny)
    soft = ((logits - waiting.log().to(logits.dtype)) / tau).softmax(dim)
    if not hard:
        return soft
    one_hot = soft.new_zeros(tuple(soft.shape)).scatter(dim, soft.detach().argmax(dim, True), 1.0)
    return one_hot - soft.detach() + soft
