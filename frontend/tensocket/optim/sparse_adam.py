"""SparseAdam: Adam for gradients with few rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket.errors import ArgumentError
from tensocket_operators import Tensor

from .batch import betas_of, entries, start_with_zeros
from .checks import check_options, check_range
from .optimizer import Optimizer, ParamGroup, ParamsT, _get_value, _use_grad_for_differentiable, evaluate


class SparseAdam(Optimizer):
    """Adam that changes only the rows of a sparse gradient.

    Other rows and their moments stay unchanged. Embeddings have dense gradients here; sparse ones are those that a
    program assigns to ``grad``.

    Args:
        params: Parameters or groups of them, dense and real.
        lr: Learning rate, greater than zero.
        betas: Decay of the running mean of the gradient and of its square.
        eps: Added to the denominator, greater than zero.
        maximize: Whether the objective is maximised.

    Raises:
        ArgumentError: An option is out of its range, or a parameter is sparse or complex.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        options = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        check_options("SparseAdam", options)
        check_range("SparseAdam", "lr", lr, positive=True)
        check_range("SparseAdam", "eps", eps, positive=True)
        super().__init__(params, options)
        for parameter in (member for group in self.param_groups for member in group["params"]):
            if parameter.is_sparse or parameter.is_complex():
                kind, advice = ("sparse", "pass to_dense() of it") if parameter.is_sparse else ("complex", "use Adam")
                raise ArgumentError("SparseAdam", f"a {kind} parameter of shape {tuple(parameter.shape)}",
                                    "SparseAdam takes dense real parameters", advice)

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run one step.

        Raises:
            ArgumentError: A gradient is dense.
        """
        loss = evaluate(closure)
        for group in self.param_groups:
            params = [parameter for parameter in group["params"] if parameter.grad is not None]
            for parameter in params:
                if not parameter.grad.is_sparse:
                    raise ArgumentError("SparseAdam.step", f"a dense gradient of shape {tuple(parameter.grad.shape)}",
                                        "SparseAdam does not support dense gradients", "use Adam")
            for parameter in params:
                self._update(parameter, group)
        return loss

    def _update(self, parameter: Tensor, group: ParamGroup) -> None:
        (beta1, beta2), state = betas_of(group), self.state[parameter]
        if not state:
            state["step"] = 0
            start_with_zeros(state, parameter, "exp_avg", "exp_avg_sq")
        step = state["step"] = state["step"] + 1
        index, values = entries(parameter, group)
        mean = state["exp_avg"][index].lerp_(values, 1 - beta1)
        square = state["exp_avg_sq"][index].lerp_(values * values, 1 - beta2)
        state["exp_avg"].index_put_(index, mean)
        state["exp_avg_sq"].index_put_(index, square)
        rate = _get_value(group["lr"]) * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        parameter.index_put_(index, mean / (square.sqrt() + group["eps"]) * -rate, accumulate=True)
