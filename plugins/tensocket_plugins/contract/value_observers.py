"""Observers of the values that code relies on, while a run is captured for a compiler.

Code that reads elements of tensors tells the thread's observer (``note_read``), and so does code that needs them to lie
in a range (``launch_recorder.note_range``). A graph of the run must check ranges again, and cannot contain other reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Final, Protocol

from .forks import by_thread


class ValueObserver(Protocol):
    """An observer of one thread."""

    def note_read(self, source: Any) -> None:
        """Note that code reads elements of a tensor or an array."""

    def note_range(self, array: Any, low: int, high: int, other: int) -> None:
        """Note that code needs integers from ``low`` to below ``high``, or ``other``; it has checked them."""

    def number(self, tensor: Any) -> Any:
        """Return the element of a tensor as a number whose later values follow from those of the tensor."""

    def number_at(self, table: dict[str, Any], key: str) -> Any:
        """Return an option, which may be another number at each call."""

    def run_apart(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Call a function that computes options."""


#: Observers by thread; nearly always empty, so that a read pays for one truth test.
VALUE_OBSERVERS: Final[dict[int, ValueObserver]] = by_thread({})


def is_exporting() -> bool:
    """Whether a run of this thread is captured for an exported program."""
    return bool(VALUE_OBSERVERS) and getattr(VALUE_OBSERVERS.get(get_ident()), "exports", False)


def note_read(source: Any) -> None:
    """Tell this thread's observer, if any, that elements of ``source`` are read."""
    observer = VALUE_OBSERVERS.get(get_ident()) if VALUE_OBSERVERS else None
    if observer is not None:
        observer.note_read(source)


def number_of(tensor: Any) -> Any:
    """Return the only element of a tensor: a number, or a symbolic number while a run of this thread is captured.

    Callers do nothing but arithmetic and comparisons with it, and pass the outcome to operators.
    """
    observer = VALUE_OBSERVERS.get(get_ident()) if VALUE_OBSERVERS else None
    return tensor.item() if observer is None else observer.number(tensor)


def number_at(table: dict[str, Any], key: str) -> Any:
    """Return an option: a symbolic number while a run of this thread is captured, if it changes from call to call.

    Callers do with it what those of ``number_of`` do.
    """
    observer = VALUE_OBSERVERS.get(get_ident()) if VALUE_OBSERVERS else None
    return table[key] if observer is None else observer.number_at(table, key)


def at_least(low: Any, number: Any) -> Any:
    """Return ``max(low, number)``, a symbolic number if ``number`` is one."""
    return number.bounded("max", low) if hasattr(number, "bounded") else max(low, number)


def at_most(high: Any, number: Any) -> Any:
    """Return ``min(high, number)``, a symbolic number if ``number`` is one."""
    return number.bounded("min", high) if hasattr(number, "bounded") else min(high, number)


def run_apart(function: Callable[..., Any], *args: Any) -> Any:
    """Call a function that computes options from its own state and from options, and touches no tensor.

    A graph does not contain the call: the function runs again behind each call of the graph.
    """
    observer = VALUE_OBSERVERS.get(get_ident()) if VALUE_OBSERVERS else None
    return function(*args) if observer is None else observer.run_apart(function, args)


@contextmanager
def checked_by_range(array: Any, low: int, high: int, other: int) -> Iterator[None]:
    """Check elements in the block that follow from those of ``array``: they pass if these lie in the range.

    This thread's observer learns about the range instead of the checks.
    """
    with unobserved():
        yield
    observer = VALUE_OBSERVERS.get(get_ident()) if VALUE_OBSERVERS else None
    if observer is not None:
        observer.note_range(array, low, high, other)


@contextmanager
def unobserved() -> Iterator[None]:
    """Read elements in the block without telling this thread's observer; the caller tells it what it relies on."""
    me = get_ident()
    observer = VALUE_OBSERVERS.pop(me, None) if VALUE_OBSERVERS else None
    try:
        yield
    finally:
        if observer is not None:
            VALUE_OBSERVERS[me] = observer
