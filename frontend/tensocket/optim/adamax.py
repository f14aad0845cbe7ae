"""Adamax: Adam with the largest gradient instead of the second moment."""

from __future__ import annotations

from functools import cache
from typing import Any

from tensocket_operators import Tensor
from tensocket_operators.kinds.foreach import ListFunction

from .batch import (
    Batch,
    ListOptimizer,
    apply_quotient_step,
    apply_weight_decay,
    betas_of,
    decay_factor,
    decay_of,
    rate_of,
    start_with_zeros,
    update_lists,
)
from .optimizer import ParamGroup, ParamsT


class Adamax(ListOptimizer):
    """Adam with the infinity norm.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        betas: Decay of the running mean of the gradient and of its largest magnitude.
        eps: Added to the magnitudes of gradients.
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
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize, "differentiable": differentiable, "capturable": capturable,
        })

    def _begin(self, state: dict[str, Any], parameter: Tensor, group: ParamGroup) -> None:
        start_with_zeros(state, parameter, "exp_avg", "exp_inf")

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        (beta1, beta2), rate, decay = betas_of(group), rate_of(group), decay_of(group)
        factor = decay_factor(group, decay, rate)
        numbers = batch.by_step(lambda step: (factor, 1 - beta1, beta2, group["eps"], rate / (1 - beta1**step)))
        batch.update(_step(group["maximize"], decay), ("exp_avg", "exp_inf"), numbers)


@cache
def _step(maximize: bool, decay: str) -> ListFunction:
    def rule(p: Any, g: Any, mean: Any, largest: Any, factor: Any, share: Any, beta2: Any, eps: Any,
             rate: Any) -> tuple[Any, ...]:
        p, g = apply_weight_decay(p, g, maximize, decay, factor)
        mean = mean.lerp(g, share)
        largest = (largest * beta2).maximum(g.abs() + eps)
        return apply_quotient_step(p, mean, largest, rate), mean, largest

    return ListFunction("adamax", rule, (0, 2, 3))


def adamax(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_infs: list[Tensor],
    state_steps: list[Tensor], foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    capturable: bool = False, has_complex: bool = False, *, eps: float, beta1: float, beta2: float, lr: float,
    weight_decay: float,
) -> None:
    """Run one step of ``Adamax`` over lists and change parameters and states in place.

    Arguments that are neither options of ``Adamax`` nor its state (flags about the lists and about speed) have
    no effect.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "exp_avg": exp_avgs, "exp_inf": exp_infs}
    update_lists(Adamax, params, grads, states, {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "differentiable": differentiable})
