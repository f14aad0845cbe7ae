"""Adam and AdamW: steps scaled by running moments of the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_core import Tensor, maximum, zeros_like

from .optimizer import Optimizer, ParamsT, check_range, check_unsupported, evaluate


class Adam(Optimizer):
    """Adam.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        betas: Decay of the running mean of the gradient and of its square.
        eps: Added to the denominator.
        weight_decay: Factor of the L2 penalty; of the decay of the weights if ``decoupled_weight_decay``.
        amsgrad: Whether the largest second moment so far is used.
        foreach: A hint at speed; there is one implementation, so it changes nothing.
        maximize: Whether the objective is maximised.
        capturable: Not supported.
        differentiable: Not supported.
        fused: A hint at speed, as ``foreach``.
        decoupled_weight_decay: Whether the weights decay by themselves, as in AdamW.

    Raises:
        ArgumentError: An option is out of its range.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        name = type(self).__name__
        for option, value in (("lr", lr), ("eps", eps), ("weight_decay", weight_decay)):
            check_range(name, option, value)
        for number, beta in enumerate(betas):
            check_range(name, f"betas[{number}]", beta, below=1.0)
        check_unsupported(name, capturable=capturable, differentiable=differentiable)
        super().__init__(params, {
            "lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
            "maximize": maximize, "foreach": foreach, "capturable": capturable, "differentiable": differentiable,
            "fused": fused, "decoupled_weight_decay": decoupled_weight_decay,
        })

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step; see ``Optimizer.step``."""
        loss = evaluate(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, -parameter.grad if group["maximize"] else parameter.grad, group)
        return loss

    def _update(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        (beta1, beta2), rate, decay = group["betas"], group["lr"], group["weight_decay"]
        state = self.state[parameter]
        if not state:
            state.update(step=0, exp_avg=zeros_like(parameter), exp_avg_sq=zeros_like(parameter))
            if group["amsgrad"]:
                state["max_exp_avg_sq"] = zeros_like(parameter)
        step = state["step"] = state["step"] + 1
        if decay and group["decoupled_weight_decay"]:
            parameter.mul_(1 - rate * decay)
        elif decay:
            gradient = gradient.add(parameter, alpha=decay)
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.lerp_(gradient, 1 - beta1)
        square.mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        if group["amsgrad"]:
            square = state["max_exp_avg_sq"] = maximum(state["max_exp_avg_sq"], square)
        # Both moments start at zero; dividing by 1 - beta**step takes that bias away.
        denominator = (square.sqrt() / (1 - beta2**step) ** 0.5).add_(group["eps"])
        parameter.addcdiv_(mean, denominator, value=-rate / (1 - beta1**step))


class AdamW(Adam):
    """Adam whose weights decay by themselves instead of through the gradient. The arguments are Adam's."""

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused, decoupled_weight_decay=True)
