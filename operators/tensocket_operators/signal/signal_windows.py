"""Windows: factors for the points of a signal, as ``signal.windows`` and as functions of the main namespace.

All are formulas of the points 0, 1, ..., M - 1. A symmetric window ends as it begins; a periodic window is a symmetric
one of M + 1 points without the last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tensocket_core.dispatch.modes import ACTIVE
from tensocket_core.formats import strided
from tensocket_core.launch.copies import from_host
from tensocket_core.launch.fill import finish
from tensocket_core.launch.host_convert import to_dtype
from tensocket_core.promotion import get_default_dtype
from tensocket_plugins.contract import dtypes
from tensocket_plugins.contract.errors import ArgumentError, ArgumentTypeError, UndefinedDtype

from ..creation import options
from ..creation.noted import noted
from ..creation.ranges import empty_without_data
from ..creation.record import dispatch_factory, is_intercepted

#: Function from points (float64) and their number to a window's factors.
Formula = Callable[[Any, int], Any]

_NUTTALL: Final = (0.3635819, 0.4891775, 0.1365995, 0.0106411)
_BLACKMAN: Final = (0.42, 0.5, 0.08)


def _cosines(coefficients: Sequence[float]) -> Formula:
    """Return the formula a[0] - a[1] cos(2 pi n / (M - 1)) + a[2] cos(4 pi n / (M - 1)) - ..."""

    def formula(points: Any, size: int) -> Any:
        angles = 2 * math.pi * points / (size - 1)
        return sum((-1) ** k * a * np.cos(k * angles) for k, a in enumerate(coefficients))

    return formula


def _triangle(points: Any, size: int) -> Any:
    return 1 - np.abs(2 * points / (size - 1) - 1)


def _kaiser(beta: float) -> Formula:
    """Return the formula i0(beta sqrt(1 - (2n / (M - 1) - 1)**2)) / i0(beta), i0 being the modified Bessel function."""

    def formula(points: Any, size: int) -> Any:
        return np.i0(beta * np.sqrt(np.clip(1 - (2 * points / (size - 1) - 1) ** 2, 0, None))) / np.i0(beta)

    return formula


def _factors(formula: Formula, count: int, symmetric: bool) -> Any:
    """Return the factors of ``count`` points; one point has the factor 1."""
    if count < 2:
        return np.ones(count)
    size = count if symmetric else count + 1
    return np.asarray(formula(np.arange(size, dtype=np.float64), size))[:count]


# ------------------------------------------------------------------------------------------------- signal.windows


def _window(name: str, formula: Formula, M: int, sym: bool, dtype: Any, layout: Any, device: Any,
            requires_grad: bool) -> Any:
    """Return a window of ``signal.windows``.

    Raises:
        ArgumentError: The number of points is negative, the dtype is neither float32 nor float64, or the layout is
            not strided.
    """
    if M < 0:
        raise ArgumentError(name, f"M={M}", "the number of points is not negative", "pass 0 or more")
    chosen = get_default_dtype() if dtype is None else dtype
    if chosen not in (dtypes.float32, dtypes.float64):
        raise ArgumentError(name, f"dtype {chosen.name}", "windows are of float32 or float64",
                            "convert with .to(dtype)")
    if layout is not strided:
        raise ArgumentError(name, f"layout {layout!r}", "tensors are strided", "leave layout out")
    return _made(name, formula, M, sym, chosen, device, requires_grad)


def _made(name: str, formula: Formula, count: int, symmetric: bool, dtype: Any, device: Any,
          requires_grad: bool) -> Any:
    chosen, state = options(name, dtype, device)
    array = empty_without_data(state, count, chosen)
    if array is None:
        array = from_host(state, to_dtype(_factors(formula, count, symmetric), chosen), chosen)
    return finish(array, chosen, state, requires_grad)


@noted()
def bartlett(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
             requires_grad: bool = False) -> Any:
    """Return 1 - |2n / (M - 1) - 1|: a triangle."""
    return _window("bartlett", _triangle, M, sym, dtype, layout, device, requires_grad)


@noted()
def blackman(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
             requires_grad: bool = False) -> Any:
    """Return ``general_cosine`` with coefficients 0.42, 0.5 and 0.08."""
    return _window("blackman", _cosines(_BLACKMAN), M, sym, dtype, layout, device, requires_grad)


@noted()
def cosine(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
           requires_grad: bool = False) -> Any:
    """Return sin(pi (n + 1/2) / M): half a wave."""
    return _window("cosine", lambda points, size: np.sin(math.pi * (points + 0.5) / size), M, sym, dtype, layout,
                   device, requires_grad)


@noted()
def exponential(M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None,
                layout: Any = strided, device: Any = None, requires_grad: bool = False) -> Any:
    """Return exp(-|n - center| / tau); the center of a symmetric window is its middle.

    Raises:
        ArgumentError: tau is not positive, or a symmetric window has another center.
    """
    if tau <= 0:
        raise ArgumentError("exponential", f"tau={tau}", "a decay is positive", "pass a positive number")
    if sym and center is not None:
        raise ArgumentError("exponential", f"center={center} of a symmetric window",
                            "the center of a symmetric window is its middle", "pass sym=False")
    return _window("exponential",
                   lambda points, size: np.exp(-np.abs(points - ((size - 1) / 2 if center is None else center)) / tau),
                   M, sym, dtype, layout, device, requires_grad)


@noted()
def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, layout: Any = strided,
             device: Any = None, requires_grad: bool = False) -> Any:
    """Return exp(-((n - (M - 1) / 2) / std)**2 / 2).

    Raises:
        ArgumentError: std is not positive.
    """
    if std <= 0:
        raise ArgumentError("gaussian", f"std={std}", "a standard deviation is positive", "pass a positive number")
    return _window("gaussian", lambda points, size: np.exp(-(((points - (size - 1) / 2) / std) ** 2) / 2), M, sym,
                   dtype, layout, device, requires_grad)


@noted()
def general_cosine(M: int, *, a: Any, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
                   requires_grad: bool = False) -> Any:
    """Return a[0] - a[1] cos(2 pi n / (M - 1)) + a[2] cos(4 pi n / (M - 1)) - ...

    Raises:
        ArgumentError: The coefficients are missing.
        ArgumentTypeError: The coefficients are not a sequence.
    """
    if not isinstance(a, (tuple, list)):
        raise ArgumentTypeError("general_cosine", f"a={a!r}", "coefficients are a list or a tuple", "pass a list")
    if not a:
        raise ArgumentError("general_cosine", "no coefficients", "there is at least one", "pass numbers")
    return _window("general_cosine", _cosines(a), M, sym, dtype, layout, device, requires_grad)


@noted()
def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, layout: Any = strided,
                    device: Any = None, requires_grad: bool = False) -> Any:
    """Return alpha - (1 - alpha) cos(2 pi n / (M - 1))."""
    return _window("general_hamming", _cosines((alpha, 1 - alpha)), M, sym, dtype, layout, device, requires_grad)


@noted()
def hamming(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
            requires_grad: bool = False) -> Any:
    """Return ``general_hamming`` with alpha 0.54."""
    return _window("hamming", _cosines((0.54, 1 - 0.54)), M, sym, dtype, layout, device, requires_grad)


@noted()
def hann(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
         requires_grad: bool = False) -> Any:
    """Return ``general_hamming`` with alpha 0.5."""
    return _window("hann", _cosines((0.5, 0.5)), M, sym, dtype, layout, device, requires_grad)


@noted()
def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, layout: Any = strided,
           device: Any = None, requires_grad: bool = False) -> Any:
    """Return i0(beta sqrt(1 - (2n / (M - 1) - 1)**2)) / i0(beta), with the modified Bessel function of order 0.

    Raises:
        ArgumentError: beta is negative.
    """
    if beta < 0:
        raise ArgumentError("kaiser", f"beta={beta}", "a shape is not negative", "pass 0 or more")
    return _window("kaiser", _kaiser(beta), M, sym, dtype, layout, device, requires_grad)


@noted()
def nuttall(M: int, *, sym: bool = True, dtype: Any = None, layout: Any = strided, device: Any = None,
            requires_grad: bool = False) -> Any:
    """Return ``general_cosine`` with the four coefficients of A. H. Nuttall's minimal sidelobes."""
    return _window("nuttall", _cosines(_NUTTALL), M, sym, dtype, layout, device, requires_grad)


# --------------------------------------------------------------------------------------------- the main namespace


def _periodic(name: str, formula: Formula, window_length: int, periodic: bool, dtype: Any, device: Any,
              requires_grad: bool) -> Any:
    """Return a window for signal processing, periodic by default.

    Raises:
        ArgumentError: The length is negative.
        UndefinedDtype: The dtype is not a real floating-point dtype.
    """
    if window_length < 0:
        raise ArgumentError(name, f"window_length={window_length}", "a length is not negative", "pass 0 or more")
    chosen, state = options(name, dtype, device)
    if not chosen.is_floating_point:
        raise UndefinedDtype(name, f"dtype {chosen.name}", "windows are of real floats", "pass a float dtype")
    return _made(name, formula, window_length, not periodic, chosen, state.device, requires_grad)


@noted()
def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None,
                    requires_grad: bool = False, **rest: Any) -> Any:
    """Return a triangle; a periodic one is a symmetric one with one more point, without its last point."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(bartlett_window, window_length, periodic, rest=rest, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    return _periodic("bartlett_window", _triangle, window_length, periodic, dtype, device, requires_grad)


@noted()
def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None,
                    requires_grad: bool = False, **rest: Any) -> Any:
    """Return 0.42 - 0.5 cos(2 pi n / (N - 1)) + 0.08 cos(4 pi n / (N - 1))."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(blackman_window, window_length, periodic, rest=rest, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    return _periodic("blackman_window", _cosines(_BLACKMAN), window_length, periodic, dtype, device, requires_grad)


@noted()
def hamming_window(window_length: int, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, *,
                   dtype: Any = None, device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """Return alpha - beta cos(2 pi n / (N - 1))."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(hamming_window, window_length, periodic, alpha, beta, rest=rest, dtype=dtype,
                                device=device,
                    requires_grad=requires_grad)
    return _periodic("hamming_window", _cosines((alpha, beta)), window_length, periodic, dtype, device, requires_grad)


@noted()
def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None,
                requires_grad: bool = False, **rest: Any) -> Any:
    """Return 1/2 - 1/2 cos(2 pi n / (N - 1))."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(hann_window, window_length, periodic, rest=rest, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    return _periodic("hann_window", _cosines((0.5, 0.5)), window_length, periodic, dtype, device, requires_grad)


@noted()
def kaiser_window(window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None,
                  device: Any = None, requires_grad: bool = False, **rest: Any) -> Any:
    """Return ``signal.windows.kaiser``, periodic by default."""
    if rest or (ACTIVE and is_intercepted()):
        return dispatch_factory(kaiser_window, window_length, periodic, beta, rest=rest, dtype=dtype, device=device,
                    requires_grad=requires_grad)
    return _periodic("kaiser_window", _kaiser(beta), window_length, periodic, dtype, device, requires_grad)


__all__ = [
    "bartlett",
    "bartlett_window",
    "blackman",
    "blackman_window",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hamming_window",
    "hann",
    "hann_window",
    "kaiser",
    "kaiser_window",
    "nuttall",
]
