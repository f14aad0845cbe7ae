"""AdamW: Adam whose weights decay by themselves."""

from __future__ import annotations

from typing import Any

from tensocket_core import Tensor

from .adam import Adam
from .optimizer import ParamsT


class AdamW(Adam):
    """Adam whose weights decay by themselves instead of through the gradient. The arguments are Adam's."""

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
            # Checkpoints of versions in which AdamW was no Adam lack the flag or have it off.
            group["decoupled_weight_decay"] = True
