"""Adagrad: steps scaled by the sum of all squared gradients."""

from __future__ import annotations

from functools import cache
from math import inf
from typing import Any

from tensocket_operators import Tensor, full_like
from tensocket_operators.kinds.foreach import ListFunction

from .batch import (
    Batch,
    ListOptimizer,
    apply_quotient_step,
    apply_weight_decay,
    decay_factor,
    decay_of,
    entries,
    rate_of,
    refuse_decay,
    scalar,
    update_lists,
)
from .checks import ranges
from .optimizer import ParamGroup, ParamsT


class Adagrad(ListOptimizer):
    """Adagrad; a sparse gradient changes only its rows.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        lr_decay: Decay of the learning rate per step.
        weight_decay: Factor of the L2 penalty.
        initial_accumulator_value: Initial value of the sums of squares.
        eps: Added to the denominator.
        foreach: A performance hint; ignored, as there is one implementation.
        maximize: Whether the objective is maximised.
        differentiable: Whether gradients are recorded through the step.
        fused: A performance hint like ``foreach``.

    Raises:
        ArgumentError: An option is out of its range.
    """

    _ranges = ranges(lr_decay=inf, initial_accumulator_value=inf)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        })

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Add a group; its state exists from the start, so that processes can share it."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in group["params"]:
            state = self.state[parameter]
            state["step"] = scalar(0.0, parameter if group["fused"] else None)
            self._begin(state, parameter, group)

    def share_memory(self) -> None:
        """Move the sums of squares to memory that processes share."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _begin(self, state: dict[str, Any], parameter: Tensor, group: ParamGroup) -> None:
        start = group["initial_accumulator_value"]
        state["sum"] = full_like(parameter, complex(start, start) if parameter.is_complex() else start,
                                 requires_grad=False)

    def _update_sparse(self, parameter: Tensor, group: ParamGroup) -> None:
        refuse_decay("Adagrad", group)
        state = self.state[parameter]
        step = state["step"].add_(1).item()
        index, values = entries(parameter, group)
        sums = state["sum"].index_put_(index, values * values, accumulate=True)[index]
        rate = rate_of(group) / (1 + (step - 1) * group["lr_decay"])
        parameter.index_put_(index, values / (sums.sqrt() + group["eps"]) * -rate, accumulate=True)

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        rate, decay = rate_of(group), decay_of(group)
        factor = decay_factor(group, decay, rate)
        numbers = batch.by_step(lambda step: (factor, group["eps"], rate / (1 + (step - 1) * group["lr_decay"])))
        batch.update(_step(group["maximize"], decay), ("sum",), numbers)


@cache
def _step(maximize: bool, decay: str) -> ListFunction:
    def rule(p: Any, g: Any, total: Any, factor: Any, eps: Any, rate: Any) -> tuple[Any, ...]:
        p, g = apply_weight_decay(p, g, maximize, decay, factor)
        total = total.addcmul(g, g)
        return apply_quotient_step(p, g, total.sqrt() + eps, rate), total

    return ListFunction("adagrad", rule, (0, 2))


def adagrad(
    params: list[Tensor], grads: list[Tensor], state_sums: list[Tensor], state_steps: list[Tensor],
    fused: bool | None = None, grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
    has_sparse_grad: bool = False, foreach: bool | None = None, differentiable: bool = False, has_complex: bool = False,
    *, lr: float, weight_decay: float, lr_decay: float, eps: float, maximize: bool,
) -> None:
    """Run one step of ``Adagrad`` over lists and change parameters and states in place.

    Arguments that are neither options of ``Adagrad`` nor its state (flags about the lists and about speed) have
    no effect.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "sum": state_sums}
    update_lists(Adagrad, params, grads, states, {
        "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "maximize": maximize,
        "differentiable": differentiable, "grad_scale": grad_scale, "found_inf": found_inf})
