"""Reverse-mode automatic differentiation."""

from __future__ import annotations

from .differentiate import backward, grad

__all__ = ["backward", "grad"]
