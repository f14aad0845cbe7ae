"""RMSprop: steps scaled by the running root mean square of the gradient."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Any

from tensocket_operators import Tensor
from tensocket_operators.kinds.foreach import ListFunction

from .batch import (
    Batch,
    ListOptimizer,
    apply_quotient_step,
    apply_step,
    apply_weight_decay,
    decay_factor,
    decay_of,
    momentum_of,
    rate_of,
    start_with_zeros,
    update_lists,
)
from .checks import ranges
from .optimizer import ParamGroup, ParamsT


class RMSprop(ListOptimizer):
    """RMSprop.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        alpha: Decay of the running mean of squares.
        eps: Added to the denominator.
        weight_decay: Factor of the L2 penalty.
        momentum: Share of the previous step in the next one.
        centered: Whether to subtract the running mean: the denominator is then a standard deviation.
        capturable: Whether the step count is on the device of the parameter.
        foreach: A performance hint; ignored, as there is one implementation.
        maximize: Whether the objective is maximised.
        differentiable: Whether gradients are recorded through the step.

    Raises:
        ArgumentError: An option is out of its range.
    """

    _ranges = ranges(momentum=inf, alpha=inf)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
            "weight_decay": weight_decay, "capturable": capturable, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable,
        })

    def _begin(self, state: dict[str, Any], parameter: Tensor, group: ParamGroup) -> None:
        start_with_zeros(state, parameter, "square_avg")
        if momentum_of(group) > 0:
            start_with_zeros(state, parameter, "momentum_buffer")
        if group["centered"]:
            start_with_zeros(state, parameter, "grad_avg")

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        alpha, rate, decay = group["alpha"], rate_of(group), decay_of(group)
        momentum, centered = momentum_of(group), group["centered"]
        moves = momentum > 0
        names = ["square_avg", *["momentum_buffer"] * moves, *["grad_avg"] * centered]
        numbers = decay_factor(group, decay, rate), alpha, 1 - alpha, group["eps"], momentum, rate
        batch.update(_step(group["maximize"], decay, moves, centered), names, numbers)


@cache
def _step(maximize: bool, decay: str, with_momentum: bool, centered: bool) -> ListFunction:
    states = 1 + with_momentum + centered

    def rule(p: Any, g: Any, square: Any, *rest: Any) -> tuple[Any, ...]:
        more, (factor, alpha, share, eps, momentum, rate) = rest[:states - 1], rest[states - 1:]
        p, g = apply_weight_decay(p, g, maximize, decay, factor)
        square = spread = (square * alpha).addcmul(g, g, value=share)
        new: tuple[Any, ...] = ()
        if centered:
            mean = more[-1].lerp(g, share)
            spread = square.addcmul(mean, mean, value=-1)
            new = (mean,)
        root = spread.sqrt() + eps
        if not with_momentum:
            return apply_quotient_step(p, g, root, rate), square, *new
        buffer = (more[0] * momentum).addcdiv(g, root)
        return apply_step(p, buffer, rate), square, buffer, *new

    return ListFunction("rmsprop", rule, (0, *range(2, 2 + states)))


def rmsprop(
    params: list[Tensor], grads: list[Tensor], square_avgs: list[Tensor], grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor], state_steps: list[Tensor], foreach: bool | None = None, maximize: bool = False,
    differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *, lr: float, alpha: float,
    eps: float, weight_decay: float, momentum: float, centered: bool,
) -> None:
    """Run one step of ``RMSprop`` over lists and change parameters and states in place.

    Arguments that are neither options of ``RMSprop`` nor its state (flags about the lists and about speed) have
    no effect.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "square_avg": square_avgs, "grad_avg": grad_avgs,
                              "momentum_buffer": momentum_buffer_list}
    update_lists(RMSprop, params, grads, states, {
        "lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "centered": centered,
        "maximize": maximize, "differentiable": differentiable})
