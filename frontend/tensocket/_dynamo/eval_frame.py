"""The module from which programs import the class of compiled modules."""

from __future__ import annotations

from tensocket.compiler.compiling import OptimizedModule

__all__ = ["OptimizedModule"]
