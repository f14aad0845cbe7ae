"""Adam: steps scaled by running moments of the gradient."""

from __future__ import annotations

from typing import Any

from tensocket import foreach
from tensocket_core import Tensor

from .batch import Batch, ListOptimizer, rate_of, start_with_zeros, update_lists
from .checks import check_tensors
from .optimizer import ParamGroup, ParamsT, _get_value


class Adam(ListOptimizer):
    """Adam.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        betas: Decay of the running mean of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: Factor of the L2 penalty; of the decay of the weights if ``decoupled_weight_decay``.
        amsgrad: Whether the largest second moment so far is used.
        foreach: A hint at speed; there is one implementation, so it changes nothing.
        maximize: Whether the objective is maximised.
        capturable: Whether the step count lies on the device of the parameter.
        differentiable: Whether gradients are recorded through the step.
        fused: A hint at speed, as ``foreach``; the step count lies on the device of the parameter.
        decoupled_weight_decay: Whether the weights decay by themselves, as in AdamW.

    Raises:
        ArgumentError: An option is out of its range.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        options = {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        }
        check_tensors(type(self).__name__, options)
        super().__init__(params, options)

    def _begin(self, state: dict[str, Any], parameter: Tensor, group: ParamGroup) -> None:
        start_with_zeros(state, parameter, "exp_avg", "exp_avg_sq")
        if group["amsgrad"]:
            start_with_zeros(state, parameter, "max_exp_avg_sq")

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        beta1, beta2 = (_get_value(beta) for beta in group["betas"])
        rate = rate_of(group)
        if group["decoupled_weight_decay"]:
            batch.shrink(rate, group["weight_decay"])
        else:
            batch.penalize(group["weight_decay"])
        means, squares = update_moments(batch, beta1, beta2)
        if group["amsgrad"]:
            squares = batch.raise_to("max_exp_avg_sq", batch.state("max_exp_avg_sq"), squares)
        # Both moments start at zero; dividing by 1 - beta**step takes that bias away. The factor of the root is moved
        # to eps and to the rate: one pass over the tensors less.
        corrections = [(1 - beta2**step) ** 0.5 for step in batch.steps]
        denominators = batch.roots(squares, [group["eps"] * factor for factor in corrections])
        rates = [rate * (factor / (1 - beta1**step)) for step, factor in zip(batch.steps, corrections, strict=True)]
        batch.move_by_quotient(means, denominators, rates)


def update_moments(batch: Batch, beta1: float, beta2: float) -> tuple[list[Tensor], list[Tensor]]:
    """The running means of the gradients and of their squares, with this step's."""
    means, squares = batch.state("exp_avg"), batch.state("exp_avg_sq")
    foreach.lerp_(means, batch.grads, 1 - beta1)
    foreach.mul_(squares, beta2)
    foreach.addcmul_(squares, batch.grads, batch.grads, 1 - beta2)
    return means, squares


def adam(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor], state_steps: list[Tensor], foreach: bool | None = None, capturable: bool = False,
    differentiable: bool = False, fused: bool | None = None, grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None, has_complex: bool = False, decoupled_weight_decay: bool = False, *, amsgrad: bool,
    beta1: float | Tensor, beta2: float | Tensor, lr: float | Tensor, weight_decay: float, eps: float, maximize: bool,
) -> None:
    """One step of ``Adam`` over lists: parameters and states are changed in place.

    Arguments that are not options of ``Adam`` or parts of its state (flags about the lists and about speed) change
    nothing.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs,
                              "max_exp_avg_sq": max_exp_avg_sqs}
    update_lists(Adam, params, grads, states, {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
        "maximize": maximize, "differentiable": differentiable, "decoupled_weight_decay": decoupled_weight_decay,
        "grad_scale": grad_scale, "found_inf": found_inf})
