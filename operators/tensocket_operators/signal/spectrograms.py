"""Short-time Fourier transforms: transforms of overlapping windows of a signal, and their inverse."""

from __future__ import annotations

import warnings
from typing import Any, Final

from tensocket_core import functions
from tensocket_plugins.contract.errors import ArgumentError, DtypeError, ShapeError

from ..kinds.composite import composite
from ..reductions.value_checks import any_true
from ..shapes.reshaping import fold_windows

#: Sums of squared windows below this count as 0: ``istft`` cannot divide by them.
_TINY: Final = 1e-11


def _check_steps(name: str, n_fft: int, hop: int, length: int) -> None:
    """Refuse windows longer than a transform, and steps that do not advance.

    Raises:
        ArgumentError: A number is out of range.
    """
    if not 0 < length <= n_fft:
        raise ArgumentError(name, f"win_length={length}, n_fft={n_fft}", "a window lies within the transform",
                            "pass a win_length from 1 to n_fft")
    if hop <= 0 or (name == "istft" and hop > length):
        raise ArgumentError(name, f"hop_length={hop}, win_length={length}",
                            "windows advance, and leave no gap for an inverse", "pass a smaller positive hop_length")


def _full_window(name: str, input: Any, window: Any, length: int, n_fft: int) -> Any:
    """Return the window, centred in a transform's points; None for ones everywhere.

    Raises:
        ShapeError: The window is not a vector of the window's length.
    """
    if window is not None and tuple(window.shape) != (length,):
        raise ShapeError(name, f"a window of shape {list(window.shape)}", f"the window is a vector of {length} numbers",
                         "pass win_length, or another window")
    if length == n_fft:
        return window
    if window is None:
        window = input.new_ones((length,), dtype=(input.real if input.dtype.is_complex else input).dtype)
    before = (n_fft - length) // 2
    return functions.cat([window.new_zeros((before,)), window, window.new_zeros((n_fft - length - before,))])


def _wide(input: Any, before: int, after: int, mode: str) -> Any:
    """Return a signal padded at both ends of its last dimension.

    Raises:
        ArgumentError: The mode is unknown.
        ShapeError: The signal is too short to be mirrored.
    """
    size = input.shape[-1]
    if mode == "constant":
        ends = [input.new_zeros((*input.shape[:-1], n)) for n in (before, after)]
        return functions.cat([ends[0], input, ends[1]], -1)
    places = input.new_arange(-before, size + after, 1)
    if mode == "reflect":
        if max(before, after) >= size:
            raise ShapeError("stft", f"{max(before, after)} mirrored points of {size}",
                             "a signal is longer than its mirrored parts", "pass a longer signal or center=False")
        places = (size - 1) - ((size - 1) - places.abs()).abs()
    elif mode == "replicate":
        places = places.clamp(0, size - 1)
    elif mode == "circular":
        places = places % size
    else:
        raise ArgumentError("stft", f"pad_mode={mode!r}", "signals are continued by 'reflect', 'constant', 'replicate' "
                            "or 'circular'", "pass one of these")
    return input.index_select(-1, places)


def _check_signal(input: Any, n_fft: int, kind: str, center: bool, align: bool | None) -> None:
    """Refuse a signal that has no spectrogram.

    Raises:
        ArgumentError: ``return_complex`` is missing, or windows are both aligned and centred.
        DtypeError: The signal does not have a floating-point dtype.
        ShapeError: The signal is neither a vector nor a matrix of rows.
    """
    if center and align is not None:
        raise ArgumentError("stft", f"center=True, align_to_window={align}", "windows are centred or aligned",
                            "pass center=False")
    if input.dtype.category < 2:
        raise DtypeError("stft", f"dtype {input.dtype.name}", "signals are of floating-point numbers",
                         "convert with .to(dtype)")
    if input.ndim not in (1, 2) or not input.shape[-1]:
        raise ShapeError("stft", f"a signal of shape {list(input.shape)}", "signals are vectors or rows, not empty",
                         "reshape it")
    if kind == "undecided":
        raise ArgumentError("stft", "return_complex=None for a real signal", "the form of the result is chosen",
                            "pass return_complex=True")


@composite("stft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
           "bool center=True, str pad_mode='reflect', bool normalized=False, bool? onesided=None, "
           "bool? return_complex=None, bool? align_to_window=None) -> Tensor", hands_by_name=True)
def stft(input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
         center: bool = True, pad_mode: str = "reflect", normalized: bool = False, onesided: bool | None = None,
         return_complex: bool | None = None, align_to_window: bool | None = None) -> Any:
    """Apply the short-time Fourier transform: result[f, t] = sum of window[k] input[t hop + k] exp(-2i pi f k / n_fft).

    Args:
        input: A signal, (length,) or (batch, length).
        n_fft: Points of a transform.
        hop_length: Points between transforms; by default n_fft // 4.
        win_length: Size of the window, which is centred in the points; by default n_fft.
        window: Factors; ones by default.
        center: Whether transform t is centred at point t * hop; the signal is then padded at both ends.
        pad_mode: Mode of this padding: ``reflect``, ``constant`` (zeros), ``replicate`` or ``circular``.
        normalized: Whether results are divided by the square root of n_fft.
        onesided: Whether to omit frequencies that mirror others; by default for real signals and windows.
        return_complex: Whether the result is complex; else its last dimension holds real and imaginary parts.
        align_to_window: Without ``center``, whether the first window, not the first transform, starts at point 0.

    Returns:
        (batch, frequencies, transforms).

    Raises:
        ArgumentError: Arguments are out of range or contradict each other.
        DtypeError: The signal does not have a floating-point dtype.
        ShapeError: The signal or the window has a wrong shape.
    """
    either = input.dtype.is_complex or (window is not None and window.dtype.is_complex)
    kind = "undecided" if return_complex is None and not either else "decided"
    _check_signal(input, n_fft, kind, center, align_to_window)
    hop, length = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    signal = _wide(input, n_fft // 2, n_fft // 2, pad_mode) if center and n_fft > 0 else input
    if not 0 < n_fft <= signal.shape[-1]:
        raise ArgumentError("stft", f"n_fft={n_fft} of {signal.shape[-1]} points", "a transform lies within the signal",
                            "pass a smaller n_fft")
    _check_steps("stft", n_fft, hop, length)
    if either and onesided:
        raise ArgumentError("stft", "onesided=True for complex values", "only real values have mirrored frequencies",
                            "pass onesided=False")
    factors = _full_window("stft", input, window, length, n_fft)
    if align_to_window and not center:
        count = 1 + (signal.shape[-1] - length) // hop
        before = (n_fft - length) // 2
        reach = (count - 1) * hop + n_fft
        signal = _wide(signal, before, max(reach - before - signal.shape[-1], 0), "constant")
    frames = signal.unfold(-1, n_fft, hop)
    frames = frames if factors is None else frames * factors
    norm = "ortho" if normalized else None
    half = not either if onesided is None else onesided
    spectra = functions.fft_rfft(frames, norm=norm) if half and not either else functions.fft_fft(frames, norm=norm)
    spectra = spectra.transpose(-1, -2)
    return spectra if return_complex or return_complex is None else functions.view_as_real(spectra)


def _check_spectra(input: Any, n_fft: int, onesided: bool) -> None:
    """Refuse spectra that no signal can have.

    Raises:
        DtypeError: The spectra are not complex.
        ShapeError: The spectra are empty, or have a wrong number of dimensions or frequencies.
    """
    if not input.dtype.is_complex:
        raise DtypeError("istft", f"dtype {input.dtype.name}", "spectra are complex", "use view_as_complex")
    if input.ndim not in (2, 3) or input.numel() == 0:
        raise ShapeError("istft", f"spectra of shape {list(input.shape)}",
                         "spectra are (frequencies, transforms), with a batch dimension or without, not empty",
                         "reshape them")
    wanted = n_fft // 2 + 1 if onesided else n_fft
    if input.shape[-2] != wanted:
        raise ShapeError("istft", f"{input.shape[-2]} frequencies for n_fft={n_fft}",
                         f"onesided={onesided} makes {wanted} frequencies", "pass the n_fft of the spectra")


@composite("istft(Tensor input, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
           "bool center=True, bool normalized=False, bool? onesided=None, int? length=None, "
           "bool return_complex=False) -> Tensor")
def istft(input: Any, n_fft: int, hop_length: int | None = None, win_length: int | None = None, window: Any = None,
          center: bool = True, normalized: bool = False, onesided: bool | None = None, length: int | None = None,
          return_complex: bool = False) -> Any:
    """Invert ``stft``: add up overlapping inverse transforms and divide by the sums of squared windows.

    Args:
        input: Spectra, (frequencies, transforms) or (batch, frequencies, transforms), complex.
        n_fft: Points of a transform.
        hop_length: Points between transforms; by default n_fft // 4.
        win_length: Size of the window; by default n_fft.
        window: Factors; ones by default.
        center: Whether transforms are centred at their points, so that both ends are cropped.
        normalized: Whether spectra were divided by the square root of n_fft.
        onesided: Whether mirrored frequencies are omitted; by default if there are fewer than n_fft.
        length: Size of the signal, which is cropped or padded with zeros; by default the span of the transforms.
        return_complex: Whether the signal is complex.

    Raises:
        ArgumentError: Arguments are out of range or contradict each other, or the sum of squared windows vanishes.
        DtypeError: The spectra are not complex.
        ShapeError: The spectra or the window have a wrong shape.
    """
    half = input.ndim > 1 and input.shape[-2] != n_fft if onesided is None else onesided
    _check_spectra(input, n_fft, half)
    hop, size = n_fft // 4 if hop_length is None else hop_length, n_fft if win_length is None else win_length
    _check_steps("istft", n_fft, hop, size)
    if window is not None and window.dtype.is_complex and not return_complex:
        raise ArgumentError("istft", "a complex window for a real signal", "a real signal has a real window",
                            "pass return_complex=True")
    if return_complex and half:
        raise ArgumentError("istft", "onesided=True for a complex signal",
                            "only real signals have mirrored frequencies", "pass onesided=False")
    factors = _full_window("istft", input, window, size, n_fft)
    spectra = input.transpose(-1, -2)
    norm = "ortho" if normalized else None
    if return_complex:
        frames = functions.fft_ifft(spectra, norm=norm)
    else:
        frames = functions.fft_irfft(spectra[..., :n_fft // 2 + 1], n_fft, norm=norm)
    return _joined(frames, factors, hop, center, length)


def _joined(frames: Any, factors: Any, hop: int, center: bool, length: int | None) -> Any:
    """Join overlapping frames to one signal."""
    count, n_fft = frames.shape[-2:]
    reach = n_fft + hop * (count - 1)
    if factors is None:
        factors = frames.new_ones((n_fft,), dtype=(frames.real if frames.dtype.is_complex else frames).dtype)
    signal = fold_windows(frames * factors, (*frames.shape[:-2], reach), -1, n_fft, hop)
    weights = fold_windows((factors * factors).expand((count, n_fft)), (reach,), 0, n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else reach - start
    used = max(min(end, reach) - start, 0)
    signal, weights = signal.narrow(-1, start, used), weights.narrow(0, start, used)
    if weights._device_state.holds_data and any_true(weights.detach().abs() < _TINY):
        raise ArgumentError("istft", "windows whose squares add up to zero", "every point lies in a window",
                            "pass a smaller hop_length or another window")
    signal = signal / weights
    if end <= reach:
        return signal
    warnings.warn(f"[istft] length={length} is more than the {used} points of the transforms — a signal is cut or "
                  "filled up with zeros — pass a smaller length", UserWarning, stacklevel=5)
    return _wide(signal, 0, end - reach, "constant")


