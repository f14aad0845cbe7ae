"""Whether Triton's kernels can run: this package's devices compile their own kernels, so none can."""

from __future__ import annotations

import importlib.util


def has_triton_package() -> bool:
    """Whether Triton is installed."""
    return importlib.util.find_spec("triton") is not None


def has_triton() -> bool:
    """Whether Triton can compile for this package's tensors; no."""
    return False


#: Whether Triton can copy blocks of memory with the hardware's instructions for them.
has_triton_tma = has_triton_tma_device = has_triton_stable_tma_api = has_triton
has_triton_tensor_descriptor_host_tma = has_triton_experimental_host_tma = has_triton
