"""Questions about instructions of the processor for which kernels are chosen: this package's choose none by name."""

from __future__ import annotations


def _is_amx_tile_supported() -> bool:
    """Whether kernels multiply tiles with the processor's instructions for them; none does."""
    return False


def _is_vnni_supported() -> bool:
    """Whether kernels multiply 8-bit integers with the processor's instructions for them; none does."""
    return False
