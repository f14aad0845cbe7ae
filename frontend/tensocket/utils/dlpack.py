"""DLPack capsules, under PyTorch's names."""

from __future__ import annotations

from tensocket_operators import from_dlpack
from tensocket_operators.interop.dlpack import to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
