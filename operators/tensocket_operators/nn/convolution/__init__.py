"""Convolution, padding and windows."""

from __future__ import annotations

from tensocket_plugins.later import later

#: Modules of kernels load with the first one.
__getattr__ = later(__name__, "images_kernel_cpu", "kernel", "pad_kernel_cpu")
