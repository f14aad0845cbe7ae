"""NVIDIA backend of tensocket: pycuda, NVRTC and cuBLAS."""

from __future__ import annotations

__version__ = "0.1.0"
