"""The reference interpreter on host arrays, as a substitute for a program that does not compile."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any

from ..contract.errors import KernelError
from ..ir.interpreter import interpret
from ..ir.nodes import Program
from .disk_cache import BuildStats


def note_failure(stats: BuildStats | None, device: str, program: Program, error: KernelError) -> None:
    """Record why a program failed to compile; warn at a device's first failure.

    Args:
        stats: The device's counts; without them, every failure warns.
        device: The device's name.
        program: The program that did not compile.
        error: The reason.
    """
    first = stats is None or not stats.failures
    if stats is not None:
        stats.failures[program.name] = str(error)
    if first:
        warnings.warn(f"{error}; programs that {device} does not compile are interpreted or left to NumPy; "
                      f"build_stats({device!r}).failures has all reasons", RuntimeWarning, stacklevel=2)


def interpreted(program: Program) -> Callable[..., None]:
    """Return a verified program as ``run(buffers, scalars, stream)``."""

    def run(buffers: Sequence[Any], scalars: Sequence[int | float], stream: Any) -> None:
        # The interpreter writes to flat views, which NumPy's 0-dimensional arrays do not have.
        interpret(program, [x if x.ndim else x.reshape(1) for x in buffers], scalars)

    return run


def interpreted_list(program: Program) -> Callable[..., None]:
    """Return a verified program as ``run(buffers, scalars, stream)`` with a column of arguments for each parameter."""
    once = interpreted(program)

    def run(buffers: Sequence[Sequence[Any]], scalars: Sequence[Iterable[int | float]], stream: Any) -> None:
        numbers = zip(*scalars, strict=True) if scalars else repeat(())
        for arrays, given in zip(zip(*buffers, strict=True), numbers, strict=False):
            once(arrays, given, stream)

    return run
