"""Recording what is launched, so that it can be launched again without the steps in between.

While a tape is on, executables write to it which kernels they call with which arguments. What depends on values says so
with ``refuse``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Final, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """A kernel's call.

    Attributes:
        entry: The compiled kernel.
        arrays: What stands in the first slots.
        written: Whether the kernel writes to them.
        words: What stands in the others, packed.
        count: Iterations.
    """

    entry: Any
    arrays: tuple[Any, ...]
    written: Sequence[bool]
    words: bytes
    count: int


@dataclass(frozen=True, slots=True)
class Limit:
    """What was checked of an array: int64 numbers from ``low`` to below ``high``, or ``other``."""

    array: Any
    low: int
    high: int
    other: int


@dataclass(slots=True)
class Tape:
    """What one thread launched.

    Attributes:
        calls: In order.
        limits: What this depends on.
        whole: Whether nothing else happened, as far as is known.
        divided: Whether a kernel may have been divided over threads.
    """

    calls: list[Call] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    whole: bool = True
    divided: bool = False


#: Tapes that are on, by thread; empty nearly always, so that launches pay one truth test.
TAPES: Final[dict[int, Tape]] = {}


def recorded(function: Callable[[], T]) -> tuple[T, Tape]:
    """Call a function; what it returns, and what it launched."""
    tape = TAPES[get_ident()] = Tape()
    try:
        return function(), tape
    finally:
        del TAPES[get_ident()]


def note(entry: Any, arrays: Sequence[Any], written: Sequence[bool], args: bytes, count: int, divided: bool) -> None:
    """Write a call of ``entry(args, 0, count)``, whose first slots are ``arrays``, to this thread's tape."""
    tape = TAPES.get(get_ident())
    if tape is not None:
        tape.divided |= divided
        tape.calls.append(Call(entry, tuple(arrays), written, args[8 * len(arrays):], count))


def limit(array: Any, low: int, high: int, other: int) -> None:
    """Write to this thread's tape what was checked of an array."""
    tape = TAPES.get(get_ident())
    if tape is not None:
        tape.limits.append(Limit(array, low, high, other))


def refuse() -> None:
    """Say that what is launched depends on values."""
    tape = TAPES.get(get_ident())
    if tape is not None:
        tape.whole = False
