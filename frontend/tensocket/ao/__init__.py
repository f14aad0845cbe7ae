"""The modules of PyTorch's quantization that work on floats."""

from __future__ import annotations

from . import quantization

__all__ = ["quantization"]
