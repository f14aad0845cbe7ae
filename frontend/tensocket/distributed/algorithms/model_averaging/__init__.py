"""Averages of the parameters of all processes."""

from __future__ import annotations

from . import averagers

__all__ = ["averagers"]
