"""Starts of several processes, which programs here do not have."""

from __future__ import annotations

from . import api

__all__ = ["api"]
