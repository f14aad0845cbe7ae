"""L-BFGS: quasi-Newton steps from the last few changes of parameters and gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket.errors import ArgumentError, ArgumentTypeError
from tensocket_operators import Tensor, cat, enable_grad
from tensocket_operators.functions import view_as_real

from .checks import check_options
from .line_search import Point, strong_wolfe
from .optimizer import Optimizer, ParamsT, _get_value, _use_grad_for_differentiable

#: Changes of parameters and gradient with a smaller product say nothing about curvature.
LEAST_CURVATURE = 1e-10


class LBFGS(Optimizer):
    """L-BFGS (Nocedal and Wright, algorithm 7.4), optionally with a line search.

    Args:
        params: Parameters; there is one group.
        lr: Length of the step; with a line search, of its first trial.
        max_iter: Largest number of iterations of a call of ``step``.
        max_eval: Largest number of evaluations of the closure in a call; 5 / 4 of the iterations by default.
        tolerance_grad: Iterations stop if no component of the gradient is larger.
        tolerance_change: Iterations stop if the change of parameters or loss is smaller.
        history_size: Number of changes that are stored.
        line_search_fn: ``"strong_wolfe"``, or None for steps of the length ``lr``.

    Raises:
        ArgumentError: An option is out of its range, or there are several groups.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_options("LBFGS", {"lr": lr})
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError("LBFGS", f"line_search_fn={line_search_fn!r}", "the line search is 'strong_wolfe' or "
                                "None", "pass one of them")
        super().__init__(params, {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change, "history_size": history_size,
            "line_search_fn": line_search_fn,
        })
        if len(self.param_groups) != 1:
            raise ArgumentError("LBFGS", f"{len(self.param_groups)} groups", "LBFGS has one group of parameters",
                                "pass a list of parameters")
        self._params: list[Tensor] = self.param_groups[0]["params"]

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._params = self.param_groups[0]["params"]

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run several iterations.

        Args:
            closure: A function that recomputes the loss and its gradients; each iteration calls it at least once.

        Returns:
            The loss before the first iteration.

        Raises:
            ArgumentTypeError: The closure is missing.
        """
        if closure is None:
            raise ArgumentTypeError("LBFGS.step", "no closure", "LBFGS evaluates the loss several times in a step",
                                "pass a function that clears gradients, computes the loss, calls backward, returns it")
        return _Run(self, enable_grad()(closure)).all()

    # ---- parameters as one vector

    def _gradient(self) -> Tensor:
        flat = []
        for parameter in self._params:
            gradient: Any = parameter.new_zeros(parameter.shape) if parameter.grad is None else parameter.grad
            gradient = gradient.to_dense() if gradient.is_sparse else gradient
            flat.append((view_as_real(gradient) if gradient.is_complex() else gradient).reshape(-1))
        return cat(flat)

    def _move(self, length: float, direction: Tensor) -> None:
        offset = 0
        for parameter in self._params:
            place = view_as_real(parameter) if parameter.is_complex() else parameter
            count = place.numel()
            place.add_(direction[offset:offset + count].view(place.shape), alpha=length)
            offset += count

    def _write(self, values: list[Tensor]) -> None:
        for parameter, value in zip(self._params, values, strict=True):
            parameter.copy_(value)


class _Run:
    """One call of ``step``; its lasting state belongs to the first parameter in the optimizer's state."""

    def __init__(self, optimizer: LBFGS, closure: Callable[[], Any]) -> None:
        self.optimizer = optimizer
        self.closure = closure
        self.options = optimizer.param_groups[0]
        self.rate = _get_value(self.options["lr"])
        self.state = optimizer.state[optimizer._params[0]]
        self.state.setdefault("func_evals", 0)
        self.state.setdefault("n_iter", 0)
        self.evaluations = 1

    def all(self) -> Any:
        """Iterate until a criterion stops."""
        state, options = self.state, self.options
        first = self.closure()
        loss = float(first)
        state["func_evals"] += 1
        gradient = self.optimizer._gradient()
        if _largest(gradient) <= options["tolerance_grad"]:
            return first
        for iteration in range(1, options["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(gradient)
            before = loss
            state["prev_flat_grad"], state["prev_loss"] = gradient.clone(), loss
            length = self.rate / max(1.0, gradient.abs().sum().item()) if state["n_iter"] == 1 else self.rate
            slope = gradient.dot(direction).item()
            if slope > -options["tolerance_change"]:
                state["t"] = length
                break
            length, loss, gradient = self._search(length, direction, loss, gradient, slope,
                                                  iteration == options["max_iter"])
            state["t"] = length
            if (iteration == options["max_iter"] or self.evaluations >= options["max_eval"]
                    or _largest(gradient) <= options["tolerance_grad"]
                    or _largest(direction) * abs(length) <= options["tolerance_change"]
                    or abs(loss - before) < options["tolerance_change"]):
                break
        return first

    def _direction(self, gradient: Tensor) -> Tensor:
        """Return the search direction: minus the gradient, corrected by the stored curvature."""
        state = self.state
        if state["n_iter"] == 1:
            state.update(d=gradient.neg(), old_dirs=[], old_stps=[], ro=[], H_diag=1)
        else:
            self._remember(gradient)
            state["d"] = self._bend(gradient)
        direction: Tensor = state["d"]
        return direction

    def _remember(self, gradient: Tensor) -> None:
        """Store the last change of parameters and gradient if the loss is convex along it."""
        state = self.state
        change, move = gradient.sub(state["prev_flat_grad"]), state["d"].mul(state["t"])
        curvature = change.dot(move)
        if curvature.item() <= LEAST_CURVATURE:
            return
        if len(state["old_dirs"]) == self.options["history_size"]:
            for name in ("old_dirs", "old_stps", "ro"):
                state[name].pop(0)
        state["old_dirs"].append(change)
        state["old_stps"].append(move)
        state["ro"].append(1.0 / curvature)
        state["H_diag"] = curvature / change.dot(change)

    def _bend(self, gradient: Tensor) -> Tensor:
        """Return the product of the inverse Hessian and the gradient, by two loops."""
        state = self.state
        changes, moves, weights = state["old_dirs"], state["old_stps"], state["ro"]
        if state.get("al") is None:
            state["al"] = [None] * self.options["history_size"]
        shares = state["al"]
        result: Tensor = gradient.neg()
        for i in reversed(range(len(changes))):
            shares[i] = moves[i].dot(result) * weights[i]
            result.sub_(changes[i] * shares[i])
        result = result * state["H_diag"]
        for i, (change, move) in enumerate(zip(changes, moves, strict=True)):
            result.add_(move * (shares[i] - change.dot(result) * weights[i]))
        return result

    def _search(self, length: float, direction: Tensor, loss: float, gradient: Tensor, slope: float,
                last: bool) -> tuple[float, float, Tensor]:
        """Move along ``direction``; return the length, and loss and gradient there (old ones after the last step)."""
        optimizer = self.optimizer
        if self.options["line_search_fn"] is None:
            optimizer._move(length, direction)
            if last:
                return length, loss, gradient
            loss, gradient, count = float(self.closure()), optimizer._gradient(), 1
        else:
            start = [parameter.clone() for parameter in optimizer._params]

            def evaluate(distance: float) -> Point:
                optimizer._move(distance, direction)
                value, there = float(self.closure()), optimizer._gradient()
                optimizer._write(start)
                return Point(distance, value, there, there.dot(direction).item())

            found, count = strong_wolfe(evaluate, length, Point(0.0, loss, gradient, slope), _largest(direction))
            length, loss, gradient = found.place, found.value, found.gradient
            optimizer._move(length, direction)
        self.evaluations += count
        self.state["func_evals"] += count
        return length, loss, gradient


def _largest(vector: Tensor) -> float:
    return float(vector.abs().max().item())
