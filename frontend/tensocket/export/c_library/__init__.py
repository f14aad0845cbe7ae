"""Exported programs as C libraries."""

from __future__ import annotations

from .library import CLibrary, compile_c

__all__ = ["CLibrary", "compile_c"]
