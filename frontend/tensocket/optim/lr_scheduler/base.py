"""The base class of learning rate schedules."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tensocket.errors import ArgumentError, ArgumentTypeError, MissingOptionError
from tensocket.optim.optimizer import Optimizer, _get_value
from tensocket_operators import Tensor
from tensocket_plugins.contract.value_observers import run_apart

EPOCH_DEPRECATION_WARNING = (
    "scheduler.step() needs no epoch, and giving one is deprecated; where there is a closed form of the schedule, it "
    "is used instead of the step from the epoch before")


def apart(step: Callable[..., None]) -> Callable[..., None]:
    """Let a step of a schedule run apart from graphs: it computes rates, and touches no tensor but rates."""
    @functools.wraps(step)
    def called(self: LRScheduler, epoch: float | None = None) -> None:
        run_apart(step, self, epoch)

    return called


class LRScheduler:
    """A schedule, which sets ``lr`` of every group of an optimizer.

    A subclass defines ``get_lr``; it may define ``_get_closed_form_lr``, which computes the rates of any epoch.

    Args:
        optimizer: The optimizer; its groups store the initial rate as ``initial_lr``.
        last_epoch: The epoch to continue from; -1 to start.

    Attributes:
        base_lrs: The initial rates.
        last_epoch: The epoch of the current rates.

    Raises:
        ArgumentTypeError: ``optimizer`` is not an optimizer.
        MissingOptionError: ``last_epoch`` is not -1, but a group has no ``initial_lr``.
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(type(self).__name__, optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copy_rate(group["lr"]))
            elif "initial_lr" not in group:
                raise MissingOptionError(type(self).__name__, f"last_epoch={last_epoch}",
                                         f"group {number} of the optimizer has no initial_lr",
                                         "load the optimizer's state first, or start with last_epoch=-1")
        self.base_lrs: list[Any] = [copy_rate(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self._is_initial = self._get_lr_called_within_step = False
        self._last_lr: list[Any] = []
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[Any]:
        """Return the rates for ``last_epoch``, computed from those of the previous epoch if that is simpler."""
        raise NotImplementedError

    def get_last_lr(self) -> list[Any]:
        """Return the rates that were set last."""
        return self._last_lr

    @apart
    def step(self, epoch: int | None = None) -> None:
        """Advance to the next epoch, or to the given one (deprecated)."""
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=4)
        self._update_lr(epoch)

    def _check_order(self) -> None:
        """Warn before the second step if the optimizer has made none."""
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warnings.warn("optimizer.step() was replaced by another function after the schedule was made, so that it "
                          "is not known whether optimizer.step() is called before scheduler.step()", UserWarning,
                          stacklevel=5)
        elif not self.optimizer._opt_called:
            warnings.warn("scheduler.step() was called before optimizer.step(), so the first value of the schedule was "
                          "not used; call optimizer.step() first", UserWarning, stacklevel=5)

    def _update_lr(self, epoch: int | None = None) -> None:
        self._get_lr_called_within_step = True
        try:
            closed: Callable[[], list[Any]] | None = getattr(self, "_get_closed_form_lr", None)
            self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
            values = self.get_lr() if epoch is None or closed is None else closed()
        finally:
            self._get_lr_called_within_step = False
        set_rates(self.optimizer, values)
        self._last_lr = rates_of(self.optimizer)

    def _rates(self) -> list[Any]:
        """Return the current rates; outside of ``step``, ``get_lr`` has no epoch to compute for, so this warns."""
        if not self._get_lr_called_within_step:
            warnings.warn("get_lr() is for step(); get_last_lr() has the rates that are set", UserWarning, stacklevel=3)
        return rates_of(self.optimizer)

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        self.__dict__.update(state_dict)


def check_optimizer(name: str, optimizer: Any) -> None:
    """Check that a schedule was given an optimizer."""
    if not isinstance(optimizer, Optimizer):
        raise ArgumentTypeError(name, f"a {type(optimizer).__name__}", "a schedule changes the rates of an Optimizer",
                                "pass the optimizer")


def check_count(name: str, option: str, value: Any) -> None:
    """Check that an option is a positive int."""
    if not isinstance(value, int) or value < 1:
        raise ArgumentError(name, f"{option}={value}", f"{option} is a positive int", "pass 1 or more")


def rates_of(optimizer: Optimizer) -> list[Any]:
    """Return the rates of all groups; tensors as copies."""
    return [copy_rate(group["lr"]) for group in optimizer.param_groups]


def set_rates(optimizer: Optimizer, values: Iterable[Any]) -> None:
    """Set the rates of all groups, in place if they are tensors."""
    for group, value in zip(optimizer.param_groups, values, strict=True):
        set_option(group, "lr", value)


def set_option(group: dict[str, Any], name: str, value: Any) -> None:
    """Set an option of a group, in place if it is a tensor."""
    if isinstance(group[name], Tensor):
        group[name].fill_(_get_value(value))
    else:
        group[name] = value


def per_group(name: str, option: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """Return one value for each group.

    Raises:
        ArgumentError: Their number differs from that of the groups.
    """
    groups = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [copy_rate(value) for _ in range(groups)]
    if len(value) != groups:
        raise ArgumentError(name, f"{len(value)} values of {option} for {groups} groups",
                            "there is one value, or one for each group", "pass as many values as groups")
    return [copy_rate(one) for one in value]


def functions_of(name: str, optimizer: Optimizer,
                 given: Callable[[int], float] | Sequence[Callable[[int], float]]) -> list[Callable[[int], float]]:
    """Return one function for each group.

    Raises:
        ArgumentError: Their number differs from that of the groups.
    """
    groups = len(optimizer.param_groups)
    functions = list(given) if isinstance(given, Sequence) else [given] * groups
    if len(functions) != groups:
        raise ArgumentError(name, f"{len(functions)} functions for {groups} groups",
                            "there is one function, or one for each group", "pass as many functions as groups")
    return functions


def state_of_function(function: Any) -> dict[str, Any] | None:
    """Return the attributes of a callable object; None for functions, which cannot be saved."""
    return None if not hasattr(function, "__dict__") or hasattr(function, "__code__") else dict(vars(function))


def copy_rate(rate: Any) -> Any:
    """Return the value of a rate, which later changes of the caller's tensor do not affect."""
    return rate.clone() if isinstance(rate, Tensor) else rate
