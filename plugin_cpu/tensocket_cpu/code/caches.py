"""The properties of this processor's caches that decide how results are written."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from tensocket_plugins.ir.printers.llvm_vectors import LINE

from .pointers import address_of

#: The file in which Linux reports the size of the third-level cache, and the usual size.
_LARGEST: Final = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
_USUAL: Final = 1 << 25
_UNITS: Final = {"K": 10, "M": 20, "G": 30}


@cache
def cache_bytes() -> int:
    """Return the bytes of the largest cache."""
    try:
        text = _LARGEST.read_text().strip()
        return int(text.rstrip("KMG")) << _UNITS.get(text[-1], 0)
    except (OSError, ValueError, IndexError):  # not reported, as in some containers
        return _USUAL


def streaming_bytes() -> int:
    """Return the measured total bytes of operands and results beyond which writing past the caches is faster."""
    return 3 * cache_bytes() // 4


def begins_line(array: Any) -> bool:
    """Whether an array begins at the start of a cache line."""
    return address_of(array) % LINE == 0
