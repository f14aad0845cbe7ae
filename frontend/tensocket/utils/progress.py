"""A progress bar for loops, with fields such as loss and accuracy. rich is loaded when a bar is shown."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sized
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Progress(Generic[T]):
    """Iterates over ``iterable`` behind a bar; see ``progress``."""

    def __init__(self, iterable: Iterable[T], description: str, total: int | None, enabled: bool) -> None:
        self._iterable = iterable
        self._description = description
        self._total = len(iterable) if total is None and isinstance(iterable, Sized) else total
        self._enabled = enabled
        self._fields: dict[str, str] = {}
        self._bar: Any = None
        self._task: Any = None

    def show(self, **fields: Any) -> None:
        """Show values behind the bar, for example ``show(loss=0.31, accuracy="97.2 %")``; cheap where it is off."""
        if self._enabled:
            self._fields.update((name, _shown(value)) for name, value in fields.items())
            if self._bar is not None:
                self._bar.update(self._task, fields=self._line())

    def _line(self) -> str:
        return "  ".join(f"{name} {value}" for name, value in self._fields.items())

    def __iter__(self) -> Iterator[T]:
        if not self._enabled:
            yield from self._iterable
            return
        self._bar = _new_bar()
        with self._bar:
            self._task = self._bar.add_task(self._description, total=self._total, fields=self._line())
            try:
                for item in self._iterable:
                    yield item
                    self._bar.advance(self._task)
            finally:
                self._bar.refresh()
        self._bar = None


def progress(
    iterable: Iterable[T], *, description: str = "", total: int | None = None, enabled: bool | None = None
) -> Progress[T]:
    """A progress bar around ``iterable``.

    Args:
        iterable: What to loop over.
        description: Text before the bar.
        total: Number of items; ``len(iterable)`` if it has one.
        enabled: Whether a bar is shown; by default only where standard error is a terminal, so logs stay clean.

    Returns:
        An iterable over the same items, with ``show(loss=..., accuracy=...)`` for values behind the bar.

    >>> list(progress([1, 2], enabled=False))
    [1, 2]
    """
    return Progress(iterable, description, total, sys.stderr.isatty() if enabled is None else enabled)


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _new_bar() -> Any:
    """A rich progress display on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    return Bar(TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(),
               TextColumn("{task.fields[fields]}"), console=Console(file=sys.stderr))
