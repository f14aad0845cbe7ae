"""The compiler of tensocket: graphs of programs, and their fused kernels."""

from __future__ import annotations

__version__ = "0.1.0"
