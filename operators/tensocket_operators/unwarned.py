"""Blocks that no warning leaves: what warns is not recorded, because each later call has to warn again.

The filters of ``warnings`` belong to all threads, and changing them makes warnings that were given once come again. A
profile function is the thread's own.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class WarnedError(BaseException):
    """Ends a block in which something warns; functions that catch all exceptions do not catch it."""


@contextmanager
def unwarned() -> Iterator[None]:
    """Let the first warning of this thread end the block before it is issued.

    Raises:
        WarnedError: Something warned.
    """
    before = sys.getprofile()
    sys.setprofile(_note)
    try:
        yield
    finally:
        resume = getattr(before, "enable", None)  # a cProfile.Profile is no function
        sys.setprofile(None if resume else before)
        if resume:
            resume()


def _note(frame: FrameType, event: str, value: Any) -> None:
    if value is warnings.warn or (event == "call" and frame.f_code is getattr(warnings.warn, "__code__", None)):
        raise WarnedError
