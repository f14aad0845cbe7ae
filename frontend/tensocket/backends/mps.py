"""Apple's Metal, which no backend uses."""

from __future__ import annotations


def is_available() -> bool:
    """Return False: no backend uses it."""
    return False


def is_built() -> bool:
    """Return False: tensocket has no backend for it."""
    return False


def is_macos_or_newer(major: int, minor: int) -> bool:
    """Return False: tensocket has no backend for it."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """Return False: tensocket has no backend for it."""
    return False
