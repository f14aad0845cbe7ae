"""Devices that PyTorch calls ``mtia``: no backend supports them."""

from __future__ import annotations


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0
