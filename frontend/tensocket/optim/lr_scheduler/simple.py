"""Schedules that multiply the rates by factors."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tensocket.errors import ArgumentError
from tensocket.optim.optimizer import Optimizer

from .base import LRScheduler, check_count, functions_of, state_of_function

Factor = Callable[[int], float]


class _FunctionLR(LRScheduler):
    """A schedule by functions, one for each group. The state contains attributes of callable objects, but not
    functions.
    """

    lr_lambdas: list[Factor]

    def __init__(self, optimizer: Optimizer, lr_lambda: Factor | Sequence[Factor], last_epoch: int = -1) -> None:
        self.optimizer = optimizer
        self.lr_lambdas = functions_of(type(self).__name__, optimizer, lr_lambda)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer and functions."""
        return {**super().state_dict(), "lr_lambdas": [state_of_function(function) for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "lr_lambdas"})
        for function, held in zip(self.lr_lambdas, state_dict["lr_lambdas"], strict=True):
            if held is not None:
                vars(function).update(held)


class LambdaLR(_FunctionLR):
    """A schedule of the initial rate times a function of the epoch.

    Args:
        optimizer: The optimizer.
        lr_lambda: One function for all groups, or one for each.
        last_epoch: The epoch to continue from.

    Raises:
        ArgumentError: The numbers of functions and groups differ.
    """

    def get_lr(self) -> list[Any]:
        """Return the rates for ``last_epoch``."""
        self._rates()
        return [base * factor(self.last_epoch) for base, factor in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_FunctionLR):
    """A schedule that multiplies the rates by a function of the epoch, from the second epoch on.

    Args:
        optimizer: The optimizer.
        lr_lambda: One function for all groups, or one for each.
        last_epoch: The epoch to continue from.

    Raises:
        ArgumentError: The numbers of functions and groups differ.
    """

    def get_lr(self) -> list[Any]:
        """Return the rates for ``last_epoch``."""
        rates = self._rates()
        if self._is_initial:
            return rates
        return [rate * factor(self.last_epoch) for rate, factor in zip(rates, self.lr_lambdas, strict=True)]


class StepLR(LRScheduler):
    """A schedule that multiplies the rates by ``gamma`` every ``step_size`` epochs.

    Raises:
        ArgumentError: ``step_size`` is not a positive int.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        check_count("StepLR", "step_size", step_size)
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates for ``last_epoch``."""
        rates = self._rates()
        now = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return [rate * self.gamma for rate in rates] if now else rates

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """A schedule that multiplies the rates by ``gamma`` at every milestone; a repeated milestone counts twice."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
                 last_epoch: int = -1) -> None:
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates for ``last_epoch``."""
        rates = self._rates()
        times = self.milestones[self.last_epoch]
        return [rate * self.gamma**times for rate in rates] if times else rates

    def _get_closed_form_lr(self) -> list[Any]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma**passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """A schedule that multiplies the rates by ``factor`` for ``total_iters`` epochs.

    Raises:
        ArgumentError: ``factor`` is not between 0 and 1.
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        _check_share("ConstantLR", "factor", factor)
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates for ``last_epoch``."""
        rates = self._rates()
        if self.last_epoch == 0:
            return [rate * self.factor for rate in rates]
        return [rate * (1 / self.factor) for rate in rates] if self.last_epoch == self.total_iters else rates

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * (1 if self.last_epoch >= self.total_iters else self.factor) for base in self.base_lrs]


class LinearLR(LRScheduler):
    """A schedule of rates times a factor from ``start_factor`` to ``end_factor`` in ``total_iters`` epochs.

    Raises:
        ArgumentError: A factor is not between 0 and 1.
    """

    def __init__(self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0,
                 total_iters: int = 5, last_epoch: int = -1) -> None:
        _check_share("LinearLR", "start_factor", start_factor)
        if end_factor:
            _check_share("LinearLR", "end_factor", end_factor)
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates for ``last_epoch``."""
        rates = self._rates()
        if self.last_epoch == 0:
            return [rate * self.start_factor for rate in rates]
        if self._is_initial or self.last_epoch > self.total_iters:
            return rates
        rise = self.end_factor - self.start_factor
        before = self.total_iters * self.start_factor + (self.last_epoch - 1) * rise
        return [rate * (1 + rise / before) for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        part = min(self.total_iters, self.last_epoch) / self.total_iters
        factor = self.start_factor + (self.end_factor - self.start_factor) * part
        return [base * factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """A schedule that multiplies the rates by ``gamma`` every epoch."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates for ``last_epoch``."""
        rates = self._rates()
        return rates if self._is_initial or self.last_epoch == 0 else [rate * self.gamma for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        return [base * self.gamma**self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """A schedule that lowers the rates to 0 in ``total_iters`` epochs, by a power of the remaining fraction."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates for ``last_epoch``."""
        rates, total = self._rates(), self.total_iters
        if self._is_initial or self.last_epoch == 0 or self.last_epoch > total:
            return rates
        factor = ((1 - self.last_epoch / total) / (1 - (self.last_epoch - 1) / total)) ** self.power
        return [rate * factor for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = (1 - min(self.total_iters, self.last_epoch) / self.total_iters) ** self.power
        return [base * factor for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """A schedule that lowers the rates to ``eta_min`` along half a cosine of ``T_max`` epochs, then raises them again.

    Raises:
        ArgumentError: ``T_max`` is not a positive int.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        check_count("CosineAnnealingLR", "T_max", T_max)
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates for ``last_epoch``, computed from the previous ones, so other schedules can act on the same
        optimizer.
        """
        rates, epoch, period = self._rates(), self.last_epoch, self.T_max
        if epoch == 0:
            return rates
        if self._is_initial or (self._step_count == 1 and epoch > 0):
            return self._get_closed_form_lr()
        if (epoch - 1 - period) % (2 * period) == 0:
            # The previous epoch was the bottom of the curve; no factor leads up from there.
            rise = (1 - math.cos(math.pi / period)) / 2
            return [rate + (base - self.eta_min) * rise for base, rate in zip(self.base_lrs, rates, strict=True)]
        factor = (1 + math.cos(math.pi * epoch / period)) / (1 + math.cos(math.pi * (epoch - 1) / period))
        return [self.eta_min + (rate - self.eta_min) * factor for rate in rates]

    def _get_closed_form_lr(self) -> list[Any]:
        factor = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]


def _check_share(name: str, option: str, value: float) -> None:
    if not 0 < value <= 1:
        raise ArgumentError(name, f"{option}={value}", f"{option} is above 0 and at most 1", "pass a number between")
