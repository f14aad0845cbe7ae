"""Adagrad: steps scaled by the sum of all squared gradients."""

from __future__ import annotations

from typing import Any

from tensocket import foreach
from tensocket_core import Tensor, full_like

from .batch import Batch, ListOptimizer, entries, rate_of, refuse_decay, scalar
from .checks import check_common, check_paths, check_range
from .optimizer import ParamGroup, ParamsT


class Adagrad(ListOptimizer):
    """Adagrad; a sparse gradient changes the rows that it has.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        lr_decay: How fast the rate falls with the steps.
        weight_decay: Factor of the L2 penalty.
        initial_accumulator_value: Where the sums of squares start.
        eps: Added to the denominator.
        foreach: A hint at speed; there is one implementation, so it changes nothing.
        maximize: Whether the objective is maximised.
        differentiable: Whether gradients are recorded through the step.
        fused: A hint at speed, as ``foreach``.

    Raises:
        ArgumentError: An option is out of its range.
    """

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
        check_common("Adagrad", lr=lr, eps=eps, weight_decay=weight_decay)
        check_range("Adagrad", "lr_decay", lr_decay)
        check_range("Adagrad", "initial_accumulator_value", initial_accumulator_value)
        check_paths("Adagrad", foreach=foreach, fused=fused, differentiable=differentiable)
        super().__init__(params, {
            "lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
            "initial_accumulator_value": initial_accumulator_value, "foreach": foreach, "maximize": maximize,
            "differentiable": differentiable, "fused": fused,
        })

    def add_param_group(self, param_group: ParamGroup) -> None:
        """Add a group; its state is there from the start, so that it can be shared between processes."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for parameter in group["params"]:
            state = self.state[parameter]
            state["step"] = scalar(0.0, parameter if group["fused"] else None)
            self._begin(state, parameter, group)

    def share_memory(self) -> None:
        """Move the sums into memory that processes share."""
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

    def _update(self, batch: Batch, group: ParamGroup) -> None:
        batch.penalize(group["weight_decay"])
        sums = batch.state("sum")
        foreach.addcmul_(sums, batch.grads, batch.grads)
        rates = [rate_of(group) / (1 + (step - 1) * group["lr_decay"]) for step in batch.steps]
        batch.move_by_quotient(batch.grads, batch.roots(sums, group["eps"]), rates)
