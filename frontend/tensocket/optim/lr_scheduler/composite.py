"""Schedules that consist of other schedules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from tensocket.errors import ArgumentError
from tensocket.optim.optimizer import Optimizer

from .base import LRScheduler, apart, rates_of, set_rates
from .plateau import ReduceLROnPlateau


class _Several(LRScheduler):
    """A schedule that holds others; their states are part of its state."""

    _schedulers: list[LRScheduler]

    def _take(self, optimizer: Optimizer | None, schedulers: Sequence[LRScheduler]) -> None:
        name = type(self).__name__
        if not schedulers:
            raise ArgumentError(name, "no schedules", "there is at least one schedule", "pass some")
        self.optimizer = schedulers[0].optimizer if optimizer is None else optimizer
        for index, scheduler in enumerate(schedulers):
            if scheduler.optimizer is not self.optimizer:
                raise ArgumentError(name, f"schedule {index}, a {type(scheduler).__name__}",
                                    "all schedules are of one optimizer", "make them for the same optimizer")
        self._schedulers = list(schedulers)

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer, with the states of the schedules."""
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Several):
    """A sequence of schedules.

    Args:
        optimizer: The optimizer.
        schedulers: Schedules of that optimizer.
        milestones: First epoch of the second and each later schedule.
        last_epoch: The epoch to continue from.

    Raises:
        ArgumentError: The schedules belong to several optimizers or need a metric, or their number does not fit.
    """

    def __init__(self, optimizer: Optimizer, schedulers: list[LRScheduler], milestones: list[int],
                 last_epoch: int = -1) -> None:
        self._take(optimizer, schedulers)
        for index, scheduler in enumerate(schedulers):
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ArgumentError("SequentialLR", f"schedule {index}, a ReduceLROnPlateau",
                                    "the schedules of SequentialLR need no metric", "step it on its own")
        if len(milestones) != len(schedulers) - 1:
            raise ArgumentError("SequentialLR", f"{len(schedulers)} schedules and {len(milestones)} milestones",
                                "there is one milestone less than schedules", "pass where each but the first begins")
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        # The constructors have set the rates of first epochs: undo all of them and start the first schedule.
        set_rates(optimizer, [group["initial_lr"] for group in optimizer.param_groups])
        for scheduler in schedulers:
            _undo(scheduler)
        _start(schedulers[0])
        self._last_lr = schedulers[0].get_last_lr()

    @apart
    def step(self, epoch: int | None = None) -> None:
        """Advance to the next epoch; ``epoch`` is not supported.

        Raises:
            ArgumentError: ``epoch`` is given.
        """
        if epoch is not None:
            raise ArgumentError("SequentialLR.step", f"epoch={epoch}", "composed schedules go one epoch at a time",
                                "call step()")
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            _restart(scheduler)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_Several):
    """Several schedules at once; each continues from the rates that the previous one has set.

    Args:
        schedulers: Schedules of one optimizer.
        optimizer: Their optimizer.

    Raises:
        ArgumentError: The list is empty, or the schedules belong to several optimizers.
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._take(optimizer, schedulers)
        self._last_lr = rates_of(self.optimizer)

    @apart
    def step(self, epoch: int | None = None) -> None:
        """Advance to the next epoch; ``epoch`` is not supported.

        Raises:
            ArgumentError: ``epoch`` is given.
        """
        if epoch is not None:
            raise ArgumentError("ChainedScheduler.step", f"epoch={epoch}", "composed schedules go one epoch at a time",
                                "call step()")
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = rates_of(self.optimizer)


def _undo(scheduler: LRScheduler) -> None:
    if isinstance(scheduler, ChainedScheduler):
        for inner in scheduler._schedulers:
            _undo(inner)
    elif isinstance(scheduler, SequentialLR):
        scheduler.last_epoch -= 1
        _undo(scheduler._schedulers[0])
    else:
        scheduler.last_epoch -= 1


def _start(scheduler: LRScheduler) -> None:
    """Set the rates of the first epoch."""
    if isinstance(scheduler, ChainedScheduler):
        for inner in scheduler._schedulers:
            _start(inner)
        scheduler._last_lr = rates_of(scheduler.optimizer)
    elif isinstance(scheduler, SequentialLR):
        scheduler.last_epoch += 1
        _start(scheduler._schedulers[0])
        scheduler._last_lr = scheduler._schedulers[0].get_last_lr()
    else:
        scheduler._initial_step()


def _restart(scheduler: LRScheduler) -> None:
    """Begin with the rates of epoch 0, regardless of the current rates."""
    if isinstance(scheduler, _Several):
        _start(scheduler)
    else:
        scheduler._update_lr(0)
