"""ASGD: averaged stochastic gradient descent."""

from __future__ import annotations

from functools import cache
from typing import Any

from tensocket_operators import Tensor
from tensocket_operators.kinds.foreach import ListFunction
from tensocket_plugins.contract.value_observers import at_least, number_of

from .batch import (
    Batch,
    ListOptimizer,
    apply_step,
    apply_weight_decay,
    decay_factor,
    decay_of,
    rate_of,
    scalar,
    start_with_zeros,
    update_lists,
)
from .optimizer import ParamGroup, ParamsT, _get_value


class ASGD(ListOptimizer):
    """Averaged stochastic gradient descent; the averages are the state ``ax``.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        lambd: Decay of the parameters.
        alpha: Exponent by which the rate falls.
        t0: Step at which averaging begins.
        weight_decay: Factor of the L2 penalty.
        foreach: A performance hint; ignored, as there is one implementation.
        maximize: Whether the objective is maximised.
        differentiable: Whether gradients are recorded through the step.
        capturable: Whether the step count is on the device of the parameter.

    Raises:
        ArgumentError: An option is out of its range.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })

    def _begin(self, state: dict[str, Any], parameter: Tensor, group: ParamGroup) -> None:
        beside = parameter if group["capturable"] else None
        state["eta"] = scalar(float(_get_value(group["lr"])), beside)
        state["mu"] = scalar(1.0, beside)
        start_with_zeros(state, parameter, "ax")

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        decay = decay_of(group)
        factor = decay_factor(group, decay, 0)

        def numbers(step: float, rate: float, share: float) -> tuple[Any, ...]:
            return factor, 1 - group["lambd"] * rate, rate, share

        # With a share of 1, the average equals the parameter.
        rates, shares = ([number_of(state[name]) for state in batch.states] for name in ("eta", "mu"))
        batch.update(_step(group["maximize"], decay), ("ax",), batch.by_step(numbers, rates, shares))
        _advance(batch, group)


def _advance(batch: Batch, group: ParamGroup) -> None:
    """Update the rate of the next step, and the weight of its result in the average."""
    rate, decay = rate_of(group), group["lambd"]
    if isinstance(rate, Tensor):
        rate = rate.item()
    for state, step in zip(batch.states, batch.steps, strict=True):
        state["eta"].fill_(rate / (1 + decay * rate * step) ** group["alpha"])
        state["mu"].fill_(1 / at_least(1, step - group["t0"]))


@cache
def _step(maximize: bool, decay: str) -> ListFunction:
    def rule(p: Any, g: Any, average: Any, factor: Any, keep: Any, rate: Any, share: Any) -> tuple[Any, ...]:
        p, g = apply_weight_decay(p, g, maximize, decay, factor)
        p = apply_step(p * keep, g, rate)
        return p, average + (p - average) * share

    return ListFunction("asgd", rule, (0, 2))


def asgd(
    params: list[Tensor], grads: list[Tensor], axs: list[Tensor], mus: list[Tensor], etas: list[Tensor],
    state_steps: list[Tensor], foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    capturable: bool = False, has_complex: bool = False, *, lambd: float, lr: float, t0: float, alpha: float,
    weight_decay: float,
) -> None:
    """Run one step of ``ASGD`` over lists and change parameters and states in place.

    Arguments that are neither options of ``ASGD`` nor its state (flags about the lists and about speed) have
    no effect.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "ax": axs, "mu": mus, "eta": etas}
    update_lists(ASGD, params, grads, states, {
        "lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "maximize": maximize,
        "differentiable": differentiable})
