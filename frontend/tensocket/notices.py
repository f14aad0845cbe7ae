"""Notices, each given once, about requests that the runtime serves in another way."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final

#: The text for compilation of a function or a module.
EAGER: Final = "functions and modules run eagerly with a backend of the program's own"

_log = logging.getLogger("tensocket.notices")


@dataclass(frozen=True, slots=True)
class Notice:
    """One notice.

    Attributes:
        subject: The name that was called, for example ``compile``.
        text: The action that replaced the request.
    """

    subject: str
    text: str


_NOTICES: Final[dict[str, Notice]] = {}


def note(subject: str, text: str) -> None:
    """Record a notice and log it, unless one about this subject exists."""
    if subject not in _NOTICES:
        _NOTICES[subject] = Notice(subject, text)
        _log.warning("%s: %s", subject, text)


def notices() -> list[Notice]:
    """Return the notices of this process, in order."""
    return list(_NOTICES.values())


def reset_notices() -> None:
    """Clear all notices, so that each will be given again."""
    _NOTICES.clear()


__all__ = ["Notice", "note", "notices", "reset_notices"]
