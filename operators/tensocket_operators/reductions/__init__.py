"""Sums, extremes and statistics over dimensions."""

from __future__ import annotations

from tensocket_plugins.later import later

#: Modules of kernels load with the first one.
__getattr__ = later(__name__, "histogram_kernel_cpu", "minmax_kernel", "mode_kernel_cpu")
