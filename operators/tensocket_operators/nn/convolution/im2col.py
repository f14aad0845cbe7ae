"""Convolution as matrix products: windows become columns of a matrix, a part of the batch at a time.

All functions take detached tensors: images [B, C, sizes..] and weights [O, C / groups, kernel..].
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.geometry import as_strided, element_strides
from tensocket_core.keys import dtype_bit
from tensocket_core.launch.copies import copy_elements
from tensocket_core.tensor import wrap

from . import kernel
from .taps import NONE, Taps
from .windows import fold_columns

#: Elements of the columns of one part of the batch: they fit a processor's cache, or little of a device's memory.
_HOST_COLUMNS: Final = 1 << 22
_DEVICE_COLUMNS: Final = 1 << 26
#: Columns per image above which images are multiplied one by one.
_WIDE: Final = 512


@dataclass(frozen=True, slots=True)
class Window:
    """Geometry of a convolution's windows: one number per spatial dimension, and the number of groups of channels."""

    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def outputs(self, sizes: tuple[int, ...], kernel: tuple[int, ...]) -> tuple[int, ...]:
        """Return the number of windows along each dimension."""
        return _outputs(sizes, kernel, self.stride, self.padding, self.dilation)

    @property
    def plain(self) -> bool:
        """Whether a kernel of one element reads every element once."""
        return max(self.stride) == 1 and not any(self.padding)

    def apart(self, kernel: tuple[int, ...]) -> bool:
        """Whether windows are disjoint, inside the image and undilated, in one group."""
        return self.groups == 1 and not any(self.padding) and max(self.dilation) == 1 and all(
            k <= s for k, s in zip(kernel, self.stride, strict=True))


@lru_cache(maxsize=1024)
def _outputs(sizes: tuple[int, ...], kernel: tuple[int, ...], stride: tuple[int, ...], padding: tuple[int, ...],
             dilation: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(
        sizes, kernel, stride, padding, dilation, strict=True)])


@lru_cache(maxsize=256)
def window_taps(size: int, outputs: int, kernel: int, stride: int, dilation: int, padding: int) -> Taps:
    """Return the windows along one dimension; ``NONE`` marks positions outside the line."""
    def make() -> tuple[Any, None, None]:
        places = np.arange(outputs)[:, None] * stride + np.arange(kernel) * dilation - padding
        inside = (places >= 0) & (places < size)
        return np.where(inside, places, NONE), None, None

    return Taps(size, outputs, make, kernel, (stride, dilation, padding))


def windows_of(sizes: tuple[int, ...], outputs: tuple[int, ...], kernel: tuple[int, ...],
               window: Window) -> tuple[Taps, ...]:
    """Return the windows along every dimension."""
    return tuple([window_taps(*line) for line in zip(
        sizes, outputs, kernel, window.stride, window.dilation, window.padding, strict=True)])


def padded(x: Any, pads: list[tuple[int, int]]) -> Any:
    """Return an image with a border of zeros; negative numbers crop."""
    if not any(low or high for low, high in pads):
        return x
    return functions.constant_pad_nd(x, tuple([n for pair in reversed(pads) for n in pair]))


def _strided_windows(array: Any, kernel: tuple[int, ...], outputs: tuple[int, ...], window: Window,
                     batch_last: bool) -> Any:
    """Return a view of a padded image's handle: [B, G, C / G, kernel.., outputs..], or with B before outputs."""
    sb, sc, *steps = element_strides(array)
    batch, channels, groups = array.shape[0], array.shape[1], window.groups
    taps = tuple([s * d for s, d in zip(steps, window.dilation, strict=True)])
    hops = tuple([s * n for s, n in zip(steps, window.stride, strict=True)])
    split, steps_of = (groups, channels // groups), (sc * (channels // groups), sc)
    if batch_last:
        return as_strided(array, (*split, *kernel, batch, *outputs), (*steps_of, *taps, sb, *hops), 0)
    return as_strided(array, (batch, *split, *kernel, *outputs), (sb, *steps_of, *taps, *hops), 0)


def columns(state: Any, x: Any, kernel: tuple[int, ...], outputs: tuple[int, ...], window: Window, *,
            batch_last: bool) -> Any:
    """Return the windows of a padded image as a matrix for each group.

    Returns:
        [B, G, C / G * kernel, outputs], with ``batch_last`` [G, C / G * kernel, B * outputs].
    """
    batch, groups = x.shape[0], window.groups
    rows, count = x.shape[1] // groups * math.prod(kernel), math.prod(outputs)
    if math.prod(kernel) == 1 and all(s == 1 for s in window.stride):
        if not batch_last:
            return x.reshape((batch, groups, rows, count))
        return x.reshape((batch, groups * rows, count)).transpose(0, 1).reshape((groups, rows, batch * count))
    view = _strided_windows(x._array, kernel, outputs, window, batch_last)
    made = state.runtime.empty(view.shape, x.dtype, state.stream)
    copy_elements(state, made, x.dtype, view, x.dtype)
    shape = (groups, rows, batch * count) if batch_last else (batch, groups, rows, count)
    return wrap(made.reshape(shape), state.key | dtype_bit(x.dtype))


def _parts(state: Any, batch: int, each: int) -> Iterator[tuple[int, int]]:
    """Yield the start and length of each range of images whose columns are made at once."""
    limit = _HOST_COLUMNS if state.runtime.profile.host_resident else _DEVICE_COLUMNS
    step = max(1, limit // max(each, 1))
    for start in range(0, batch, step):
        yield start, min(step, batch - start)


def _some(x: Any, start: int, size: int) -> Any:
    return x if size == x.shape[0] else x.narrow(0, start, size)


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else functions.cat(parts)


def _swapped(flat: Any, batch: int, shape: tuple[int, ...]) -> Any:
    """Return [channels, B * outputs] as an image."""
    return flat.reshape((-1, batch, math.prod(shape))).transpose(0, 1).reshape((batch, -1, *shape))


def _by_channel(state: Any, x: Any, weight: Any, window: Window, outputs: tuple[int, ...]) -> Any:
    """Return the convolution of a padded image where every group is one channel."""
    batch, channels, dtype = x.shape[0], x.shape[1], x.dtype
    steps = element_strides(x._array)[2:]
    shape = (batch, channels, weight.shape[0] // channels, *outputs)
    out = state.runtime.empty(shape, dtype, state.stream)
    kernels = weight.reshape((channels, shape[2], *weight.shape[2:])).contiguous()
    kernel.channels_array(state, out, x._array, kernels._array,
                          [s * n for s, n in zip(steps, window.stride, strict=True)],
                          [s * d for s, d in zip(steps, window.dilation, strict=True)], dtype)
    return wrap(out, state.key | dtype_bit(dtype)).view((batch, weight.shape[0], *outputs))


def forward(state: Any, x: Any, weight: Any, window: Window, outputs: tuple[int, ...],
            pads: list[tuple[int, int]]) -> Any:
    """Return the convolution of ``x``, padded by ``pads``, with ``weight``."""
    kernel, groups = tuple(weight.shape[2:]), window.groups
    if groups > 1 and weight.shape[1] == 1 and not x.dtype.is_complex and state.runtime.target is not None:
        return _by_channel(state, padded(x, pads), weight, window, outputs)
    count, batch = math.prod(outputs), x.shape[0]
    matrix = weight.reshape((groups, weight.shape[0] // groups, -1))
    wide = count >= _WIDE or batch == 1
    parts = []
    for start, size in _parts(state, batch, x.shape[1] * math.prod(kernel) * count):
        some = padded(_some(x, start, size), pads)
        made = functions.matmul(matrix, columns(state, some, kernel, outputs, window, batch_last=not wide))
        parts.append(made.reshape((size, weight.shape[0], *outputs)) if wide else _swapped(made, size, outputs))
    return _joined(parts)


def backward_input(state: Any, grad: Any, weight: Any, window: Window, sizes: tuple[int, ...]) -> Any:
    """Apply the transpose of ``forward`` to ``grad`` [B, O, outputs..]: the gradient of every element of the image."""
    kernel, groups, outputs = tuple(weight.shape[2:]), window.groups, tuple(grad.shape[2:])
    rows = weight.shape[0] // groups
    if all(s == 1 for s in window.stride):
        # A convolution with the flipped kernel.
        turned = weight.reshape((groups, rows, *weight.shape[1:])).transpose(1, 2)
        turned = turned.reshape((groups * weight.shape[1], rows, *kernel)).flip(tuple(range(2, 2 + len(kernel))))
        spans = [d * (k - 1) for d, k in zip(window.dilation, kernel, strict=True)]
        pads = [(span - p, n - o + p) for span, p, n, o in zip(spans, window.padding, sizes, outputs, strict=True)]
        return forward(state, grad, turned, Window(window.stride, window.padding, window.dilation, groups), sizes, pads)
    matrix = weight.reshape((groups, rows, -1)).mT
    count, batch, channels = math.prod(outputs), grad.shape[0], groups * weight.shape[1]
    windows = windows_of(sizes, outputs, kernel, window)
    parts = []
    for start, size in _parts(state, batch, channels * math.prod(kernel) * count):
        some = _some(grad, start, size).reshape((size, groups, rows, count))
        made = functions.matmul(matrix, some).reshape((size, channels, *kernel, *outputs))
        parts.append(call(fold_columns, made, windows))
    return _joined(parts)


def backward_weight(state: Any, grad: Any, x: Any, window: Window, kernel: tuple[int, ...]) -> Any:
    """Return the products of output gradients and windows, added up over all windows: [O, C / groups, kernel..]."""
    groups, outputs, batch = window.groups, tuple(grad.shape[2:]), grad.shape[0]
    count, rows = math.prod(outputs), grad.shape[1] // groups
    pads = [(p, p) for p in window.padding]
    total: Any = None
    for start, size in _parts(state, batch, x.shape[1] * math.prod(kernel) * count):
        some = columns(state, padded(_some(x, start, size), pads), kernel, outputs, window, batch_last=True)
        upstream = _some(grad, start, size).reshape((size, groups * rows, count)).transpose(0, 1)
        part = functions.matmul(upstream.reshape((groups, rows, size * count)), some.mT)
        total = part if total is None else total + part
    return total.reshape((grad.shape[1], x.shape[1] // groups, *kernel))
