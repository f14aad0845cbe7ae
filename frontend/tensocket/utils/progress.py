"""Progress bars for loops, with fields such as loss and accuracy. Showing a bar imports rich."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Sized
from types import TracebackType
from typing import Any, Final, Generic, TypeVar

from tensocket.errors import MissingPackage

T = TypeVar("T")

#: Shortest time between two updates of a bar, in seconds: drawing must not slow a loop down.
_INTERVAL: Final = 0.05


class Progress(Generic[T]):
    """A progress bar around an iterable, or one that is advanced by hand in a ``with`` block; see ``progress``."""

    def __init__(self, iterable: Iterable[T], description: str, total: float | None, enabled: bool) -> None:
        self._iterable = iterable
        self._description = description
        self._total = len(iterable) if total is None and isinstance(iterable, Sized) else total
        self._enabled = enabled
        self._fields: dict[str, str] = {}
        self._count = 0.0
        self._drawn = 0.0
        self._task: Any = None

    def __len__(self) -> int:
        return len(self._iterable)  # type: ignore[arg-type]  # raises TypeError as len() of any iterable without one

    def show(self, **fields: Any) -> None:
        """Show values after the bar, for example ``show(loss=0.31, accuracy="97.2 %")``; cheap if it is disabled."""
        if self._enabled:
            self._fields.update((name, _shown(value)) for name, value in fields.items())
            self._draw()

    def describe(self, description: str) -> None:
        """Change the text before the bar."""
        self._description = description
        self._draw()

    def advance(self, count: float = 1) -> None:
        """Advance by ``count`` items; loops over the bar do so automatically."""
        self._count += count
        self._draw()

    def __enter__(self) -> Progress[T]:
        if self._enabled and self._task is None:
            self._count = 0.0
            self._task = _DISPLAY.add(self._description, self._total, self._line())
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
                 ) -> None:
        if self._task is not None:
            self._draw(at_once=True)
            task, self._task = self._task, None
            _DISPLAY.remove(task)

    def __iter__(self) -> Iterator[T]:
        if not self._enabled:
            yield from self._iterable
            return
        items = iter(self._iterable)  # before the display starts a thread, as this may start processes
        with self:
            for item in items:
                yield item
                self.advance()

    def _draw(self, *, at_once: bool = False) -> None:
        if self._task is None:
            return
        now = time.monotonic()
        if at_once or now - self._drawn >= _INTERVAL:
            self._drawn = now
            _DISPLAY.update(self._task, self._description, self._count, self._line())

    def _line(self) -> str:
        return "  ".join(f"{name} {value}" for name, value in self._fields.items())


class _Display:
    """The bars on the screen: rich draws one display at a time, so nested loops share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rich: Any = None
        self._tasks: list[Any] = []

    def add(self, description: str, total: float | None, fields: str) -> Any:
        """Return a new bar, below the existing ones."""
        with self._lock:
            if self._rich is None:
                self._rich = _new_display()
                self._rich.start()
            task = self._rich.add_task(description, total=total, fields=fields)
            self._tasks.append(task)
            return task

    def update(self, task: Any, description: str, count: float, fields: str) -> None:
        """Redraw a bar."""
        with self._lock:
            if task in self._tasks:
                self._rich.update(task, description=description, completed=count, fields=fields)

    def remove(self, task: Any) -> None:
        """End a bar. The last one stays on the screen; inner loops free their place."""
        with self._lock:
            if task not in self._tasks:
                return
            self._tasks.remove(task)
            if self._tasks:
                self._rich.remove_task(task)
            else:
                display, self._rich = self._rich, None
                display.stop()


_DISPLAY: Final = _Display()


def progress(
    iterable: Iterable[T] = (), *, description: str = "", total: float | None = None, enabled: bool | None = None
) -> Progress[T]:
    """Return a progress bar around ``iterable``. Nested loops have one bar each.

    Args:
        iterable: The items to loop over.
        description: Text before the bar.
        total: Number of items; ``len(iterable)`` if it has one.
        enabled: Whether a bar is shown; by default only if standard error is a terminal, so logs stay clean.

    Returns:
        An iterable over the same items, with ``show(loss=..., accuracy=...)`` for values after the bar. In a ``with``
        block instead of a loop, ``advance()`` moves it.

    Raises:
        MissingPackage: ``enabled=True``, and rich is not installed. (By default, a warning replaces the bar.)

    >>> list(progress([1, 2], enabled=False))
    [1, 2]
    """
    shown = sys.stderr is not None and sys.stderr.isatty() if enabled is None else enabled
    if shown and not _has_rich():
        missing = MissingPackage("progress", "an environment without rich", "progress bars are drawn by rich",
                                 "pip install rich, or pass enabled=False")
        if enabled:
            raise missing
        warnings.warn(str(missing), UserWarning, stacklevel=2)
        shown = False
    return Progress(iterable, description, total, shown)


class tqdm(Progress[T]):
    """A progress bar with the interface of the package tqdm, which libraries take from ``hub``.

    Args:
        iterable: The items to loop over.
        desc: Text before the bar.
        total: Number of items.
        disable: Whether no bar is shown; by default, one is shown on a terminal if rich is installed.
        ignored: Options of the bar's form, which is that of ``progress``.
    """

    def __init__(self, iterable: Iterable[T] | None = None, desc: str | None = None, total: float | None = None,
                 disable: bool | None = None, **ignored: Any) -> None:
        shown = sys.stderr is not None and sys.stderr.isatty() if disable is None else not disable
        super().__init__(() if iterable is None else iterable, desc or "", total, shown and _has_rich())

    def update(self, n: float = 1) -> None:
        """Advance by ``n`` items."""
        self.advance(n)

    def set_description(self, desc: str | None = None, refresh: bool = True) -> None:
        """Change the text before the bar."""
        self.describe(desc or "")

    def close(self) -> None:
        """Remove the bar."""
        self.__exit__(None, None, None)


def _has_rich() -> bool:
    try:
        import rich.progress
    except ModuleNotFoundError:
        return False
    return bool(rich.progress.Progress)


def _shown(value: Any) -> str:
    value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _new_display() -> Any:
    """Return a rich progress display on standard error."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    return Bars(TextColumn("{task.description}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(),
                TimeRemainingColumn(), TextColumn("{task.fields[fields]}"), console=Console(file=sys.stderr))


__all__ = ["Progress", "progress", "tqdm"]
