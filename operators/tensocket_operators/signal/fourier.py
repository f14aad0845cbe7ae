"""Discrete Fourier transforms with PyTorch's names: ``fft_NAME`` is ``tensocket.fft.NAME``.

There are three records, each the adjoint of another up to bookkeeping: complex to complex, real to half-complex, and
half-complex to real. Their ``scale`` multiplies the plain sums; ``norm`` determines it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from tensocket_core import functions
from tensocket_core.autograd.conjugate import wirtinger
from tensocket_core.dispatch.call import call
from tensocket_core.dispatch.derivative import Derivative
from tensocket_core.geometry import is_integer, normalize_axis
from tensocket_core.promotion import complex_dtype, number_dtype
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from .. import creation
from ..call_forms import write_out
from ..indexing.selection import positions
from ..kinds.composite import composite
from ..kinds.host_library import same_shape
from . import pocketfft
from .fourier_paths import (
    ALL,
    ONE,
    PAIR,
    check_sizes,
    doubled,
    half_path,
    one,
    one_halved,
    real_path,
    scale_of,
    several,
    whole_path,
)
from .transforms import Transform

_RECORD: Final[dict[str, Any]] = {"halves": False, "method": False, "function": False}
_FFT: Final[dict[str, Any]] = {"method": False, "namespace": "fft"}
_SIGNATURE: Final = "(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor"
_SEVERAL: Final = "(Tensor input, any s=None, any dim=None, str? norm=None) -> Tensor"
_TWO: Final = "(Tensor input, any s=None, any dim=(-2, -1), str? norm=None) -> Tensor"


def _half_gradient(grad: Any, shape: tuple[int, ...], dim: tuple[int, ...], scale: float) -> Any:
    """Return the gradient of the real input, with zeros for the missing half."""
    return call(whole, _resized(grad, dim[-1:], (shape[dim[-1]],)), dim, scale, False).real


def _real_gradient(grad: Any, shape: tuple[int, ...], dim: tuple[int, ...], scale: float) -> Any:
    """Return the gradient of the half; its elements that stand for two count twice."""
    half = call(to_half, grad, dim, scale)
    last = dim[-1]
    twice = grad.shape[last] - half.shape[last]
    places = positions(grad, half.shape[last]).reshape(tuple(-1 if k == last else 1 for k in range(half.ndim)))
    return half * ((places > 0) & (places <= twice)).to(grad.dtype).add(1)


def _half_shape(shape: tuple[int, ...], dim: tuple[int, ...], scale: float) -> tuple[int, ...]:
    return tuple(n // 2 + 1 if k == dim[-1] else n for k, n in enumerate(shape))


def _real_shape(shape: tuple[int, ...], dim: tuple[int, ...], scale: float, size: int) -> tuple[int, ...]:
    return tuple(size if k == dim[-1] else n for k, n in enumerate(shape))


def _sizes(shape: tuple[int, ...], dim: tuple[int, ...]) -> list[int]:
    return [shape[k] for k in dim]


whole: Final[Transform] = Transform(
    "fft_c2c(Tensor input, int[] dim, float scale, bool forward) -> Tensor", "Complex transform.",
    pocketfft.complex_to_complex, "complex",
    lambda shape, dim, scale, forward: (dim, _sizes(shape, dim), scale, forward),
    kinds="c",
    shape=same_shape, derivative=wirtinger(Derivative(
        input=lambda grad, dim, scale, forward: call(whole, grad, dim, scale, not forward))),
    **_RECORD)
to_half: Final[Transform] = Transform(
    "fft_r2c(Tensor input, int[] dim, float scale) -> Tensor", "Transform of real values, without mirrored ones.",
    pocketfft.real_to_half, "half", lambda shape, dim, scale: (dim, _sizes(shape, dim), scale, True), kinds="f",
    shape=_half_shape, derivative=wirtinger(Derivative(
        input=lambda grad, input_shape, dim, scale: _half_gradient(grad, input_shape, dim, scale))),
    **_RECORD)
to_real: Final[Transform] = Transform(
    "fft_c2r(Tensor input, int[] dim, float scale, int size) -> Tensor", "Inverse transform with real values.",
    pocketfft.half_to_real, "real",
    lambda shape, dim, scale, size: (dim, [*_sizes(shape, dim[:-1]), size], scale, False), kinds="c",
    shape=_real_shape, derivative=wirtinger(Derivative(
        input=lambda grad, input_shape, dim, scale: _real_gradient(grad, input_shape, dim, scale))),
    **_RECORD)


# ------------------------------------------------------------------------------------------------------- arguments


def _floating(name: str, input: Any, *, real: bool) -> Any:
    """Return the input in a floating-point dtype, or in a complex one.

    Raises:
        DtypeError: The input is complex but the transform takes real values.
    """
    if real and input.dtype.is_complex:
        raise DtypeError(f"fft.{name}", f"dtype {input.dtype.name}", "the transform is one of real values",
                         "pass input.real, or use the complex transform")
    if input.dtype.category < 2:
        input = input.to(number_dtype(2))
    return input if real or input.dtype.is_complex else input.to(complex_dtype(input.dtype))


def _resized(input: Any, dims: Sequence[int], sizes: Sequence[int]) -> Any:
    """Return the input cropped, or padded with zeros at the end, along dimensions."""
    for dim, size in zip(dims, sizes, strict=True):
        have = input.shape[dim]
        if size < have:
            input = input.narrow(dim, 0, size)
        elif size > have:
            shape = tuple(size - have if k == dim else n for k, n in enumerate(input.shape))
            input = functions.cat([input, input.new_zeros(shape)], dim)
    return input


def _transform(name: str, input: Any, axes: tuple[int, ...], sizes: list[int], norm: str | None, forward: bool) -> Any:
    check_sizes(name, input, sizes)
    input = _floating(name, input, real=False)
    if not axes:
        return input.clone()
    return call(whole, _resized(input, axes, sizes), axes, scale_of(name, norm, math.prod(sizes), forward), forward)


def _half(name: str, input: Any, axes: tuple[int, ...], sizes: list[int], norm: str | None,
          forward: bool = True) -> Any:
    check_sizes(name, input, sizes)
    input = _floating(name, input, real=True)
    scale = scale_of(name, norm, math.prod(sizes), forward)
    if not axes:
        raise ShapeError(f"fft.{name}", "no dims", "at least one dimension is transformed", "pass a dim")
    return call(to_half, _resized(input, axes, sizes), axes, scale)


def _real(name: str, input: Any, axes: tuple[int, ...], sizes: list[int], norm: str | None,
          forward: bool = False) -> Any:
    """Transform half-complex to real values; ``sizes`` are those of the result."""
    check_sizes(name, input, sizes)
    if not axes:
        raise ShapeError(f"fft.{name}", "no dims", "at least one dimension is transformed", "pass a dim")
    input = _resized(_floating(name, input, real=False), axes, [*sizes[:-1], sizes[-1] // 2 + 1])
    return call(to_real, input, axes, scale_of(name, norm, math.prod(sizes), forward), sizes[-1])


# ----------------------------------------------------------------------------------------------------- one dimension


@composite(f"fft_fft{_SIGNATURE}", host_path=whole_path("fft", (ONE, one), True), **_FFT)
def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Transform along a dimension: result[k] = sum of input[j] * exp(-2i pi j k / n)."""
    return _transform("fft", input, *one("fft", input, n, dim), norm, True)


@composite(f"fft_ifft{_SIGNATURE}", host_path=whole_path("ifft", (ONE, one), False), **_FFT)
def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Invert ``fft``."""
    return _transform("ifft", input, *one("ifft", input, n, dim), norm, False)


@composite(f"fft_rfft{_SIGNATURE}", host_path=half_path("rfft", (ONE, one)), **_FFT)
def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the first n // 2 + 1 elements of ``fft`` of real values; the others mirror them."""
    return _half("rfft", input, *one("rfft", input, n, dim), norm)


@composite(f"fft_irfft{_SIGNATURE}", host_path=real_path("irfft", (ONE, one_halved), False), **_FFT)
def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Invert ``rfft``; n is the size of the result, by default 2 * (m - 1)."""
    return _real("irfft", input, *one("irfft", input, n, dim, halved=True), norm)


@composite(f"fft_hfft{_SIGNATURE}", host_path=real_path("hfft", (ONE, one_halved), True), **_FFT)
def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Transform values without their mirrored half; the result is real."""
    mirrored = _floating("hfft", input, real=False).conj()
    return _real("hfft", mirrored, *one("hfft", input, n, dim, halved=True), norm, True)


@composite(f"fft_ihfft{_SIGNATURE}", **_FFT)
def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Invert ``hfft``."""
    return _half("ihfft", input, *one("ihfft", input, n, dim), norm, False).conj()


# ------------------------------------------------------------------------------------------------- several dimensions


@composite(f"fft_fftn{_SEVERAL}", host_path=whole_path("fftn", (ALL, several), True), **_FFT)
def fftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Transform along several dimensions, by default all."""
    return _transform("fftn", input, *several("fftn", input, s, dim), norm, True)


@composite(f"fft_fft2{_TWO}", host_path=whole_path("fft2", (PAIR, several), True), **_FFT)
def fft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Transform along two dimensions."""
    return _transform("fft2", input, *several("fft2", input, s, dim), norm, True)


@composite(f"fft_ifftn{_SEVERAL}", host_path=whole_path("ifftn", (ALL, several), False), **_FFT)
def ifftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Invert the transform along several dimensions, by default all."""
    return _transform("ifftn", input, *several("ifftn", input, s, dim), norm, False)


@composite(f"fft_ifft2{_TWO}", host_path=whole_path("ifft2", (PAIR, several), False), **_FFT)
def ifft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Invert the transform along two dimensions."""
    return _transform("ifft2", input, *several("ifft2", input, s, dim), norm, False)


@composite(f"fft_rfftn{_SEVERAL}", host_path=half_path("rfftn", (ALL, several)), **_FFT)
def rfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Transform real values along several dimensions, by default all; the last one is halved."""
    return _half("rfftn", input, *several("rfftn", input, s, dim), norm)


@composite(f"fft_rfft2{_TWO}", host_path=half_path("rfft2", (PAIR, several)), **_FFT)
def rfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Transform real values along two dimensions; the last one is halved."""
    return _half("rfft2", input, *several("rfft2", input, s, dim), norm)


@composite(f"fft_irfftn{_SEVERAL}", host_path=real_path("irfftn", (ALL, doubled), False), **_FFT)
def irfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Invert ``rfftn``; the last size is that of the result."""
    return _real("irfftn", input, *doubled("irfftn", input, s, dim), norm)


@composite(f"fft_irfft2{_TWO}", host_path=real_path("irfft2", (PAIR, doubled), False), **_FFT)
def irfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Invert ``rfft2``; the last size is that of the result."""
    return _real("irfft2", input, *doubled("irfft2", input, s, dim), norm)


@composite(f"fft_hfftn{_SEVERAL}", host_path=real_path("hfftn", (ALL, doubled), True), **_FFT)
def hfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Transform values without the mirrored half of the last dimension; the result is real."""
    mirrored = _floating("hfftn", input, real=False).conj()
    return _real("hfftn", mirrored, *doubled("hfftn", input, s, dim), norm, True)


@composite(f"fft_hfft2{_TWO}", host_path=real_path("hfft2", (PAIR, doubled), True), **_FFT)
def hfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Apply ``hfftn`` along two dimensions."""
    mirrored = _floating("hfft2", input, real=False).conj()
    return _real("hfft2", mirrored, *doubled("hfft2", input, s, dim), norm, True)


@composite(f"fft_ihfftn{_SEVERAL}", **_FFT)
def ihfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Invert ``hfftn``."""
    return _half("ihfftn", input, *several("ihfftn", input, s, dim), norm, False).conj()


@composite(f"fft_ihfft2{_TWO}", **_FFT)
def ihfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Apply ``ihfftn`` along two dimensions."""
    return _half("ihfft2", input, *several("ihfft2", input, s, dim), norm, False).conj()


# ------------------------------------------------------------------------------------------------ frequencies, shifts


def frequencies(n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, device: Any = None,
                requires_grad: bool = False) -> Any:
    """Return the frequencies of ``fft``, in cycles per unit of the sample spacing d: 0, 1, ..., -2, -1 over n * d.

    Raises:
        ArgumentError: n is not positive.
    """
    if n < 1:
        raise ArgumentError("fft.fftfreq", f"n={n}", "a transform has at least one point", "pass a larger n")
    values = np.fft.fftfreq(n, 1.0) / d
    if out is not None:
        return write_out("fft.fftfreq", out, creation.tensor(values, dtype=dtype or out.dtype, device=out.device))
    return creation.tensor(values, dtype=dtype or number_dtype(2), device=device, requires_grad=requires_grad)


def half_frequencies(n: int, d: float = 1.0, *, out: Any = None, dtype: Any = None, device: Any = None,
                     requires_grad: bool = False) -> Any:
    """Return the frequencies of ``rfft``: 0, 1, ..., n // 2 over n * d.

    Raises:
        ArgumentError: n is not positive.
    """
    if n < 1:
        raise ArgumentError("fft.rfftfreq", f"n={n}", "a transform has at least one point", "pass a larger n")
    values = np.fft.rfftfreq(n, 1.0) / d
    if out is not None:
        return write_out("fft.rfftfreq", out, creation.tensor(values, dtype=dtype or out.dtype, device=out.device))
    return creation.tensor(values, dtype=dtype or number_dtype(2), device=device, requires_grad=requires_grad)


def _rolled(name: str, input: Any, dim: Any, sign: int) -> Any:
    axes = range(input.ndim) if dim is None else (dim,) if is_integer(dim) else tuple(dim)
    chosen = [normalize_axis(f"fft.{name}", d, input.ndim) for d in axes]
    steps = [input.shape[d] // 2 if sign > 0 else -(input.shape[d] // 2) for d in chosen]
    return input.roll(steps, chosen) if chosen else input.clone()


@composite("fft_fftshift(Tensor input, any dim=None) -> Tensor", **_FFT)
def fftshift(input: Any, dim: Any = None) -> Any:
    """Roll elements so that frequency 0 is in the middle."""
    return _rolled("fftshift", input, dim, 1)


@composite("fft_ifftshift(Tensor input, any dim=None) -> Tensor", **_FFT)
def ifftshift(input: Any, dim: Any = None) -> Any:
    """Invert ``fftshift``."""
    return _rolled("ifftshift", input, dim, -1)
