"""The recorder of launches, from which devices make replays.

While a thread records, executables note which kernels they launch with which arrays. Code may declare the values that
its launches rely on (``note_range``) and arrays that do not depend on any values (``note_constant``). Code that copies,
calls a library or branches on other values calls ``forbid_replay``: launches alone would not repeat it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from threading import get_ident
from typing import Any, Final, TypeVar

from .forks import by_thread
from .value_observers import VALUE_OBSERVERS, note_read

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Call:
    """One launch.

    Attributes:
        kernel: The compiled kernel.
        arrays: The arrays that it takes.
        written: Whether it writes to each of them.
        arguments: The rest of the launch, in the backend's own form.
    """

    kernel: Any
    arrays: tuple[Any, ...]
    written: Sequence[bool]
    arguments: Any


@dataclass(frozen=True, slots=True)
class ValueRange:
    """Values of an array on which launches rely.

    Attributes:
        array: Contiguous int64 numbers; integers of any dtype and layout unless checked.
        low: The smallest number.
        high: The first number that is too large.
        other: A number that is allowed as well.
        checked: Whether each replay must compare the elements; otherwise callers guarantee them.
    """

    array: Any
    low: int
    high: int
    other: int
    checked: bool = True


class ReplayForbiddenError(Exception):
    """Raised to end a recording, because the recorded code does more than launch kernels."""


@dataclass(slots=True)
class LaunchRecorder:
    """The launches of one thread.

    Attributes:
        calls: The launches, in order.
        ranges: Values of operands on which the launches rely.
        constants: Arrays that follow from shapes and arguments and that nobody writes to.
        zeros: Elements that code read, the number of launches before that, and whether all of their bits were zero.
        whole: Whether the code only launched kernels, as far as it declares.
        divided: Whether threads may have divided a kernel.
        wants_kernels: Whether operators launch kernels where a host library would serve small arrays.
        rounds_freely: Whether these kernels may round otherwise than the library.
    """

    calls: list[Call] = field(default_factory=list)
    ranges: list[ValueRange] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    zeros: list[tuple[Any, int, bool]] = field(default_factory=list)
    whole: bool = True
    divided: bool = False
    wants_kernels: bool = False
    rounds_freely: bool = False


#: Recorders by thread, while they record; nearly always empty, so that a launch pays for one truth test.
RECORDERS: Final[dict[int, LaunchRecorder]] = by_thread({})


def record_launches(function: Callable[[], T], *, wants_kernels: bool = False, rounds_freely: bool = False
                    ) -> tuple[T, LaunchRecorder]:
    """Call a function; return its result and its launches.

    A recording inside another one takes launches from it, so that the outer recorder is not whole.

    Args:
        function: The function.
        wants_kernels: See ``LaunchRecorder``.
        rounds_freely: See there.

    Raises:
        ReplayForbiddenError: The function does more than launch kernels.
    """
    me = get_ident()
    outer = RECORDERS.get(me)
    recorder = RECORDERS[me] = LaunchRecorder(wants_kernels=wants_kernels, rounds_freely=rounds_freely)
    try:
        return function(), recorder
    finally:
        if outer is None:
            del RECORDERS[me]
        else:
            outer.whole = False
            RECORDERS[me] = outer


def is_recording() -> bool:
    """Whether this thread records."""
    return get_ident() in RECORDERS if RECORDERS else False


def wants_kernels() -> bool:
    """Whether this thread records launches and has no use for results of host libraries."""
    recorder = RECORDERS.get(get_ident()) if RECORDERS else None
    return recorder is not None and recorder.wants_kernels


def may_round_freely() -> bool:
    """Whether kernels of this thread's recording may round otherwise than a host library; see ``LaunchRecorder``."""
    recorder = RECORDERS.get(get_ident()) if RECORDERS else None
    return recorder is not None and recorder.rounds_freely


def note_launch(kernel: Any, arrays: Sequence[Any], written: Sequence[bool], arguments: Any,
                divided: bool = False) -> None:
    """Add a launch to this thread's recorder, if it records."""
    recorder = RECORDERS.get(get_ident())
    if recorder is not None:
        recorder.divided |= divided
        recorder.calls.append(Call(kernel, tuple(arrays), written, arguments))


def note_range(array: Any, low: int, high: int, other: int | None = None, *, checked: bool = True) -> None:
    """Add a ``ValueRange`` to this thread's recorder, if it records; ``other`` is ``low`` unless given."""
    observer = VALUE_OBSERVERS.get(get_ident()) if VALUE_OBSERVERS else None
    if observer is not None and checked:
        observer.note_range(array, low, high, low if other is None else other)
    recorder = RECORDERS.get(get_ident()) if RECORDERS else None
    if recorder is not None:
        recorder.ranges.append(ValueRange(array, low, high, low if other is None else other, checked))


def note_constant(array: Any) -> None:
    """Tell this thread's recorder that an array follows from shapes and arguments; launches may read it."""
    recorder = RECORDERS.get(get_ident()) if RECORDERS else None
    if recorder is not None:
        recorder.constants.append(array)


@contextmanager
def outside_recording() -> Iterator[None]:
    """Run a block outside of this thread's recording, if any."""
    recorder = RECORDERS.pop(get_ident(), None) if RECORDERS else None
    try:
        yield
    finally:
        if recorder is not None:
            RECORDERS[get_ident()] = recorder


def expect_zero(array: Any) -> None:
    """Tell this thread's recorder that code checks whether an element that kernels wrote is zero.

    The recording is valid only if all of the element's bits are zero.
    """
    note_read(array)
    recorder = RECORDERS.get(get_ident()) if RECORDERS else None
    if recorder is not None:
        recorder.zeros.append((array, len(recorder.calls), not any(array.tobytes())))


def takes_other_branch() -> bool:
    """Whether this thread records, and an element that ``expect_zero`` told of is not zero: the recording is void."""
    recorder = RECORDERS.get(get_ident()) if RECORDERS else None
    return recorder is not None and not all(zero for _, _, zero in recorder.zeros)


def forbid_replay() -> None:
    """End this thread's recording, if any: the caller is about to do more than launch kernels.

    Raises:
        ReplayForbiddenError: This thread records.
    """
    recorder = RECORDERS.get(get_ident()) if RECORDERS else None
    if recorder is not None:
        recorder.whole = False
        raise ReplayForbiddenError


def unrecorded(function: Callable[..., T]) -> Callable[..., T]:
    """Return a function that does the same, and ends this thread's recording, if any."""
    @wraps(function)
    def run(*args: Any, **named: Any) -> T:
        if RECORDERS:
            forbid_replay()
        return function(*args, **named)

    return run
