"""Pooling."""

from __future__ import annotations

from typing import Any

import tensocket as torch

from .table import operator, results
from .values import ints
from .windows import Window


def _lowest(dtype: Any) -> Any:
    return -float("inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def _windows(x: Any, window: Window, value: Any) -> tuple[Any, list[int], list[int]]:
    """Return the elements of all windows, the padding before the image, and the numbers of places."""
    before, after = window.pads(x.shape[2:])
    sizes = list(x.shape[2:])
    counts = [window.places(k, sizes[k], before[k], after[k]) for k in range(len(sizes))]
    reach = [window.reach(k, sizes[k], before[k], after[k]) for k in range(len(sizes))]
    return window.taps(window.padded(x, before, reach, value), counts), before, counts


def _flat(taps: Any, dims: int) -> Any:
    return taps.flatten(-dims)


@operator("MaxPool", counts=True)
def max_pool(x: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None, kernel_shape: Any = None,
             pads: Any = None, storage_order: int = 0, strides: Any = None, outputs: int = 1) -> Any:
    """Return the largest elements of windows, and their places in the flat image."""
    window = Window(kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    dims = len(window.kernel)
    wide = x.to(torch.int32) if x.dtype in (torch.uint8, torch.int8) else x
    taps, _, _ = _windows(wide, window, _lowest(wide.dtype))
    best, tap = _flat(taps, dims).max(-1)
    if outputs == 1:
        return best.to(x.dtype)
    places = torch.arange(x[0, 0].numel(), device=x.device).reshape(1, 1, *x.shape[2:])
    if storage_order:
        places = places.reshape(-1).reshape(1, 1, *reversed(x.shape[2:])).permute(0, 1, *range(x.dim() - 1, 1, -1))
    found, _, counts = _windows(places, window, -1)
    found = _flat(found, dims).expand(1, 1, *counts, -1)
    index = torch.gather(found.expand(*best.shape, found.shape[-1]), -1, tap.unsqueeze(-1)).squeeze(-1)
    planes = torch.arange(x.shape[0] * x.shape[1], device=x.device).reshape(*x.shape[:2], *[1] * dims)
    return results([best.to(x.dtype), index + planes * x[0, 0].numel()], outputs)


@operator("AveragePool")
def average_pool(x: Any, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
                 dilations: Any = None, kernel_shape: Any = None, pads: Any = None, strides: Any = None) -> Any:
    """Return the means of windows, of the elements of the image alone or also of its padding."""
    window = Window(kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    dims = len(window.kernel)
    sums = _flat(_windows(x, window, 0)[0], dims).sum(-1)
    ones = torch.ones(1, 1, *x.shape[2:], dtype=x.dtype, device=x.device)
    if count_include_pad:
        before, after = window.pads(x.shape[2:])
        ones = window.padded(ones, before, after, 1)
        window = Window(kernel_shape, strides, dilations, None, "NOTSET", ceil_mode)
        counts = [window.places(k, n, 0, 0) for k, n in enumerate(ones.shape[2:])]
        counts = [min(c, s) for c, s in zip(counts, sums.shape[2:], strict=True)]
        reach = [max((c - 1) * window.strides[k] + window.extent(k) - n, 0)
                 for k, (c, n) in enumerate(zip(counts, ones.shape[2:], strict=True))]
        taps = window.taps(window.padded(ones, [0] * dims, reach, 0), counts)
    else:
        taps = _windows(ones, window, 0)[0]
    return sums / _flat(taps, dims).sum(-1)


@operator("LpPool")
def lp_pool(x: Any, p: float = 2, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
            kernel_shape: Any = None, pads: Any = None, strides: Any = None) -> Any:
    """Return the p-norms of windows."""
    window = Window(kernel_shape, strides, dilations, pads, auto_pad, ceil_mode)
    return _flat(_windows(x.abs() ** p, window, 0)[0], len(window.kernel)).sum(-1) ** (1 / p)


@operator("MaxUnpool")
def max_unpool(x: Any, index: Any, output_shape: Any = None, kernel_shape: Any = None, pads: Any = None,
               strides: Any = None) -> Any:
    """Return zeros with the elements of x at places of the flat result."""
    window = Window(kernel_shape, strides, None, pads, "NOTSET")
    before, after = window.pads(x.shape[2:])
    own = [(n - 1) * window.strides[k] - before[k] - after[k] + window.kernel[k] for k, n in enumerate(x.shape[2:])]
    shape = [*x.shape[:2], *own]
    made = torch.zeros(torch.Size(shape).numel(), dtype=x.dtype, device=x.device)
    made = torch.scatter(made, 0, index.reshape(-1), x.reshape(-1)).reshape(shape)
    for dim, size in enumerate(ints(output_shape) or []):
        if size > shape[dim]:
            extra = torch.zeros([size - shape[dim] if d == dim else n for d, n in enumerate(made.shape)],
                                dtype=x.dtype, device=x.device)
            made = torch.cat([made, extra], dim)
    return made


def _spatial(x: Any) -> list[int]:
    return list(range(2, x.dim()))


@operator("GlobalAveragePool")
def global_average_pool(x: Any) -> Any:
    """Return the means of images."""
    return x.mean(_spatial(x), True)


@operator("GlobalMaxPool")
def global_max_pool(x: Any) -> Any:
    """Return the largest elements of images."""
    return x.amax(_spatial(x), True)


@operator("GlobalLpPool")
def global_lp_pool(x: Any, p: float = 2) -> Any:
    """Return the p-norms of images."""
    return (x.abs() ** p).sum(_spatial(x), True) ** (1 / p)
