"""Cyclic schedules, with the momentum in the opposite direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from tensocket.errors import ArgumentError
from tensocket.optim.optimizer import Optimizer

from .base import LRScheduler, apart, check_count, check_optimizer, copy_rate, per_group, set_option, state_of_function


class CosineAnnealingWarmRestarts(LRScheduler):
    """A schedule that lowers the rates to ``eta_min`` along half a cosine, then restarts at the top.

    Args:
        optimizer: The optimizer.
        T_0: Epochs of the first period.
        T_mult: Factor between the lengths of consecutive periods.
        eta_min: Lowest rate.
        last_epoch: The epoch to continue from.

    Raises:
        ArgumentError: ``T_0`` or ``T_mult`` is not a positive int.
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:
        for option, value in (("T_0", T_0), ("T_mult", T_mult)):
            check_count("CosineAnnealingWarmRestarts", option, value)
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates at ``T_cur`` of a period of ``T_i``."""
        self._rates()
        factor = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * factor for base in self.base_lrs]

    @apart
    def step(self, epoch: float | None = None) -> None:
        """Advance to the next epoch, or to any epoch; a fraction means a point between epochs.

        Raises:
            ArgumentError: ``epoch`` is negative.
        """
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            self._go_to(epoch)
        self.last_epoch = math.floor(epoch) - 1
        self._update_lr()

    def _go_to(self, epoch: float) -> None:
        if epoch < 0:
            raise ArgumentError("CosineAnnealingWarmRestarts.step", f"epoch={epoch}", "epochs are not negative",
                                "pass 0 or more")
        self.T_i, self.T_cur = self.T_0, epoch
        if epoch < self.T_0:
            return
        if self.T_mult == 1:
            self.T_cur = epoch % self.T_0
            return
        periods = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        self.T_cur = epoch - self.T_0 * (self.T_mult**periods - 1) / (self.T_mult - 1)
        self.T_i = self.T_0 * self.T_mult**periods


#: By mode, the height of the cycle ``x`` (or the iteration) as a function of ``x`` and ``gamma``; and the meaning of x.
SCALES: Final[dict[str, tuple[Callable[[float, float], float], str]]] = {
    "triangular": (lambda x, gamma: 1.0, "cycle"),
    "triangular2": (lambda x, gamma: 2.0 ** (1 - x), "cycle"),
    "exp_range": (lambda x, gamma: gamma**x, "iterations"),
}


class CyclicLR(LRScheduler):
    """A schedule that goes from ``base_lr`` to ``max_lr`` and back, repeatedly.

    Args:
        optimizer: The optimizer.
        base_lr: Lowest rate, or one for each group.
        max_lr: Highest rate, or one for each group.
        step_size_up: Number of increasing steps.
        step_size_down: Number of decreasing steps; the same by default.
        mode: ``triangular``, ``triangular2`` (half as high every cycle) or ``exp_range`` (``gamma**iterations``).
        gamma: Base of ``exp_range``.
        scale_fn: A custom function for the height of a cycle; replaces ``mode``.
        scale_mode: Whether ``scale_fn`` gets the ``cycle`` or the ``iterations``.
        cycle_momentum: Whether the momentum falls while the rate rises.
        base_momentum: Lowest momentum, or one for each group.
        max_momentum: Highest momentum, or one for each group.
        last_epoch: The step to continue from.

    Raises:
        ArgumentError: An option is out of its domain, or the optimizer has no momentum to cycle.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer("CyclicLR", optimizer)
        if scale_fn is None and mode not in SCALES:
            raise ArgumentError("CyclicLR", f"mode={mode!r}", "the mode is triangular, triangular2 or exp_range",
                                "pass one of them, or a scale_fn")
        self.optimizer = optimizer
        lowest = per_group("CyclicLR", "base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, lowest, strict=True):
                set_option(group, "lr", copy_rate(rate))
        self.max_lrs = per_group("CyclicLR", "max_lr", optimizer, max_lr)
        down = step_size_up if step_size_down is None else step_size_down
        self.total_size = float(step_size_up + down)
        self.step_ratio = step_size_up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = SCALES[mode][1] if scale_fn is None else scale_mode
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.use_beta1 = uses_beta("CyclicLR", optimizer)
            self.base_momentums = per_group("CyclicLR", "base_momentum", optimizer, base_momentum)
            self.max_momentums = per_group("CyclicLR", "max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                momenta = zip(optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
                for group, low, high in momenta:
                    set_momentum(group, self.use_beta1, copy_rate(high))
                    group["max_momentum"], group["base_momentum"] = copy_rate(high), copy_rate(low)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lowest

    def scale_fn(self, x: float) -> float:
        """Return the height of the cycle (or the iteration) ``x``."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        return SCALES[self.mode][0](x, self.gamma)

    def get_lr(self) -> list[Any]:
        """Return the rates for the step ``last_epoch`` and set the momentum."""
        self._rates()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            momenta = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in momenta:
                set_momentum(group, self.use_beta1, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return all attributes but the optimizer; of a custom ``scale_fn`` that is an object, its attributes."""
        return {**super().state_dict(), "_scale_fn_custom": state_of_function(self._scale_fn_custom)
                if self._scale_fn_custom is not None else None}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the result of ``state_dict``."""
        held = state_dict.get("_scale_fn_custom")
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if held is not None and self._scale_fn_custom is not None:
            vars(self._scale_fn_custom).update(held)


class OneCycleLR(LRScheduler):
    """A single cycle: up to ``max_lr`` and down to almost nothing, in ``total_steps``.

    Args:
        optimizer: The optimizer.
        max_lr: Highest rate, or one for each group.
        total_steps: Number of steps; or
        epochs: Number of epochs, with
        steps_per_epoch: Number of steps per epoch.
        pct_start: Fraction of increasing steps.
        anneal_strategy: ``cos`` or ``linear``.
        cycle_momentum: Whether the momentum falls while the rate rises.
        base_momentum: Lowest momentum, or one for each group.
        max_momentum: Highest momentum, or one for each group.
        div_factor: The rate starts at ``max_lr / div_factor``.
        final_div_factor: It ends at the initial rate divided by this.
        three_phase: Whether it falls back to the initial rate as slowly as it rose, before the final phase.
        last_epoch: The step to continue from.

    Raises:
        ArgumentError: An option is out of its domain, or the optimizer has no momentum to cycle.
    """

    #: The annealing function, in states of PyTorch before 2.0, which saved it instead of its name.
    anneal_func: Any

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer("OneCycleLR", optimizer)
        self.optimizer = optimizer
        self.total_steps = _count_steps(total_steps, epochs, steps_per_epoch)
        if not 0 <= pct_start <= 1:
            raise ArgumentError("OneCycleLR", f"pct_start={pct_start}", "pct_start is between 0 and 1", "pass a share")
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError("OneCycleLR", f"anneal_strategy={anneal_strategy!r}",
                                "anneal_strategy is 'cos' or 'linear'", "pass one of them")
        self._schedule_phases = _phases(self.total_steps, pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        highest = per_group("OneCycleLR", "max_lr", optimizer, max_lr)
        self.cycle_momentum = cycle_momentum
        if last_epoch == -1:
            for group, rate in zip(optimizer.param_groups, highest, strict=True):
                group["initial_lr"] = rate / div_factor
                group["max_lr"] = rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
        if cycle_momentum:
            self.use_beta1 = uses_beta("OneCycleLR", optimizer)
            lows = per_group("OneCycleLR", "base_momentum", optimizer, base_momentum)
            highs = per_group("OneCycleLR", "max_momentum", optimizer, max_momentum)
            if last_epoch == -1:
                for group, low, high in zip(optimizer.param_groups, lows, highs, strict=True):
                    set_momentum(group, self.use_beta1, copy_rate(high))
                    group["max_momentum"], group["base_momentum"] = copy_rate(high), copy_rate(low)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """Return the rates for the step ``last_epoch``, and set the momentum.

        Raises:
            ArgumentError: All steps have been done.
        """
        self._rates()
        step = self.last_epoch
        if step > self.total_steps:
            raise ArgumentError("OneCycleLR.step", f"step {step} of {self.total_steps}",
                                "there are no more steps than total_steps", "pass a larger total_steps")
        start, phase = 0.0, self._schedule_phases[-1]
        for candidate in self._schedule_phases:
            phase = candidate
            if step <= phase["end_step"] or phase is self._schedule_phases[-1]:
                break
            start = phase["end_step"]
        part = (step - start) / (phase["end_step"] - start)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                set_momentum(group, self.use_beta1, self._between(
                    group[phase["start_momentum"]], group[phase["end_momentum"]], part))
        return rates

    def _between(self, start: float, end: float, part: float) -> float:
        kind = getattr(self, "_anneal_func_type", None)
        if kind is None:
            return float(self.anneal_func(start, end, part))
        return self._annealing_linear(start, end, part) if kind == "linear" else self._annealing_cos(start, end, part)

    @staticmethod
    def _annealing_cos(start: float, end: float, pct: float) -> float:
        return end + (start - end) / 2 * (1 + math.cos(math.pi * pct))

    @staticmethod
    def _annealing_linear(start: float, end: float, pct: float) -> float:
        return start + (end - start) * pct


def _count_steps(total: int | None, epochs: int | None, each: int | None) -> int:
    if total is None and epochs is not None and each is not None:
        if epochs <= 0 or each <= 0:
            raise ArgumentError("OneCycleLR", f"epochs={epochs}, steps_per_epoch={each}",
                                "epochs and steps_per_epoch are positive", "pass positive ints")
        return epochs * each
    if total is None:
        raise ArgumentError("OneCycleLR", f"total_steps=None, epochs={epochs}, steps_per_epoch={each}",
                            "total_steps is given, or both epochs and steps_per_epoch", "pass total_steps")
    check_count("OneCycleLR", "total_steps", total)
    return total


def _phases(total: int, share: float, three: bool) -> list[dict[str, Any]]:
    """Return the ends of the phases, and the options of the group between which each phase moves."""
    up = {"end_step": float(share * total) - 1, "start_lr": "initial_lr", "end_lr": "max_lr",
          "start_momentum": "max_momentum", "end_momentum": "base_momentum"}
    down = {"end_step": total - 1, "start_lr": "max_lr", "end_lr": "min_lr",
            "start_momentum": "base_momentum", "end_momentum": "max_momentum"}
    if not three:
        return [up, down]
    back = {**down, "end_step": float(2 * share * total) - 2, "end_lr": "initial_lr"}
    return [up, back, {**down, "start_lr": "initial_lr", "start_momentum": "max_momentum"}]


def uses_beta(name: str, optimizer: Optimizer) -> bool:
    """Whether the momentum of an optimizer is the first of its ``betas``.

    Raises:
        ArgumentError: The optimizer has no momentum.
    """
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ArgumentError(name, f"cycle_momentum with {type(optimizer).__name__}",
                            "the optimizer has an option momentum or betas", "pass cycle_momentum=False")
    return "betas" in optimizer.defaults


def set_momentum(group: dict[str, Any], use_beta: bool, value: float) -> None:
    """Set the momentum of a group."""
    if use_beta:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
