"""Rounding to a grid of integers, in floats; tensors of integers with a scale do not exist here."""

from __future__ import annotations

from typing import Any

from tensocket.autograd import Function
from tensocket.errors import ArgumentError
from tensocket.namespace.refusals import refused
from tensocket_operators import Tensor


class qscheme:
    """How the scales of a quantized tensor are chosen.

    Args:
        name: The name.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


per_tensor_affine, per_channel_affine = qscheme("per_tensor_affine"), qscheme("per_channel_affine")
per_tensor_symmetric, per_channel_symmetric = qscheme("per_tensor_symmetric"), qscheme("per_channel_symmetric")
per_channel_affine_float_qparams = qscheme("per_channel_affine_float_qparams")


class _FakeQuantize(Function):
    """The nearest point of a grid, with the gradient of the identity inside of the grid."""

    @staticmethod
    def forward(ctx: Any, input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int) -> Tensor:
        """Return the points."""
        place = (input / scale).round() + zero_point
        ctx.save_for_backward((place >= quant_min) & (place <= quant_max))
        return (place.clamp(quant_min, quant_max) - zero_point) * scale  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
        """Return the gradient of the input."""
        inside, = ctx.saved_tensors
        return grad * inside, None, None, None, None


def _check(operator: str, quant_min: int, quant_max: int) -> None:
    if quant_min > quant_max:
        raise ArgumentError(operator, f"quant_min={quant_min} and quant_max={quant_max}", "`quant_min` should be less "
                            "than or equal to `quant_max`", "exchange them")


def fake_quantize_per_tensor_affine(input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int
                                    ) -> Tensor:
    """Return the nearest ``(q - zero_point) * scale`` with an integer ``q`` from ``quant_min`` to ``quant_max``.

    Args:
        input: Floats of any shape.
        scale: The distance of two points; a number or a tensor of one.
        zero_point: The integer of zero; a number or a tensor of one.
        quant_min: The smallest integer.
        quant_max: The largest integer.

    Raises:
        ArgumentError: ``quant_min`` is larger than ``quant_max``.
    """
    _check("fake_quantize_per_tensor_affine", quant_min, quant_max)
    return _FakeQuantize.apply(input, scale, zero_point, quant_min, quant_max)  # type: ignore[no-any-return]


def fake_quantize_per_channel_affine(input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int,
                                     quant_max: int) -> Tensor:
    """Do the same as ``fake_quantize_per_tensor_affine`` with a scale and a zero for every index along ``axis``.

    Args:
        input: Floats of any shape.
        scale: Shape ``(channels,)``.
        zero_point: Shape ``(channels,)``.
        axis: The dimension of the channels.
        quant_min: The smallest integer.
        quant_max: The largest integer.

    Raises:
        ArgumentError: ``quant_min`` is larger than ``quant_max``.
    """
    _check("fake_quantize_per_channel_affine", quant_min, quant_max)
    shape = [1] * input.dim()
    shape[axis] = -1
    return _FakeQuantize.apply(  # type: ignore[no-any-return]
        input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)


REFUSED = refused(
    "", "choose_qparams_optimized dequantize empty_quantized fused_moving_avg_obs_fake_quant int_repr "
    "q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point quantize_per_channel "
    "quantize_per_tensor quantize_per_tensor_dynamic quantized_batch_norm quantized_max_pool1d quantized_max_pool2d "
    "_fake_quantize_learnable_per_channel_affine _fake_quantize_learnable_per_tensor_affine "
    "_make_per_channel_quantized_tensor _make_per_tensor_quantized_tensor",
    "there are no quantized tensors", "round floats with fake_quantize_per_tensor_affine, or use torchao's quantize_")
globals().update(REFUSED)
