"""Named ranges for NVIDIA's profilers: accepted, and not passed on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_DEPTH: Final = [0]


def range_push(msg: str) -> int:
    """Begin a range inside of the open ones and return the number of those."""
    _DEPTH[0] += 1
    return _DEPTH[0] - 1


def range_pop() -> int:
    """End the innermost range and return the number of the remaining ones; -1 if none was open."""
    _DEPTH[0] = max(-1, _DEPTH[0] - 1)
    depth = _DEPTH[0]
    _DEPTH[0] = max(0, depth)
    return depth


def mark(msg: str) -> None:
    """Name a point in time."""


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """Mark a range that lasts as long as the block."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


__all__ = ["mark", "range", "range_pop", "range_push"]
