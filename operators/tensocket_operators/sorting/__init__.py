"""Sorting, searching and sets."""

from __future__ import annotations

from tensocket_plugins.later import later

#: Modules of kernels load with the first one.
__getattr__ = later(__name__, "bitonic_kernel", "searchsorted_kernel", "selection_kernel_cpu", "topk_kernel_cpu")
