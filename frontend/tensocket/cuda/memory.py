"""Memory statistics of the devices called ``cuda``; 0 without a device."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from tensocket_operators import device_api as api

from .names import device_of_argument, entry_of, get_device_properties, is_available, opened

#: PyTorch's names of the counts of allocators.
STATISTICS: Final = {
    "allocated_bytes.all.current": "allocated",
    "allocated_bytes.all.peak": "peak_allocated",
    "reserved_bytes.all.current": "reserved",
    "reserved_bytes.all.peak": "peak_reserved",
    "allocation.all.allocated": "allocations",
    "allocation.all.freed": "frees",
}


def named(numbers: Mapping[str, int]) -> OrderedDict[str, int]:
    """Return an allocator's statistics under PyTorch's names."""
    return OrderedDict((name, numbers[key]) for name, key in STATISTICS.items() if key in numbers)


def _numbers(device: Any) -> dict[str, int]:
    """Return the allocator's own statistics; empty while no device is open, as nothing is allocated then."""
    if not is_available() or not opened():
        return {}
    return dict(entry_of(device).runtime.allocator.stats().as_dict())


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """Return the allocator's counts under PyTorch's names; empty without a device."""
    return named(_numbers(device))


def memory_allocated(device: Any = None) -> int:
    """Return the bytes in use."""
    return _numbers(device).get("allocated", 0)


def max_memory_allocated(device: Any = None) -> int:
    """Return the peak of the bytes in use."""
    return _numbers(device).get("peak_allocated", 0)


def memory_reserved(device: Any = None) -> int:
    """Return the bytes that the allocator holds, in use or not."""
    return _numbers(device).get("reserved", 0)


def max_memory_reserved(device: Any = None) -> int:
    """Return the peak of the bytes that the allocator held."""
    return _numbers(device).get("peak_reserved", 0)


#: Names from before PyTorch 1.4.
memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Reset the peaks."""
    api.reset_peak_memory_stats(device_of_argument(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Do nothing: counts of allocations last for the life of the process."""


def empty_cache() -> None:
    """Return unused memory to the driver; do nothing without a device."""
    if is_available() and opened():
        entry_of().runtime.allocator.empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Return the bytes left for this process, and all bytes of a device; the use by other processes is unknown."""
    total = get_device_properties(device).total_memory
    return total - memory_reserved(device), total


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return the allocator's statistics as a table.

    Args:
        device: The device.
        abbreviated: Accepted as in PyTorch.
    """
    numbers = _numbers(device)
    width = max(map(len, numbers), default=0)
    return "\n".join(f"{name:{width}}  {value:>16,}" for name, value in numbers.items())


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Limit this process to a fraction of a device's memory.

    Raises:
        ArgumentError: ``fraction`` is out of range, or the device's allocator does not support limits.
    """
    api.set_memory_fraction(entry_of(device).device, fraction)


def memory_usage(device: Any = None) -> int:
    """Return the percentage of a device's memory that this process holds."""
    free, total = mem_get_info(device)
    return 100 * (total - free) // total if total else 0

