"""NAdam: Adam with Nesterov momentum."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Any, Final

from tensocket_operators import Tensor
from tensocket_operators.kinds.foreach import ListFunction
from tensocket_plugins.contract.value_observers import number_of

from .adam import moments
from .batch import (
    Batch,
    ListOptimizer,
    apply_quotient_step,
    apply_weight_decay,
    betas_of,
    decay_factor,
    decay_of,
    rate_of,
    scalar,
    start_with_zeros,
    update_lists,
)
from .checks import ranges
from .optimizer import ParamGroup, ParamsT


class NAdam(ListOptimizer):
    """Adam with Nesterov momentum.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        betas: Decay of the running mean of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: Factor of the L2 penalty, or of the weight decay if ``decoupled_weight_decay``.
        momentum_decay: Speed at which the momentum approaches ``betas[0]``.
        decoupled_weight_decay: Whether the weights decay directly instead of through the gradient.
        foreach: A performance hint; ignored, as there is one implementation.
        maximize: Whether the objective is maximised.
        capturable: Whether the step count is on the device of the parameter.
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
        (beta1, beta2), fading = betas_of(group), group["momentum_decay"]
        rate, decay = rate_of(group), decay_of(group)
        factor = decay_factor(group, decay, rate)
        products = [state["mu_product"] for state in batch.states]
        _MULTIPLY([products], batch.by_step(lambda step: (_momentum(beta1, step, fading),)))

        def numbers(step: float, product: Any) -> tuple[Any, ...]:
            now, then = _momentum(beta1, step, fading), _momentum(beta1, step + 1, fading)
            return (factor, 1 - beta1, beta2, 1 - beta2, 1 - beta2**step, group["eps"],
                    rate * ((1 - now) / (1 - product)), rate * (then / (1 - product * then)))

        batch.update(_step(group["maximize"], decay), ("exp_avg", "exp_avg_sq"),
                     batch.by_step(numbers, [product if group["differentiable"] else number_of(product)
                                             for product in products]))


_MULTIPLY: Final = ListFunction("mu_product", lambda product, factor: (product * factor,))


@cache
def _step(maximize: bool, decay: str) -> ListFunction:
    def rule(p: Any, g: Any, mean: Any, square: Any, factor: Any, share1: Any, beta2: Any, share2: Any,
             correction: Any, eps: Any, rate: Any, rate_of_mean: Any) -> tuple[Any, ...]:
        p, g = apply_weight_decay(p, g, maximize, decay, factor)
        mean, square = moments(mean, square, g, share1, beta2, share2)
        root = (square / correction).sqrt() + eps
        return apply_quotient_step(apply_quotient_step(p, g, root, rate), mean, root, rate_of_mean), mean, square

    return ListFunction("nadam", rule, (0, 2, 3))


def _momentum(beta: float, step: Any, decay: float) -> Any:
    """Return the momentum of a step, which grows from about half of ``beta`` to ``beta``."""
    return beta * (1 - 0.5 * 0.96 ** (step * decay))


def nadam(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
    mu_products: list[Tensor], state_steps: list[Tensor], decoupled_weight_decay: bool = False,
    foreach: bool | None = None, capturable: bool = False, differentiable: bool = False, has_complex: bool = False,
    maximize: bool = False, *, beta1: float, beta2: float, lr: float, weight_decay: float, momentum_decay: float,
    eps: float,
) -> None:
    """Run one step of ``NAdam`` over lists and change parameters and states in place.

    Arguments that are neither options of ``NAdam`` nor its state (flags about the lists and about speed) have
    no effect.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "exp_avg": exp_avgs, "exp_avg_sq": exp_avg_sqs,
                              "mu_product": mu_products}
    update_lists(NAdam, params, grads, states, {
        "lr": lr, "betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay, "momentum_decay": momentum_decay,
        "maximize": maximize, "differentiable": differentiable, "decoupled_weight_decay": decoupled_weight_decay})
