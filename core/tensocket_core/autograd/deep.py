"""Nested backward passes: deep ones continue on new threads, each with its own stack."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ..device import selected_state, thread_streams, use_state, use_streams
from ..dispatch.modes import INHERITED

T = TypeVar("T")

#: Fraction of the interpreter's stack beyond which a pass continues on a new thread. Frames of the program, of hooks
#: and of functions lie between two passes, so the number of passes alone is not a measure.
_FULL: Final = 0.5
#: Stack size of such a thread: CPython needs about half a KiB per frame, calls through C need more.
_STACK: Final = 64 << 20


def stack_is_full() -> bool:
    """Whether this thread has used so much of the interpreter's stack that a nested pass should have its own."""
    try:
        sys._getframe(int(sys.getrecursionlimit() * _FULL))
    except ValueError:
        return False
    return True


def in_new_thread(function: Callable[[], T]) -> T:
    """Call a function on a new thread, under this thread's modes, and wait for it."""
    states = [dict(state.__dict__) for state in INHERITED]
    streams, default = thread_streams(), selected_state()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        for state, values in zip(INHERITED, states, strict=True):
            state.__dict__.update(values)
        use_state(default)
        try:
            use_streams(streams)
            results.append(function())
        except BaseException as error:
            errors.append(error)

    before = threading.stack_size(_STACK)
    try:
        thread: Any = threading.Thread(target=run, name="tensocket backward")
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    if errors:
        # The traceback of an error holds this frame, so the frame must not hold the error: only the garbage collector
        # would free the cycle, and with it the modes that frames of the pass hold.
        raise errors.pop()
    return results[0]
