"""The garbage collector during compilation."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


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
