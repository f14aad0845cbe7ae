"""Discrete Fourier transforms."""

from __future__ import annotations

from tensocket_operators.functions import fft_fft as fft
from tensocket_operators.functions import fft_fft2 as fft2
from tensocket_operators.functions import fft_fftn as fftn
from tensocket_operators.functions import fft_fftshift as fftshift
from tensocket_operators.functions import fft_hfft as hfft
from tensocket_operators.functions import fft_hfft2 as hfft2
from tensocket_operators.functions import fft_hfftn as hfftn
from tensocket_operators.functions import fft_ifft as ifft
from tensocket_operators.functions import fft_ifft2 as ifft2
from tensocket_operators.functions import fft_ifftn as ifftn
from tensocket_operators.functions import fft_ifftshift as ifftshift
from tensocket_operators.functions import fft_ihfft as ihfft
from tensocket_operators.functions import fft_ihfft2 as ihfft2
from tensocket_operators.functions import fft_ihfftn as ihfftn
from tensocket_operators.functions import fft_irfft as irfft
from tensocket_operators.functions import fft_irfft2 as irfft2
from tensocket_operators.functions import fft_irfftn as irfftn
from tensocket_operators.functions import fft_rfft as rfft
from tensocket_operators.functions import fft_rfft2 as rfft2
from tensocket_operators.functions import fft_rfftn as rfftn
from tensocket_operators.signal.fourier import frequencies as fftfreq
from tensocket_operators.signal.fourier import half_frequencies as rfftfreq

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]
