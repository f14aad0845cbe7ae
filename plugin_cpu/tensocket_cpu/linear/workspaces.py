"""Memory and packed arguments of LAPACK's routines, kept for single small matrices of one shape.

A routine takes its arguments by reference. To allocate them and look their addresses up takes longer than the routine
needs for a small matrix, so a workspace does it once: a call copies the matrix in, runs the routines and copies the
results out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from numpy.typing import NDArray

from tensocket_plugins.contract.launch_recorder import is_recording
from tensocket_plugins.kit.bounded import BoundedCache

Array = NDArray[Any]

#: The most shapes with workspaces; a workspace of 1024 elements in double precision takes up to 40 KiB.
_SHAPES: Final = 128


class Workspace:
    """Arrays for the arguments of routines, and the calls.

    Attributes:
        arrays: The arrays that routines read and write.
        steps: Functions without arguments, each of which calls one routine.
    """

    __slots__ = ("arrays", "steps")

    def __init__(self, arrays: tuple[Array, ...], steps: tuple[Callable[[], object], ...]) -> None:
        self.arrays = arrays
        self.steps = steps


class Workspaces:
    """Workspaces that no thread uses, by operator, dtype and sizes; a thread that finds none makes one."""

    def __init__(self) -> None:
        self._free: BoundedCache[Any, list[Workspace]] = BoundedCache(_SHAPES)

    def take(self, key: Any, make: Callable[[], Workspace | None]) -> Workspace | None:
        """Return a workspace for the caller alone, who gives it back; None if ``make`` cannot make one.

        A recording has its own memory, so its workspaces are new.
        """
        if is_recording():
            return make()
        try:
            return self._free[key].pop()
        except (KeyError, IndexError):
            return make()

    def give_back(self, key: Any, workspace: Workspace) -> None:
        """Keep a workspace for the next call."""
        if is_recording():
            return
        free = self._free.get(key)
        if free is None:
            free = self._free[key] = []
        if not free:
            free.append(workspace)
