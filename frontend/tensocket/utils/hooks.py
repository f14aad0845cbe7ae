"""Handles by which a registered hook is taken away again."""

from __future__ import annotations

from tensocket_core.autograd.hooks import RemovableHandle

__all__ = ["RemovableHandle"]
