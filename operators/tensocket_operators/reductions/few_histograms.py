"""Histograms of few elements and points, counted by NumPy faster than a kernel can be called."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Final

import numpy as np

from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS

from ..creation.ranges import steps_between

#: The most elements and bins that NumPy counts faster than a kernel can be called.
_FEW: Final = 1 << 10
#: The widest range in which no difference of float32 overflows.
_WIDEST: Final = 1e38


@cache
def _spacing(dtype: np.dtype[Any]) -> float:
    """Return the distance of 1 to the next larger number."""
    return float(np.finfo(dtype).eps)


def _edges_of_few(values: np.ndarray[Any, Any], bins: Any) -> Any:
    """Return the edges of bins of equal width over the range of values; None if the kernel has to count.

    Guard: bins are so wide that the kernel's rounded guess is beside the right one at most, and edges increase.
    """
    if type(bins) is not int or not 0 < bins <= _FEW:
        return None
    low, high = float(np.minimum.reduce(values)), float(np.maximum.reduce(values))
    if low == high:
        low, high = low - 0.5, high + 0.5
    least = bins * 8 * _spacing(values.dtype) * max(-low, high)
    return steps_between(low, high, bins + 1).astype(values.dtype) if least < high - low < _WIDEST else None


def histogram_of_few(values: np.ndarray[Any, Any], bins: Any = 100, *, range: Any = None, weight: Any = None,
                      density: bool = False) -> Any:
    """Return counts and edges of few elements in bins of equal width over their range; NotImplemented otherwise."""
    if not 0 < values.size <= _FEW:
        return NotImplemented
    return _points_of_few(values.reshape(-1, 1), (bins,), range, weight, density)


def histogramdd_of_few(points: np.ndarray[Any, Any], bins: Any, *, range: Any = None, weight: Any = None,
                        density: bool = False) -> Any:
    """Return counts and edges of few points in cells of equal sides over their range; NotImplemented otherwise."""
    if points.ndim < 2 or not 0 < points.size <= _FEW:
        return NotImplemented
    size = points.shape[-1]
    chosen = (bins,) * size if isinstance(bins, int) else tuple(bins) if type(bins) in (list, tuple) else ()
    if len(chosen) != size:
        return NotImplemented
    return _points_of_few(points.reshape(-1, size), chosen, range, weight, density)


def _points_of_few(points: np.ndarray[Any, Any], bins: tuple[Any, ...], range: Any, weight: Any, density: bool) -> Any:
    """Return counts of points and the edges of each coordinate; NotImplemented with options, and for narrow bins."""
    if range is not None or weight is not None or density or RECORDERS or VALUE_OBSERVERS:
        return NotImplemented
    edges: list[Any] = []
    place: Any = 0
    for k, many in enumerate(bins):
        values = points[:, k]
        found = _edges_of_few(values, many)
        if found is None:
            return NotImplemented
        edges.append(found)
        place = place * many + found[:-1].searchsorted(values, "right")
        place -= 1
    cells = math.prod(bins)
    if cells > _FEW:
        return NotImplemented
    return np.bincount(place, minlength=cells).astype(points.dtype).reshape(bins), *edges
