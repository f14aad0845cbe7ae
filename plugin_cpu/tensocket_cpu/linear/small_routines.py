"""Calls of LAPACK's routines for one small matrix: the memory that they take, and the checks of what they report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tensocket_plugins.contract.launch_recorder import expect_zero, is_recording, outside_recording

from .batches import Argument, BatchCaller
from .workspaces import Workspace, Workspaces

Array = NDArray[Any]

#: Elements up to which a matrix is small; above, the routine takes longer than its arguments.
SMALL: Final = 1024
#: LAPACK's letters of the dtypes of matrices.
LETTERS: Final = {"f": "s", "d": "d"}
#: The most columns that LAPACK works on at once.
COLUMNS: Final = 64


def is_small(matrix: Array) -> bool:
    """Whether small routines serve a matrix."""
    return (matrix.ndim == 2 and 0 < matrix.size <= SMALL and matrix.dtype.char in LETTERS and matrix.dtype.isnative
            and matrix.flags.aligned)


def passed(status: Array) -> bool:
    """Whether a number that a routine or a copy reported is zero; replays of a recording repeat the test."""
    if is_recording():
        expect_zero(status)
    return not status.item()


def is_refused(passes: bool) -> bool:
    """Whether to take another branch after a test; a recording is void then, and goes on with any results."""
    return not passes and not is_recording()


def check(passes: bool, message: str, kind: type[np.linalg.LinAlgError] = np.linalg.LinAlgError) -> None:
    """Raise LinAlgError, or one of its kinds, if a test failed."""
    if is_refused(passes):
        raise kind(message)


class SmallRoutines:
    """The memory and the calls of routines for matrices that are small.

    Args:
        address: Returns the address of a routine by name; 0 if it is missing.
        caller: Prepares the calls.
    """

    def __init__(self, address: Callable[[str], int], caller: BatchCaller) -> None:
        self._address = address
        self._caller = caller
        self._move = caller.move
        self._spaces = Workspaces()

    def _requested(self, call: Callable[[Array, int], tuple[str | Argument, ...]], char: str) -> Array | None:
        """Return the memory that a routine requests if it is called with a size of -1."""
        number = np.zeros(1, char)
        with outside_recording():
            space = self._workspace((), call(number, -1))
            if space is None:
                return None
            space.steps[0]()
        return np.empty(int(number[0]), char)

    def _workspace(self, arrays: tuple[Array, ...], *calls: tuple[Any, ...]) -> Workspace | None:
        """Return a workspace with calls, each a routine's name and its arguments; None if one cannot be prepared."""
        steps = []
        for name, *args in calls:
            address = self._address(name)
            step = self._caller.prepare(address, *args) if address and self._move.work() else None
            if step is None:
                return None
            steps.append(step)
        return Workspace(arrays, tuple(steps))

    def _moved(self, shape: tuple[int, ...], dtype: Any, source: Array, *band: int, unit: bool = False) -> Array:
        """Return a new array with the elements of another one; see ``Moves``."""
        made = np.empty(shape, dtype)
        self._move(made, source, *band, unit=unit)
        return made


def number() -> Array:
    """Return memory for what a routine reports."""
    return np.zeros((), np.int64)
