"""AdamW: Adam with decoupled weight decay."""

from __future__ import annotations

from typing import Any

from tensocket_operators import Tensor

from .adam import Adam, adam
from .optimizer import ParamsT


class AdamW(Adam):
    """Adam with decoupled weight decay: weights decay directly, not through the gradient. Arguments are Adam's."""

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
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

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for group in self.param_groups:
            # In older versions, AdamW was not a subclass of Adam, so their checkpoints lack the flag or have it off.
            group["decoupled_weight_decay"] = True


def adamw(
    params: list[Tensor], grads: list[Tensor], exp_avgs: list[Tensor], exp_avg_sqs: list[Tensor],
    max_exp_avg_sqs: list[Tensor], state_steps: list[Tensor], foreach: bool | None = None, capturable: bool = False,
    differentiable: bool = False, fused: bool | None = None, grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None, has_complex: bool = False, *, amsgrad: bool, beta1: float | Tensor,
    beta2: float | Tensor, lr: float | Tensor, weight_decay: float, eps: float, maximize: bool,
) -> None:
    """Run one step of ``AdamW`` over lists; see ``adam``.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    adam(params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps, differentiable=differentiable,
         grad_scale=grad_scale, found_inf=found_inf, decoupled_weight_decay=True, amsgrad=amsgrad, beta1=beta1,
         beta2=beta2, lr=lr, weight_decay=weight_decay, eps=eps, maximize=maximize)
