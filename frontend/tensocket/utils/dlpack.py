"""DLPack capsules, under PyTorch's names."""

from __future__ import annotations

from tensocket_core import from_dlpack
from tensocket_core.interop.dlpack import to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
