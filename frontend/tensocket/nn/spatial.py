"""Functions of images: convolution, pooling, interpolation, padding, rearrangement, with PyTorch's signatures."""

# The operators of the core are generated and typed Any.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_operators import Tensor
from tensocket_operators import functions as ops

Numbers = int | Sequence[int]

conv1d: Callable[..., Tensor] = ops.conv1d
conv2d: Callable[..., Tensor] = ops.conv2d
conv3d: Callable[..., Tensor] = ops.conv3d
conv_tbc: Callable[..., Tensor] = ops.conv_tbc
conv_transpose1d: Callable[..., Tensor] = ops.conv_transpose1d
conv_transpose2d: Callable[..., Tensor] = ops.conv_transpose2d
conv_transpose3d: Callable[..., Tensor] = ops.conv_transpose3d
avg_pool1d: Callable[..., Tensor] = ops.avg_pool1d
avg_pool2d: Callable[..., Tensor] = ops.avg_pool2d
avg_pool3d: Callable[..., Tensor] = ops.avg_pool3d
lp_pool1d: Callable[..., Tensor] = ops.lp_pool1d
lp_pool2d: Callable[..., Tensor] = ops.lp_pool2d
lp_pool3d: Callable[..., Tensor] = ops.lp_pool3d
adaptive_avg_pool1d: Callable[..., Tensor] = ops.adaptive_avg_pool1d
adaptive_avg_pool2d: Callable[..., Tensor] = ops.adaptive_avg_pool2d
adaptive_avg_pool3d: Callable[..., Tensor] = ops.adaptive_avg_pool3d
max_unpool1d: Callable[..., Tensor] = ops.max_unpool1d
max_unpool2d: Callable[..., Tensor] = ops.max_unpool2d
max_unpool3d: Callable[..., Tensor] = ops.max_unpool3d
fractional_max_pool2d: Callable[..., Any] = ops.fractional_max_pool2d
fractional_max_pool3d: Callable[..., Any] = ops.fractional_max_pool3d
interpolate: Callable[..., Tensor] = ops.interpolate
upsample: Callable[..., Tensor] = ops.upsample
upsample_nearest: Callable[..., Tensor] = ops.upsample_nearest
upsample_bilinear: Callable[..., Tensor] = ops.upsample_bilinear
grid_sample: Callable[..., Tensor] = ops.grid_sample
affine_grid: Callable[..., Tensor] = ops.affine_grid
pad: Callable[..., Tensor] = ops.pad
pixel_shuffle: Callable[..., Tensor] = ops.pixel_shuffle
pixel_unshuffle: Callable[..., Tensor] = ops.pixel_unshuffle
channel_shuffle: Callable[..., Tensor] = ops.channel_shuffle
native_channel_shuffle: Callable[..., Tensor] = ops.native_channel_shuffle

_INDEXED: Final[dict[int, Callable[..., Any]]] = {
    1: ops.max_pool1d_with_indices, 2: ops.max_pool2d_with_indices, 3: ops.max_pool3d_with_indices,
}


def _max_pool(dims: int, return_indices: bool, *args: Any) -> Any:
    values, indices = _INDEXED[dims](*args)
    return (values, indices) if return_indices else values


def max_pool1d(input: Tensor, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
               dilation: Numbers = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """Return the largest element of every window of (N, C, L) or (C, L); with ``return_indices`` also its position."""
    return _max_pool(1, return_indices, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d(input: Tensor, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
               dilation: Numbers = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """Return the largest element of every window of (N, C, H, W) or (C, H, W); with ``return_indices`` also its
    position.
    """
    return _max_pool(2, return_indices, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d(input: Tensor, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
               dilation: Numbers = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """Return the largest element of every window of (N, C, D, H, W) or (C, D, H, W); with ``return_indices`` its
    position.
    """
    return _max_pool(3, return_indices, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d_with_indices(input: Tensor, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
                            dilation: Numbers = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """Return ``max_pool1d`` with positions."""
    return _max_pool(1, True, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool2d_with_indices(input: Tensor, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
                            dilation: Numbers = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """Return ``max_pool2d`` with positions."""
    return _max_pool(2, True, input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool3d_with_indices(input: Tensor, kernel_size: Numbers, stride: Numbers | None = None, padding: Numbers = 0,
                            dilation: Numbers = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """Return ``max_pool3d`` with positions."""
    return _max_pool(3, True, input, kernel_size, stride, padding, dilation, ceil_mode)


def adaptive_max_pool1d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Return the largest elements of windows that divide (N, C, L) or (C, L), and on request their positions."""
    values, indices = ops.adaptive_max_pool1d(input, output_size)
    return (values, indices) if return_indices else values


def adaptive_max_pool2d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Return the largest elements of windows that divide (N, C, H, W) or (C, H, W), and on request their positions."""
    values, indices = ops.adaptive_max_pool2d(input, output_size)
    return (values, indices) if return_indices else values


def adaptive_max_pool3d(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Return the largest elements of windows that divide (N, C, D, H, W) or (C, D, H, W), and on request positions."""
    values, indices = ops.adaptive_max_pool3d(input, output_size)
    return (values, indices) if return_indices else values


def adaptive_max_pool1d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Return ``adaptive_max_pool1d`` with positions."""
    return adaptive_max_pool1d(input, output_size, True)


def adaptive_max_pool2d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Return ``adaptive_max_pool2d`` with positions."""
    return adaptive_max_pool2d(input, output_size, True)


def adaptive_max_pool3d_with_indices(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
    """Return ``adaptive_max_pool3d`` with positions."""
    return adaptive_max_pool3d(input, output_size, True)


def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: Numbers, *args: Any, **keywords: Any) -> Any:
    """Return ``fractional_max_pool2d`` with positions."""
    return fractional_max_pool2d(input, kernel_size, *args, **{**keywords, "return_indices": True})


def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: Numbers, *args: Any, **keywords: Any) -> Any:
    """Return ``fractional_max_pool3d`` with positions."""
    return fractional_max_pool3d(input, kernel_size, *args, **{**keywords, "return_indices": True})


def unfold(input: Tensor, kernel_size: Numbers, dilation: Numbers = 1, padding: Numbers = 0,
           stride: Numbers = 1) -> Tensor:
    """Return the windows of (N, C, H, W) or (C, H, W) as columns: (N, C * kernel, windows)."""
    return ops.im2col(input, kernel_size, dilation, padding, stride)


def fold(input: Tensor, output_size: Numbers, kernel_size: Numbers, dilation: Numbers = 1, padding: Numbers = 0,
         stride: Numbers = 1) -> Tensor:
    """Add up columns (N, C * kernel, windows) to an image (N, C, H, W): the transpose of ``unfold``."""
    return ops.col2im(input, output_size, kernel_size, dilation, padding, stride)


__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices",
    "adaptive_max_pool3d", "adaptive_max_pool3d_with_indices", "affine_grid", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d",
    "conv_transpose3d", "fold", "fractional_max_pool2d", "fractional_max_pool2d_with_indices", "fractional_max_pool3d",
    "fractional_max_pool3d_with_indices", "grid_sample", "interpolate", "lp_pool1d", "lp_pool2d", "lp_pool3d",
    "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool2d_with_indices", "max_pool3d",
    "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d", "max_unpool3d", "native_channel_shuffle", "pad",
    "pixel_shuffle", "pixel_unshuffle", "unfold", "upsample", "upsample_bilinear", "upsample_nearest",
]
