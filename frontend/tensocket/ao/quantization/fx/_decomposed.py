"""Rounding of floats to integers and back, as operators of the library ``quantized_decomposed``."""

from __future__ import annotations

from typing import Any, Final

import tensocket
from tensocket import Tensor
from tensocket.library import Library

#: The library of the operators.
quantized_decomposed_lib: Final = Library("quantized_decomposed", "DEF")


def _define(name: str, arguments: str, result: str, kernel: Any) -> None:
    quantized_decomposed_lib.define(f"{name}({arguments}) -> {result}")
    quantized_decomposed_lib.impl(name, kernel, "CompositeExplicitAutograd")


def _along(axis: int, input: Tensor, values: Tensor) -> Tensor:
    shape = [1] * input.dim()
    shape[axis] = -1
    return values.reshape(shape)


def quantize_per_tensor(input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Any
                        ) -> Tensor:
    """Return the integers ``round(input / scale) + zero_point``, from ``quant_min`` to ``quant_max``.

    Args:
        input: Floats.
        scale: The distance of two points.
        zero_point: The integer of zero.
        quant_min: The smallest integer.
        quant_max: The largest integer.
        dtype: The integers' dtype.
    """
    return ((input.float() * (1.0 / scale)).round() + zero_point).clamp(quant_min, quant_max).to(dtype)  # type: ignore[no-any-return]


def dequantize_per_tensor(input: Tensor, scale: Any, zero_point: Any, quant_min: int, quant_max: int, dtype: Any, *,
                          out_dtype: Any = None) -> Tensor:
    """Return the floats of integers: ``(input - zero_point) * scale``.

    Args:
        input: Integers.
        scale: The distance of two points.
        zero_point: The integer of zero.
        quant_min: The smallest integer.
        quant_max: The largest integer.
        dtype: The integers' dtype.
        out_dtype: The floats' dtype; float32 by default.
    """
    return (input.to(out_dtype or tensocket.float32) - zero_point) * scale  # type: ignore[no-any-return]


def quantize_per_channel(input: Tensor, scales: Tensor, zero_points: Tensor, axis: int, quant_min: int, quant_max: int,
                         dtype: Any) -> Tensor:
    """Do the same as ``quantize_per_tensor`` with a scale and a zero for every index along ``axis``."""
    return quantize_per_tensor(input, _along(axis, input, scales), _along(axis, input, zero_points), quant_min,
                               quant_max, dtype)


def dequantize_per_channel(input: Tensor, scales: Tensor, zero_points: Tensor | None, axis: int, quant_min: int,
                           quant_max: int, dtype: Any, *, out_dtype: Any = None) -> Tensor:
    """Do the same as ``dequantize_per_tensor`` with a scale and a zero for every index along ``axis``."""
    zeros = 0 if zero_points is None else _along(axis, input, zero_points)
    return dequantize_per_tensor(input, _along(axis, input, scales), zeros, quant_min, quant_max, dtype,
                                 out_dtype=out_dtype)


def choose_qparams_tensor(input: Tensor, quant_min: int, quant_max: int, eps: float, dtype: Any
                          ) -> tuple[Tensor, Tensor]:
    """Return the scale and zero with which the integers cover all values and zero itself.

    Args:
        input: Floats.
        quant_min: The smallest integer.
        quant_max: The largest integer.
        eps: The smallest scale.
        dtype: The integers' dtype.
    """
    low, high = input.min().clamp(max=0).double(), input.max().clamp(min=0).double()
    scale = ((high - low) / (quant_max - quant_min)).clamp(min=eps)
    return scale, (quant_min - (low / scale).round()).clamp(quant_min, quant_max).long()


_INTEGERS = "int quant_min, int quant_max, ScalarType dtype"
_OUT = "*, ScalarType? out_dtype=None"
_define("quantize_per_tensor", f"Tensor input, float scale, int zero_point, {_INTEGERS}", "Tensor", quantize_per_tensor)
_define("quantize_per_tensor.tensor", f"Tensor input, Tensor scale, Tensor zero_point, {_INTEGERS}", "Tensor",
        quantize_per_tensor)
_define("dequantize_per_tensor", f"Tensor input, float scale, int zero_point, {_INTEGERS}, {_OUT}", "Tensor",
        dequantize_per_tensor)
_define("dequantize_per_tensor.tensor", f"Tensor input, Tensor scale, Tensor zero_point, {_INTEGERS}, {_OUT}", "Tensor",
        dequantize_per_tensor)
_define("quantize_per_channel", f"Tensor input, Tensor scales, Tensor zero_points, int axis, {_INTEGERS}", "Tensor",
        quantize_per_channel)
_define("dequantize_per_channel", f"Tensor input, Tensor scales, Tensor? zero_points, int axis, {_INTEGERS}, {_OUT}",
        "Tensor", dequantize_per_channel)
_define("choose_qparams.tensor", "Tensor input, int quant_min, int quant_max, float eps, ScalarType dtype",
        "(Tensor, Tensor)", choose_qparams_tensor)
