"""Recording what is launched, so that it can be launched again without the steps in between.

While a tape is on, executables write to it which kernels they call with which arguments. Code that depends on values in
any other way says so with ``refuse``; arrays that kernels read and no kernel wrote are operands, or declared with
``constant``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any, Final, TypeVar

from tensocket_plugins.contract.forks import by_thread

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
    """What is known of an array: whole numbers from ``low`` to below ``high``, or ``other``.

    Attributes:
        array: It.
        low: The smallest number.
        high: The first one that is too large.
        other: A number that is allowed as well.
        checked: Whether the function looked; else whoever calls it sees to it.
    """

    array: Any
    low: int
    high: int
    other: int
    checked: bool = True


@dataclass(slots=True)
class Tape:
    """What one thread launched.

    Attributes:
        calls: In order.
        limits: What this depends on.
        constants: Arrays that depend on shapes and arguments only, as their makers say.
        zeros: Elements that the function read, after so many calls, and whether all of their bits were zero.
        whole: Whether nothing else happened, as far as is known.
        divided: Whether a kernel may have been divided over threads.
    """

    calls: list[Call] = field(default_factory=list)
    limits: list[Limit] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    zeros: list[tuple[Any, int, bool]] = field(default_factory=list)
    whole: bool = True
    divided: bool = False


#: Tapes that are on, by thread; empty nearly always, so that launches pay one truth test.
TAPES: Final[dict[int, Tape]] = by_thread({})


def recorded(function: Callable[[], T]) -> tuple[T, Tape]:
    """Call a function; return its result and what it launched.

    A recording inside of another one takes calls from it, so that the outer tape is not whole.
    """
    me = get_ident()
    outer = TAPES.get(me)
    tape = TAPES[me] = Tape()
    try:
        return function(), tape
    finally:
        if outer is None:
            del TAPES[me]
        else:
            outer.whole = False
            TAPES[me] = outer


def note(entry: Any, arrays: Sequence[Any], written: Sequence[bool], args: bytes, count: int, divided: bool) -> None:
    """Write a call of ``entry(args, 0, count)``, whose first slots are ``arrays``, to this thread's tape."""
    tape = TAPES.get(get_ident())
    if tape is not None:
        tape.divided |= divided
        tape.calls.append(Call(entry, tuple(arrays), written, args[8 * len(arrays):], count))


def limit(array: Any, low: int, high: int, other: int, checked: bool = True) -> None:
    """Write to this thread's tape what is known of an array."""
    tape = TAPES.get(get_ident())
    if tape is not None:
        tape.limits.append(Limit(array, low, high, other, checked))


def constant(array: Any) -> None:
    """Write to this thread's tape that an array follows from shapes and arguments, and that nobody writes to it."""
    tape = TAPES.get(get_ident())
    if tape is not None:
        tape.constants.append(array)


def guard(array: Any) -> None:
    """Let only kernels write to a new array while this thread records: what NumPy wrote would be missing later."""
    if get_ident() in TAPES:
        array.flags.writeable = False


def expect_zero(array: Any) -> None:
    """Write to this thread's tape that code looks whether an element that kernels wrote is zero.

    What is recorded is right where all of the element's bits are zero.
    """
    tape = TAPES.get(get_ident()) if TAPES else None
    if tape is not None:
        tape.zeros.append((array, len(tape.calls), not any(array.tobytes())))


def refuse() -> None:
    """Say that what is launched depends on values."""
    tape = TAPES.get(get_ident())
    if tape is not None:
        tape.whole = False
