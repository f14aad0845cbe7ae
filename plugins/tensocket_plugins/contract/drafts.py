"""Threads whose kernels run only a few times, so that compiling them quickly matters more than how fast they run.

While a compiler records a run, operators run one by one that later calls run as parts of larger kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Final

from .forks import by_thread

#: Threads inside of ``drafting``, with the depth; nearly always empty.
_DEPTHS: Final[dict[int, int]] = by_thread({})


@contextmanager
def drafting() -> Iterator[None]:
    """Let kernels that this thread needs for the first time in the block be drafts; see ``DraftPlan``."""
    me = get_ident()
    depth = _DEPTHS.get(me, 0)
    _DEPTHS[me] = depth + 1
    try:
        yield
    finally:
        if depth:
            _DEPTHS[me] = depth
        else:
            _DEPTHS.pop(me, None)


def is_drafting() -> bool:
    """Whether this thread is in such a block."""
    return get_ident() in _DEPTHS if _DEPTHS else False
