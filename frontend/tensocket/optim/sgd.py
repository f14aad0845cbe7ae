"""Stochastic gradient descent."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Any

from tensocket.errors import ArgumentError
from tensocket_operators import Tensor
from tensocket_operators.kinds.foreach import ListFunction

from .batch import (
    Batch,
    ListOptimizer,
    apply_step,
    apply_weight_decay,
    decay_factor,
    decay_of,
    entries,
    momentum_of,
    rate_of,
    refuse_decay,
    start_with_zeros,
    update_lists,
)
from .checks import ranges
from .optimizer import ParamGroup, ParamsT


class SGD(ListOptimizer):
    """Stochastic gradient descent, optionally with momentum; a sparse gradient changes only its rows.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        momentum: Share of the previous step in the next one.
        dampening: Share of the gradient that the momentum omits.
        weight_decay: Factor of the L2 penalty.
        nesterov: Whether to use Nesterov momentum (needs momentum and no dampening).
        maximize: Whether the objective is maximised.
        foreach: A performance hint; ignored, as there is one implementation.
        differentiable: Whether gradients are recorded through the step.
        fused: A performance hint like ``foreach``.

    Raises:
        ArgumentError: An option is out of its range.
    """

    _counts = False
    _ranges = ranges(momentum=inf)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float | Tensor = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ArgumentError("SGD", f"nesterov with momentum={momentum} and dampening={dampening}",
                                "Nesterov momentum needs a momentum and no dampening", "pass momentum=0.9, dampening=0")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        })

    def _run(self, params: list[Tensor], group: ParamGroup) -> None:
        states = [self.state[parameter] for parameter in params] if momentum_of(group) else []
        self._update(Batch(params, states, group), group)

    def _update_sparse(self, parameter: Tensor, group: ParamGroup) -> None:
        refuse_decay("SGD", group)
        if momentum_of(group):
            gradient: Any = parameter.grad
            # Momentum moves every row that ever had a gradient, so its buffer is dense.
            self._update(Batch([parameter], [self.state[parameter]], group, [gradient.to_dense()]), group)
            return
        index, values = entries(parameter, group)
        parameter.index_put_(index, values * -rate_of(group), accumulate=True)

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        rate, decay, momentum = rate_of(group), decay_of(group), momentum_of(group)
        factor = decay_factor(group, decay, rate)
        options = group["maximize"], decay
        if not momentum:
            batch.update(_step(*options), (), (factor, rate))
            return
        numbers = factor, momentum, 1 - group["dampening"], rate
        name = "momentum_buffer"
        fresh = [index for index, state in enumerate(batch.states) if state.get(name) is None]
        known = [index for index, state in enumerate(batch.states) if state.get(name) is not None]
        for indices, first in ((known, False), (fresh, True)):
            if indices:
                part = batch.select(indices)
                if first:
                    for state, parameter in zip(part.states, part.given, strict=True):
                        start_with_zeros(state, parameter, name)
                part.update(_step_with_momentum(*options, group["nesterov"], first), (name,), numbers)


@cache
def _step(maximize: bool, decay: str) -> ListFunction:
    def rule(p: Any, g: Any, factor: Any, rate: Any) -> tuple[Any, ...]:
        p, g = apply_weight_decay(p, g, maximize, decay, factor)
        return (apply_step(p, g, rate),)

    return ListFunction("sgd", rule)


@cache
def _step_with_momentum(maximize: bool, decay: str, nesterov: bool, first: bool) -> ListFunction:
    """Return the rule with a buffer of past gradients, whose weights decay with age; the ``first`` has full weight."""

    # No parameter has the name of an option: graphs read an option anew only if just its readers name it.
    def rule(p: Any, g: Any, buffer: Any, factor: Any, keep: Any, share: Any, rate: Any) -> tuple[Any, ...]:
        p, g = apply_weight_decay(p, g, maximize, decay, factor)
        buffer = g if first else buffer * keep + g * share
        return apply_step(p, g + buffer * keep if nesterov else buffer, rate), buffer

    return ListFunction("sgd", rule, (0, 2))


def sgd(
    params: list[Tensor], d_p_list: list[Tensor], momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False, foreach: bool | None = None, fused: bool | None = None,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None, *, weight_decay: float, momentum: float,
    lr: float, dampening: float, nesterov: bool, maximize: bool,
) -> None:
    """Run one step of ``SGD`` over lists and change parameters and states in place.

    Arguments that are neither options of ``SGD`` nor its state (flags about the lists and about speed) have
    no effect.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"momentum_buffer": momentum_buffer_list}
    update_lists(SGD, params, d_p_list, states, {
        "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
        "maximize": maximize, "grad_scale": grad_scale, "found_inf": found_inf})
