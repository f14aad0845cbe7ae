"""Warnings of an observed call, which each call that a graph serves gives again.

Whether a warning is shown, hidden or raised depends on filters and registries at the time of the call; a graph
therefore passes each one to ``warnings`` again, with the place and the registry that the observed call found.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

#: The function; observation sees calls of it under any other name, and refuses them.
WARN: Final = warnings.warn


@dataclass(frozen=True, slots=True)
class Warned:
    """One warning.

    Attributes:
        text: The message.
        category: The class.
        file, line, module: The place that it names.
        registry: The table of warnings that this place has given.
    """

    text: str
    category: type[Warning]
    file: str
    line: int
    module: str
    registry: dict[Any, Any]

    def again(self) -> None:
        """Give the warning again.

        Raises:
            Warning: Filters say so.
        """
        warnings.warn_explicit(self.text, self.category, self.file, self.line, self.module, self.registry)


def _place(level: int, frame: types.FrameType) -> types.FrameType | None:
    """Return the frame that ``stacklevel`` names, counted from a frame; None if it lies outside of the call."""
    found: types.FrameType | None = frame
    for step in range(max(level, 1)):
        found = frame if not step else found.f_back if found is not None else None
        if found is None or str(found.f_globals.get("__name__")).startswith(("tensocket_compiler", "importlib")):
            return None
    return found


@contextmanager
def recorded_warnings(note: Callable[[Warned | None], None], counts: Callable[[], bool]) -> Iterator[None]:
    """Let a function stand in for ``warnings.warn`` in a block, which notes what it is called with.

    Args:
        note: Gets each warning; None for one that no later call can give again.
        counts: Whether the caller belongs to the observed call: other threads may warn in the meantime.
    """
    def warn(message: Any, category: Any = None, stacklevel: int = 1, source: Any = None, **more: Any) -> None:
        if counts():
            frame = _place(stacklevel, sys._getframe(1))
            kind = UserWarning if category is None else category
            if frame is None or type(message) is not str or source is not None or more:
                note(None)
            else:
                space = frame.f_globals
                note(Warned(message, kind, frame.f_code.co_filename, frame.f_lineno, space.get("__name__", "<string>"),
                            space.setdefault("__warningregistry__", {})))
        WARN(message, category, stacklevel + 1, source, **more)

    before, table = warnings.warn, vars(warnings)
    if before is WARN:
        table["warn"] = warn
    try:
        yield
    finally:
        table["warn"] = before
