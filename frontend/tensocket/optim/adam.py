"""Adam: steps scaled by running moments of the gradient."""

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
from .checks import check_tensors
from .optimizer import ParamGroup, ParamsT, _get_value


class Adam(ListOptimizer):
    """Adam.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        betas: Decay of the running mean of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: Factor of the L2 penalty, or of the weight decay if ``decoupled_weight_decay``.
        amsgrad: Whether the largest second moment so far is used.
        foreach: A performance hint; ignored, as there is one implementation.
        maximize: Whether the objective is maximised.
        capturable: Whether the step count is on the device of the parameter.
        differentiable: Whether gradients are recorded through the step.
        fused: A performance hint like ``foreach``; the step count is on the device of the parameter.
        decoupled_weight_decay: Whether the weights decay directly instead of through the gradient, as in AdamW.

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
        beta1, beta2 = (_get_value(beta) for beta in betas_of(group))
        rate, decay = rate_of(group), decay_of(group)
        factor = decay_factor(group, decay, rate)

        def numbers(step: float) -> tuple[Any, ...]:
            # Both moments start at zero; dividing by 1 - beta**step removes that bias. The factor of the root moves to
            # eps and to the rate, which saves one division per element.
            correction = (1 - beta2**step) ** 0.5
            return (factor, 1 - beta1, beta2, 1 - beta2, group["eps"] * correction,
                    rate * (correction / (1 - beta1**step)))

        names = ["exp_avg", "exp_avg_sq", *["max_exp_avg_sq"] * group["amsgrad"]]
        batch.update(_step(group["maximize"], decay, group["amsgrad"]), names, batch.by_step(numbers))


def moments(mean: Any, square: Any, g: Any, share1: Any, beta2: Any, share2: Any) -> tuple[Any, Any]:
    """Return the running means of the gradient and of its square, including this step."""
    return mean.lerp(g, share1), (square * beta2).addcmul(g, g, value=share2)


@cache
def _step(maximize: bool, decay: str, amsgrad: bool) -> ListFunction:
    def plain(p: Any, g: Any, mean: Any, square: Any, factor: Any, share1: Any, beta2: Any, share2: Any, eps: Any,
              rate: Any) -> tuple[Any, ...]:
        p, g = apply_weight_decay(p, g, maximize, decay, factor)
        mean, square = moments(mean, square, g, share1, beta2, share2)
        return apply_quotient_step(p, mean, square.sqrt() + eps, rate), mean, square

    def largest(p: Any, g: Any, mean: Any, square: Any, most: Any, factor: Any, share1: Any, beta2: Any, share2: Any,
                eps: Any, rate: Any) -> tuple[Any, ...]:
        p, g = apply_weight_decay(p, g, maximize, decay, factor)
        mean, square = moments(mean, square, g, share1, beta2, share2)
        most = most.maximum(square)
        return apply_quotient_step(p, mean, most.sqrt() + eps, rate), mean, square, most

    return ListFunction("adam", largest, (0, 2, 3, 4)) if amsgrad else ListFunction("adam", plain, (0, 2, 3))


def adam(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor], state_steps: list[Tensor], foreach: bool | None = None, capturable: bool = False,
    differentiable: bool = False, fused: bool | None = None, grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None, has_complex: bool = False, decoupled_weight_decay: bool = False, *, amsgrad: bool,
    beta1: float | Tensor, beta2: float | Tensor, lr: float | Tensor, weight_decay: float, eps: float, maximize: bool,
) -> None:
    """Run one step of ``Adam`` over lists and change parameters and states in place.

    Arguments that are neither options of ``Adam`` nor its state (flags about the lists and about speed) have
    no effect.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs,
                              "max_exp_avg_sq": max_exp_avg_sqs}
    update_lists(Adam, params, grads, states, {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
        "maximize": maximize, "differentiable": differentiable, "decoupled_weight_decay": decoupled_weight_decay,
        "grad_scale": grad_scale, "found_inf": found_inf})
