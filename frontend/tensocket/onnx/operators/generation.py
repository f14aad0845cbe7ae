"""Constants, random numbers, windows and transforms of signals."""

from __future__ import annotations

from typing import Any

import numpy as np

import tensocket as torch

from .shapes import checked
from .table import named, operator
from .values import axis_in, dtype_of, ints, number


@operator("Constant")
def constant(value: Any = None, value_float: float | None = None, value_floats: Any = None,
             value_int: int | None = None, value_ints: Any = None, value_string: Any = None,
             value_strings: Any = None) -> Any:
    """Return a constant."""
    if value is not None:
        return value
    if value_int is not None or value_ints is not None:
        return torch.tensor(value_ints if value_int is None else value_int, dtype=torch.int64)
    if value_string is not None or value_strings is not None:
        words = value_strings if value_string is None else value_string
        return np.array([w.decode() for w in words] if isinstance(words, list) else words.decode(), dtype=object)
    return torch.tensor(value_floats if value_float is None else value_float, dtype=torch.float32)


def _generator(seed: float | None, device: Any) -> Any:
    return None if seed is None else torch.Generator(device or "cpu").manual_seed(int(np.float32(seed).view(np.uint32)))


@operator("RandomNormal")
def random_normal(shape: Any, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None) -> Any:
    """Return numbers of a normal distribution."""
    wanted = checked("RandomNormal", ints(shape))
    return torch.randn(wanted, generator=_generator(seed, None), dtype=dtype_of("RandomNormal", dtype)) * scale + mean


@operator("RandomNormalLike")
def random_normal_like(x: Any, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0,
                       seed: float | None = None) -> Any:
    """Return numbers of a normal distribution in the shape of x."""
    kind = x.dtype if dtype is None else dtype_of("RandomNormalLike", dtype)
    return torch.randn(x.shape, generator=_generator(seed, x.device), dtype=kind, device=x.device) * scale + mean


@operator("RandomUniform")
def random_uniform(shape: Any, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None) -> Any:
    """Return numbers from low to high."""
    wanted = checked("RandomUniform", ints(shape))
    kind = dtype_of("RandomUniform", dtype)
    return torch.rand(wanted, generator=_generator(seed, None), dtype=kind) * (high - low) + low


@operator("RandomUniformLike")
def random_uniform_like(x: Any, dtype: int | None = None, high: float = 1.0, low: float = 0.0,
                        seed: float | None = None) -> Any:
    """Return numbers from low to high in the shape of x."""
    kind = x.dtype if dtype is None else dtype_of("RandomUniformLike", dtype)
    drawn = torch.rand(x.shape, generator=_generator(seed, x.device), dtype=kind, device=x.device)
    return drawn * (high - low) + low


@operator("Bernoulli")
def bernoulli(x: Any, dtype: int | None = None, seed: float | None = None) -> Any:
    """Return 1 with probabilities x, and 0 else."""
    drawn = torch.bernoulli(x, generator=_generator(seed, x.device))
    return drawn if dtype is None else drawn.to(dtype_of("Bernoulli", dtype))


@operator("Multinomial")
def multinomial(x: Any, dtype: int = 6, sample_size: int = 1, seed: float | None = None) -> Any:
    """Return classes, drawn with the probabilities whose logarithms x holds up to a constant."""
    shares = torch.softmax(x, 1)
    drawn = torch.multinomial(shares, sample_size, True, generator=_generator(seed, x.device))
    return drawn.to(dtype_of("Multinomial", dtype))


def _cosines(name: str, weights: tuple[float, ...]) -> None:
    """Add a window that is a sum of cosines."""

    @operator(name)
    def window(size: Any, output_datatype: int = 1, periodic: int = 1) -> Any:
        count = int(number(size))
        checked(name, [count])
        angle = torch.arange(count, dtype=torch.float64) * (2 * np.pi / (count if periodic else count - 1))
        terms = [weight * torch.cos(k * angle) for k, weight in enumerate(weights)]
        return torch.stack(terms).sum(0).to(dtype_of(name, output_datatype))

    named(window, name)


_cosines("HannWindow", (0.5, -0.5))
_cosines("HammingWindow", (25 / 46, -21 / 46))
_cosines("BlackmanWindow", (0.42, -0.5, 0.08))


@operator("MelWeightMatrix")
def mel_weight_matrix(num_mel_bins: Any, dft_length: Any, sample_rate: Any, lower_edge_hertz: Any,
                      upper_edge_hertz: Any, output_datatype: int = 1) -> Any:
    """Return the weights of triangles, evenly spaced on the scale of mels, over the bins of a spectrum."""
    bins, length, rate = (int(number(v)) for v in (num_mel_bins, dft_length, sample_rate))
    checked("MelWeightMatrix", [length // 2 + 1, bins])
    low, high = (2595 * np.log10(1 + float(number(v)) / 700) for v in (lower_edge_hertz, upper_edge_hertz))
    mels = np.arange(bins + 2) * ((high - low) / (bins + 2)) + low
    edges = ((length + 1) * (700 * (10 ** (mels / 2595) - 1)) // rate).astype(int)
    made = np.zeros((length // 2 + 1, bins))
    for k in range(bins):
        first, middle, last = edges[k:k + 3]
        if middle == first:
            made[middle, k] = 1
        else:
            made[first:middle + 1, k] = np.arange(middle + 1 - first) / (middle - first)
        if last > middle:
            made[middle:last, k] = np.arange(last - middle, 0, -1) / (last - middle)
    return torch.from_numpy(made).to(dtype_of("MelWeightMatrix", output_datatype))


@operator("DFT", since=17)
def dft_of_axis(x: Any, dft_length: Any = None, axis: int = 1, inverse: int = 0, onesided: int = 0) -> Any:
    """Return DFT of version 17, whose axis is an attribute."""
    return dft(x, dft_length, axis, inverse, onesided)


@operator("DFT", since=20)
def dft(x: Any, dft_length: Any = None, axis: Any = -2, inverse: int = 0, onesided: int = 0) -> Any:
    """Return a Fourier transform along an axis; the last dimension holds real and imaginary parts, or real ones."""
    dim = axis_in(int(number(axis)), x.dim())
    size = None if dft_length is None else int(number(dft_length))
    signal = x[..., 0] if x.shape[-1] == 1 else torch.view_as_complex(x.contiguous())
    if inverse and onesided:
        return torch.fft.irfft(signal, size, dim).unsqueeze(-1)
    if inverse:
        return torch.view_as_real(torch.fft.ifft(signal, size, dim))
    if onesided and not signal.dtype.is_complex:
        return torch.view_as_real(torch.fft.rfft(signal, size, dim))
    found = torch.fft.fft(signal, size, dim)
    if onesided:
        found = found.narrow(dim, 0, found.shape[dim] // 2 + 1)
    return torch.view_as_real(found)


@operator("STFT")
def stft(signal: Any, frame_step: Any, window: Any = None, frame_length: Any = None, onesided: int = 1) -> Any:
    """Return Fourier transforms of frames of a signal, [B, frames, bins, 2]."""
    length = int(number(frame_length)) if frame_length is not None else window.shape[0]
    step = int(number(frame_step))
    frames = signal.unfold(1, length, step).transpose(2, 3)
    if window is not None:
        frames = frames * window.reshape(-1, 1)
    return dft(frames, None, 2, 0, onesided)
