"""The surroundings of a compilation: a line on the terminal if it takes long, and the garbage collector pauses."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from .events import name_of

#: Seconds after which a line appears; shorter waits would only flicker.
DELAY: Final = 1.0


@contextmanager
def shown(function: Any) -> Iterator[None]:
    """Show which function is being compiled in a block, if that takes long and a terminal shows standard error."""
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield
        return
    text = f"compiling {name_of(function)}"[:78]
    written = threading.Event()

    def write() -> None:
        written.set()
        stream.write(f"\r{text}")
        stream.flush()

    timer = threading.Timer(DELAY, write)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
        if written.is_set():
            stream.write("\r" + " " * len(text) + "\r")
            stream.flush()


@contextmanager
def paused_collection() -> Iterator[None]:
    """Pause the garbage collector in a block that makes many objects, which reference counts free again.

    The objects of a compilation would start a collection of all generations, which visits every imported module:
    benchmarks/cold.py, 50 of 180 ms.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
