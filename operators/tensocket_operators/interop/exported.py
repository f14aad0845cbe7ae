"""Memory that objects outside of the runtime have, too: its size does not change."""

from __future__ import annotations

import weakref
from typing import Any, Final

import numpy as np

from tensocket_core.geometry import memory_of

#: Such memory by its identity, until it goes, and the file that it is written to.
_FIXED: Final[dict[int, tuple[Any, str | None]]] = {}


def fix_size(array: Any, file: str | None = None) -> None:
    """Note that the memory of a handle was given to, or taken from, an array, buffer or file of a program."""
    memory = memory_of(array)
    key = id(memory)
    if type(memory) is np.ndarray and (key not in _FIXED or file is not None):
        _FIXED[key] = weakref.ref(memory, lambda _: _FIXED.pop(key, None)), file


def has_fixed_size(memory: Any) -> bool:
    """Whether ``fix_size`` was called for this memory."""
    return id(memory) in _FIXED


def file_of(memory: Any) -> str | None:
    """Return the file that memory is written to, if any."""
    known = _FIXED.get(id(memory))
    return None if known is None else known[1]
