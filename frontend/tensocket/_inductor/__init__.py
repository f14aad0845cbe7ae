"""Names of PyTorch's code generator that programs use; settings are stored."""

from __future__ import annotations

from . import config

__all__ = ["config"]
