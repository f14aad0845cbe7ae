"""Fourier transforms, windows and spectrograms."""

from __future__ import annotations

from tensocket_plugins.later import later

#: Modules of kernels load with the first one.
__getattr__ = later(__name__, "fourier_kernel_cpu")
