"""Helpers around training: data loading, hooks, progress bars."""

from __future__ import annotations

from . import data, hooks
from .progress import progress

__all__ = ["data", "hooks", "progress"]
