"""Backward passes within backward passes: deep ones go on in threads of their own, each with a stack of its own."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar

from ..device import selected_entry, thread_streams, use_entry, use_streams
from ..dispatch.modes import INHERITED

T = TypeVar("T")

#: Share of the interpreter's stack beyond which a pass goes on in a new thread. The frames of the program, of hooks and
#: of functions lie between two passes, so that their number alone says too little.
_FULL: Final = 0.5
#: Memory for the stack of such a thread: CPython needs about half a KiB for a frame, calls through C more.
_STACK: Final = 64 << 20


def stack_is_full() -> bool:
    """Whether this thread has used so much of the interpreter's stack that a nested pass had better have its own."""
    try:
        sys._getframe(int(sys.getrecursionlimit() * _FULL))
    except ValueError:
        return False
    return True


def in_new_thread(function: Callable[[], T]) -> T:
    """Call a function in a thread of its own, under this thread's modes, and wait for it."""
    states = [dict(state.__dict__) for state in INHERITED]
    streams, default = thread_streams(), selected_entry()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        for state, values in zip(INHERITED, states, strict=True):
            state.__dict__.update(values)
        use_entry(default)
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
        # The traceback of an error holds this frame, which must not hold the error: nobody but the garbage collector
        # would free the cycle, and with it the modes that frames of the pass hold.
        raise errors.pop()
    return results[0]
