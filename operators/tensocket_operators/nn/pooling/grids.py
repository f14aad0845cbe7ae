"""Image samples at the points of a grid, and grids of affine maps."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.device import DeviceState
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.modes import STATE
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import LAZY, WRAPPER, dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from ...kinds.composite import composite
from ...kinds.private import private
from ...kinds.programs import Programs, processors_only
from ...kinds.view import Custom
from ...unrolled.recomputed import Recomputed, gradients_of
from . import grid_kernel_cpu

_MODES: Final = ("bilinear", "nearest", "bicubic")
_KERNEL: Final = Programs("grid_sample", cpu=True, simt=False)
_PADDINGS: Final = ("zeros", "border", "reflection")


def _unnormalized(x: Any, size: int, align_corners: bool) -> Any:
    """Return coordinates from -1 to 1 as positions; both ends are centres of elements, or their outer edges."""
    return (x + 1) / 2 * (size - 1) if align_corners else ((x + 1) * size - 1) / 2


def _clipped(x: Any, size: int) -> Any:
    """Clamp positions to the image and NaN to 0; positions at its ends and outside get no gradient."""
    inside, value = (x > 0) & (x < size - 1), x.detach()
    return functions.where(inside, x, value.masked_fill(value != value, 0).clamp(0, size - 1))


def _reflected(x: Any, size: int, align_corners: bool) -> Any:
    """Reflect positions at the ends of the image until they are inside."""
    low, span = (0.0, float(size - 1)) if align_corners else (-0.5, float(size))
    if span == 0:
        return x * 0
    shifted = x - low
    distance = functions.where(shifted < 0, -shifted, shifted)
    folds = (distance.detach() / span).floor()
    rest = distance.fmod(span)
    return functions.where(folds.fmod(2) == 0, rest + low, span - rest + low)


def _placed(x: Any, size: int, padding: str, align_corners: bool) -> Any:
    if padding == "reflection":
        x = _reflected(x, size, align_corners)
    return x if padding == "zeros" else _clipped(x, size)


def _index(places: list[Any], sizes: tuple[int, ...]) -> Any:
    """Return the flat positions of elements at integral coordinates, each [B, points]; -1 outside the image."""
    valid, index = None, None
    for place, size in zip(places, sizes, strict=True):
        inside = (place >= 0) & (place <= size - 1)
        valid = inside if valid is None else valid & inside
        # Floats count exactly only up to their precision, 16-bit ones to 256.
        whole = functions.where(inside, place, 0).to(dtypes.int64)
        index = whole if index is None else index * size + whole
    assert index is not None
    assert valid is not None
    return functions.where(valid, index, -1)


#: The weights of the elements around the points of a grid, and their flat positions, each [B, points].
_Corners = tuple[list[Any], list[Any]]


def _nearest(points: list[Any], sizes: tuple[int, ...]) -> _Corners:
    index = _index([x.detach().round() for x in points], sizes)
    weight = points[0].detach().new_ones(tuple(index.shape))
    if points[0].requires_grad:  # the slope along the points is 0, which differs from no gradient
        weight = weight + points[0].masked_fill(points[0].isfinite().logical_not(), 0) * 0
    return [weight], [index]


def _linear(points: list[Any], sizes: tuple[int, ...]) -> _Corners:
    """Interpolate linearly between the corners around every point."""
    lows = [x.detach().floor() for x in points]
    weights, index = [], []
    for corner in itertools.product((0, 1), repeat=len(sizes)):
        weight = None
        for x, low, side in zip(points, lows, corner, strict=True):
            share = x - low if side else low + 1 - x
            weight = share if weight is None else weight * share
        assert weight is not None
        weights.append(weight)
        index.append(_index([low + side for low, side in zip(lows, corner, strict=True)], sizes))
    return weights, index


def _cubic_weights(t: Any) -> list[Any]:
    """Return the weights of the four elements around a point (cubic convolution with a = -0.75)."""
    a = -0.75

    def near(x: Any) -> Any:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: Any) -> Any:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _cubic(points: list[Any], sizes: tuple[int, ...], padding: str, align_corners: bool) -> _Corners:
    lows = [x.detach().floor() for x in points]
    weights = [_cubic_weights(x - low) for x, low in zip(points, lows, strict=True)]
    factors, index = [], []
    for row, column in itertools.product(range(4), repeat=2):
        places = [_placed(low + k - 1, size, padding, align_corners)
                  for low, k, size in zip(lows, (row, column), sizes, strict=True)]
        factors.append(weights[0][row] * weights[1][column])
        index.append(_index(places, sizes))
    return factors, index


def _around(points: Any, sizes: tuple[int, ...], mode: str, padding: str, align_corners: bool) -> tuple[Any, Any]:
    """Return the weights and flat positions of the elements around the points, each [B, K, points]."""
    dims = len(sizes)
    # The last coordinate of a point belongs to the first dimension.
    lines = [_unnormalized(points.select(-1, dims - 1 - d), n, align_corners) for d, n in enumerate(sizes)]
    if mode == "bicubic":
        weights, index = _cubic(lines, sizes, padding, align_corners)
    else:
        lines = [_placed(x, n, padding, align_corners) for x, n in zip(lines, sizes, strict=True)]
        if dims == 3 and padding == "zeros":  # non-finite points are outside; for planes, PyTorch gives NaN
            lines = [functions.where(x.detach().isfinite(), x, -2.0) for x in lines]
        weights, index = (_linear if mode == "bilinear" else _nearest)(lines, sizes)
    return functions.stack(weights, 1), functions.stack(index, 1)


def _has_kernel(points: Any) -> bool:
    """Whether one kernel computes weights and positions: on processors with a code generator, for common dtypes."""
    # Modes and transforms receive the operators of the composition.
    intercepted = STATE.transforms or STATE.dispatch_modes
    return not intercepted and bool(_KERNEL.of(points._device_state)) and points.dtype in (
        dtypes.float32, dtypes.float64) and not points._key & (WRAPPER | LAZY)


def _found_corners(state: Any, points: Any, sizes: tuple[int, ...], mode: str, padding: str,
                   align_corners: bool) -> tuple[Any, Any]:
    weights, index = grid_kernel_cpu.grid_points(
        state, points.contiguous()._array, points.dtype, sizes, mode, padding, align_corners)
    return wrap(weights, points._key), wrap(index, state.key | dtype_bit(dtypes.int64))


_corners: Final = Custom(
    "grid_points(Tensor points, int[] sizes, str mode, str padding, bool align_corners) -> (Tensor, Tensor)",
    "Weights and positions of the elements around the points of a grid, on processors.", _found_corners,
    method=False, function=False, replayable=True, derivative=Derivative(
        points=lambda grads, points, sizes, mode, padding, align_corners: None if grads[0] is None else call(
            COMPOSITES["grid_slopes"], grads[0], points, sizes, mode, padding, align_corners)))


def _slopes_path(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
    def host_path(grad: Any, points: Any, *form: Any) -> Any:
        if not _has_kernel(points) or grad.dtype is not points.dtype:
            return next_path(grad, points, *form)
        arrays = [x.contiguous()._array for x in (points, grad)]
        made = grid_kernel_cpu.grid_slopes(state, arrays[0], arrays[1], points.dtype, *form)
        return wrap(made, state.key | dtype_bit(points.dtype))

    return private("grid_sample", host_path)


@composite("grid_slopes(Tensor grad, Tensor points, int[] sizes, str mode, str padding, bool align_corners) -> Tensor",
           method=False, function=False, replayable=True, host_path=processors_only("grid_slopes")(_slopes_path))
def grid_slopes(grad: Any, points: Any, sizes: Any, mode: str, padding: str, align_corners: bool) -> Any:
    """Return the gradient of points from that of the weights of the elements around them."""
    form = tuple(sizes), mode, padding, align_corners
    return gradients_of(lambda x: _around(x, *form)[0], [points], grad)[0]


def _sampled(operator: str, input: Any, grid: Any, mode: str, padding: str, align_corners: bool) -> Any:
    dims = input.ndim - 2
    if dims not in (2, 3) or grid.ndim != dims + 2 or grid.shape[-1] != dims or grid.shape[0] != input.shape[0] or (
            0 in input.shape[2:]):
        raise ShapeError(operator, f"input {list(input.shape)}, grid {list(grid.shape)}",
                         "the input is [B, C, H, W] or [B, C, D, H, W] and the grid [B, .., 2] or [B, .., 3]",
                         "reshape them")
    if mode == "bicubic" and dims != 2:
        raise ArgumentError(operator, "mode='bicubic' for three dimensions", "bicubic is for two dimensions",
                            "use bilinear")
    if input.dtype is not grid.dtype:
        raise DtypeError(operator, f"input of {input.dtype.name}, grid of {grid.dtype.name}",
                         "both have one dtype", "convert with .to(dtype)")
    batch, channels, *sizes = input.shape
    points = grid.reshape((batch, math.prod(grid.shape[1:-1]), dims))
    flat = input.reshape((batch, channels, math.prod(sizes)))
    form = tuple(sizes), mode, padding, align_corners
    weights, index = call(_corners, points, *form) if _has_kernel(points) else _around(points, *form)
    result = call(COMPOSITES["gather_points"], flat, weights, index, flat.shape[2])
    return result.reshape((batch, channels, *grid.shape[1:-1]))


@composite("grid_sample(Tensor input, Tensor grid, str mode='bilinear', str padding_mode='zeros', "
           "bool? align_corners=None) -> Tensor", method=False, namespace="nn.functional", replayable=True,
           hands_by_name=True, recomputed=Recomputed(saved=("input", "grid")))
def grid_sample(input: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
                align_corners: bool | None = None) -> Any:
    """Sample an image at the points of a grid.

    Args:
        input: [B, C, H, W] or [B, C, D, H, W].
        grid: [B, .., 2] or [B, .., 3]; coordinates x, y (, z) from -1 to 1.
        mode: ``bilinear``, ``nearest`` or ``bicubic``.
        padding_mode: Values outside the image: ``zeros``, the ``border``, or its ``reflection``.
        align_corners: Whether -1 and 1 are the centres of the outermost elements instead of their outer edges.

    Raises:
        ArgumentError: A mode is unknown.
        ShapeError: Image and grid do not fit each other.
        DtypeError: Their dtypes differ.
    """
    if mode not in _MODES:
        raise ArgumentError("grid_sample", f"mode={mode!r}", f"the mode is one of {', '.join(_MODES)}",
                            "pass one of these")
    if padding_mode not in _PADDINGS:
        raise ArgumentError("grid_sample", f"padding_mode={padding_mode!r}",
                            f"the padding mode is one of {', '.join(_PADDINGS)}", "pass one of these")
    return _sampled("grid_sample", input, grid, mode, padding_mode, bool(align_corners))


def _by_number(operator: str, input: Any, grid: Any, dims: int, mode: int, padding: int, align_corners: bool) -> Any:
    if input.ndim != dims + 2 or not 0 <= mode < 3 or not 0 <= padding < 3:
        raise ArgumentError(operator, f"input {list(input.shape)}, modes {mode} and {padding}",
                            f"the input has {dims} spatial dimensions, modes are 0, 1 or 2", "use grid_sample")
    return _sampled(operator, input, grid, _MODES[mode], _PADDINGS[padding], align_corners)


_NUMBERED: Final = ("(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
                    "-> Tensor")


@composite(f"grid_sampler{_NUMBERED}", method=False, replayable=True,
           recomputed=Recomputed(saved=("input", "grid")))
def grid_sampler(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """Run ``grid_sample`` in two or three dimensions, with modes given by number."""
    return _by_number("grid_sampler", input, grid, input.ndim - 2, interpolation_mode, padding_mode, align_corners)


@composite(f"grid_sampler_2d{_NUMBERED}", method=False, replayable=True,
           recomputed=Recomputed(saved=("input", "grid")))
def grid_sampler_2d(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """Run ``grid_sample`` of [B, C, H, W], with modes given by number."""
    return _by_number("grid_sampler_2d", input, grid, 2, interpolation_mode, padding_mode, align_corners)


@composite(f"grid_sampler_3d{_NUMBERED}", method=False, replayable=True,
           recomputed=Recomputed(saved=("input", "grid")))
def grid_sampler_3d(input: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    """Run ``grid_sample`` of [B, C, D, H, W], with modes given by number."""
    return _by_number("grid_sampler_3d", input, grid, 3, interpolation_mode, padding_mode, align_corners)


def _affine_base(like: Any, sizes: tuple[int, ...], align_corners: bool) -> Any:
    """Return the points of an image as rows of coordinates that end in 1: [1, points, dims + 1]."""
    dims, lines = len(sizes), []
    for d in reversed(range(dims)):
        n = sizes[d]
        at = like.detach().new_arange(0, n, 1).to(like.dtype)
        line = (at * 2 - (n - 1)) / (max(n - 1, 1) if align_corners else n)
        lines.append(line.reshape((-1, *(1,) * (dims - 1 - d))).expand(sizes))
    return functions.stack([*lines, lines[0].new_ones(sizes)], -1).reshape((1, -1, dims + 1))


def _affine_gradient(grad: Any, size: Any, align_corners: bool) -> Any:
    """Return the gradient of affine maps; it depends on no tensor of the forward pass."""
    batch, _, *sizes = tuple(size)
    base = _affine_base(grad, tuple(sizes), align_corners)
    return functions.matmul(grad.reshape((batch, -1, len(sizes))).mT, base)


@composite("affine_grid_generator(Tensor theta, any size, bool align_corners) -> Tensor", method=False,
           derivative=Derivative(theta=_affine_gradient))
def affine_grid_generator(theta: Any, size: Any, align_corners: bool) -> Any:
    """Return the points of an image of ``size`` after affine maps: [B, H, W, 2] or [B, D, H, W, 3].

    Raises:
        ShapeError: ``theta`` is not [B, 2, 3] or [B, 3, 4], as ``size`` requires.
        DtypeError: ``theta`` does not have a floating-point dtype.
    """
    batch, _, *sizes = tuple(size)
    dims = len(sizes)
    if not theta.dtype.is_floating_point:
        raise DtypeError("affine_grid", f"theta of {theta.dtype.name}", "affine maps are of floats",
                         "convert with .float()")
    if dims not in (2, 3) or tuple(theta.shape) != (batch, dims, dims + 1) or min(sizes) < 1:
        raise ShapeError("affine_grid", f"theta {list(theta.shape)}, size {list(size)}",
                         "theta is [B, 2, 3] for [B, C, H, W] and [B, 3, 4] for [B, C, D, H, W]", "reshape theta")
    base = _affine_base(theta, tuple(sizes), align_corners)
    return functions.matmul(base, theta.mT).reshape((batch, *sizes, dims))


@composite("affine_grid(Tensor theta, any size, bool? align_corners=None) -> Tensor", method=False,
           namespace="nn.functional", hands_by_name=True)
def affine_grid(theta: Any, size: Any, align_corners: bool | None = None) -> Any:
    """Return the points of an image of ``size`` after affine maps, for ``grid_sample``."""
    if align_corners and 1 in tuple(size)[2:]:
        warnings.warn("a grid with one point along a dimension has it in the middle where align_corners=True. "
                      "See the documentation of affine_grid for details.", UserWarning, stacklevel=3)
    return functions.affine_grid_generator(theta, size, bool(align_corners))
