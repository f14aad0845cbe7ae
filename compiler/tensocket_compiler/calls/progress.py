"""A line on the terminal while a graph is being compiled for long."""

from __future__ import annotations

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
