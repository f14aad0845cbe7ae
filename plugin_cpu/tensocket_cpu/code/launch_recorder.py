"""The recorder of launches: what it saw is launched again without the steps in between.

While a thread records, executables note which kernels they call with which arguments. Code that depends on values in
any other way calls ``forbid_replay``. Arrays that kernels read and no kernel wrote are operands, or were declared with
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
class LaunchRecorder:
    """The launches of one thread.

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


#: Recorders by thread, while they record; empty nearly always, so that launches pay one truth test.
RECORDERS: Final[dict[int, LaunchRecorder]] = by_thread({})


def record_launches(function: Callable[[], T]) -> tuple[T, LaunchRecorder]:
    """Call a function; return its result and its launches.

    A recording inside of another one takes calls from it, so that the outer recorder is not whole.
    """
    me = get_ident()
    outer = RECORDERS.get(me)
    recorder = RECORDERS[me] = LaunchRecorder()
    try:
        return function(), recorder
    finally:
        if outer is None:
            del RECORDERS[me]
        else:
            outer.whole = False
            RECORDERS[me] = outer


def note(entry: Any, arrays: Sequence[Any], written: Sequence[bool], args: bytes, count: int, divided: bool) -> None:
    """Write a call of ``entry(args, 0, count)``, whose first slots are ``arrays``, to this thread's recorder."""
    recorder = RECORDERS.get(get_ident())
    if recorder is not None:
        recorder.divided |= divided
        recorder.calls.append(Call(entry, tuple(arrays), written, args[8 * len(arrays):], count))


def limit(array: Any, low: int, high: int, other: int, checked: bool = True) -> None:
    """Write to this thread's recorder what is known of an array."""
    recorder = RECORDERS.get(get_ident())
    if recorder is not None:
        recorder.limits.append(Limit(array, low, high, other, checked))


def constant(array: Any) -> None:
    """Write to this thread's recorder that an array follows from shapes and arguments; nobody writes to it."""
    recorder = RECORDERS.get(get_ident())
    if recorder is not None:
        recorder.constants.append(array)


def guard(array: Any) -> None:
    """Let only kernels write to a new array while this thread records: what NumPy wrote would be missing later."""
    if get_ident() in RECORDERS:
        array.flags.writeable = False


def expect_zero(array: Any) -> None:
    """Write to this thread's recorder that code looks whether an element that kernels wrote is zero.

    What is recorded is right where all of the element's bits are zero.
    """
    recorder = RECORDERS.get(get_ident()) if RECORDERS else None
    if recorder is not None:
        recorder.zeros.append((array, len(recorder.calls), not any(array.tobytes())))


def forbid_replay() -> None:
    """Say that launches depend on values, so that nobody may replay them."""
    recorder = RECORDERS.get(get_ident())
    if recorder is not None:
        recorder.whole = False
