"""Patterns of axes in the notation of einops."""

from __future__ import annotations

from .rearrange import rearrange

__all__ = ["rearrange"]
