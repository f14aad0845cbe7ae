"""Where programs import the class of compiled modules from."""

from __future__ import annotations

from tensocket.compiler.eager import OptimizedModule

__all__ = ["OptimizedModule"]
