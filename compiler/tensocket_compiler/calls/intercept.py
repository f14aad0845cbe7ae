"""Calls that a compiled function takes over while it runs as Python: those of modules and of optimizers' steps.

The front end asks here. Its modules look at ``INTERCEPTED`` only, which is empty unless a compiled function runs in
parts or somebody registered hooks for all modules; so a call outside of compiled functions pays nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any, Final

#: ``take(owner, call, args, kwargs)`` calls ``call(*args, **kwargs)`` of a module or an optimizer, or a graph of it. A
#: last argument returns the tensors whose gradients are in ``args``, although the call reads them from the tensors.
Take = Callable[..., Any]


class _Table(dict[int, None]):
    """Numbers of hooks of all modules, and of threads that take over calls. Guards do not watch it."""


class _Thread(threading.local):
    """State of a thread.

    Attributes:
        take: Gets the calls of modules and optimizers' steps; None if nothing does.
        depth: Number of functions that run in parts, one inside another.
    """

    take: Take | None = None
    depth: int = 0


#: Empty if modules may call ``forward`` at once.
INTERCEPTED: Final = _Table()
THREAD: Final = _Thread()
#: Threads in which functions run as Python and nothing else, because they are observed, captured or not to be compiled.
ALONE: Final[dict[int, None]] = {}


def run_with(take: Take | None, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function while ``take`` gets the calls of modules and optimizers' steps in this thread."""
    before, number = THREAD.take, ~get_ident()
    outermost = number not in INTERCEPTED
    THREAD.take = take
    THREAD.depth += 1
    INTERCEPTED[number] = None
    try:
        return function(*args, **kwargs)
    finally:
        THREAD.take = before
        THREAD.depth -= 1
        if outermost:
            del INTERCEPTED[number]


@contextmanager
def alone() -> Iterator[None]:
    """Run a block as Python and nothing else: no part of it, and no compiled function in it, is a graph."""
    before, me = THREAD.take, get_ident()
    outermost = me not in ALONE
    THREAD.take = None
    ALONE[me] = None
    try:
        yield
    finally:
        THREAD.take = before
        if outermost:
            del ALONE[me]


def is_alone() -> bool:
    """Whether functions run as Python and nothing else in this thread."""
    return get_ident() in ALONE
