"""Sparse maps for means over windows and for interpolation, and their application along several dimensions."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_plugins.contract import dtypes

from ...kinds.composite import composite
from ..convolution.im2col import window_taps
from ..convolution.taps import NONE, Taps, mapping
from ..convolution.windows import resample

Array = np.ndarray[Any, Any]

#: Coefficients of cubic convolution: of plain interpolation and of the antialiased kind.
_CUBIC: Final = -0.75
_CUBIC_SMOOTH: Final = -0.5


#: Maps in the order of their application, each with its dimension, which counts from the last one.
Maps = tuple[tuple[int, Taps], ...]


def ordered(maps: list[Taps]) -> Maps:
    """Return the maps along the last dimensions in the order of their application.

    The map that shrinks its dimension most is first, the outer one of equals, where adjacent elements share a vector.
    """
    dims = len(maps)
    return tuple([(k - dims, maps[k]) for k in sorted(
        range(dims), key=lambda k: (maps[k].outputs / max(maps[k].size, 1), k))])


def transposed(maps: Maps) -> Maps:
    """Return the transposed maps, which compute gradients."""
    return tuple([(dim, taps.transposed) for dim, taps in reversed(maps)])


@composite("resample_maps(Tensor input, any maps) -> Tensor", method=False, function=False, replayable=True,
           derivative=Derivative(input=lambda grad, maps: resampled(grad, transposed(maps))))
def resample_maps(input: Any, maps: Maps) -> Any:
    """Apply maps one after the other; half-precision values are rounded once, after the last map."""
    narrow = len(maps) > 1 and input.dtype.is_floating_point and input.dtype.itemsize < 4
    result = input.to(dtypes.float32) if narrow else input
    if 0 in result.stride():  # kernels read adjacent elements, which the gradient of a sum does not have
        result = result.contiguous()
    for dim, taps in maps:
        result = call(resample, result, dim, taps)
    return result.to(input.dtype) if narrow else result


def resampled(input: Any, maps: Maps) -> Any:
    """Return ``resample_maps``, recorded as one node."""
    return call(COMPOSITES["resample_maps"], input, maps)


# -------------------------------------------------------------------------------------------------------- means


@mapping
def mean_taps(size: int, outputs: int, kernel: int, stride: int, padding: int, divisor: int | None,
              count_padding: bool) -> tuple[Array, Array]:
    """Return means over windows; ``divisor`` replaces the number of elements, ``count_padding`` counts padding."""
    windows = window_taps(size, outputs, kernel, stride, 1, padding).positions
    starts = np.arange(outputs) * stride - padding
    ends = np.minimum(starts + kernel, size + padding)
    counts = ends - starts if count_padding else np.minimum(ends, size) - np.maximum(starts, 0)
    counts = np.maximum(counts, 1) if divisor is None else np.full(outputs, divisor)
    return windows, np.broadcast_to(1 / counts[:, None], windows.shape)


@mapping
def adaptive_taps(size: int, outputs: int) -> tuple[Array, Array]:
    """Return windows that divide a line into ``outputs`` parts, as evenly as possible and with overlap if necessary."""
    at = np.arange(outputs, dtype=np.int64)
    starts, ends = at * size // max(outputs, 1), -(-(at + 1) * size // max(outputs, 1))
    width = int((ends - starts).max(initial=1))
    places = starts[:, None] + np.arange(width)
    inside = places < ends[:, None]
    lengths = np.maximum(ends - starts, 1)[:, None]
    return np.where(inside, places, NONE), np.broadcast_to(1 / lengths, places.shape)


# ------------------------------------------------------------------------------------------------------ interpolation


def _scale(size: int, outputs: int, align_corners: bool, scale: float | None, real: type) -> Any:
    """Return the distance between adjacent outputs, in elements."""
    if align_corners:
        return real(size - 1) / real(outputs - 1) if outputs > 1 else real(0)
    return real(1.0 / scale) if scale else real(size) / real(outputs)


@lru_cache(maxsize=256)
def nearest_places(size: int, outputs: int, scale: float | None, exact: bool) -> Array:
    """Return the element that every output copies."""
    if outputs == size and scale is None:
        return np.arange(size)
    step = _scale(size, outputs, False, scale, np.float32)
    at: Array = np.arange(outputs).astype(np.float32)
    at = (at + np.float32(0.5)) * step if exact else at * step
    return np.minimum(np.floor(at).astype(np.int64), size - 1)


@mapping
def nearest_taps(size: int, outputs: int, scale: float | None, exact: bool) -> tuple[Array, Array]:
    """Return the element that every output copies, as a sum of one term."""
    return nearest_places(size, outputs, scale, exact)[:, None], np.ones((outputs, 1))


def _sources(size: int, outputs: int, align_corners: bool, scale: float | None, real: Any) -> Array:
    step = _scale(size, outputs, align_corners, scale, real)
    at: Array = np.arange(outputs).astype(real)
    return np.asarray(at * step if align_corners else step * (at + real(0.5)) - real(0.5))


@mapping
def linear_taps(size: int, outputs: int, align_corners: bool, scale: float | None, wide: bool) -> tuple[Array, Array]:
    """Return the two elements around every output, weighted by distance; ``wide`` computes in float64."""
    real: Any = np.float64 if wide else np.float32
    source = np.maximum(_sources(size, outputs, align_corners, scale, real), real(0))
    first = np.minimum(np.floor(source).astype(np.int64), size - 1)
    share = np.clip(source - first, 0, 1).astype(np.float64)
    second = np.minimum(first + 1, size - 1)
    return np.stack([first, second], 1), np.stack([1 - share, share], 1)


def cubic(x: Any, a: float) -> Any:
    """Return the cubic convolution kernel at distances ``x`` (Keys 1981)."""
    x = np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


@mapping
def cubic_taps(size: int, outputs: int, align_corners: bool, scale: float | None, wide: bool) -> tuple[Array, Array]:
    """Return the four elements around every output; the edge element repeats."""
    source = _sources(size, outputs, align_corners, scale, np.float64 if wide else np.float32)
    first = np.floor(source)
    offsets = np.arange(-1, 3)
    weights = cubic((source - first).astype(np.float64)[:, None] - offsets, _CUBIC)
    return np.clip(first.astype(np.int64)[:, None] + offsets, 0, size - 1), weights


_FILTERS: Final[dict[str, tuple[int, Callable[[Any], Any]]]] = {
    "linear": (2, lambda x: np.maximum(0.0, 1 - np.abs(x))),
    "cubic": (4, lambda x: cubic(x, _CUBIC_SMOOTH)),
}


@mapping
def smooth_taps(size: int, outputs: int, align_corners: bool, scale: float | None, kind: str, wide: bool
                ) -> tuple[Array, Array]:
    """Interpolate without aliasing: the kernel is at least as wide as the distance between adjacent outputs."""
    width, weight = _FILTERS[kind]
    real: Any = np.float64 if wide else np.float32
    step = float(_scale(size, outputs, align_corners, scale, real))
    support = width / 2 * max(step, 1.0)
    narrow = 1 / max(step, 1.0)
    centre = (np.arange(outputs).astype(real) + real(0.5)) * real(step)
    first = np.maximum((centre - support + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + support + 0.5).astype(np.int64), size)
    places = first[:, None] + np.arange(int((last - first).max(initial=1)))
    weights = weight((places - centre[:, None] + 0.5) * narrow)
    weights = np.where(places < last[:, None], weights, 0.0)
    total = weights.sum(1, keepdims=True)
    weights = np.where(total != 0, weights / np.where(total == 0, 1, total), weights)
    return np.where(places < last[:, None], places, NONE), weights


#: Bits of whole weights: the largest weight stays below the first limit, and precision below the second.
_WEIGHT_BITS: Final = 15
_MOST_PRECISION: Final = 22


@lru_cache(maxsize=256)
def whole_taps(taps: Taps) -> tuple[Taps, int]:
    """Return a map with its weights as whole numbers, and the number of their bits after the binary point.

    Images of bytes are resized with these, as in PyTorch: sums are exact, whatever the device. The largest weight takes
    as many bits as fit into 16 with the sign; weights of one element are added up first.
    """
    places, weights = taps.positions, np.where(taps.positions >= 0, taps.weights, 0.0)
    for k in range(1, taps.taps):
        again = (places[:, k] == places[:, k - 1]) & (places[:, k] >= 0)
        weights[:, k] += np.where(again, weights[:, k - 1], 0.0)
        weights[:, k - 1][again] = 0.0
    largest, bits = float(weights.max()), 0
    while bits < _MOST_PRECISION and int(0.5 + largest * 2.0 ** (bits + 1)) < 1 << _WEIGHT_BITS:
        bits += 1
    whole = np.trunc(weights * 2.0 ** bits + np.where(weights < 0, -0.5, 0.5))
    return Taps(taps.size, taps.outputs, lambda: (places, whole, None)), bits


def resampled_bytes(input: Any, maps: Maps) -> Any:
    """Apply maps to an image of bytes, along the last dimension first; each rounds its results to bytes."""
    if not input._device_state.holds_data:
        return resampled(input.to(dtypes.int32), maps).to(dtypes.uint8)
    result = input
    for dim, taps in sorted(maps, key=lambda each: -each[0]):
        if taps.size == taps.outputs:
            continue
        whole, bits = whole_taps(taps)
        sums = call(resample, result.to(dtypes.int32), dim, whole) + (1 << bits >> 1)
        result = functions.bitwise_right_shift(sums, bits).clamp(0, 255).to(dtypes.uint8)
    return result.clone() if result is input else result


def output_size(size: int, factor: float) -> int:
    """Return the number of elements of a scaled line of ``size``."""
    return math.floor(float(size) * factor)
