"""Statistics of the CPU's memory, as PyTorch has for accelerators; arrays below 64 KiB are not counted."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from tensocket_operators import device_api as api
from tensocket_plugins.contract.devices import HOST_DEVICE

from ..cuda.memory import named


def memory_stats(device: Any = None) -> OrderedDict[str, int]:
    """Return the allocator's counts under PyTorch's names.

    Args:
        device: Accepted as in PyTorch; there is only one CPU device.
    """
    return named(api.memory_stats(HOST_DEVICE))


def max_memory_reserved(device: Any = None) -> int:
    """Return the peak of the bytes that the allocator held."""
    return api.memory_stats(HOST_DEVICE)["peak_reserved"]


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Return the allocator's statistics as a table.

    Args:
        device: Accepted as in PyTorch; there is only one CPU device.
        abbreviated: Accepted as in PyTorch.
    """
    numbers = memory_stats()
    width = max(map(len, numbers))
    return "\n".join(f"{name:{width}}  {value:>16,}" for name, value in numbers.items())
