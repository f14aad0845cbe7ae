"""Which version this is."""

from __future__ import annotations

from tensocket_core import __version__

#: No CUDA or ROCm is built in: a device's backend brings its own.
cuda: str | None = None
hip: str | None = None
debug = False

__all__ = ["__version__", "cuda", "debug", "hip"]
