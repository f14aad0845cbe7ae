"""Arguments of Fourier transforms, and shortcuts that compute with arrays; see ``array_paths.py``.

The functions over arguments read only the shape of the input, which is a tensor or an array.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tensocket_core.device import DeviceState
from tensocket_core.dispatch.operator import HostPath
from tensocket_core.geometry import is_integer, normalize_axis
from tensocket_core.launch.host_kernels import REFUSED
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.dtypes import DType
from tensocket_plugins.contract.errors import ArgumentError, DimensionError, ShapeError

from ..array_paths import REAL, array_path
from . import pocketfft
from .transforms import MANY, Values, by_kernels


def scale_of(name: str, norm: str | None, count: int, forward: bool) -> float:
    """Return the factor of a normalisation.

    Raises:
        ArgumentError: The normalisation is unknown.
    """
    if norm not in (None, "backward", "ortho", "forward"):
        raise ArgumentError(f"fft.{name}", f"norm={norm!r}", "the normalisation is 'backward', 'ortho' or 'forward'",
                            "pass one of these")
    if norm == "ortho":
        return 1 / math.sqrt(count)
    return 1 / count if (norm == "forward") is forward else 1.0


def several(name: str, input: Any, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int]]:
    """Return dimensions and their sizes.

    Raises:
        ShapeError: Sizes and dimensions do not fit each other, or a dimension appears twice.
    """
    s = (s,) if is_integer(s) else s
    if dim is None:
        dim = range(input.ndim) if s is None else range(input.ndim - len(s), input.ndim)
    given = (dim,) if is_integer(dim) else tuple(dim)
    if s is not None and len(given) > input.ndim:
        raise ShapeError(f"fft.{name}", f"sizes {list(s)} for {input.ndim} dimensions",
                         "there is one size for every dim", "pass fewer sizes")
    axes = tuple(normalize_axis(f"fft.{name}", d, input.ndim) for d in given)
    if len(set(axes)) != len(axes) or (s is not None and len(s) != len(axes)):
        raise ShapeError(f"fft.{name}", f"sizes {s}, dims {list(given)}", "every dim appears once and has one size",
                         "pass as many sizes as dims")
    sizes = [input.shape[d] if s is None or s[k] == -1 else s[k] for k, d in enumerate(axes)]
    return axes, sizes


def check_sizes(name: str, input: Any, sizes: Sequence[int]) -> None:
    """Refuse transforms without points.

    Raises:
        ArgumentError: A size is less than 1.
        DimensionError: The input has no dimensions.
    """
    if input.ndim == 0 and sizes:
        raise DimensionError(f"fft.{name}", "a 0-dimensional tensor", "a transform runs along a dimension",
                             "pass a vector")
    if any(n < 1 for n in sizes):
        raise ArgumentError(f"fft.{name}", f"{min(sizes)} points", "a transform has at least one point",
                            "pass a larger n")


def one(name: str, input: Any, n: int | None, dim: int, halved: bool = False) -> tuple[tuple[int, ...], list[int]]:
    """Return one dimension and its size; for half-complex input, the size of the result."""
    axis = normalize_axis(f"fft.{name}", dim, input.ndim)
    have = input.shape[axis] if input.ndim else 1
    return (axis,), [(2 * (have - 1) if halved else have) if n is None else n]


one_halved: Final = partial(one, halved=True)


def doubled(name: str, input: Any, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int]]:
    """Do the same for half-complex input: the last size is that of the result."""
    axes, sizes = several(name, input, s, dim)
    if axes and (s is None or (s if is_integer(s) else s[-1]) == -1):
        sizes[-1] = 2 * (sizes[-1] - 1)
    return axes, sizes


_FLOATS: Final = (*REAL, dtypes.complex64, dtypes.complex128)
ONE: Final = (None, -1, None)
ALL: Final = (None, None, None)
PAIR: Final = (None, (-2, -1), None)
#: The arguments after the input of a transform, with defaults, and the function that finds axes and sizes from them.
Arguments = tuple[tuple[Any, ...], Callable[..., tuple[tuple[int, ...], list[int]]]]


def _shortcut(name: str, arguments: Arguments, run: Callable[..., Any], result: Values, forward: bool,
              accepts: tuple[DType, ...]) -> HostPath:
    """Return a shortcut that computes with arrays; ``run(array, axes, sizes, scale)``.

    Many elements are transformed by kernels where these suit them, as ``Transform`` does.
    """
    defaults, parse = arguments

    def parsed(x: Any, args: tuple[Any, ...]) -> tuple[tuple[int, ...], list[int], float]:
        first, dim, norm = args + defaults[len(args):]
        axes, sizes = parse(name, x, first, dim)
        check_sizes(name, x, sizes)
        return axes, sizes, scale_of(name, norm, math.prod(sizes), forward)

    def transform(x: Any, *args: Any) -> Any:
        axes, sizes, scale = parsed(x, args)
        return run(x, axes, sizes, scale) if axes and x.size else NotImplemented

    of_arrays = array_path(transform, accepts=accepts, label=f"fft.{name}")

    def make(key: int, state: DeviceState, next_path: Callable[..., Any]) -> Callable[..., Any] | None:
        library = of_arrays(key, state, next_path)
        return None if library is None else _with_kernels(state, library, parsed, result, forward)

    return make


def _with_kernels(state: DeviceState, library: Callable[..., Any], parsed: Callable[..., Any], result: Values,
                  forward: bool) -> Callable[..., Any]:
    """Return a shortcut that launches kernels for many elements, and calls ``library`` for all others."""
    def run(x: Any, *args: Any) -> Any:
        array = x._array
        if array.size < MANY:
            return library(x, *args)
        try:
            axes, sizes, scale = parsed(array, args)
        except REFUSED:
            return library(x, *args)
        made = by_kernels(state, array, axes, sizes, scale, forward, result)
        return library(x, *args) if made is None else made

    return run


def whole_path(name: str, arguments: Arguments, forward: bool) -> HostPath:
    """Return the shortcut of a complex transform."""
    return _shortcut(name, arguments, lambda x, axes, sizes, scale: pocketfft.complex_to_complex(
        pocketfft.resized(x, axes, sizes, to_complex=True), axes, scale, forward), "complex", forward, _FLOATS)


def half_path(name: str, arguments: Arguments) -> HostPath:
    """Return the shortcut of a transform of real values."""
    return _shortcut(name, arguments, lambda x, axes, sizes, scale: pocketfft.real_to_half(
        pocketfft.resized(x, axes, sizes), axes, scale), "half", True, REAL)


def real_path(name: str, arguments: Arguments, forward: bool) -> HostPath:
    """Return the shortcut of a transform with real results."""
    def run(x: Any, axes: tuple[int, ...], sizes: list[int], scale: float) -> Any:
        half = pocketfft.resized(x.conj() if forward else x, axes, [*sizes[:-1], sizes[-1] // 2 + 1], to_complex=True)
        return pocketfft.half_to_real(half, axes, scale, sizes[-1])

    return _shortcut(name, arguments, run, "real", forward, _FLOATS)
