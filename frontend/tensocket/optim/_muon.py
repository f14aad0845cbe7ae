"""Muon: momentum with orthogonalised steps (Jordan, 2024)."""

from __future__ import annotations

from typing import Any, Final

from tensocket.errors import ArgumentError, DtypeError
from tensocket.namespace import foreach
from tensocket_operators import Tensor, addmm, bfloat16
from tensocket_operators.kinds.foreach import ListFunction

from .batch import Batch, ListOptimizer, rate_of, start_with_zeros, update_lists
from .checks import ranges
from .optimizer import ParamGroup, ParamsT

#: Coefficients of the polynomial a x + b x^3 + c x^5, which maps singular values between 0 and 1 to about 1.
COEFFICIENTS: Final = (3.4445, -4.7750, 2.0315)
#: From this number of iterations on, the option is an error.
TOO_MANY_STEPS: Final = 100
_ADJUSTMENTS: Final = ("original", "match_rms_adamw")


class Muon(ListOptimizer):
    """Momentum with orthogonalised steps, for the matrices of hidden layers.

    A step is the nearest orthogonal matrix to the momentum, by Newton-Schulz iterations in bfloat16.

    Args:
        params: Parameters of two dimensions, or groups of them.
        lr: Learning rate.
        weight_decay: Decay of the weights, separate from the gradient.
        momentum: Decay of the running mean of the gradient.
        nesterov: Whether the step uses Nesterov momentum.
        ns_coefficients: Coefficients of the iteration's polynomial.
        eps: Lower bound of the norm that divides a step.
        ns_steps: Number of iterations, less than 100.
        adjust_lr_fn: How the rate depends on the shape [A, B]: ``"original"`` (or None) means ``lr * sqrt(max(1, A /
            B))``, ``"match_rms_adamw"`` means ``lr * 0.2 * sqrt(max(A, B))`` (Liu et al., 2025).

    Raises:
        ArgumentError: An option is out of its range, or a parameter is not a matrix.
    """

    _counts = False
    _ranges = ranges(momentum=float("inf"), eps=None)

    def __init__(
        self,
        params: ParamsT,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = COEFFICIENTS,
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if adjust_lr_fn is not None and adjust_lr_fn not in _ADJUSTMENTS:
            raise ArgumentError("Muon", f"adjust_lr_fn={adjust_lr_fn!r}", "the adjustment is 'original', "
                                "'match_rms_adamw' or None", "pass one of them")
        super().__init__(params, {
            "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
            "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn,
        })
        for parameter in (member for group in self.param_groups for member in group["params"]):
            if parameter.ndim != 2:
                raise ArgumentError("Muon", f"a parameter of shape {tuple(parameter.shape)}", "Muon only supports 2D "
                                    "parameters", "leave the others to AdamW")

    def _run(self, params: list[Tensor], group: ParamGroup) -> None:
        for parameter in params:
            if parameter.is_complex():
                raise DtypeError("Muon.step", f"a parameter of {parameter.dtype}", "Muon does not support complex "
                                 "parameters", "use Adam")
            if "momentum_buffer" not in self.state[parameter]:
                start_with_zeros(self.state[parameter], parameter, "momentum_buffer")
        self._update(Batch(params, [self.state[parameter] for parameter in params], group), group)

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        momentum, rate = group["momentum"], rate_of(group)
        means = [state["momentum_buffer"] for state in batch.states]
        foreach.lerp_(means, batch.grads, 1 - momentum)
        directions = means
        if group["nesterov"]:
            directions = [gradient.lerp(mean, momentum) for gradient, mean in zip(batch.grads, means, strict=True)]
        directions = [_orthogonal(x, group["ns_coefficients"], group["ns_steps"], group["eps"]) for x in directions]
        rates = [rate * _adjustment(group["adjust_lr_fn"], *parameter.shape) for parameter in batch.params]
        _MOVE([batch.params, directions], (1 - rate * group["weight_decay"], rates))


_MOVE: Final = ListFunction("muon", lambda p, direction, keep, rate: (p * keep - direction * rate,))


def _adjustment(kind: str | None, rows: int, columns: int) -> float:
    """Return the factor of the rate for a matrix of this shape."""
    if kind == "match_rms_adamw":
        return float(0.2 * max(rows, columns) ** 0.5)
    return float(max(1.0, rows / columns) ** 0.5)


def _orthogonal(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Return a matrix with the same singular vectors, whose singular values are about 1."""
    if steps >= TOO_MANY_STEPS:
        raise ArgumentError("Muon.step", f"ns_steps={steps}", "there are less than 100 iterations", "pass 5")
    if len(coefficients) != 3:
        raise ArgumentError("Muon.step", f"ns_coefficients={coefficients}", "there are exactly 3 coefficients",
                            f"pass {COEFFICIENTS}")
    a, b, c = coefficients
    wide: Any = matrix.to(bfloat16)
    tall = matrix.shape[0] > matrix.shape[1]
    wide = wide.t() if tall else wide
    wide = wide / wide.norm().clamp(min=eps)
    for _ in range(steps):
        square = wide @ wide.t()
        wide = addmm(wide, addmm(square, square, square, beta=b, alpha=c), wide, beta=a)
    result: Tensor = (wide.t() if tall else wide).to(matrix.dtype)
    return result


def muon(
    params: list[Tensor], grads: list[Tensor], muon_momentum_bufs: list[Tensor], *, foreach: bool | None = None,
    lr: float, weight_decay: float, momentum: float, nesterov: bool, ns_coefficients: tuple[float, float, float],
    ns_steps: int, eps: float, adjust_lr_fn: str | None, has_complex: bool,
) -> None:
    """Run one step of ``Muon`` over lists and change parameters and momenta in place.

    Raises:
        ArgumentError: The lists have different lengths, or gradients are sparse.
    """
    update_lists(Muon, params, grads, {"momentum_buffer": muon_momentum_bufs}, {
        "lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
        "ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn})
