"""Interpolation of images to other sizes."""

from __future__ import annotations

import math
import warnings
from typing import Any, Final

from tensocket_core import functions
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.dispatch.registry import COMPOSITES
from tensocket_core.keys import dtype_bit
from tensocket_core.tensor import wrap
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, ShapeError, UndefinedDtype

from ...array_paths import REAL, array_path
from ...kinds.composite import composite
from ...kinds.view import Custom
from ...shapes.views import sizes
from ..convolution import images_kernel_cpu
from ..convolution.windows import laid_like
from .resampling import (
    Maps,
    cubic_taps,
    linear_taps,
    nearest_places,
    nearest_taps,
    ordered,
    output_size,
    resampled,
    resampled_bytes,
    smooth_taps,
    transposed,
)

#: Kernel and number of spatial dimensions of the modes that fix this number.
_MODES: Final = {"linear": ("linear", 1), "bilinear": ("linear", 2), "trilinear": ("linear", 3),
                 "bicubic": ("cubic", 2)}
_NEAREST: Final = ("nearest", "nearest-exact")
_PLANE: Final = ("bilinear", "bicubic")


def _per_dimension(name: str, value: Any, dims: int) -> list[Any]:
    """Return one number for each spatial dimension.

    Raises:
        ArgumentError: The number of values differs from ``dims``.
    """
    values = list(value) if isinstance(value, (tuple, list)) else [value] * dims
    if len(values) != dims:
        raise ArgumentError("interpolate", f"{name}={value!r} for {dims} spatial dimensions",
                            "there is one number for all, or one for each dimension", "pass a number or a tuple")
    return values


def _sizes(input: Any, size: Any, scale_factor: Any, recompute: Any) -> tuple[list[int], list[float | None]]:
    """Return the sizes of the result, and the scale factors for positions."""
    given, dims = tuple(input.shape[2:]), input.ndim - 2
    if (size is None) == (scale_factor is None):
        raise ArgumentError("interpolate", f"size={size!r}, scale_factor={scale_factor!r}",
                            "either size or scale_factor is given", "pass one of the two")
    if size is not None:
        if recompute:
            raise ArgumentError("interpolate", "recompute_scale_factor with a size",
                                "factors are recomputed only where they are given", "pass scale_factor")
        return list(sizes((tuple(_per_dimension("size", size, dims)),))), [None] * dims
    factors = [float(f) for f in _per_dimension("scale_factor", scale_factor, dims)]
    wanted = [output_size(n, f) for n, f in zip(given, factors, strict=True)]
    return wanted, [None] * dims if recompute else list(factors)


def _check(input: Any, mode: str, align_corners: Any, antialias: bool) -> None:
    """Refuse a mode that does not fit the input and the other arguments.

    Raises:
        ArgumentError: The mode does not fit them.
        ShapeError: The input is not a batch with channels and one to three spatial dimensions.
    """
    known = (*_NEAREST, "area", *_MODES)
    if mode not in known:
        raise ArgumentError("interpolate", f"mode={mode!r}", f"the mode is one of {', '.join(known)}",
                            "pass one of these")
    if not 3 <= input.ndim <= 5 or (mode in _MODES and input.ndim - 2 != _MODES[mode][1]):
        raise ShapeError("interpolate", f"input {list(input.shape)}, mode={mode!r}",
                         "the input has a batch, channels and the mode's number of spatial dimensions",
                         "choose another mode, or reshape")
    if align_corners is not None and mode not in _MODES:
        raise ArgumentError("interpolate", f"align_corners with mode={mode!r}",
                            "align_corners is for linear and cubic modes", "leave it out")
    if antialias and mode not in _PLANE:
        raise ArgumentError("interpolate", f"antialias with mode={mode!r}", "antialias is for bilinear and bicubic",
                            "leave it out")


@composite("interpolate(Tensor input, any size=None, any scale_factor=None, str mode='nearest', "
           "bool? align_corners=None, bool? recompute_scale_factor=None, bool antialias=False) -> Tensor",
           method=False, namespace="nn.functional", hands_by_name=True)
def interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: Any = None, recompute_scale_factor: Any = None, antialias: bool = False) -> Any:
    """Resize an image [B, C, ..].

    Args:
        input: One to three spatial dimensions.
        size: Sizes of the result, or
        scale_factor: factors of the sizes, rounded down.
        mode: ``nearest``, ``nearest-exact``, ``linear``, ``bilinear``, ``trilinear``, ``bicubic`` or ``area``.
        align_corners: Whether the centres of corner elements coincide, instead of their outer edges.
        recompute_scale_factor: Whether positions follow from the sizes instead of the factors.
        antialias: Whether shrinking averages over all elements within the kernel (bilinear and bicubic).

    Raises:
        ArgumentError: Arguments are missing or do not fit each other.
        ShapeError: The mode is for another number of dimensions, or a size is not positive.
    """
    _check(input, mode, align_corners, antialias)
    wanted, factors = _sizes(input, size, scale_factor, recompute_scale_factor)
    given = tuple(input.shape[2:])
    if min(wanted) < 1 or min(given) < 1:
        raise ShapeError("interpolate", f"sizes {list(given)} to {wanted}", "all sizes are positive",
                         "pass another size or scale_factor")
    if mode != "area" and (input.dtype.is_complex or (
            not input.dtype.is_floating_point and input.dtype is not dtypes.uint8)):
        raise UndefinedDtype("interpolate", f"dtype {input.dtype.name}, mode={mode!r}",
                             "interpolation is for floating-point images and uint8", "convert with .to(dtype)")
    if mode in _NEAREST:
        return call(COMPOSITES["nearest_elements"], input, tuple(wanted), tuple(factors), mode == "nearest-exact")
    if mode == "area":
        name = f"adaptive_avg_pool{input.ndim - 2}d"
        return getattr(functions, name)(input, tuple(wanted))
    whole = input.dtype is dtypes.uint8 and mode in _PLANE
    maps = _maps(mode, given, wanted, factors, bool(align_corners), antialias, whole or input.dtype is dtypes.float64)
    return resampled_bytes(input, maps) if whole else _blended(input, maps)


def _maps(mode: str, given: tuple[int, ...], wanted: list[int], factors: list[float | None], align: bool,
          antialias: bool, wide: bool) -> Maps:
    kind = _MODES[mode][0]
    lines = list(zip(given, wanted, factors, strict=True))
    if antialias:
        return ordered([smooth_taps(n, m, align, f, kind, wide) for n, m, f in lines])
    taps = linear_taps if kind == "linear" else cubic_taps
    return ordered([taps(n, m, align, f, wide) for n, m, f in lines])


def _blended(input: Any, maps: Maps) -> Any:
    if input.dtype is dtypes.uint8:
        return resampled(input.to(dtypes.float32), maps).round().clamp(0, 255).to(dtypes.uint8)
    return resampled(input, maps)


def _nearest_gradient(grad: Any, shape: Any, factors: tuple[float | None, ...], exact: bool) -> Any:
    """Return the sums of the gradients of each element's copies, rounded once."""
    dims = len(factors)
    lines = zip(tuple(shape)[-dims:], tuple(grad.shape)[-dims:], factors, strict=True)
    return resampled(grad, transposed(ordered([nearest_taps(n, m, f, exact) for n, m, f in lines])))


#: Elements of the result up to which NumPy takes them faster than kernels are launched.
_FEW: Final = 1 << 14


def _taken(image: Any, wanted: tuple[int, ...], factors: tuple[float | None, ...], exact: bool) -> Any:
    """Return the nearest elements of a small image without gaps."""
    if not image.flags.c_contiguous or math.prod(image.shape[:2]) * math.prod(wanted) > _FEW:
        return NotImplemented
    result = image
    for k, (m, factor) in enumerate(zip(wanted, factors, strict=True)):
        if m != image.shape[2 + k] or factor is not None:
            result = result.take(nearest_places(image.shape[2 + k], m, factor, exact), 2 + k)
    return result.copy() if result is image else result


@composite("nearest_elements(Tensor input, any wanted, any factors, bool exact) -> Tensor", method=False,
           function=False, host_path=array_path(_taken, accepts=(*REAL, dtypes.uint8)), replayable=True,
           derivative=Derivative(input=lambda grad, input_shape, factors, exact: (
               _nearest_gradient(grad, input_shape, factors, exact))))
def nearest_elements(input: Any, wanted: tuple[int, ...], factors: tuple[float | None, ...], exact: bool) -> Any:
    """Resize an image by copying the nearest elements of the input."""
    return laid_like(call(nearest_copies, input, wanted, factors, exact), input._array)


def _nearest_copies(state: Any, input: Any, wanted: tuple[int, ...], factors: tuple[float | None, ...],
                    exact: bool) -> Any:
    lead = input.ndim - len(wanted)
    shape = (*input.shape[:lead], *wanted)
    if state.holds_data and 0 not in input.shape:
        maps = [nearest_taps(n, m, f, exact) for n, m, f in zip(input.shape[lead:], wanted, factors, strict=True)]
        out = state.runtime.empty(shape, input.dtype, state.stream)
        if images_kernel_cpu.copy_images(state, out, input._array, maps, input.dtype):
            return wrap(out, state.key | dtype_bit(input.dtype))
    result = input = input.detach()
    for k, (m, factor) in enumerate(zip(wanted, factors, strict=True)):
        if not input._device_state.holds_data:
            result = result.narrow(lead + k, 0, 1).expand(*[-1] * (lead + k), m, *[-1] * (len(wanted) - 1 - k))
            continue
        places = nearest_places(input.shape[lead + k], m, factor, exact)
        if m != input.shape[lead + k] or factor is not None:
            result = result.index_select(lead + k, input.new_tensor(places.tolist(), dtype=dtypes.int64))
    return result.clone() if result is input or not input._device_state.holds_data else result


nearest_copies: Final[Custom] = Custom(
    "nearest_copies(Tensor input, any wanted, any factors, bool exact) -> Tensor",
    "The nearest elements of an image of another size.",
    _nearest_copies,
    method=False,
    function=False,
    replayable=True,
    moves=True,
)


@composite("upsample(Tensor input, any size=None, any scale_factor=None, str mode='nearest', "
           "bool? align_corners=None) -> Tensor", method=False, namespace="nn.functional")
def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: Any = None) -> Any:
    """Resize an image; the older name of ``interpolate``."""
    warnings.warn("upsample is deprecated; use interpolate", UserWarning, stacklevel=3)
    return functions.interpolate(input, size, scale_factor, mode, align_corners)


@composite("upsample_nearest(Tensor input, any size=None, any scale_factor=None) -> Tensor", method=False,
           namespace="nn.functional")
def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Run ``interpolate`` with mode ``nearest``."""
    warnings.warn("upsample_nearest is deprecated; use interpolate", UserWarning, stacklevel=3)
    return functions.interpolate(input, size, scale_factor, "nearest")


@composite("upsample_bilinear(Tensor input, any size=None, any scale_factor=None) -> Tensor", method=False,
           namespace="nn.functional")
def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """Run ``interpolate`` with mode ``bilinear`` and aligned corners."""
    warnings.warn("upsample_bilinear is deprecated; use interpolate", UserWarning, stacklevel=3)
    return functions.interpolate(input, size, scale_factor, "bilinear", True)
