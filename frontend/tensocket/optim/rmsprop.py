"""RMSprop: steps scaled by the running root mean square of the gradient."""

from __future__ import annotations

from math import inf
from typing import Any

from tensocket import foreach
from tensocket_core import Tensor

from .batch import Batch, ListOptimizer, rate_of, start_with_zeros, update_lists
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
        momentum: How much of the previous step is kept.
        centered: Whether the running mean is taken off: the denominator is a standard deviation.
        capturable: Whether the step count lies on the device of the parameter.
        foreach: A hint at speed; there is one implementation, so it changes nothing.
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
        if group["momentum"] > 0:
            start_with_zeros(state, parameter, "momentum_buffer")
        if group["centered"]:
            start_with_zeros(state, parameter, "grad_avg")

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        alpha, rate = group["alpha"], rate_of(group)
        batch.penalize(group["weight_decay"])
        squares = batch.state("square_avg")
        foreach.mul_(squares, alpha)
        foreach.addcmul_(squares, batch.grads, batch.grads, 1 - alpha)
        if group["centered"]:
            means = batch.state("grad_avg")
            foreach.lerp_(means, batch.grads, 1 - alpha)
            squares = foreach.addcmul(squares, means, means, -1)
        denominators = batch.roots(squares, group["eps"])
        if group["momentum"] > 0:
            buffers = batch.state("momentum_buffer")
            foreach.mul_(buffers, group["momentum"])
            foreach.addcdiv_(buffers, batch.grads, denominators)
            batch.move(buffers, rate)
        else:
            batch.move_by_quotient(batch.grads, denominators, [rate] * len(batch.params))


def rmsprop(
    params: list[Tensor], grads: list[Tensor], square_avgs: list[Tensor], grad_avgs: list[Tensor],
    momentum_buffer_list: list[Tensor], state_steps: list[Tensor], foreach: bool | None = None, maximize: bool = False,
    differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *, lr: float, alpha: float,
    eps: float, weight_decay: float, momentum: float, centered: bool,
) -> None:
    """One step of ``RMSprop`` over lists: parameters and states are changed in place.

    Arguments that are not options of ``RMSprop`` or parts of its state (flags about the lists and about speed) change
    nothing.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "square_avg": square_avgs, "grad_avg": grad_avgs,
                              "momentum_buffer": momentum_buffer_list}
    update_lists(RMSprop, params, grads, states, {
        "lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "centered": centered,
        "maximize": maximize, "differentiable": differentiable})
