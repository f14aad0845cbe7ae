"""Adadelta: steps scaled by running squares of gradients and of steps."""

from __future__ import annotations

from functools import cache
from typing import Any

from tensocket_operators import Tensor
from tensocket_operators.kinds.foreach import ListFunction

from .batch import (
    Batch,
    ListOptimizer,
    apply_step,
    apply_weight_decay,
    decay_factor,
    decay_of,
    rate_of,
    start_with_zeros,
    update_lists,
)
from .checks import ranges
from .optimizer import ParamGroup, ParamsT


class Adadelta(ListOptimizer):
    """Adadelta.

    Args:
        params: Parameters or groups of them.
        lr: Factor of the step.
        rho: Decay of the running squares.
        eps: Added to the running squares.
        weight_decay: Factor of the L2 penalty.
        foreach: A performance hint; ignored, as there is one implementation.
        capturable: Whether the step count is on the device of the parameter.
        maximize: Whether the objective is maximised.
        differentiable: Whether gradients are recorded through the step.

    Raises:
        ArgumentError: An option is out of its range.
    """

    _ranges = ranges(rho=1.0)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
            "capturable": capturable, "foreach": foreach, "differentiable": differentiable,
        })

    def _begin(self, state: dict[str, Any], parameter: Tensor, group: ParamGroup) -> None:
        start_with_zeros(state, parameter, "square_avg", "acc_delta")

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        rho, rate, decay = group["rho"], rate_of(group), decay_of(group)
        numbers = decay_factor(group, decay, rate), rho, 1 - rho, group["eps"], rate
        batch.update(_step(group["maximize"], decay), ("square_avg", "acc_delta"), numbers)


@cache
def _step(maximize: bool, decay: str) -> ListFunction:
    def rule(p: Any, g: Any, square: Any, delta: Any, factor: Any, rho: Any, share: Any, eps: Any,
             rate: Any) -> tuple[Any, ...]:
        p, g = apply_weight_decay(p, g, maximize, decay, factor)
        square = (square * rho).addcmul(g, g, value=share)
        step = ((delta + eps) / (square + eps)).sqrt() * g
        return apply_step(p, step, rate), square, (delta * rho).addcmul(step, step, value=share)

    return ListFunction("adadelta", rule, (0, 2, 3))


def adadelta(
    params: list[Tensor], grads: list[Tensor], square_avgs: list[Tensor], acc_deltas: list[Tensor],
    state_steps: list[Tensor], capturable: bool = False, foreach: bool | None = None, differentiable: bool = False,
    has_complex: bool = False, *, lr: float, rho: float, eps: float, weight_decay: float, maximize: bool,
) -> None:
    """Run one step of ``Adadelta`` over lists and change parameters and states in place.

    Arguments that are neither options of ``Adadelta`` nor its state (flags about the lists and about speed) have
    no effect.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "square_avg": square_avgs, "acc_delta": acc_deltas}
    update_lists(Adadelta, params, grads, states, {
        "lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "differentiable": differentiable})
