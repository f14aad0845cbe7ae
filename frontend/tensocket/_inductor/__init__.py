"""Names of PyTorch's code generator that programs use: what they set is kept."""

from __future__ import annotations

from . import config

__all__ = ["config"]
