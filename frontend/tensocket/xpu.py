"""Devices that PyTorch calls ``xpu``: no backend answers for them."""

from __future__ import annotations

from typing import Any


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def manual_seed(seed: int) -> None:
    """Nothing: there is no generator."""


def seed() -> None:
    """Nothing: there is no generator."""


def empty_cache() -> None:
    """Nothing: there is no memory."""


def synchronize(device: Any = None) -> None:
    """Nothing: no work was queued."""


manual_seed_all = manual_seed
