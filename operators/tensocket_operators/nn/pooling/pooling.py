"""Pooling over windows: largest elements and means, over fixed windows or windows that divide an image."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.geometry import is_integer
from tensocket_plugins.contract.errors import ArgumentError, ShapeError
from tensocket_plugins.kit.bounded import BoundedCache

from ...kinds.composite import composite
from ...kinds.view import Custom
from ..convolution.convolution import numbers, plain
from ..convolution.im2col import window_taps
from ..convolution.windows import picked, pool_max, pool_max_gradient
from .resampling import adaptive_taps, mean_taps, ordered, resampled


def spatial(operator: str, input: Any, dims: int, empty_first: bool = False) -> tuple[int, ...]:
    """Return the spatial sizes; with ``empty_first`` the first dimension may be empty even without a batch.

    Raises:
        ShapeError: The input is neither an image nor a batch of images, or a size other than the batch's is 0.
    """
    shape = tuple(input.shape)
    first = len(shape) - dims - 1
    if first not in (0, 1) or 0 in shape[1 if empty_first else first:]:
        raise ShapeError(operator, f"input {list(shape)}",
                         f"the input is an image of {dims} dimensions with channels, or a batch of these, not empty",
                         "reshape it")
    return shape[first + 1:]


def pooled_sizes(operator: str, sizes: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...],
                 padding: tuple[int, ...], dilation: tuple[int, ...], ceil_mode: bool) -> tuple[int, ...]:
    """Return the number of windows per dimension; ``ceil_mode`` adds those that begin inside and end outside.

    Raises:
        ArgumentError: Kernel, stride or dilation is not positive, or the padding exceeds half of a window.
        ShapeError: No window fits.
    """
    if min((*kernel, *stride, *dilation)) < 1:
        raise ArgumentError(operator, f"kernel_size={list(kernel)}, stride={list(stride)}, dilation={list(dilation)}",
                            "kernel, stride and dilation are positive", "pass positive numbers")
    if any(p < 0 or p > ((k - 1) * d + 1) // 2 for p, k, d in zip(padding, kernel, dilation, strict=True)):
        raise ArgumentError(operator, f"padding={list(padding)}, kernel_size={list(kernel)}",
                            "padding is at most half of a window", "use less padding")
    result = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        rest = n + 2 * p - d * (k - 1) - 1
        count = (rest + (s - 1 if ceil_mode else 0)) // s + 1
        result.append(count - 1 if ceil_mode and (count - 1) * s >= n + p else count)
    if min(result) < 1:
        raise ShapeError(operator, f"sizes {list(sizes)}, kernel_size={list(kernel)}, padding={list(padding)}",
                         "a window fits into the padded image", "use a smaller kernel or more padding")
    return tuple(result)


def _line(operator: str, dims: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any = 1) -> list[Any]:
    """Return kernel, stride, padding and dilation with a number per dimension; the stride defaults to the kernel."""
    stride = kernel_size if stride is None or stride in ((), []) else stride
    return [numbers(operator, name, value, dims) for name, value in (
        ("kernel_size", kernel_size), ("stride", stride), ("padding", padding), ("dilation", dilation))]


# --------------------------------------------------------------------------------------------------- largest elements


def _max_windows(operator: str, dims: int, sizes: tuple[int, ...], *arguments: Any) -> tuple[Any, ...]:
    *window, ceil_mode = arguments
    kernel, stride, padding, dilation = _line(operator, dims, *window)
    outputs = pooled_sizes(operator, sizes, kernel, stride, padding, dilation, ceil_mode)
    return tuple([window_taps(*line) for line in zip(sizes, outputs, kernel, stride, dilation, padding, strict=True)])


#: Windows by shapes and arguments that passed all checks.
_WINDOWS: Final[BoundedCache[tuple[Any, ...], tuple[Any, ...]]] = BoundedCache(1024)


def _max_pool(operator: str, dims: int, input: Any, *arguments: Any) -> tuple[Any, Any]:
    """Return the largest elements and their positions."""
    place = (operator, input.shape, arguments) if plain(arguments) else None
    windows = None if place is None else _WINDOWS.get(place)
    if windows is None:
        windows = _max_windows(operator, dims, spatial(operator, input, dims), *arguments)
        if place is not None:
            _WINDOWS[place] = windows
    values, places = call(pool_max, input, windows)
    return values, places


_MAX: Final = "(Tensor input, any kernel_size, any stride=None, any padding=0, any dilation=1, bool ceil_mode=False"


@composite(f"max_pool1d_with_indices{_MAX}) -> (Tensor, Tensor)", method=False, replayable=True)
def max_pool1d_with_indices(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                            ceil_mode: bool = False) -> tuple[Any, Any]:
    """Return the largest element of every window of [B, C, L] or [C, L], and its position."""
    return _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)


@composite(f"max_pool2d_with_indices{_MAX}) -> (Tensor, Tensor)", method=False, replayable=True,
           namespace="nn.functional", hands_by_name=True)
def max_pool2d_with_indices(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                            ceil_mode: bool = False) -> tuple[Any, Any]:
    """Return the largest element of every window of [B, C, H, W] or [C, H, W], and its position, flattened."""
    return _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)


@composite(f"max_pool3d_with_indices{_MAX}) -> (Tensor, Tensor)", method=False, replayable=True,
           namespace="nn.functional", hands_by_name=True)
def max_pool3d_with_indices(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                            ceil_mode: bool = False) -> tuple[Any, Any]:
    """Return the largest element of every window of [B, C, D, H, W] or [C, D, H, W], and its position, flattened."""
    return _max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)


@composite(f"max_pool1d{_MAX}) -> Tensor", method=False, replayable=True)
def max_pool1d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Any:
    """Return the largest element of every window of [B, C, L] or [C, L]."""
    return _max_pool("max_pool1d", 1, input, kernel_size, stride, padding, dilation, ceil_mode)[0]


@composite(f"max_pool2d{_MAX}) -> Tensor", method=False, replayable=True)
def max_pool2d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Any:
    """Return the largest element of every window of [B, C, H, W] or [C, H, W]."""
    return _max_pool("max_pool2d", 2, input, kernel_size, stride, padding, dilation, ceil_mode)[0]


@composite(f"max_pool3d{_MAX}) -> Tensor", method=False, replayable=True)
def max_pool3d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
               ceil_mode: bool = False) -> Any:
    """Return the largest element of every window of [B, C, D, H, W] or [C, D, H, W]."""
    return _max_pool("max_pool3d", 3, input, kernel_size, stride, padding, dilation, ceil_mode)[0]


def _max_gradient(state: Any, grad_output: Any, input: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
                  ceil_mode: bool, indices: Any) -> Any:
    name = "max_pool2d_with_indices_backward"
    windows = _max_windows(name, 2, spatial(name, input, 2), kernel_size, stride, padding, dilation, ceil_mode)
    shape = (*input.shape[:-2], *(window.outputs for window in windows))
    if tuple(grad_output.shape) != shape or tuple(indices.shape) != shape:
        raise ShapeError(name, f"grad_output {list(grad_output.shape)}, indices {list(indices.shape)}",
                         f"both have the shape of the result, {list(shape)}", "pass those of the forward pass")
    return pool_max_gradient.run(state, grad_output, indices, windows)


max_pool2d_with_indices_backward: Final = Custom(
    "max_pool2d_with_indices_backward(Tensor grad_output, Tensor input, any kernel_size, any stride, any padding, "
    "any dilation, bool ceil_mode, Tensor indices) -> Tensor",
    "The gradient of max_pool2d for its input, from the positions that the forward pass found.",
    _max_gradient,
    method=False,
    function=False,
    derivative=Derivative(
        grad_output=lambda grad, indices: picked(grad, indices, 2),
        input=lambda grad, input_shape: grad.new_zeros(input_shape),
    ),
)

# ------------------------------------------------------------------------------------------------------------- means


def _mean_lines(operator: str, dims: int, input: Any, kernel_size: Any, stride: Any, padding: Any,
                ceil_mode: bool) -> list[Any]:
    """Return for each dimension its size, the number of windows, and their size, stride and padding."""
    sizes = spatial(operator, input, dims)
    kernel, stride, padding, dilation = _line(operator, dims, kernel_size, stride, padding)
    outputs = pooled_sizes(operator, sizes, kernel, stride, padding, dilation, ceil_mode)
    return list(zip(sizes, outputs, kernel, stride, padding, strict=True))


def _mean_pool(operator: str, dims: int, input: Any, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool,
               count_padding: bool, divisor: int | None = None) -> Any:
    window = (kernel_size, stride, padding, ceil_mode, count_padding, divisor)
    place = (operator, input._array.shape, window) if input.dtype.is_floating_point and plain(window) else None
    maps = None if place is None else _WINDOWS.get(place)
    if maps is None:
        if divisor is not None and divisor == 0:
            raise ArgumentError(operator, "divisor_override=0", "a divisor is not zero", "pass another divisor")
        lines = _mean_lines(operator, dims, input, kernel_size, stride, padding, ceil_mode)
        if not input.dtype.is_floating_point:
            return _truncated(input, lines, count_padding, divisor)
        # A divisor for the whole window applies in one dimension only.
        divisors = [None if divisor is None else divisor if k == 0 else 1 for k in range(dims)]
        maps = ordered([mean_taps(*line, d, count_padding) for line, d in zip(lines, divisors, strict=True)])
        if place is not None:
            _WINDOWS[place] = maps
    return resampled(input, maps)


def _truncated(input: Any, lines: list[Any], count_padding: bool, divisor: int | None) -> Any:
    """Return the means of integers, rounded towards zero."""
    total = resampled(input, ordered([mean_taps(*line, 1, count_padding) for line in lines]))
    if divisor is not None:
        return functions.div(total, divisor, rounding_mode="trunc")
    count: Any = 1
    for axis, (size, outputs, kernel, stride, padding) in enumerate(lines):
        starts = np.arange(outputs) * stride - padding
        ends = np.minimum(starts + kernel, size + padding)
        counts = ends - starts if count_padding else np.minimum(ends, size) - np.maximum(starts, 0)
        lead = (outputs, *(1,) * (len(lines) - axis - 1))
        count = total.new_tensor(np.maximum(counts, 1).tolist()).reshape(lead) * count
    return functions.div(total, count, rounding_mode="trunc")


_MEAN: Final = ("(Tensor input, any kernel_size, any stride=None, any padding=0, bool ceil_mode=False, "
                "bool count_include_pad=True")


@composite(f"avg_pool1d{_MEAN}) -> Tensor", method=False, replayable=True)
def avg_pool1d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True) -> Any:
    """Return the mean of every window of [B, C, L] or [C, L]."""
    return _mean_pool("avg_pool1d", 1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


@composite(f"avg_pool2d{_MEAN}, int? divisor_override=None) -> Tensor", method=False, replayable=True,
           namespace="nn.functional")
def avg_pool2d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Any:
    """Return the mean of every window of [B, C, H, W] or [C, H, W]."""
    return _mean_pool("avg_pool2d", 2, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                      divisor_override)


@composite(f"avg_pool3d{_MEAN}, int? divisor_override=None) -> Tensor", method=False, replayable=True,
           namespace="nn.functional")
def avg_pool3d(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, ceil_mode: bool = False,
               count_include_pad: bool = True, divisor_override: int | None = None) -> Any:
    """Return the mean of every window of [B, C, D, H, W] or [C, D, H, W]."""
    return _mean_pool("avg_pool3d", 3, input, kernel_size, stride, padding, ceil_mode, count_include_pad,
                      divisor_override)


def _power_pool(operator: str, dims: int, input: Any, norm_type: float, kernel_size: Any, stride: Any,
                ceil_mode: bool) -> Any:
    """Return the p-norm of every window: means of powers, times the number of elements."""
    count = math.prod(numbers(operator, "kernel_size", kernel_size, dims))
    means = _mean_pool(operator, dims, input.pow(norm_type), kernel_size, stride, 0, ceil_mode, True)
    return (means.sign() * means.abs().relu() * count).pow(1.0 / norm_type)


_POWER: Final = "(Tensor input, float norm_type, any kernel_size, any stride=None, bool ceil_mode=False) -> Tensor"


@composite(f"lp_pool1d{_POWER}", method=False, namespace="nn.functional", hands_by_name=True)
def lp_pool1d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """Return the p-norm of every window of [B, C, L] or [C, L]."""
    return _power_pool("lp_pool1d", 1, input, norm_type, kernel_size, stride, ceil_mode)


@composite(f"lp_pool2d{_POWER}", method=False, namespace="nn.functional", hands_by_name=True)
def lp_pool2d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """Return the p-norm of every window of [B, C, H, W] or [C, H, W]."""
    return _power_pool("lp_pool2d", 2, input, norm_type, kernel_size, stride, ceil_mode)


@composite(f"lp_pool3d{_POWER}", method=False, namespace="nn.functional", hands_by_name=True)
def lp_pool3d(input: Any, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> Any:
    """Return the p-norm of every window of [B, C, D, H, W] or [C, D, H, W]."""
    return _power_pool("lp_pool3d", 3, input, norm_type, kernel_size, stride, ceil_mode)


# ---------------------------------------------------------------------------------------------------- adaptive windows


def _adaptive(operator: str, dims: int, input: Any, output_size: Any) -> tuple[Any, ...]:
    sizes = spatial(operator, input, dims, True)
    wanted = [output_size] * dims if output_size is None or is_integer(output_size) else list(output_size)
    if len(wanted) == 1:
        wanted *= dims
    if len(wanted) != dims or any(n is not None and n < 0 for n in wanted):
        raise ArgumentError(operator, f"output_size={output_size!r} for {dims} spatial dimensions",
                            "there is one size for all, or one for each dimension, not negative",
                            "pass an int or a tuple of them")
    outputs = [n if m is None else m for n, m in zip(sizes, wanted, strict=True)]
    if math.prod(outputs) * math.prod(input.shape[:-dims]) >= 1 << 60:
        raise ArgumentError(operator, f"output_size={output_size!r} for an input of shape {list(input.shape)}",
                            "a result has less than 2 ** 60 elements", "pass smaller sizes")
    return tuple([adaptive_taps(n, m) for n, m in zip(sizes, outputs, strict=True)])


def _adaptive_mean(operator: str, dims: int, input: Any, output_size: Any) -> Any:
    maps = _adaptive(operator, dims, input, output_size)
    if input.dtype.is_floating_point and all(taps.outputs == 1 for taps in maps):
        return input.mean(tuple(range(input.ndim - dims, input.ndim)), True)
    return _with_windows(operator, resampled(input, ordered(list(maps))), maps)


def _adaptive_max(operator: str, dims: int, input: Any, output_size: Any) -> tuple[Any, Any]:
    windows = _adaptive(operator, dims, input, output_size)
    values, places = call(pool_max, input, windows)
    return _with_windows(operator, values, windows), places


def _no_gradient(grad: Any, operator: str) -> Any:
    raise ShapeError(operator, f"a gradient of shape {list(grad.shape)}", "Expected grad_output to have non-zero size "
                     "for non-batch dimensions", "choose positive output sizes")


without_windows: Final = Custom(
    "without_windows(Tensor input, str operator) -> Tensor",
    "The result of pooling to a size of 0, which PyTorch refuses to go back from.",
    lambda state, input, operator: input.detach().clone(),
    method=False,
    function=False,
    derivative=Derivative(input=_no_gradient),
)


def _with_windows(operator: str, result: Any, windows: Any) -> Any:
    return result if all(taps.outputs for taps in windows) else call(without_windows, result, operator)


@composite("adaptive_avg_pool1d(Tensor input, any output_size) -> Tensor", method=False, replayable=True)
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Any:
    """Return the means of windows that divide [B, C, L] or [C, L] into ``output_size`` parts."""
    return _adaptive_mean("adaptive_avg_pool1d", 1, input, output_size)


@composite("adaptive_avg_pool2d(Tensor input, any output_size) -> Tensor", method=False, replayable=True,
           namespace="nn.functional")
def adaptive_avg_pool2d(input: Any, output_size: Any) -> Any:
    """Return means of windows that divide [B, C, H, W] or [C, H, W] into ``output_size`` parts; None keeps a size."""
    return _adaptive_mean("adaptive_avg_pool2d", 2, input, output_size)


@composite("adaptive_avg_pool3d(Tensor input, any output_size) -> Tensor", method=False, replayable=True,
           namespace="nn.functional")
def adaptive_avg_pool3d(input: Any, output_size: Any) -> Any:
    """Return means of windows that divide [B, C, D, H, W] or [C, D, H, W] into ``output_size``; None keeps a size."""
    return _adaptive_mean("adaptive_avg_pool3d", 3, input, output_size)


@composite("adaptive_max_pool1d(Tensor input, any output_size) -> (Tensor, Tensor)", method=False, replayable=True)
def adaptive_max_pool1d(input: Any, output_size: Any) -> tuple[Any, Any]:
    """Return the largest elements, and positions, of windows that divide [B, C, L] or [C, L] into ``output_size``."""
    return _adaptive_max("adaptive_max_pool1d", 1, input, output_size)


@composite("adaptive_max_pool2d(Tensor input, any output_size) -> (Tensor, Tensor)", method=False, replayable=True,
           namespace="nn.functional")
def adaptive_max_pool2d(input: Any, output_size: Any) -> tuple[Any, Any]:
    """Return the largest elements, and their positions, of windows that divide [B, C, H, W] or [C, H, W] into parts."""
    return _adaptive_max("adaptive_max_pool2d", 2, input, output_size)


@composite("adaptive_max_pool3d(Tensor input, any output_size) -> (Tensor, Tensor)", method=False, replayable=True,
           namespace="nn.functional")
def adaptive_max_pool3d(input: Any, output_size: Any) -> tuple[Any, Any]:
    """Return the largest elements, and their positions, of windows that divide [B, C, D, H, W] or [C, D, H, W]."""
    return _adaptive_max("adaptive_max_pool3d", 3, input, output_size)
