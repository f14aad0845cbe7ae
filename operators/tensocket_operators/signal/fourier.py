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
from tensocket_plugins.contract.errors import ArgumentError, DimensionError, DtypeError, ShapeError

from .. import creation
from ..call_forms import write_out
from ..indexing.selection import positions
from ..kinds.composite import composite
from ..kinds.host_library import HostOperator, same_shape

_RECORD: Final[dict[str, Any]] = {"halves": False, "method": False, "function": False}
_FFT: Final[dict[str, Any]] = {"method": False, "namespace": "fft"}
_SIGNATURE: Final = "(Tensor input, int? n=None, int dim=-1, str? norm=None) -> Tensor"
_SEVERAL: Final = "(Tensor input, any s=None, any dim=None, str? norm=None) -> Tensor"
_TWO: Final = "(Tensor input, any s=None, any dim=(-2, -1), str? norm=None) -> Tensor"


def _scaled(values: Any, scale: float) -> Any:
    return values if scale == 1 else values * values.real.dtype.type(scale)


def _complex_to_complex(x: Any, dim: tuple[int, ...], scale: float, forward: bool) -> Any:
    if forward:
        return _scaled(np.fft.fftn(x, axes=dim), scale)
    return _scaled(np.fft.ifftn(x, axes=dim, norm="forward"), scale)


def _real_to_half(x: Any, dim: tuple[int, ...], scale: float) -> Any:
    return _scaled(np.fft.rfftn(x, axes=dim), scale)


def _half_to_real(x: Any, dim: tuple[int, ...], scale: float, size: int) -> Any:
    sizes = [*(x.shape[k] for k in dim[:-1]), size]
    return _scaled(np.fft.irfftn(x, s=sizes, axes=dim, norm="forward"), scale)


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


whole: Final[HostOperator] = HostOperator(
    "fft_c2c(Tensor input, int[] dim, float scale, bool forward) -> Tensor", "Complex transform.", _complex_to_complex,
    kinds="c",
    shape=same_shape, derivative=wirtinger(Derivative(
        input=lambda grad, dim, scale, forward: call(whole, grad, dim, scale, not forward))),
    **_RECORD)
to_half: Final[HostOperator] = HostOperator(
    "fft_r2c(Tensor input, int[] dim, float scale) -> Tensor", "Transform of real values, without mirrored ones.",
    _real_to_half, kinds="f",
    shape=_half_shape, result="complex", derivative=wirtinger(Derivative(
        input=lambda grad, input_shape, dim, scale: _half_gradient(grad, input_shape, dim, scale))),
    **_RECORD)
to_real: Final[HostOperator] = HostOperator(
    "fft_c2r(Tensor input, int[] dim, float scale, int size) -> Tensor", "Inverse transform with real values.",
    _half_to_real, kinds="c",
    shape=_real_shape, result="real", derivative=wirtinger(Derivative(
        input=lambda grad, input_shape, dim, scale: _real_gradient(grad, input_shape, dim, scale))),
    **_RECORD)


# ------------------------------------------------------------------------------------------------------- arguments


def _scale(name: str, norm: str | None, count: int, forward: bool) -> float:
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


def _several(name: str, input: Any, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int]]:
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


def _check_sizes(name: str, input: Any, sizes: Sequence[int]) -> None:
    if input.ndim == 0 and sizes:
        raise DimensionError(f"fft.{name}", "a 0-dimensional tensor", "a transform runs along a dimension",
                             "pass a vector")
    if any(n < 1 for n in sizes):
        raise ArgumentError(f"fft.{name}", f"{min(sizes)} points", "a transform has at least one point",
                            "pass a larger n")


def _transform(name: str, input: Any, axes: tuple[int, ...], sizes: list[int], norm: str | None, forward: bool) -> Any:
    _check_sizes(name, input, sizes)
    input = _floating(name, input, real=False)
    if not axes:
        return input.clone()
    return call(whole, _resized(input, axes, sizes), axes, _scale(name, norm, math.prod(sizes), forward), forward)


def _half(name: str, input: Any, axes: tuple[int, ...], sizes: list[int], norm: str | None,
          forward: bool = True) -> Any:
    _check_sizes(name, input, sizes)
    input = _floating(name, input, real=True)
    scale = _scale(name, norm, math.prod(sizes), forward)
    if not axes:
        raise ShapeError(f"fft.{name}", "no dims", "at least one dimension is transformed", "pass a dim")
    return call(to_half, _resized(input, axes, sizes), axes, scale)


def _real(name: str, input: Any, axes: tuple[int, ...], sizes: list[int], norm: str | None,
          forward: bool = False) -> Any:
    """Transform half-complex to real values; ``sizes`` are those of the result."""
    _check_sizes(name, input, sizes)
    if not axes:
        raise ShapeError(f"fft.{name}", "no dims", "at least one dimension is transformed", "pass a dim")
    input = _resized(_floating(name, input, real=False), axes, [*sizes[:-1], sizes[-1] // 2 + 1])
    return call(to_real, input, axes, _scale(name, norm, math.prod(sizes), forward), sizes[-1])


def _one(name: str, input: Any, n: int | None, dim: int, *, halved: bool = False) -> tuple[tuple[int, ...], list[int]]:
    """Return one dimension and its size; for half-complex input, the size of the result."""
    axis = normalize_axis(f"fft.{name}", dim, input.ndim)
    have = input.shape[axis] if input.ndim else 1
    return (axis,), [(2 * (have - 1) if halved else have) if n is None else n]


def _doubled(name: str, input: Any, s: Any, dim: Any) -> tuple[tuple[int, ...], list[int]]:
    axes, sizes = _several(name, input, s, dim)
    if axes and (s is None or (s if is_integer(s) else s[-1]) == -1):
        sizes[-1] = 2 * (sizes[-1] - 1)
    return axes, sizes


# ----------------------------------------------------------------------------------------------------- one dimension


@composite(f"fft_fft{_SIGNATURE}", **_FFT)
def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Transform along a dimension: result[k] = sum of input[j] * exp(-2i pi j k / n)."""
    return _transform("fft", input, *_one("fft", input, n, dim), norm, True)


@composite(f"fft_ifft{_SIGNATURE}", **_FFT)
def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Invert ``fft``."""
    return _transform("ifft", input, *_one("ifft", input, n, dim), norm, False)


@composite(f"fft_rfft{_SIGNATURE}", **_FFT)
def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Return the first n // 2 + 1 elements of ``fft`` of real values; the others mirror them."""
    return _half("rfft", input, *_one("rfft", input, n, dim), norm)


@composite(f"fft_irfft{_SIGNATURE}", **_FFT)
def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Invert ``rfft``; n is the size of the result, by default 2 * (m - 1)."""
    return _real("irfft", input, *_one("irfft", input, n, dim, halved=True), norm)


@composite(f"fft_hfft{_SIGNATURE}", **_FFT)
def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Transform values without their mirrored half; the result is real."""
    mirrored = _floating("hfft", input, real=False).conj()
    return _real("hfft", mirrored, *_one("hfft", input, n, dim, halved=True), norm, True)


@composite(f"fft_ihfft{_SIGNATURE}", **_FFT)
def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """Invert ``hfft``."""
    return _half("ihfft", input, *_one("ihfft", input, n, dim), norm, False).conj()


# ------------------------------------------------------------------------------------------------- several dimensions


@composite(f"fft_fftn{_SEVERAL}", **_FFT)
def fftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Transform along several dimensions, by default all."""
    return _transform("fftn", input, *_several("fftn", input, s, dim), norm, True)


@composite(f"fft_fft2{_TWO}", **_FFT)
def fft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Transform along two dimensions."""
    return _transform("fft2", input, *_several("fft2", input, s, dim), norm, True)


@composite(f"fft_ifftn{_SEVERAL}", **_FFT)
def ifftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Invert the transform along several dimensions, by default all."""
    return _transform("ifftn", input, *_several("ifftn", input, s, dim), norm, False)


@composite(f"fft_ifft2{_TWO}", **_FFT)
def ifft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Invert the transform along two dimensions."""
    return _transform("ifft2", input, *_several("ifft2", input, s, dim), norm, False)


@composite(f"fft_rfftn{_SEVERAL}", **_FFT)
def rfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Transform real values along several dimensions, by default all; the last one is halved."""
    return _half("rfftn", input, *_several("rfftn", input, s, dim), norm)


@composite(f"fft_rfft2{_TWO}", **_FFT)
def rfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Transform real values along two dimensions; the last one is halved."""
    return _half("rfft2", input, *_several("rfft2", input, s, dim), norm)


@composite(f"fft_irfftn{_SEVERAL}", **_FFT)
def irfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Invert ``rfftn``; the last size is that of the result."""
    return _real("irfftn", input, *_doubled("irfftn", input, s, dim), norm)


@composite(f"fft_irfft2{_TWO}", **_FFT)
def irfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Invert ``rfft2``; the last size is that of the result."""
    return _real("irfft2", input, *_doubled("irfft2", input, s, dim), norm)


@composite(f"fft_hfftn{_SEVERAL}", **_FFT)
def hfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Transform values without the mirrored half of the last dimension; the result is real."""
    mirrored = _floating("hfftn", input, real=False).conj()
    return _real("hfftn", mirrored, *_doubled("hfftn", input, s, dim), norm, True)


@composite(f"fft_hfft2{_TWO}", **_FFT)
def hfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Apply ``hfftn`` along two dimensions."""
    mirrored = _floating("hfft2", input, real=False).conj()
    return _real("hfft2", mirrored, *_doubled("hfft2", input, s, dim), norm, True)


@composite(f"fft_ihfftn{_SEVERAL}", **_FFT)
def ihfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None) -> Any:
    """Invert ``hfftn``."""
    return _half("ihfftn", input, *_several("ihfftn", input, s, dim), norm, False).conj()


@composite(f"fft_ihfft2{_TWO}", **_FFT)
def ihfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None) -> Any:
    """Apply ``ihfftn`` along two dimensions."""
    return _half("ihfft2", input, *_several("ihfft2", input, s, dim), norm, False).conj()


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
