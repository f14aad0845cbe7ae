"""Conversions between dtypes, and quantized numbers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import tensocket as torch
from tensocket_operators import Tensor

from .products import conv_integer
from .table import operator
from .values import DTYPES, NUMBERS, STRING, axis_in, dtype_of, text, to_array, to_value

#: Data types of 8 bits whose largest number takes the place of larger ones, where ``saturate`` is set.
_FLOATS_8: Final = (17, 18, 19, 20)
#: E8M0: powers of 2.
_SCALE_8: Final = 24
#: Ranges of integers by data type.
_RANGES: Final = {2: (0, 255), 3: (-128, 127), 4: (0, 65535), 5: (-32768, 32767), 21: (0, 15), 22: (-8, 7),
                  25: (0, 3), 26: (-2, 1)}


def type_of(value: Any) -> int:
    """Return the data type of a value, by its number."""
    if isinstance(value, Tensor):
        return NUMBERS[value.dtype]
    import onnx

    return STRING if value.dtype.kind in "OU" else int(onnx.helper.np_dtype_to_tensor_dtype(value.dtype))


@operator("Cast")
def cast(x: Any, to: Any, saturate: int = 1, round_mode: str = "up") -> Any:
    """Return x in another data type; 8-bit floats saturate unless told otherwise."""
    if not isinstance(to, int):  # a name, before version 6
        import onnx

        to = onnx.TensorProto.DataType.Value(text(to))
    if isinstance(x, Tensor) and to in DTYPES and to not in _FLOATS_8:
        return x.to(DTYPES[to])
    return to_value(_cast_array(to_array(x), to, bool(saturate), text(round_mode)), getattr(x, "device", None))


def _cast_array(x: Any, to: int, saturate: bool, round_mode: str) -> Any:
    import onnx

    if to == STRING:
        return np.array([_word(v) for v in x.reshape(-1)], dtype=object).reshape(x.shape)
    dtype = onnx.helper.tensor_dtype_to_np_dtype(to)
    if x.dtype == object:
        x = np.array([float(v) for v in x.reshape(-1)]).reshape(x.shape)
    if to == _SCALE_8:
        return onnx.numpy_helper.to_float8e8m0(x, saturate, round_mode).astype(dtype)
    if to in _FLOATS_8 and saturate:
        return onnx.numpy_helper.saturate_cast(x, dtype)
    return x.astype(dtype)


def _word(value: Any) -> str:
    return str(value) if isinstance(value, (str, np.str_)) else str(np.float32(value)) if isinstance(
        value, np.floating) else str(value)


@operator("CastLike")
def cast_like(x: Any, target: Any, saturate: int = 1, round_mode: str = "up") -> Any:
    """Return x in the data type of another value."""
    return cast(x, type_of(target), saturate, round_mode)


def _spread(value: Any, x: Any, axis: int, block_size: int) -> Any:
    """Return scales or zero points in the shape of x: one, one for each slice, or one for each block along an axis."""
    if value is None or value.dim() == 0 or (value.numel() == 1 and value.dim() <= 1 and not block_size):
        return value if value is None else value.reshape(())
    dim = axis_in(axis, x.dim())
    if value.dim() == 1 and not block_size:
        return value.reshape([-1 if d == dim else 1 for d in range(x.dim())])
    return value.repeat_interleave(block_size, dim).narrow(dim, 0, x.shape[dim])


@operator("QuantizeLinear")
def quantize(x: Any, scale: Any, zero_point: Any = None, axis: int = 1, saturate: int = 1, block_size: int = 0,
             output_dtype: int = 0, precision: int = 0) -> Any:
    """Return x / scale + zero point, rounded and limited to the range of the zero point's data type."""
    to = output_dtype or (2 if zero_point is None else type_of(zero_point))
    if precision:
        x, scale = x.to(dtype_of("QuantizeLinear", precision)), scale.to(dtype_of("QuantizeLinear", precision))
    found = x / _spread(scale, x, axis, block_size).to(x.dtype)
    if to not in _RANGES:
        return cast(found, to, saturate)
    low, high = _RANGES[to]
    found = torch.round(found.to(torch.float32) if found.dtype in (torch.float16, torch.bfloat16) else found)
    if zero_point is not None:
        found = found + _spread(cast(zero_point, 1).to(x.device), x, axis, block_size)
    return cast(found.clamp(low, high), to)


@operator("DequantizeLinear")
def dequantize(x: Any, scale: Any, zero_point: Any = None, axis: int = 1, block_size: int = 0,
               output_dtype: int = 0) -> Any:
    """Return (x - zero point) * scale."""
    wide = cast(x, 11 if type_of(x) == 6 else 1).to(scale.device)
    if zero_point is not None:
        wide = wide - _spread(cast(zero_point, 1).to(scale.device), wide, axis, block_size)
    found = wide.to(scale.dtype if scale.dtype is torch.float64 else torch.float32) * _spread(
        scale, wide, axis, block_size).to(torch.float32)
    return found.to(dtype_of("DequantizeLinear", output_dtype) if output_dtype else scale.dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(x: Any) -> Any:
    """Return x as uint8, with scale and zero point of its range, which includes 0."""
    low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
    scale = (high - low) / 255
    zero = torch.round((-low / scale).clamp(0, 255))
    return torch.round(x / scale).add(zero).clamp(0, 255).to(torch.uint8), scale, zero.to(torch.uint8)


@operator("QLinearMatMul")
def quantized_matmul(a: Any, a_scale: Any, a_zero_point: Any, b: Any, b_scale: Any, b_zero_point: Any, y_scale: Any,
                     y_zero_point: Any) -> Any:
    """Return the quantized product of quantized matrices."""
    def wide(x: Any, zero: Any, row: bool) -> Any:
        zero = zero.to(torch.int64)
        return x.to(torch.int64) - (zero.unsqueeze(-1) if row and zero.dim() == 1 and zero.numel() > 1 else zero)

    sums = torch.matmul(wide(a, a_zero_point, True), wide(b, b_zero_point, False)).to(torch.float32)
    left = a_scale.unsqueeze(-1) if a_scale.dim() == 1 and a_scale.numel() > 1 else a_scale
    return quantize(sums * (left.to(torch.float32) * b_scale.to(torch.float32)), y_scale.to(torch.float32),
                    y_zero_point, axis=-2)


@operator("QLinearConv")
def quantized_conv(x: Any, x_scale: Any, x_zero_point: Any, w: Any, w_scale: Any, w_zero_point: Any, y_scale: Any,
                   y_zero_point: Any, bias: Any = None, **window: Any) -> Any:
    """Return the quantized convolution of a quantized image."""
    sums = conv_integer(x, w, x_zero_point, w_zero_point, **window)
    shape = [1, -1] + [1] * (x.dim() - 2)
    if bias is not None:
        sums = sums + bias.reshape(shape)
    return quantize(sums.to(torch.float32) * (x_scale * w_scale).reshape(shape if w_scale.numel() > 1 else []),
                    y_scale, y_zero_point)
