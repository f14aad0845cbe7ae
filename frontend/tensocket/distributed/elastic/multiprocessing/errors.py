"""What a program's main function is wrapped with so that a launcher sees its errors: there is none."""

from __future__ import annotations

from typing import TypeVar

_Function = TypeVar("_Function")


def record(fn: _Function, error_handler: object = None) -> _Function:
    """The function itself."""
    return fn


__all__ = ["record"]
