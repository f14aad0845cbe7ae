"""A schedule that follows a metric."""

from __future__ import annotations

import math
from typing import Any

from tensocket.errors import ArgumentError
from tensocket.optim.optimizer import Optimizer

from .base import LRScheduler, check_optimizer, per_group, rates_of, set_option


class ReduceLROnPlateau(LRScheduler):
    """A schedule that multiplies the rates by ``factor`` after more than ``patience`` epochs without a better metric.

    Args:
        optimizer: The optimizer.
        mode: Whether smaller (``min``) or larger (``max``) is better.
        factor: Factor of the rates.
        patience: Number of epochs without improvement that are tolerated.
        threshold: Smallest change that counts as an improvement.
        threshold_mode: Whether ``threshold`` is a fraction of the best value (``rel``) or a difference (``abs``).
        cooldown: Number of epochs after a reduction that are ignored.
        min_lr: Lowest rate, or one for each group.
        eps: Smallest change of a rate that is applied.

    Raises:
        ArgumentError: An option is out of its domain.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | list[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        name = "ReduceLROnPlateau"
        check_optimizer(name, optimizer)
        if factor >= 1:
            raise ArgumentError(name, f"factor={factor}", "factor is less than 1", "pass a number below 1")
        if mode not in ("min", "max"):
            raise ArgumentError(name, f"mode={mode!r}", "mode is 'min' or 'max'", "pass one of them")
        if threshold_mode not in ("rel", "abs"):
            raise ArgumentError(name, f"threshold_mode={threshold_mode!r}", "threshold_mode is 'rel' or 'abs'",
                                "pass one of them")
        self.factor = factor
        self.optimizer = optimizer
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self.min_lrs = per_group(name, "min_lr", optimizer, min_lr)
        self.patience = patience
        self.cooldown = cooldown
        self.eps = eps
        self.last_epoch = 0
        self._last_lr = rates_of(optimizer)
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self.mode = mode
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self._reset()

    def _reset(self) -> None:
        self.best = self.mode_worse
        self.cooldown_counter = 0
        self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are currently ignored."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:
        """Advance to the next epoch.

        Args:
            metrics: The metric of the epoch.
            epoch: The number of the epoch.
        """
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best = current
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = rates_of(self.optimizer)

    def is_better(self, a: float, best: float) -> bool:
        """Whether ``a`` is an improvement over ``best``."""
        sign = -1 if self.mode == "min" else 1
        if self.threshold_mode == "rel":
            bound = best * (1 + sign * self.threshold)
        else:
            bound = best + sign * self.threshold
        return a < bound if self.mode == "min" else a > bound

    def _reduce_lr(self) -> None:
        if len(self.optimizer.param_groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise ArgumentError("ReduceLROnPlateau.step", f"{len(self.min_lrs)} values of min_lr for "
                                    f"{len(self.optimizer.param_groups)} groups",
                                    "min_lr has one value for each group, also for those that came later",
                                    "pass one number, or set min_lrs")
            self.min_lrs = [self.default_min_lr] * len(self.optimizer.param_groups)
        for group, lowest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, lowest)
            if old - new > self.eps:
                set_option(group, "lr", new)
