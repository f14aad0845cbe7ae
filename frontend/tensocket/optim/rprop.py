"""Rprop: steps that depend only on the signs of gradients."""

from __future__ import annotations

from functools import cache
from typing import Any

from tensocket.errors import ArgumentError
from tensocket_operators import Tensor, full_like
from tensocket_operators.kinds.foreach import ListFunction

from .batch import Batch, ListOptimizer, apply_weight_decay, start_with_zeros, update_lists
from .optimizer import ParamGroup, ParamsT, _get_value


class Rprop(ListOptimizer):
    """Resilient backpropagation.

    Args:
        params: Parameters or groups of them.
        lr: Size of the first step.
        etas: Factors of the step if the sign of the gradient changes and if it stays.
        step_sizes: Smallest and largest step.
        capturable: Whether the step count is on the device of the parameter.
        foreach: A performance hint; ignored, as there is one implementation.
        maximize: Whether the objective is maximised.
        differentiable: Whether gradients are recorded through the step.

    Raises:
        ArgumentError: An option is out of its range.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        if not 0 < etas[0] < 1 < etas[1]:
            raise ArgumentError("Rprop", f"etas={etas}", "the first of etas is between 0 and 1, the second above 1",
                                "pass (0.5, 1.2)")
        super().__init__(params, {
            "lr": lr, "etas": etas, "step_sizes": step_sizes, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "capturable": capturable,
        })

    def _begin(self, state: dict[str, Any], parameter: Tensor, group: ParamGroup) -> None:
        start_with_zeros(state, parameter, "prev")
        rate = _get_value(group["lr"])
        state["step_size"] = full_like(parameter, complex(rate, rate) if parameter.is_complex() else rate,
                                       requires_grad=False)

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        numbers = *group["etas"], *group["step_sizes"]
        batch.update(_step(group["maximize"]), ("prev", "step_size"), numbers)


@cache
def _step(maximize: bool) -> ListFunction:
    def rule(p: Any, g: Any, before: Any, size: Any, shrink: Any, grow: Any, smallest: Any,
             largest: Any) -> tuple[Any, ...]:
        p, g = apply_weight_decay(p, g, maximize, "no", 0)
        agreement = g * before
        turned = agreement < 0
        size = (size * shrink).where(turned, (size * grow).where(agreement > 0, size))
        size = size.clamp_min(smallest).clamp_max(largest)
        # If the sign has changed, the step was too large: the next one restarts from here, as if it were the first.
        used = g.masked_fill(turned, 0.0)
        return p.addcmul(used.sign(), size, value=-1), used, size

    return ListFunction("rprop", rule, (0, 2, 3))


def rprop(
    params: list[Tensor], grads: list[Tensor], prevs: list[Tensor], step_sizes: list[Tensor], state_steps: list[Tensor],
    foreach: bool | None = None, capturable: bool = False, maximize: bool = False, differentiable: bool = False,
    has_complex: bool = False, *, step_size_min: float, step_size_max: float, etaminus: float, etaplus: float,
) -> None:
    """Run one step of ``Rprop`` over lists and change parameters and states in place.

    Arguments that are neither options of ``Rprop`` nor its state (flags about the lists and about speed) have
    no effect.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "prev": prevs, "step_size": step_sizes}
    update_lists(Rprop, params, grads, states, {
        "etas": (etaminus, etaplus), "step_sizes": (step_size_min, step_size_max), "maximize": maximize,
        "differentiable": differentiable})
