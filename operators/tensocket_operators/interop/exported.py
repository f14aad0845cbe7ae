"""Memory of fixed size, because objects outside the runtime hold it, too."""

from __future__ import annotations

import weakref
from typing import Any, Final

import numpy as np

from tensocket_core.geometry import memory_of

#: The fixed memory by its identity while it lives, and the file that holds it.
FIXED: Final[dict[int, tuple[Any, str | None]]] = {}


def fix_size(array: Any, file: str | None = None) -> None:
    """Record that an array, buffer or file of a program shares the memory of a handle."""
    memory = array if type(array) is np.ndarray and array.base is None else memory_of(array)
    key = id(memory)
    if (key not in FIXED or file is not None) and type(memory) is np.ndarray:
        FIXED[key] = weakref.ref(memory, lambda _: FIXED.pop(key, None)), file


def has_fixed_size(memory: Any) -> bool:
    """Whether ``fix_size`` was called for this memory."""
    return id(memory) in FIXED


def file_of(memory: Any) -> str | None:
    """Return the file to which memory is written; None for other memory."""
    known = FIXED.get(id(memory))
    return None if known is None else known[1]
