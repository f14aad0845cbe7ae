"""Warnings that a process gives once, unless it asks for all of them."""

from __future__ import annotations

import warnings
from typing import Final

_GIVEN: Final[set[str]] = set()
_ALWAYS: Final = [False]


def set_warn_always(b: bool) -> None:
    """Say whether warnings that are given once should be repeated."""
    _ALWAYS[0] = b


def is_warn_always_enabled() -> bool:
    """Whether warnings that are given once are repeated."""
    return _ALWAYS[0]


def warn_once(topic: str, text: str, stacklevel: int = 2) -> None:
    """Warn of something at its first occurrence in this process.

    Args:
        topic: Identifies the warning.
        text: The warning.
        stacklevel: As in ``warnings.warn``, counted from the caller.
    """
    if _ALWAYS[0] or topic not in _GIVEN:
        _GIVEN.add(topic)
        warnings.warn(text, UserWarning, stacklevel=stacklevel + 1)
