"""Averages of the parameters of all processes; those of the only process are their own average."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from tensocket.distributed.distributed_c10d import _member
from tensocket.errors import ArgumentError

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """A rule for when to average.

    Args:
        process_group: The group; all processes by default.

    Raises:
        ProcessGroupError: No group is initialised.
    """

    def __init__(self, process_group: Any = None) -> None:
        self.process_group = _member(process_group, type(self).__name__)
        self.step = 0

    @abstractmethod
    def average_parameters(self, params: Iterable[Any]) -> None:
        """Take a step, in which parameters may be averaged."""


class PeriodicModelAverager(ModelAverager):
    """Average after every ``period`` steps.

    Args:
        period: Number of steps.
        warmup_steps: Number of first steps without an average.
        process_group: The group; all processes by default.

    Raises:
        ArgumentError: ``period`` is not positive, or ``warmup_steps`` is negative.
        ProcessGroupError: No group is initialised.
    """

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ArgumentError("PeriodicModelAverager", f"warmup_steps={warmup_steps}", "Arg ``warmup_steps`` must be "
                                "a non-negative number.", "pass 0 or more")
        if period < 1:
            raise ArgumentError("PeriodicModelAverager", f"period={period}", "Arg ``period`` must be a positive value.",
                                "pass 1 or more")
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count the step; the average of one process's parameters is what they are."""
        self.step += 1
