"""Features that make recording more than storing edges and values.

Hooks on saved tensors, anomaly mode and streams other than the default are rare. While any thread of the process uses
one of them, ``SPECIAL`` holds an entry, so that recording pays one truth test where nothing does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

#: One entry per reason.
SPECIAL: Final[list[object]] = []
#: An entry for each kernel of a built-in operator, or of a whole layer, that is replaced: as long as there is one,
#: gradients are computed by calling operators.
REPLACED: Final[list[object]] = []


class Reason:
    """An entry of ``SPECIAL`` that lives as long as this object."""

    __slots__ = ()

    def __init__(self) -> None:
        SPECIAL.append(None)

    # Bound early: at exit, the module may be gone before the last entry is.
    def __del__(self, pop: Callable[[], Any] = SPECIAL.pop) -> None:
        pop()
