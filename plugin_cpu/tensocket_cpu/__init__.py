"""CPU backend of tensocket: kernels compiled by LLVM."""

from __future__ import annotations

__version__ = "0.1.0"
