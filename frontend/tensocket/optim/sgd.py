"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket.errors import ArgumentError
from tensocket_core import Tensor

from .optimizer import Optimizer, ParamsT, check_range, check_unsupported, evaluate


class SGD(Optimizer):
    """Stochastic gradient descent, optionally with momentum.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        momentum: How much of the previous step is kept.
        dampening: How much of the gradient the momentum leaves out.
        weight_decay: Factor of the L2 penalty.
        nesterov: Whether the gradient is looked up ahead (needs momentum and no dampening).
        maximize: Whether the objective is maximised.
        foreach: A hint at speed; there is one implementation, so it changes nothing.
        differentiable: Not supported.
        fused: A hint at speed, as ``foreach``.

    Raises:
        ArgumentError: An option is out of its range.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        for name, value in (("lr", lr), ("momentum", momentum), ("weight_decay", weight_decay)):
            check_range("SGD", name, value)
        check_unsupported("SGD", differentiable=differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ArgumentError("SGD", f"nesterov with momentum={momentum} and dampening={dampening}",
                                "Nesterov momentum needs a momentum and no dampening", "pass momentum=0.9, dampening=0")
        super().__init__(params, {
            "lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
            "maximize": maximize, "foreach": foreach, "differentiable": differentiable, "fused": fused,
        })

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; see ``Optimizer.step``."""
        loss = evaluate(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                gradient = -parameter.grad if group["maximize"] else parameter.grad
                if group["weight_decay"]:
                    gradient = gradient.add(parameter, alpha=group["weight_decay"])
                if group["momentum"]:
                    gradient = self._momentum(parameter, gradient, group)
                parameter.add_(gradient, alpha=-group["lr"])
        return loss

    def _momentum(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> Tensor:
        state = self.state[parameter]
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = state["momentum_buffer"] = gradient.detach().clone()
        else:
            buffer.mul_(group["momentum"]).add_(gradient, alpha=1 - group["dampening"])
        direction: Tensor = gradient.add(buffer, alpha=group["momentum"]) if group["nesterov"] else buffer
        return direction
