"""The properties of this processor's caches that decide how results are written."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

from tensocket_plugins.ir.printers.llvm_vectors import LINE

from .pointers import address_of

#: Where Linux tells how large the third level is, and its usual size.
_LARGEST: Final = Path("/sys/devices/system/cpu/cpu0/cache/index3/size")
_USUAL: Final = 1 << 25
_UNITS: Final = {"K": 10, "M": 20, "G": 30}


@cache
def cache_bytes() -> int:
    """Bytes of the largest cache."""
    try:
        text = _LARGEST.read_text().strip()
        return int(text.rstrip("KMG")) << _UNITS.get(text[-1], 0)
    except (OSError, ValueError, IndexError):  # not told, as in some containers
        return _USUAL


def streaming_bytes() -> int:
    """Bytes of operands and results together beyond which writing results past the caches is faster, as measured."""
    return 3 * cache_bytes() // 4


def begins_line(array: Any) -> bool:
    """Whether an array's first element is the first of a line."""
    return address_of(array) % LINE == 0
