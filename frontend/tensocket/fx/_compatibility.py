"""A mark of names that stay as they are in later versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

Marked = TypeVar("Marked", bound=Callable[..., Any])

_BACK_COMPAT_OBJECTS: Final[dict[Any, None]] = {}
_MARKED_WITH_COMPATIBILITY: Final[dict[Any, None]] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[Marked], Marked]:
    """Return a decorator that notes in the docstring whether a function or class stays as it is.

    Args:
        is_backward_compatible: Whether it does.
    """
    def mark(thing: Marked) -> Marked:
        note = ("Backwards-compatibility for this API is guaranteed." if is_backward_compatible else
                ".. warning::\n    This API is experimental and is *NOT* backward-compatible.")
        thing.__doc__ = f"{thing.__doc__ or ''}\n\n.. note::\n    {note}\n"
        _MARKED_WITH_COMPATIBILITY.setdefault(thing)
        if is_backward_compatible:
            _BACK_COMPAT_OBJECTS.setdefault(thing)
        return thing

    return mark
