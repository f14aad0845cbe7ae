"""Kernels for quantized tensors: none."""

from __future__ import annotations

#: The kernels in use, and those that can be chosen.
engine: str = "none"
supported_engines: list[str] = ["none"]
