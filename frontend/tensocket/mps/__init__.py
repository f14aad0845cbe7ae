"""Devices that PyTorch calls ``mps``: no backend supports them."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """Return False."""
    return False


def device_count() -> int:
    """Return 0."""
    return 0


def manual_seed(seed: int) -> None:
    """Do nothing: tensocket has no generator for this device type."""


def seed() -> None:
    """Do nothing: tensocket has no generator for this device type."""


def empty_cache() -> None:
    """Do nothing: tensocket has no memory for this device type."""


def synchronize(device: Any = None) -> None:
    """Do nothing: no work was queued."""


def current_allocated_memory() -> int:
    """Return 0 bytes."""
    return 0


driver_allocated_memory = recommended_max_memory = current_allocated_memory
