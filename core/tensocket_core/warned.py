"""Warnings that a process gives once, unless it asks for all of them."""

from __future__ import annotations

import warnings
from typing import Final

_GIVEN: Final[set[str]] = set()
_ALWAYS: Final = [False]


def set_warn_always(b: bool) -> None:
    """Set whether once-only warnings repeat."""
    _ALWAYS[0] = b


def is_warn_always_enabled() -> bool:
    """Whether once-only warnings repeat."""
    return _ALWAYS[0]


def warn_once(topic: str, text: str, stacklevel: int = 2) -> None:
    """Issue a warning at the first occurrence of a topic in this process.

    Args:
        topic: Identifies the warning.
        text: The warning.
        stacklevel: As in ``warnings.warn``, counted from the caller.
    """
    if _ALWAYS[0] or topic not in _GIVEN:
        _GIVEN.add(topic)
        warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)
