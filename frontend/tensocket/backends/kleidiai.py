"""Arm's KleidiAI, which no backend uses."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: no backend uses it."""
    return False
