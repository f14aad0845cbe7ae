"""Resize and Upsample: each axis is resized by a matrix product with the weights of nearby elements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import tensocket as torch
from tensocket.errors import ArgumentError

from .table import operator
from .values import axes_in, floats, ints, text

#: Weights of elements by their distance from the place that is read, and how far they reach.
Kernel = tuple[Callable[[Any], Any], int]


def _linear(distance: Any) -> Any:
    return np.maximum(1 - np.abs(distance), 0)


def _cubic(a: float) -> Callable[[Any], Any]:
    """Return the kernel of cubic convolution (Keys, 1981)."""

    def weigh(distance: Any) -> Any:
        x = np.abs(distance)
        near = ((a + 2) * x - (a + 3)) * x * x + 1
        far = ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
        return np.where(x <= 1, near, np.where(x < 2, far, 0))

    return weigh


def _places(mode: str, size: int, wanted: int, scale: float, roi: tuple[float, float]) -> Any:
    """Return the places in the input that elements of the result come from."""
    y, exact = np.arange(wanted, dtype=np.float64), scale * size
    if mode == "align_corners":
        return y * 0 if exact == 1 else y * (size - 1) / (exact - 1)
    if mode == "asymmetric":
        return y / scale
    if mode == "tf_crop_and_resize":
        first, last = roi
        if exact == 1:
            return y * 0 + (first + last) * (size - 1) / 2
        return first * (size - 1) + y * (last - first) * (size - 1) / (exact - 1)
    if mode == "pytorch_half_pixel" and wanted <= 1:
        return y * 0 - 0.5
    places = (y + 0.5) / scale - 0.5
    if mode == "half_pixel_symmetric":
        return size / 2 * (1 - wanted / exact) + places
    return places


def _nearest(places: Any, mode: str) -> Any:
    """Return the indices of the elements to copy."""
    if mode == "floor":
        return np.floor(places)
    if mode == "ceil":
        return np.ceil(places)
    return np.ceil(places - 0.5) if mode == "round_prefer_floor" else np.floor(places + 0.5)


def _weights(places: Any, size: int, kernel: Kernel, scale: float, antialias: bool, outside: bool) -> Any:
    """Return a matrix [places, size] of the weights of elements; those beyond the border count for its last one."""
    weigh, reach = kernel
    shrink = min(scale, 1.0) if antialias else 1.0
    span = math.ceil(reach / shrink) + 1
    index = np.floor(places)[:, None] + np.arange(-span, span + 1)
    found = weigh((index - places[:, None]) * shrink)
    if antialias:
        found = found / found.sum(1, keepdims=True)
    if outside:
        found = np.where((index < 0) | (index >= size), 0, found)
        found = found / np.where(found.sum(1, keepdims=True) == 0, 1, found.sum(1, keepdims=True))
    matrix = np.zeros((len(places), size))
    rows = np.repeat(np.arange(len(places)), index.shape[1])
    np.add.at(matrix, (rows, np.clip(index, 0, size - 1).astype(np.int64).reshape(-1)), found.reshape(-1))
    return matrix


def _resized(x: Any, dim: int, wanted: int, scale: float, roi: tuple[float, float], options: dict[str, Any]) -> Any:
    size = x.shape[dim]
    coordinates = options["coordinates"]
    places = _places(coordinates, size, wanted, scale, roi)
    if options["mode"] == "nearest":
        index = np.clip(_nearest(places, options["nearest"]), 0, size - 1).astype(np.int64)
        y = x.index_select(dim, torch.from_numpy(index).to(x.device))
    else:
        kernel: Kernel = (_linear, 1) if options["mode"] == "linear" else (_cubic(options["a"]), 2)
        matrix = torch.from_numpy(_weights(places, size, kernel, scale, options["antialias"], options["outside"]))
        y = (x.transpose(dim, -1) @ matrix.to(x.device, x.dtype).t()).transpose(dim, -1)
    if coordinates == "tf_crop_and_resize":
        beyond = torch.from_numpy((places < 0) | (places > size - 1)).to(x.device)
        shape = [-1 if d == dim else 1 for d in range(x.dim())]
        y = torch.where(beyond.reshape(shape), torch.full_like(y, options["value"]), y)
    return y


@operator("Resize", since=11, host=(3,))
def resize(x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, antialias: int = 0, axes: Any = None,
           coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75, exclude_outside: int = 0,
           extrapolation_value: float = 0.0, keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
           nearest_mode: str = "round_prefer_floor") -> Any:
    """Return an image of other sizes, interpolated."""
    dims = axes_in(axes, x.dim())
    factors, wanted = _targets(x, dims, floats(scales), ints(sizes), text(keep_aspect_ratio_policy))
    region = floats(roi) or [0.0] * len(dims) + [1.0] * len(dims)
    options = {"coordinates": text(coordinate_transformation_mode), "mode": text(mode), "nearest": text(nearest_mode),
               "a": cubic_coeff_a, "antialias": bool(antialias), "outside": bool(exclude_outside),
               "value": extrapolation_value}
    y = x if x.dtype.is_floating_point or options["mode"] == "nearest" else x.to(torch.float32)
    for k, dim in enumerate(dims):
        part = (region[k], region[k + len(dims)])
        if factors[k] == 1 and wanted[k] == x.shape[dim] and part == (0.0, 1.0):
            continue
        y = _resized(y, dim, wanted[k], factors[k], part, options)
    if y.dtype is x.dtype:
        return y
    info = torch.iinfo(x.dtype)
    return torch.round(y).clamp(info.min, info.max).to(x.dtype)


def _targets(x: Any, dims: list[int], scales: Any, sizes: Any, policy: str) -> tuple[list[float], list[int]]:
    """Return the factors and sizes of dimensions."""
    if not sizes:
        if not scales or len(scales) != len(dims):
            raise ArgumentError("Resize", f"scales {scales} for {len(dims)} axes", "scales or sizes are given, one for "
                                "each axis", "check the file: it may be damaged")
        return scales, [math.floor(x.shape[d] * s) for d, s in zip(dims, scales, strict=True)]
    factors = [n / x.shape[d] for d, n in zip(dims, sizes, strict=True)]
    if policy == "stretch":
        return factors, sizes
    one = min(factors) if policy == "not_larger" else max(factors)
    return [one] * len(dims), [math.floor(one * x.shape[d] + 0.5) for d in dims]


@operator("Resize", since=10)
def resize_by_scales(x: Any, scales: Any, mode: str = "nearest") -> Any:
    """Return Resize of version 10."""
    return upsample(x, scales, mode)


@operator("Upsample")
def upsample(x: Any, scales: Any = None, mode: str = "nearest", width_scale: float = 1.0,
             height_scale: float = 1.0) -> Any:
    """Return an enlarged image; corners have the places that asymmetric coordinates give them."""
    factors = [1.0, 1.0, height_scale, width_scale] if scales is None else scales
    mode = "linear" if text(mode) in ("linear", "bilinear") else "nearest"
    return resize(x, None, factors, coordinate_transformation_mode="asymmetric", mode=mode, nearest_mode="floor")
