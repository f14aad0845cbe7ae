"""Features that make recording more than storing edges and values.

Hooks on saved tensors, anomaly mode and streams other than the default are rare. While any thread of the process uses
one of them, ``SPECIAL`` holds an entry; without them, recording pays for one truth test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

#: One entry per reason.
SPECIAL: Final[list[object]] = []
#: One entry for each replaced kernel of a built-in operator or of a whole layer. While it has entries, the engine
#: computes gradients by calling operators.
REPLACED: Final[list[object]] = []


class Reason:
    """An entry of ``SPECIAL`` with the lifetime of this object."""

    __slots__ = ()

    def __init__(self) -> None:
        SPECIAL.append(None)

    # ``pop`` is bound early: at exit, the module may disappear before the last entry.
    def __del__(self, pop: Callable[[], Any] = SPECIAL.pop) -> None:
        pop()
