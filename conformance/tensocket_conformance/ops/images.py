"""Operators on images: convolution, pooling, interpolation, sampling on grids, borders, rearrangements."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

import tensocket as ts

from ..numerics import EXACT, HostArray, Tolerance
from ..record import Maker, Operator, Sample, kinds, same

_F = ts.nn.functional
_SUM = Tolerance(ulp=1.0, factor=32.0)
_FLOATS = kinds("f")
Numbers = tuple[int, ...]


def _image(shape: Numbers, *rest: Any, layout: str = "plain") -> Maker:
    return lambda draw: Sample((draw.given(shape, layout, -1.0, 1.0), *rest))


# -------------------------------------------------------------------------------------------------------- convolution


def _convolved(shape: Numbers, weight: Numbers, *rest: Any, layout: str = "plain", bias: bool = False) -> Maker:
    return lambda draw: Sample((draw.given(shape, layout, -1.0, 1.0), draw.given(weight, "plain", -1.0, 1.0),
                                draw.given(weight[:1], "plain", -1.0, 1.0) if bias else None, *rest))


def _tap(weight: HostArray, mine: slice, place: Numbers) -> HostArray:
    """Return the weights of some channels at one position of the kernel."""
    index: tuple[Any, ...] = (mine, slice(None), *place)
    return np.asarray(weight[index])


def _conv(x: HostArray, w: HostArray, bias: HostArray | None, stride: Numbers, pad: Numbers, dilation: Numbers,
          groups: int) -> HostArray:
    x = np.pad(x, [(0, 0), (0, 0), *[(p, p) for p in pad]])
    outputs = [(n - d * (k - 1) - 1) // s + 1 for n, k, s, d in zip(
        x.shape[2:], w.shape[2:], stride, dilation, strict=True)]
    result = np.zeros((x.shape[0], w.shape[0], *outputs), np.result_type(x, w))
    rows, taken = w.shape[0] // groups, w.shape[1]
    cut: tuple[Any, ...]
    for group, place in product(range(groups), product(*map(range, w.shape[2:]))):
        cut = tuple(slice(d * i, d * i + s * (n - 1) + 1, s) for d, i, s, n in zip(
            dilation, place, stride, outputs, strict=True))
        image = x[(slice(None), slice(group * taken, (group + 1) * taken), *cut)]
        mine = slice(group * rows, (group + 1) * rows)
        result[:, mine] += np.einsum("bc...,oc->bo...", image, _tap(w, mine, place))
    return result if bias is None else result + bias.reshape((-1, *(1,) * len(outputs)))


def _transposed(x: HostArray, w: HostArray, bias: None, stride: Numbers, pad: Numbers, extra: Numbers, groups: int,
                dilation: Numbers) -> HostArray:
    full = [(n - 1) * s + d * (k - 1) + 1 + e for n, s, d, k, e in zip(
        x.shape[2:], stride, dilation, w.shape[2:], extra, strict=True)]
    rows, taken = w.shape[1], w.shape[0] // groups
    result = np.zeros((x.shape[0], rows * groups, *full), np.result_type(x, w))
    cut: tuple[Any, ...]
    for group, place in product(range(groups), product(*map(range, w.shape[2:]))):
        cut = tuple(slice(d * i, d * i + s * (n - 1) + 1, s) for d, i, s, n in zip(
            dilation, place, stride, x.shape[2:], strict=True))
        mine = slice(group * taken, (group + 1) * taken)
        result[(slice(None), slice(group * rows, (group + 1) * rows), *cut)] += np.einsum(
            "bc...,co->bo...", x[:, mine], _tap(w, mine, place))
    inner: tuple[Any, ...] = (..., *[slice(p, n - p) for p, n in zip(pad, full, strict=True)])
    return np.asarray(result[inner])


def _scaled(reference: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function to the sum of the magnitudes of the terms."""
    return lambda *args: reference(*[np.abs(a) if isinstance(a, np.ndarray) else a for a in args])


_CONV1 = {
    "prime#0": _convolved((2, 4, 13), (6, 2, 3), (2,), (1,), (1,), 2, bias=True),
    "one#0": _convolved((1, 1, 1), (1, 1, 1), (1,), (0,), (1,), 1),
    "large#0": _convolved((3, 16, 4099), (8, 16, 5), (1,), (2,), (1,), 1),
}
_CONV2 = {
    "prime#0": _convolved((2, 3, 7, 5), (5, 3, 3, 2), (1, 2), (1, 0), (2, 1), 1, bias=True),
    "transposed#0": _convolved((1, 4, 6, 7), (4, 1, 3, 3), (1, 1), (1, 1), (1, 1), 4, layout="transposed"),
    "step#0": _convolved((3, 2, 5, 5), (7, 2, 1, 1), (1, 1), (0, 0), (1, 1), 1, layout="step"),
    "large#0": _convolved((2, 17, 33, 31), (13, 17, 3, 3), (2, 2), (1, 1), (1, 1), 1),
    # A case that a backend may compute with fewer products: windows of 3 x 3 with stride 1.
    "large#1": _convolved((2, 32, 13, 15), (40, 16, 3, 3), (1, 1), (1, 0), (1, 1), 2, bias=True),
}
_CONV3 = {
    "prime#0": _convolved((1, 2, 4, 5, 3), (3, 2, 2, 3, 1), (1, 2, 1), (1, 1, 0), (1, 1, 1), 1, bias=True),
    "large#0": _convolved((2, 3, 9, 11, 10), (4, 3, 3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), 1),
}
_CONV_T = {
    "prime#0": _convolved((2, 4, 3, 5), (4, 3, 3, 2), (2, 3), (1, 0), (1, 2), 2, (1, 1)),
    "one#0": _convolved((1, 2, 4, 4), (2, 3, 3, 3), (1, 1), (1, 1), (0, 0), 1, (2, 1)),
    "large#0": _convolved((2, 9, 17, 15), (9, 11, 4, 4), (2, 2), (1, 1), (0, 0), 1, (1, 1)),
    "large#1": _convolved((2, 24, 11, 14), (24, 20, 3, 3), (1, 1), (0, 1), (0, 0), 1, (1, 1)),
}

# ------------------------------------------------------------------------------------------------------------- pooling


def _windows(x: HostArray, kernel: int, stride: int, pad: int, fill: float) -> HostArray:
    padded = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)], constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(padded, (kernel, kernel), (2, 3))[:, :, ::stride, ::stride]


def _max_pool(x: HostArray, kernel: int, stride: int, pad: int) -> tuple[HostArray, HostArray]:
    low = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    windows = _windows(x, kernel, stride, pad, low)
    flat = windows.reshape((*windows.shape[:4], -1))
    tap = np.argmax(flat, -1)
    rows = np.arange(flat.shape[2])[:, None] * stride - pad + tap // kernel
    columns = np.arange(flat.shape[3]) * stride - pad + tap % kernel
    return flat.max(-1), rows * x.shape[3] + columns


def _avg_pool(x: HostArray, kernel: int, stride: int, pad: int) -> HostArray:
    return np.asarray(_windows(x, kernel, stride, pad, 0).mean((-2, -1)))


def _cuts(n: int, m: int) -> list[slice]:
    return [slice(k * n // m, -(-(k + 1) * n // m)) for k in range(m)]


def _adaptive(fold: Callable[..., Any]) -> Callable[..., Any]:
    def reference(x: HostArray, size: Numbers) -> HostArray:
        return np.stack([np.stack([fold(x[..., rows, columns], (-2, -1)) for columns in _cuts(x.shape[3], size[1])], -1)
                         for rows in _cuts(x.shape[2], size[0])], -2)

    return reference


def _unfold(x: HostArray, kernel: int, stride: int, pad: int) -> HostArray:
    windows = _windows(x, kernel, stride, pad, 0)
    return windows.transpose(0, 1, 4, 5, 2, 3).reshape(x.shape[0], x.shape[1] * kernel * kernel, -1)


_POOLED = {
    "prime#0": _image((2, 3, 7, 11), 3, 2, 1), "one#0": _image((1, 1, 2, 2), 2, 2, 0),
    "transposed#0": _image((1, 2, 8, 6), 2, 1, 1, layout="transposed"),
    "large#0": _image((3, 7, 65, 63), 3, 2, 1),
}
_ADAPTIVE = {"prime#0": _image((2, 3, 7, 11), (3, 5)), "one#0": _image((1, 2, 5, 3), (1, 1)),
             "large#0": _image((2, 5, 65, 63), (7, 9))}

# ------------------------------------------------------------------------------------------------------- interpolation


def _hat(x: HostArray) -> HostArray:
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(x)))


def _keys(x: HostArray) -> HostArray:
    a, x = -0.75, np.abs(x)
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, a * (((x - 5) * x + 8) * x - 4)
    return np.where(x <= 1, near, np.where(x < 2, far, 0.0))


def _weights(n: int, m: int, align: bool, kernel: Callable[[HostArray], HostArray]) -> HostArray:
    """Return the weight of every element in every output; positions beyond the edge use the element at the edge."""
    at = np.arange(m) * ((n - 1) / max(m - 1, 1)) if align else (np.arange(m) + 0.5) * (n / m) - 0.5
    result = np.zeros((m, n))
    for place in range(-3, n + 3):
        result[:, min(max(place, 0), n - 1)] += kernel(at - place)
    return result


def _interpolated(kernel: Callable[[HostArray], HostArray]) -> Callable[..., Any]:
    def reference(x: HostArray, size: Numbers, align: bool) -> HostArray:
        rows, columns = (_weights(n, m, align, kernel) for n, m in zip(x.shape[2:], size, strict=True))
        return np.asarray(np.einsum("ia,jb,ncab->ncij", rows, columns, x))

    return reference


def _interpolation_scale(x: HostArray, size: Numbers, align: bool) -> HostArray:
    """Return the conditioning of interpolation: float32 rounding shifts positions in proportion to the image's size."""
    return np.full((*x.shape[:2], *size), 4.0 * max(x.shape[2:]) * np.abs(x).max(initial=0))


def _nearest(x: HostArray, size: Numbers) -> HostArray:
    rows, columns = (np.arange(m) * n // m for n, m in zip(x.shape[2:], size, strict=True))
    return x[:, :, rows][..., columns]


_RESIZED = {
    "prime#0": _image((2, 3, 5, 7), (8, 4), False), "prime#1": _image((1, 2, 5, 7), (9, 13), True),
    "transposed#0": _image((1, 2, 4, 6), (7, 3), False, layout="transposed"),
    "large#0": _image((2, 3, 33, 35), (65, 70), False),
}


def _points(draw: Any) -> Sample:
    """Return a sample with points inside and outside, at multiples of a quarter of the elements' distance."""
    places = draw.rng.integers(-4, 28, (2, 3, 5, 2)) / 4.0
    grid = draw.given((2, 3, 5, 2))
    grid.array[...] = places / 2.0 - 1.0
    return Sample((draw.given((2, 3, 5, 5), "plain", -1.0, 1.0), grid))


def _sampled(x: HostArray, grid: HostArray) -> HostArray:
    at = (grid + 1) * 2.0
    weights = [_hat(at[..., k, None] - np.arange(5)) for k in (1, 0)]
    return np.asarray(np.einsum("ncab,nija,nijb->ncij", x, *weights))


# ------------------------------------------------------------------------------------------------------------- borders

_PAD = {"reflect": "reflect", "replicate": "edge", "circular": "wrap", "constant": "constant"}


def _padded(x: HostArray, pad: Numbers, mode: str) -> HostArray:
    return np.pad(x, [(0, 0), (0, 0), pad[2:], pad[:2]], _PAD[mode])  # type: ignore[call-overload,no-any-return]


def _shuffled(x: HostArray, r: int) -> HostArray:
    n, c, h, w = x.shape
    return x.reshape(n, c // r // r, r, r, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, c // r // r, h * r, w * r)


_PADDED = {f"prime#{k}": _image((2, 3, 5, 7), (2, 1, 0, 3), mode) for k, mode in enumerate(_PAD)} | {
    "transposed#0": _image((2, 3, 5, 7), (2, 1, 0, 3), "constant", layout="transposed")}

#: The records of this family.
OPERATORS = [
    Operator("conv1d", lambda x, w, b, *rest: _F.conv1d(x, w, b, *rest), _conv, _CONV1, (*_FLOATS, "i64"), same, _SUM,
             _scaled(_conv)),
    Operator("conv2d", lambda x, w, b, *rest: _F.conv2d(x, w, b, *rest), _conv, _CONV2, (*_FLOATS, "c64"), same, _SUM,
             _scaled(_conv)),
    Operator("conv3d", lambda x, w, b, *rest: _F.conv3d(x, w, b, *rest), _conv, _CONV3, ("f32", "f64"), same, _SUM,
             _scaled(_conv)),
    Operator("conv_transpose2d", lambda x, w, b, *rest: _F.conv_transpose2d(x, w, b, *rest), _transposed, _CONV_T,
             _FLOATS, same, _SUM, _scaled(_transposed)),
    Operator("max_pool2d", lambda x, *rest: _F.max_pool2d_with_indices(x, *rest), _max_pool, _POOLED,
             (*_FLOATS, "i32"), lambda short: (short, "i64")),
    Operator("avg_pool2d", lambda x, *rest: _F.avg_pool2d(x, *rest), _avg_pool, _POOLED, _FLOATS, same, _SUM,
             _scaled(_avg_pool)),
    Operator("adaptive_avg_pool2d", lambda x, size: _F.adaptive_avg_pool2d(x, size), _adaptive(np.mean), _ADAPTIVE,
             _FLOATS, same, _SUM, _scaled(_adaptive(np.mean))),
    Operator("adaptive_max_pool2d", lambda x, size: _F.adaptive_max_pool2d(x, size), _adaptive(np.max), _ADAPTIVE,
             _FLOATS, same, EXACT),
    Operator("unfold.columns", lambda x, k, s, p: _F.unfold(x, k, 1, p, s), _unfold, _POOLED, kinds("fi"), same),
    Operator("interpolate.bilinear", lambda x, size, align: _F.interpolate(x, size, None, "bilinear", align),
             _interpolated(_hat), _RESIZED, _FLOATS, same, _SUM, _interpolation_scale),
    Operator("interpolate.bicubic", lambda x, size, align: _F.interpolate(x, size, None, "bicubic", align),
             _interpolated(_keys), _RESIZED, _FLOATS, same, _SUM, _interpolation_scale),
    Operator("interpolate.nearest", lambda x, size: _F.interpolate(x, size), _nearest,
             {"prime#0": _image((2, 3, 5, 7), (8, 4)), "large#0": _image((2, 3, 33, 35), (66, 70))}, _FLOATS, same),
    Operator("grid_sample", lambda x, grid: _F.grid_sample(x, grid, align_corners=True), _sampled,
             {"prime#0": _points}, ("f32", "f64"), same, _SUM, _scaled(lambda x, grid: np.full(
                 (*x.shape[:2], *grid.shape[1:3]), 8.0))),
    Operator("pad", lambda x, pad, mode: _F.pad(x, pad, mode), _padded, _PADDED, kinds("fi"), same),
    Operator("pixel_shuffle", lambda x, r: _F.pixel_shuffle(x, r), _shuffled,
             {"prime#0": _image((2, 12, 3, 5), 2), "transposed#0": _image((1, 9, 2, 4), 3, layout="transposed")},
             kinds("fi"), same),
]
