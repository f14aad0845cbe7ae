"""Drafts: programs that are needed for the first time while a run is recorded, which will hardly call them again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from tensocket_plugins.contract.drafts import is_drafting
from tensocket_plugins.contract.errors import KernelError
from tensocket_plugins.contract.forks import Rank, held_over_forks
from tensocket_plugins.contract.launch_recorder import is_recording

#: The number of elements of the largest array up to which a draft is faster than to compile a kernel for one call:
#: benchmarks/cold.py, 10 ms for 64 K elements at 150 ns.
_ELEMENTS: Final = 1 << 16
_LOCK: Final = held_over_forks(threading.Lock(), Rank.PROGRAMS)


class Draft:
    """A program as ``run(buffers, scalars, stream)``, which is compiled when a call first needs it.

    Small calls while a run is recorded take a form that is compiled quickly; all others the form for many calls. Both
    return the same bits.

    Args:
        quick: Compiles the program quickly, or returns None.
        full: Compiles it for many calls.
    """

    __slots__ = ("_full", "_make_full", "_make_quick", "_quick")

    def __init__(self, quick: Callable[[], Any], full: Callable[[], Any]) -> None:
        self._make_quick, self._make_full = quick, full
        self._quick: Any = None
        self._full: Any = None

    def __call__(self, buffers: Sequence[Any], scalars: Sequence[int | float], stream: Any) -> None:
        """Run the program."""
        (self._full or self._choose(buffers))(buffers, scalars, stream)

    def _choose(self, buffers: Sequence[Any]) -> Any:
        """Return the form for a call; launches that are noted are those of the form for many calls."""
        small = all(x.size <= _ELEMENTS for x in buffers)
        with _LOCK:
            if small and self._full is None and is_drafting() and not is_recording():
                with suppress(KernelError):  # the other form fails as well, and handles that
                    self._quick = self._quick or self._make_quick()
                if self._quick is not None:
                    return self._quick
            if self._full is None:
                self._full = self._make_full()
            return self._full
