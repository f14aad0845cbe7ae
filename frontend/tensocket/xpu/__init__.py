"""Devices that PyTorch calls ``xpu``: no backend supports them."""

from __future__ import annotations

from typing import Any

from tensocket.namespace.refusals import refused


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


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return False."""
    return False


def memory_allocated(device: Any = None) -> int:
    """Return 0 bytes."""
    return 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: tensocket has no memory for this device type."""


manual_seed_all = manual_seed
max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
globals().update(refused(
    "xpu", "current_device device get_device_capability get_device_name get_device_properties get_rng_state "
    "get_rng_state_all mem_get_info set_device set_rng_state set_rng_state_all Stream Event current_stream stream",
    "no backend has devices that PyTorch calls xpu",
    "ask xpu.is_available() first, or run the program with --device opencl, whose devices it then calls cuda"))
