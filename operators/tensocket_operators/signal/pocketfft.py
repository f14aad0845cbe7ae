"""Fourier transforms of arrays: SciPy's routines, which transform several rows at once, or else NumPy's.

The routines are called without SciPy's interface, whose checks take longer than small transforms. Axes are distinct and
not empty; ``scale`` multiplies the plain sums.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from ..settings import get_num_threads

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]
#: Elements from which on several threads transform faster than one.
_MANY: Final = 1 << 14


@cache
def _routines() -> Any:
    """Return SciPy's module of routines; None without it."""
    try:
        module = importlib.import_module("scipy.fft._pocketfft.pypocketfft")
    except ImportError:
        return None
    return module if all(hasattr(module, name) for name in ("c2c", "r2c", "c2r")) else None


def _threads(x: Array) -> int:
    """Return the number of threads that share the rows of an array; each row has the same bits for any number."""
    return get_num_threads() if x.size >= _MANY else 1


def _run(routine: Callable[[int], Array], count: int, scale: float) -> Array:
    """Call a routine with the factor 1, 1 / sqrt(count) or 1 / count if ``scale`` is one of them, else multiply."""
    if scale == 1:
        return routine(0)
    if scale == 1 / math.sqrt(count):
        return routine(1)
    if scale == 1 / count:
        return routine(2)
    return _scaled(routine(0), scale)


def _scaled(values: Array, scale: float) -> Array:
    return values if scale == 1 else values * values.real.dtype.type(scale)


def _count(x: Array, axes: Axes) -> int:
    return math.prod([x.shape[k] for k in axes])


def complex_to_complex(x: Array, axes: Axes, scale: float, forward: bool) -> Array:
    """Return the transform of complex values, or without ``forward`` its inverse."""
    found = _routines()
    if found is not None:
        return _run(lambda norm: found.c2c(x, axes, forward, norm, None, _threads(x)), _count(x, axes), scale)
    if forward:
        return _scaled(np.fft.fftn(x, axes=axes), scale)
    return _scaled(np.fft.ifftn(x, axes=axes, norm="forward"), scale)


def real_to_half(x: Array, axes: Axes, scale: float) -> Array:
    """Return the transform of real values, without the mirrored half of the last axis."""
    found = _routines()
    if found is not None:
        return _run(lambda norm: found.r2c(x, axes, True, norm, None, _threads(x)), _count(x, axes), scale)
    return _scaled(np.fft.rfftn(x, axes=axes), scale)


def half_to_real(x: Array, axes: Axes, scale: float, size: int) -> Array:
    """Return the inverse of ``real_to_half``; ``size`` is that of the result along the last axis."""
    found = _routines()
    if found is not None:
        count = _count(x, axes[:-1]) * size
        return _run(lambda norm: found.c2r(x, axes, size, False, norm, None, _threads(x)), count, scale)
    sizes = [*(x.shape[k] for k in axes[:-1]), size]
    return _scaled(np.fft.irfftn(x, s=sizes, axes=axes, norm="forward"), scale)


#: The complex dtype of values of a real one; complex ones are their own.
_COMPLEX: Final[dict[str, np.dtype[Any]]] = {"f": np.dtype(np.complex64), "d": np.dtype(np.complex128)}


def resized(x: Array, axes: Axes, sizes: Sequence[int], *, to_complex: bool = False) -> Array:
    """Return an array cropped, or padded with zeros at the end, along axes, and if wanted as complex values."""
    dtype = _COMPLEX.get(x.dtype.char, x.dtype) if to_complex else x.dtype
    for axis, size in zip(axes, sizes, strict=True):
        have = x.shape[axis]
        if size < have:
            x = x[(slice(None),) * axis + (slice(size),)]
        elif size > have:
            wide = np.zeros((*x.shape[:axis], size, *x.shape[axis + 1:]), dtype)
            wide[(slice(None),) * axis + (slice(have),)] = x
            x = wide
    return x if x.dtype is dtype else x.astype(dtype)
