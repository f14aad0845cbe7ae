"""The check whether automatic mixed precision is available."""

from __future__ import annotations

from tensocket_operators import is_available


def amp_definitely_not_available() -> bool:
    """Whether no device of type ``cuda`` exists."""
    return not is_available("cuda")


__all__ = ["amp_definitely_not_available"]
