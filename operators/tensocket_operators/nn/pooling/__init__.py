"""Pooling, resampling and grids."""

from __future__ import annotations

from tensocket_plugins.later import later

#: Modules of kernels load with the first one.
__getattr__ = later(__name__, "fractional_kernel_cpu", "grid_kernel_cpu", "kernel", "points_kernel_cpu")
