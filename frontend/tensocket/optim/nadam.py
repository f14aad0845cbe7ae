"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from math import inf
from typing import Any

from tensocket import foreach
from tensocket_core import Tensor

from .adam import update_moments
from .batch import Batch, ListOptimizer, rate_of, scalar, start_with_zeros, update_lists
from .checks import ranges
from .optimizer import ParamGroup, ParamsT


class NAdam(ListOptimizer):
    """Adam with Nesterov momentum.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        betas: Decay of the running mean of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: Factor of the L2 penalty; of the decay of the weights if ``decoupled_weight_decay``.
        momentum_decay: How fast the momentum reaches ``betas[0]``.
        decoupled_weight_decay: Whether the weights decay by themselves.
        foreach: A hint at speed; there is one implementation, so it changes nothing.
        maximize: Whether the objective is maximised.
        capturable: Whether the step count lies on the device of the parameter.
        differentiable: Whether gradients are recorded through the step.

    Raises:
        ArgumentError: An option is out of its range.
    """

    _ranges = ranges(momentum_decay=inf)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
            "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize, "foreach": foreach,
            "capturable": capturable, "differentiable": differentiable,
        })

    def _begin(self, state: dict[str, Any], parameter: Tensor, group: ParamGroup) -> None:
        state["mu_product"] = scalar(1.0, parameter if group["capturable"] else None)
        start_with_zeros(state, parameter, "exp_avg", "exp_avg_sq")

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        (beta1, beta2), decay, rate = group["betas"], group["momentum_decay"], rate_of(group)
        if group["decoupled_weight_decay"]:
            batch.shrink(rate, group["weight_decay"])
        else:
            batch.penalize(group["weight_decay"])
        means, squares = update_moments(batch, beta1, beta2)
        now = [_momentum(beta1, step, decay) for step in batch.steps]
        products = [state["mu_product"].mul_(mu).item() for state, mu in zip(batch.states, now, strict=True)]
        then = [_momentum(beta1, step + 1, decay) for step in batch.steps]
        denominators = batch.roots(foreach.div(squares, [1 - beta2**step for step in batch.steps]), group["eps"])
        batch.move_by_quotient(batch.grads, denominators, [
            rate * ((1 - mu) / (1 - product)) for mu, product in zip(now, products, strict=True)])
        batch.move_by_quotient(means, denominators, [
            rate * (mu / (1 - product * mu)) for mu, product in zip(then, products, strict=True)])


def _momentum(beta: float, step: float, decay: float) -> float:
    """The momentum of a step: grows from about half of ``beta`` to ``beta``."""
    return float(beta * (1 - 0.5 * 0.96 ** (step * decay)))


def nadam(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor], state_steps: list[Tensor], decoupled_weight_decay: bool = False,
    foreach: bool | None = None, capturable: bool = False, differentiable: bool = False, has_complex: bool = False,
    maximize: bool = False, *, beta1: float, beta2: float, lr: float, weight_decay: float, momentum_decay: float,
    eps: float,
) -> None:
    """One step of ``NAdam`` over lists: parameters and states are changed in place.

    Arguments that are not options of ``NAdam`` or parts of its state (flags about the lists and about speed) change
    nothing.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs,
                              "mu_product": mu_products}
    update_lists(NAdam, params, grads, states, {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
        "maximize": maximize, "differentiable": differentiable, "decoupled_weight_decay": decoupled_weight_decay})
