"""NNPACK, which no backend uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_ENABLED: Final = [False]


def is_available() -> bool:
    """Return False: no backend uses it."""
    return False


def set_flags(_enabled: bool) -> tuple[bool]:
    """Store whether it may be used, and return what was stored before."""
    before, _ENABLED[0] = _ENABLED[0], bool(_enabled)
    return (before,)


@contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """Store whether it may be used, in a block."""
    before, = set_flags(enabled)
    try:
        yield
    finally:
        set_flags(before)
