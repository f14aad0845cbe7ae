"""Records over windows of the last dimensions: weighted sums, summed columns, largest elements, constant padding.

All of them are linear in their tensor or select from it, and the gradient of each is another of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.formats import channels_last, channels_last_3d, memory_format
from tensocket_core.geometry import as_strided, contiguous, element_strides
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.copies import copy_elements, from_host
from tensocket_core.launch.fill import fill_array
from tensocket_core.strides import empty_strided_array, format_strides, public_strides, suggested_format
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.launch_recorder import note_range
from tensocket_plugins.ir.element_types import arithmetic_dtype

from ...kinds.view import Custom
from ..pooling import kernel as pool_kernel
from . import images_kernel_cpu, kernel, pad_kernel_cpu
from .taps import Taps

_LAST: Final = {4: channels_last, 5: channels_last_3d}


def _channels_last(rank: int, like: Any) -> memory_format | None:
    """Return the channels-last format of images of ``rank`` dimensions if the array ``like`` appears to be in it."""
    format = _LAST.get(rank)
    if format is None or like.ndim != rank or contiguous(like):
        return None
    return format if suggested_format(tuple(like.shape), public_strides(like)) is format else None


def has_channels_last(array: Any) -> bool:
    """Whether a weight's strides are those of channels last, even if sizes of 1 leave the choice open."""
    format = _LAST.get(array.ndim)
    return format is not None and suggested_format(tuple(array.shape), public_strides(array)) is format


def empty_image(state: Any, shape: tuple[int, ...], dtype: Any, like: Any) -> Any:
    """Return an uninitialised array; it is channels last in memory if ``like`` is, but without gaps."""
    format = _channels_last(len(shape), like)
    if format is None:
        return state.runtime.empty(shape, dtype, state.stream)
    return empty_strided_array(state, shape, dtype, format_strides("empty", shape, format))


def laid_like(result: Any, like: Any) -> Any:
    """Return a result of parts, contiguous in row-major order, or channels last if the parts of ``like`` are."""
    format = _channels_last(result.ndim, like)
    if format is None:
        return result if contiguous(result._array) else result.contiguous()  # Programs take views of it.
    return result.contiguous(memory_format=format)


def _wrapped(state: Any, array: Any, dtype: Any) -> Any:
    return wrap(array, state.key | dtype_bit(dtype))


def _table(state: Any, values: np.ndarray[Any, Any]) -> Any:
    """Return an int64 table as a tensor, for devices without a code generator."""
    return _wrapped(state, from_host(state, np.ascontiguousarray(values, np.int64), dtypes.int64), dtypes.int64)


def _flat(shape: tuple[int, ...], dims: int) -> tuple[int, ...]:
    return (*shape[:len(shape) - dims], math.prod(shape[len(shape) - dims:]))


# ---------------------------------------------------------------------------------------------------- weighted sums


def _resample(state: Any, input: Any, dim: int, taps: Taps) -> Any:
    source, dtype = input._array, input.dtype
    axis = dim + source.ndim
    shape = (*source.shape[:axis], taps.outputs, *source.shape[axis + 1:])
    if 0 in source.shape or 0 in shape or not state.holds_data:
        return laid_like(input.new_zeros(shape), source)
    if state.runtime.target is None:
        return laid_like(_resample_by_parts(state, input.detach(), axis, taps), source)
    out = empty_image(state, shape, dtype, source)
    if not images_kernel_cpu.sum_images(state, out, source, axis, taps, dtype):
        kernel.resample_array(state, out, source, axis, taps, dtype)
    return _wrapped(state, out, dtype)


def _resample_by_parts(state: Any, input: Any, axis: int, taps: Taps) -> Any:
    rows = input.index_select(axis, _table(state, taps.positions.clip(0).reshape(-1)))
    shape = tuple(input.shape)
    spread = (*shape[:axis], taps.outputs, taps.taps, *shape[axis + 1:])
    lead = (taps.outputs, taps.taps, *(1,) * (len(shape) - axis - 1))
    weights = input.new_tensor(taps.weights.tolist()).reshape(lead)
    valid = _table(state, taps.positions >= 0).reshape(lead) != 0
    return functions.where(valid, rows.reshape(spread) * weights, 0).sum(axis + 1).to(input.dtype)


#: ``dim`` is negative: it counts from the last dimension, so that batches do not change it.
resample: Final[Custom] = Custom(
    "resample(Tensor input, int dim, any taps) -> Tensor",
    "Weighted sums of elements along a dimension.",
    _resample,
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(input=lambda grad, dim, taps: call(resample, grad, dim, taps.transposed)),
)

# ------------------------------------------------------------------------------------------------- columns and images


def _fold(state: Any, input: Any, windows: tuple[Taps, ...]) -> Any:
    source, dtype, dims = input._array, input.dtype, len(windows)
    if dtype.is_complex:
        real, imag = (call(fold_columns, part.contiguous(), windows) for part in (
            input.detach().real, input.detach().imag))
        return functions.complex(real, imag)
    shape = (*source.shape[:source.ndim - 2 * dims], *(window.size for window in windows))
    if 0 in source.shape or 0 in shape or not state.holds_data:
        return input.new_zeros(shape)
    if state.runtime.target is None:
        return _fold_by_parts(state, input.detach(), windows, shape)
    out = state.runtime.empty(shape, dtype, state.stream)
    kernel.fold_array(state, out, source, windows, dtype)
    return _wrapped(state, out, dtype)


def _flat_positions(windows: tuple[Taps, ...]) -> np.ndarray[Any, Any]:
    """Return the positions in the flattened lines, [outputs.., taps..]; the number of elements marks a missing one."""
    dims = len(windows)
    flat, valid = np.zeros((1,) * 2 * dims, np.int64), np.ones((1,) * 2 * dims, bool)
    for d, window in enumerate(windows):
        axes = [1] * 2 * dims
        axes[d], axes[dims + d] = window.positions.shape
        places = window.positions.astype(np.int64).reshape(axes)
        flat, valid = flat * window.size + places, valid & (places >= 0)
    return np.where(valid, flat, math.prod(window.size for window in windows))


def _fold_by_parts(state: Any, input: Any, windows: tuple[Taps, ...], shape: tuple[int, ...]) -> Any:
    dims = len(windows)
    order = (*range(dims, 2 * dims), *range(dims))
    places = _table(state, _flat_positions(windows).transpose(order).reshape(-1))
    columns = input.reshape(_flat(tuple(input.shape), 2 * dims))
    size = math.prod(shape[len(shape) - dims:])
    room = input.new_zeros((*columns.shape[:-1], size + 1))
    added = room.scatter_add(-1, places.expand(tuple(columns.shape)), columns)
    return added.narrow(-1, 0, size).reshape(shape)


def _unfold(state: Any, input: Any, windows: tuple[Taps, ...]) -> Any:
    """Return windows as columns: copies of a strided view if they are evenly spaced, else gathered elements."""
    dims, x = len(windows), input.detach()
    lead = tuple(x.shape[:x.ndim - dims])
    if not state.holds_data:
        return x.new_zeros((*lead, *[window.taps for window in windows], *[window.outputs for window in windows]))
    even = [window.even for window in windows if window.even is not None]
    if len(even) == dims:
        return _unfold_evenly(state, x, even, windows, lead)
    size = math.prod(window.size for window in windows)
    flat = call(constant_pad, x.reshape((*lead, size)), (0, 1), 0)
    order = (*range(dims, 2 * dims), *range(dims))
    places = _flat_positions(windows).transpose(order)
    return flat.index_select(-1, _table(state, places.reshape(-1))).reshape((*lead, *places.shape))


def _unfold_evenly(state: Any, input: Any, even: Sequence[tuple[int, int, int]], windows: tuple[Taps, ...],
                   lead: tuple[int, ...]) -> Any:
    """Copy windows out of the padded image; ``even`` has their strides, dilations and paddings."""
    pad: list[int] = []
    for (stride, dilation, low), window in zip(reversed(even), reversed(windows), strict=True):
        pad += low, (window.outputs - 1) * stride + (window.taps - 1) * dilation + 1 - low - window.size
    source = (_pad(state, input, tuple(pad), 0) if any(n > 0 for n in pad) else input)._array
    shape = (*lead, *[window.taps for window in windows], *[window.outputs for window in windows])
    steps = element_strides(source)
    inner = list(zip(steps[len(lead):], even, strict=True))
    strides = (*steps[:len(lead)], *[s * dilation for s, (_, dilation, _) in inner],
               *[s * stride for s, (stride, _, _) in inner])
    out = state.runtime.empty(shape, input.dtype, state.stream)
    copy_elements(state, out, input.dtype, as_strided(source, shape, strides, 0), input.dtype)
    return _wrapped(state, out, input.dtype)


#: Maps [n.., kernel.., outputs..] to [n.., sizes..].
fold_columns: Final[Custom] = Custom(
    "fold_columns(Tensor input, any windows) -> Tensor",
    "An image of columns, each added where its window lies.",
    _fold,
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(input=lambda grad, windows: call(unfold_columns, grad, windows)),
)
#: Maps [n.., sizes..] to [n.., kernel.., outputs..].
unfold_columns: Final[Custom] = Custom(
    "unfold_columns(Tensor input, any windows) -> Tensor",
    "The elements of every window; zero outside of the image.",
    _unfold,
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(input=lambda grad, windows: call(fold_columns, grad, windows)),
)

# --------------------------------------------------------------------------------------------------- largest elements


def _pool(state: Any, input: Any, windows: tuple[Taps, ...]) -> tuple[Any, Any]:
    source, dtype, dims = input._array, input.dtype, len(windows)
    shape = (*source.shape[:source.ndim - dims], *[window.outputs for window in windows])
    if 0 in shape or not state.holds_data:
        return tuple([laid_like(input.new_zeros(shape, dtype=kind), source) for kind in (dtype, dtypes.int64)])
    if state.runtime.target is None:
        best, chosen = _pool_by_parts(state, input.detach(), windows, shape)
        return laid_like(best, source), laid_like(chosen, source)
    out, places = empty_image(state, shape, dtype, source), empty_image(state, shape, dtypes.int64, source)
    lowest = pool_kernel.lowest(arithmetic_dtype(dtype))
    if not _pooled(state, out, places, source, windows, dtype) and not images_kernel_cpu.max_images(
            state, out, places, source, windows, dtype, lowest):
        pool_kernel.pool_array(state, out, places, source, windows, dtype)
    return _wrapped(state, out, dtype), _wrapped(state, places, dtypes.int64)


def _pooled(state: Any, out: Any, places: Any, source: Any, windows: tuple[Taps, ...],
            dtype: dtypes.DType) -> bool:
    """Whether the device's registered kernel has found the largest elements: it takes dense, evenly spaced windows."""
    kernel = state.runtime.kernels.find("pool_max", dtype.name, direct=False)
    even = [window.even for window in windows if window.even is not None]
    if kernel is None or len(even) < len(windows) or not (out.contiguous and places.contiguous and source.contiguous):
        return False
    kernel.run([out, places], [source], (tuple([window.taps for window in windows]), *zip(*even, strict=True)),
               state.stream)
    return True


def _pool_by_parts(state: Any, input: Any, windows: tuple[Taps, ...], shape: tuple[int, ...]) -> tuple[Any, Any]:
    dims = len(windows)
    table = _flat_positions(windows)
    size = math.prod(window.size for window in windows)
    low = -math.inf if input.dtype.is_floating_point else 0 if input.dtype.kind != "int" else (
        -(1 << (8 * input.dtype.itemsize - 1)))
    places = _table(state, table.reshape(-1))
    flat = functions.cat([input.reshape(_flat(tuple(input.shape), dims)),
                          input.new_full((*input.shape[:input.ndim - dims], 1), low)], -1)
    split = (*shape, math.prod(table.shape[dims:]))
    best, tap = flat.index_select(-1, places).reshape(split).max(-1)
    lead = (*(1,) * (len(shape) - dims), *split[len(shape) - dims:])
    chosen = places.reshape(lead).expand(split).gather(-1, tap.unsqueeze(-1)).squeeze(-1)
    return best, chosen.clamp(max=size - 1)


def _pool_gradient(state: Any, upstream: Any, places: Any, windows: tuple[Taps, ...]) -> Any:
    grad, dtype, dims = upstream._array, upstream.dtype, len(windows)
    shape = (*grad.shape[:grad.ndim - dims], *(window.size for window in windows))
    if 0 in grad.shape or 0 in shape or not state.holds_data:
        return laid_like(upstream.new_zeros(shape), grad)
    if state.runtime.target is None:
        lines = _flat(tuple(shape), dims)
        flat = [x.detach().reshape(_flat(tuple(grad.shape), dims)) for x in (places, upstream)]
        return laid_like(upstream.new_zeros(lines).scatter_add(-1, *flat).reshape(shape), grad)
    note_range(places._array, 0, math.prod(window.size for window in windows), checked=False)
    out = empty_image(state, shape, dtype, grad)
    # Sums in memory are rounded at every step, which is too inexact for 16-bit elements.
    if state.runtime.profile.host_resident and dtype.itemsize >= 4 and contiguous(out):
        pool_kernel.pool_spread_array(state, out, grad, places._array, dims, dtype)
    else:
        pool_kernel.pool_gradient_array(state, out, grad, places._array, windows, dtype)
    return _wrapped(state, out, dtype)


def picked(input: Any, places: Any, dims: int) -> Any:
    """Return the elements at positions in the flattened last dimensions, in the shape of the positions."""
    shape = tuple(places.shape)
    flat = [x.reshape(_flat(tuple(x.shape), dims)) for x in (input, places)]
    return flat[0].gather(-1, flat[1]).reshape(shape)


pool_max: Final = Custom(
    "pool_max(Tensor input, any windows) -> (Tensor, Tensor)",
    "The largest element of every window, and its position in the flattened last dimensions.",
    _pool,
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(input=lambda grads, result1, windows: (
        None if grads[0] is None else call(pool_max_gradient, grads[0], result1, windows))),
)
pool_max_gradient: Final[Custom] = Custom(
    "pool_max_gradient(Tensor upstream, Tensor places, any windows) -> Tensor",
    "Gradients of largest elements, added up where these lie.",
    _pool_gradient,
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(upstream=lambda grad, places, windows: picked(grad, places, len(windows))),
)

# -------------------------------------------------------------------------------------------------------- padding


def _pad(state: Any, input: Any, pad: tuple[int, ...], value: Any) -> Any:
    source, dtype = input._array, input.dtype
    rank = source.ndim
    sides = [(0, 0)] * (rank - len(pad) // 2) + [(pad[k], pad[k + 1]) for k in range(len(pad) - 2, -1, -2)]
    shape = tuple([n + low + high for n, (low, high) in zip(source.shape, sides, strict=True)])
    out = empty_image(state, shape, dtype, source)
    result = _wrapped(state, out, dtype)
    if pad and 0 not in source.shape and pad_kernel_cpu.border_array(state, out, source, pad, "constant", value, dtype):
        return result
    if any(low > 0 or high > 0 for low, high in sides):
        fill_array("constant_pad_nd", state, out, value, dtype)
    inner = tuple([slice(max(low, 0), n - max(high, 0)) for n, (low, high) in zip(shape, sides, strict=True)])
    kept = tuple([slice(max(-low, 0), n - max(-high, 0)) for n, (low, high) in zip(source.shape, sides, strict=True)])
    copy_elements(state, out[inner], dtype, source[kept], dtype)
    return result


#: ``pad`` is that of ``constant_pad_nd``: pairs of a low and a high side, from the last dimension on.
constant_pad: Final[Custom] = Custom(
    "constant_pad(Tensor input, any pad, Scalar value) -> Tensor",
    "The tensor with a border of one value; negative sides are cut off.",
    _pad,
    method=False,
    function=False,
    replayable=True,
    derivative=Derivative(input=lambda grad, pad: call(constant_pad, grad, tuple([-n for n in pad]), 0)),
)
