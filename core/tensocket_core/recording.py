"""Features that make recording more than storing edges and values.

Hooks on saved tensors, anomaly mode and streams other than the default are rare. While any thread of the process uses
one of them, ``RECORDING_SLOW_PATHS`` holds an entry; without them, recording pays for one truth test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

#: One entry per reason.
RECORDING_SLOW_PATHS: Final[list[object]] = []
#: One entry for each replaced kernel of a built-in operator or of a whole layer. While it has entries, the engine
#: computes gradients by calling operators.
OVERRIDDEN_KERNELS: Final[list[object]] = []


class SlowPathReason:
    """An entry of ``RECORDING_SLOW_PATHS`` with the lifetime of this object."""

    __slots__ = ()

    def __init__(self) -> None:
        RECORDING_SLOW_PATHS.append(None)

    # ``pop`` is bound early: at exit, the module may disappear before the last entry.
    def __del__(self, pop: Callable[[], Any] = RECORDING_SLOW_PATHS.pop) -> None:
        pop()
