"""Schedules that change an optimizer's learning rates from epoch to epoch."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tensocket.errors import ArgumentError, ArgumentTypeError

from .optimizer import Optimizer


class LRScheduler:
    """Sets ``lr`` of every group of an optimizer.

    Args:
        optimizer: Its groups remember the rate at the start as ``initial_lr``.
        last_epoch: The epoch to go on from; -1 to start.

    Raises:
        ArgumentTypeError: ``optimizer`` is no optimizer.
        ArgumentError: ``last_epoch`` is not -1, but a group has no ``initial_lr``.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        name = type(self).__name__
        if not isinstance(optimizer, Optimizer):
            raise ArgumentTypeError(name, f"a {type(optimizer).__name__}", "a schedule changes the rates of an "
                                    "Optimizer", "pass the optimizer")
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise ArgumentError(name, f"last_epoch={last_epoch}", f"group {number} of the optimizer has no "
                                    "initial_lr", "load the optimizer's state first, or start with last_epoch=-1")
        self.optimizer = optimizer
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch + 1
        self._started = False
        self._set(self.get_lr())

    def get_lr(self) -> list[float]:
        """The rates for ``last_epoch``, from those of the epoch before where that is shorter."""
        raise NotImplementedError

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def step(self) -> None:
        """Go to the next epoch."""
        if not self._started and not self.optimizer._opt_called:
            warnings.warn("scheduler.step() was called before optimizer.step(), so the first value of the schedule was "
                          "not used; call optimizer.step() first", UserWarning, stacklevel=2)
        self._started = True
        self.last_epoch += 1
        self._set(self.get_lr())

    def _set(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    def _rates(self) -> list[float]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer (and functions, which a file cannot hold)."""
        return {name: value for name, value in vars(self).items() if name not in ("optimizer", "lr_lambdas")}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the result of ``state_dict``."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The initial rate times a function of the epoch.

    Args:
        optimizer: The optimizer.
        lr_lambda: One function for all groups, or one for each.
        last_epoch: The epoch to go on from.

    Raises:
        ArgumentError: There are not as many functions as groups.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        groups = len(optimizer.param_groups)
        self.lr_lambdas = [lr_lambda] * groups if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != groups:
            raise ArgumentError("LambdaLR", f"{len(self.lr_lambdas)} functions for {groups} groups",
                                "there is one function, or one for each group", "pass as many functions as groups")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates for ``last_epoch``."""
        return [base * factor(self.last_epoch) for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """Multiplies the rates by ``gamma`` every ``step_size`` epochs."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size < 1:
            raise ArgumentError("StepLR", f"step_size={step_size}", "step_size is at least 1", "pass a positive int")
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates for ``last_epoch``."""
        now = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return [rate * self.gamma if now else rate for rate in self._rates()]


class ExponentialLR(LRScheduler):
    """Multiplies the rates by ``gamma`` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates for ``last_epoch``."""
        return [rate * self.gamma if self.last_epoch > 0 else rate for rate in self._rates()]


class CosineAnnealingLR(LRScheduler):
    """Takes the rates to ``eta_min`` along half a cosine of ``T_max`` epochs, and back in the next ``T_max``.

    Raises:
        ArgumentError: ``T_max`` is less than 1.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max < 1:
            raise ArgumentError("CosineAnnealingLR", f"T_max={T_max}", "T_max is at least 1", "pass a positive number")
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates for ``last_epoch``, from those before, so that other schedules can act on the same optimizer."""
        rates, epoch, period = self._rates(), self.last_epoch, self.T_max
        if epoch == 0:
            return rates
        if not self._started:
            factor = (1 + math.cos(math.pi * epoch / period)) / 2
            return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]
        if (epoch - 1 - period) % (2 * period) == 0:
            # The epoch before was the bottom of the curve, from where no factor leads up.
            rise = (1 - math.cos(math.pi / period)) / 2
            return [rate + (base - self.eta_min) * rise for base, rate in zip(self.base_lrs, rates, strict=True)]
        factor = (1 + math.cos(math.pi * epoch / period)) / (1 + math.cos(math.pi * (epoch - 1) / period))
        return [self.eta_min + (rate - self.eta_min) * factor for rate in rates]


__all__ = [
    "CosineAnnealingLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "StepLR",
]
