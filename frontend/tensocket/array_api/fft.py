"""The extension ``fft``."""

from __future__ import annotations

from typing import Any

from tensocket_operators import functions as f
from tensocket_operators.signal import fourier


def fft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Transform along an axis."""
    return f.fft_fft(x, n, axis, norm)


def ifft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Return the inverse of ``fft``."""
    return f.fft_ifft(x, n, axis, norm)


def fftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    """Transform along several axes."""
    return f.fft_fftn(x, s, axes, norm)


def ifftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    """Return the inverse of ``fftn``."""
    return f.fft_ifftn(x, s, axes, norm)


def rfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Transform real values along an axis, without the mirrored half."""
    return f.fft_rfft(x, n, axis, norm)


def irfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Return the inverse of ``rfft``."""
    return f.fft_irfft(x, n, axis, norm)


def rfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    """Transform real values along several axes, the last one halved."""
    return f.fft_rfftn(x, s, axes, norm)


def irfftn(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
    """Return the inverse of ``rfftn``."""
    return f.fft_irfftn(x, s, axes, norm)


def hfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Transform values without their mirrored half; the result is real."""
    return f.fft_hfft(x, n, axis, norm)


def ihfft(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
    """Return the inverse of ``hfft``."""
    return f.fft_ihfft(x, n, axis, norm)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of the elements of ``fft``."""
    return fourier.frequencies(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Return the frequencies of the elements of ``rfft``."""
    return fourier.half_frequencies(n, d, dtype=dtype, device=device)


def fftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Return the elements rolled so that frequency 0 is in the middle."""
    return f.fft_fftshift(x, axes)


def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Return the inverse of ``fftshift``."""
    return f.fft_ifftshift(x, axes)
