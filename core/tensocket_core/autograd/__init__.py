"""Reverse-mode automatic differentiation."""

from __future__ import annotations

from .engine import backward, grad

__all__ = ["backward", "grad"]
