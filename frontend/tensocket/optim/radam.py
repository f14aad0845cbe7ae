"""RAdam: Adam that uses adaptive steps only once the second moment is accurate enough."""

from __future__ import annotations

from functools import cache
from typing import Any

from tensocket_operators import Tensor
from tensocket_operators.kinds.foreach import ListFunction

from .adam import moments
from .batch import (
    Batch,
    ListOptimizer,
    apply_quotient_step,
    apply_step,
    apply_weight_decay,
    betas_of,
    decay_factor,
    decay_of,
    rate_of,
    start_with_zeros,
    update_lists,
)
from .optimizer import ParamGroup, ParamsT


class RAdam(ListOptimizer):
    """Adam with rectified variance.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        betas: Decay of the running mean of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: Factor of the L2 penalty, or of the weight decay if ``decoupled_weight_decay``.
        decoupled_weight_decay: Whether the weights decay directly instead of through the gradient.
        foreach: A performance hint; ignored, as there is one implementation.
        maximize: Whether the objective is maximised.
        capturable: Whether the step count is on the device of the parameter.
        differentiable: Whether gradients are recorded through the step.

    Raises:
        ArgumentError: An option is out of its range.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "foreach": foreach, "capturable": capturable, "decoupled_weight_decay": decoupled_weight_decay,
            "differentiable": differentiable,
        })

    def _begin(self, state: dict[str, Any], parameter: Tensor, group: ParamGroup) -> None:
        start_with_zeros(state, parameter, "exp_avg", "exp_avg_sq")

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        (beta1, beta2), rate, decay = betas_of(group), rate_of(group), decay_of(group)
        factors = [_rectification(step, beta2) for step in batch.steps]
        shares = decay_factor(group, decay, rate), 1 - beta1, beta2, 1 - beta2, group["eps"]

        def numbers(step: float) -> tuple[Any, ...]:
            return *shares, rate / (1 - beta1**step) * (_rectification(step, beta2) or 1)

        for adaptive in (False, True):
            chosen = [index for index, factor in enumerate(factors) if (factor is not None) is adaptive]
            if chosen:
                part = batch.select(chosen)
                part.update(_step(group["maximize"], decay, adaptive), ("exp_avg", "exp_avg_sq"),
                            part.by_step(numbers))


@cache
def _step(maximize: bool, decay: str, adaptive: bool) -> ListFunction:
    def rule(p: Any, g: Any, mean: Any, square: Any, factor: Any, share1: Any, beta2: Any, share2: Any, eps: Any,
             rate: Any) -> tuple[Any, ...]:
        p, g = apply_weight_decay(p, g, maximize, decay, factor)
        mean, square = moments(mean, square, g, share1, beta2, share2)
        new = apply_quotient_step(p, mean, square.sqrt() + eps, rate) if adaptive else apply_step(p, mean, rate)
        return new, mean, square

    return ListFunction("radam", rule, (0, 2, 3))


def _rectification(step: Any, beta: Any) -> Any:
    """Return the rectification of the adaptive rate's variance (with the second moment's correction), or None."""
    limit, correction = 2 / (1 - beta) - 1, 1 - beta**step
    length = limit - 2 * step * beta**step / correction
    if length <= 5:
        return None
    ratio = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
    return (ratio * correction) ** 0.5


def radam(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
    state_steps: list[Tensor], decoupled_weight_decay: bool = False, foreach: bool | None = None,
    differentiable: bool = False, capturable: bool = False, has_complex: bool = False, maximize: bool = False, *,
    beta1: float, beta2: float, lr: float, weight_decay: float, eps: float,
) -> None:
    """Run one step of ``RAdam`` over lists and change parameters and states in place.

    Arguments that are neither options of ``RAdam`` nor its state (flags about the lists and about speed) have
    no effect.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs}
    update_lists(RAdam, params, grads, states, {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "differentiable": differentiable, "decoupled_weight_decay": decoupled_weight_decay})
