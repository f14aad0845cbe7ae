"""SparseAdam: Adam for gradients of few rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket.errors import ArgumentError
from tensocket_core import Tensor

from .checks import check_common
from .optimizer import Optimizer, ParamsT, _use_grad_for_differentiable, evaluate


class SparseAdam(Optimizer):
    """Adam that touches only the rows that a sparse gradient has.

    No operator makes sparse gradients here, so that a step changes nothing or refuses; ``Adam`` does with dense ones.

    Args:
        params: Parameters or groups of them.
        lr: Learning rate.
        betas: Decay of the running mean of the gradient and of its square.
        eps: Added to the denominator.
        maximize: Whether the objective is maximised.

    Raises:
        ArgumentError: An option is out of its range.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_common("SparseAdam", lr=lr, eps=eps, betas=betas)
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step.

        Raises:
            ArgumentError: A gradient is dense.
        """
        loss = evaluate(closure)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    raise ArgumentError("SparseAdam.step", f"a dense gradient of shape {tuple(parameter.grad.shape)}",
                                        "SparseAdam does not support dense gradients", "use Adam")
        return loss
