"""Adafactor: second moments of matrices, stored as rows and columns."""

from __future__ import annotations

from typing import Any, Final

from tensocket.errors import ArgumentError, DtypeError
from tensocket.namespace import foreach
from tensocket_operators import Tensor, finfo
from tensocket_operators.functions import linalg_vector_norm
from tensocket_operators.kinds.foreach import ListFunction
from tensocket_plugins.contract.value_observers import at_least, at_most, number_of

from .batch import Batch, ListOptimizer, apply_step, rate_of, start_with_zeros, update_lists
from .checks import check_range, ranges
from .optimizer import ParamGroup, ParamsT


class Adafactor(ListOptimizer):
    """Adafactor (Shazeer and Stern, 2018), without first moment.

    Args:
        params: Parameters or groups of them.
        lr: Largest relative step.
        beta2_decay: Exponent of the step count by which the share of new squares falls.
        eps: Lower bounds of the squares (None: the dtype's epsilon) and of the parameter's size, which scales the step.
        d: Largest root mean square of an update.
        weight_decay: Factor of the weight decay.
        foreach: A performance hint; ignored, as there is one implementation.
        maximize: Whether the objective is maximised.

    Raises:
        ArgumentError: An option is out of its range.
        DtypeError: A parameter is complex.
    """

    #: ``eps`` may contain a None.
    _ranges = ranges(eps=None)

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_range("Adafactor", "-beta2_decay", -beta2_decay)
        for number, value in enumerate(eps):
            if number or value is not None:
                check_range("Adafactor", f"eps[{number}]", value)
        if d < 1:
            raise ArgumentError("Adafactor", f"d={d}", "d is at least 1", "pass 1.0 or more")
        super().__init__(params, {
            "lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay, "foreach": foreach,
            "maximize": maximize,
        })

    def _begin(self, state: dict[str, Any], parameter: Tensor, group: ParamGroup) -> None:
        if parameter.is_complex():
            raise DtypeError("Adafactor.step", f"a parameter of {parameter.dtype}",
                             "Adafactor does not support complex parameters", "use Adam")
        if parameter.ndim > 1:
            shape = parameter.shape
            state["row_var"] = parameter.new_zeros((*shape[:-1], 1))
            state["col_var"] = parameter.new_zeros((*shape[:-2], 1, shape[-1]))
        else:
            start_with_zeros(state, parameter, "variance")

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        rate = rate_of(group)
        lowest, smallest = group["eps"]
        sizes = [at_least(smallest, _norm(parameter) / parameter.numel() ** 0.5) for parameter in batch.params]
        if group["weight_decay"]:
            foreach.mul_(batch.params, 1 - rate * group["weight_decay"])
        gradients = foreach.neg(batch.grads) if group["maximize"] else batch.grads
        rows = zip(batch.params, gradients, batch.states, batch.steps, sizes, strict=True)
        for parameter, gradient, state, step, size in rows:
            floor = finfo(parameter.dtype).eps if lowest is None else lowest
            squares = _squares(gradient, state, step ** group["beta2_decay"], floor)
            update = squares.clamp_(min=floor * floor).rsqrt_().mul_(gradient)
            clip = at_least(1.0, _norm(update) / (parameter.numel() ** 0.5 * group["d"]))
            _STEP([[parameter], [update]], [size * at_most(rate, step**-0.5) / clip])


_STEP: Final = ListFunction("adafactor", lambda p, update, rate: (apply_step(p, update, rate),))


def _squares(gradient: Tensor, state: dict[str, Any], share: float, floor: float) -> Tensor:
    """Return the running squares of the gradient; for a matrix, from those of rows and columns."""
    squared = gradient.square()
    if gradient.ndim < 2:
        result: Tensor = state["variance"].lerp_(squared, share).clone()
        return result
    rows = state["row_var"].lerp_(squared.mean(-1, keepdim=True), share)
    columns = state["col_var"].lerp_(squared.mean(-2, keepdim=True), share)
    outer: Tensor = rows.matmul(columns).div_(rows.mean(-2, keepdim=True).clamp_(min=floor))
    return outer


def _norm(tensor: Tensor) -> Any:
    return number_of(linalg_vector_norm(tensor))


def adafactor(
    params: list[Tensor], grads: list[Tensor], row_vars: list[Tensor | None], col_vars: list[Tensor | None],
    variances: list[Tensor | None], state_steps: list[Tensor], foreach: bool | None = None,
    grad_scale: Tensor | None = None, found_inf: Tensor | None = None, has_complex: bool = False, *, d: float,
    lr: float | Tensor, beta2_decay: float, weight_decay: float, eps1: float, eps2: float, maximize: bool,
) -> None:
    """Run one step of ``Adafactor`` over lists and change parameters and states in place.

    Arguments that are neither options of ``Adafactor`` nor its state (flags about the lists and about speed) have
    no effect.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse or scaled.
    """
    states: dict[str, Any] = {"step": state_steps, "row_var": row_vars, "col_var": col_vars, "variance": variances}
    update_lists(Adafactor, params, grads, states, {
        "lr": lr, "beta2_decay": beta2_decay, "eps": (eps1, eps2), "d": d, "weight_decay": weight_decay,
        "maximize": maximize, "grad_scale": grad_scale, "found_inf": found_inf})
