"""The common part of most optimizers: one update of all parameters of a group, written over lists of tensors."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket.errors import ArgumentError
from tensocket_core.keys import DTYPE_OF, WRAPPER
from tensocket_operators import Tensor, full, zeros_like
from tensocket_operators.functions import view_as_complex, view_as_real
from tensocket_operators.kinds.foreach import ListFunction
from tensocket_operators.kinds.step_counts import increase_steps
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS, number_at, number_of

from .checks import check_options, ranges
from .optimizer import (
    Optimizer,
    ParamGroup,
    ParamsT,
    _get_scalar_dtype,
    _get_value,
    _use_grad_for_differentiable,
    evaluate,
)

_key_of: Final = operator.attrgetter("_key")
#: Key bits of complex dtypes.
_COMPLEX: Final = sum(bit for bit, dtype in DTYPE_OF.items() if dtype.is_complex)


class Batch:
    """The parameters of a group that have gradients, with their gradients and states.

    Complex tensors are viewed as real ones with a last dimension of two. A differentiable step makes new states, since
    the graph of the previous step holds the old ones.

    Attributes:
        given: Parameters.
        params: The same, as real tensors.
        grads: Their gradients.
        steps: Each parameter's number of steps, including this one; empty if the optimizer does not count.
        differentiable: Whether gradients are recorded.
    """

    __slots__ = ("_complex", "differentiable", "given", "grads", "params", "states", "steps")

    def __init__(self, params: list[Tensor], states: list[dict[str, Any]], group: ParamGroup,
                 grads: list[Any] | None = None) -> None:
        grads = [parameter.grad for parameter in params] if grads is None else grads
        self.states = states
        self.differentiable = bool(group.get("differentiable"))
        self._complex = [parameter.is_complex() for parameter in params] if _any_complex(params) else None
        self.given = params
        self.params, self.grads = self._real(params), self._real(grads)
        self.steps: list[float] = []

    def _real(self, tensors: list[Tensor]) -> list[Tensor]:
        if self._complex is None:
            return tensors
        return [view_as_real(x) if flag else x for x, flag in zip(tensors, self._complex, strict=True)]

    def count(self) -> None:
        """Increase the step counts."""
        if self.differentiable:
            for state in self.states:
                state["step"] = state["step"].clone()
        self.steps = increase_steps([state["step"] for state in self.states])

    def by_step(self, numbers: Callable[..., tuple[Any, ...]], *more: list[Any]) -> list[Any]:
        """Return ``numbers(step, ...)`` of every parameter, in the form that ``update`` takes.

        Args:
            numbers: A function from a step, and one number from each list in ``more``, to the numbers of a rule.
            more: Additional lists with a number for each parameter.
        """
        given = list(zip(self.steps, *more, strict=True))
        known = {values: numbers(*values) for values in dict.fromkeys(given)}
        if len(known) == 1:
            return list(known[given[0]])
        return [list(column) for column in zip(*[known[values] for values in given], strict=True)]

    def update(self, function: ListFunction, names: Sequence[str], numbers: Sequence[Any]) -> None:
        """Change parameters and states by a rule over parameter, gradient, states and numbers.

        Args:
            function: The rule's function; it writes the parameter and the states that it changes.
            names: The states, in the order in which the rule takes them.
            numbers: One number each for all parameters, or a list with one for each parameter. While a run of this
                thread is captured, a number that changes may be a tensor.
        """
        lists = [self.params, self.grads, *[self._real([state[name] for state in self.states]) for name in names]]
        if not (self.differentiable or (VALUE_OBSERVERS and _any_tensor(numbers))):
            function(lists, numbers)
            return
        for row, items in enumerate(zip(*lists, strict=True)):
            given = [x[row] if isinstance(x, list) else x for x in numbers]
            found = function.rule(*items, *given)
            for position, value in zip(function.writes, found, strict=True):
                if position == 0 or not self.differentiable:
                    items[position].copy_(value)
                else:
                    flag = self._complex is not None and self._complex[row]
                    self.states[row][names[position - 2]] = view_as_complex(value) if flag else value

    def select(self, indices: list[int]) -> Batch:
        """Return a batch of some of the parameters."""
        if len(indices) == len(self.params):
            return self
        part = Batch.__new__(Batch)
        part.differentiable = self.differentiable
        part._complex = None if self._complex is None else [self._complex[index] for index in indices]
        part.given = [self.given[index] for index in indices]
        part.params, part.grads = [self.params[i] for i in indices], [self.grads[i] for i in indices]
        part.states = [self.states[index] for index in indices]
        part.steps = [self.steps[index] for index in indices] if self.steps else []
        return part


class ListOptimizer(Optimizer):
    """An optimizer whose steps are updates of the parameters of a group that have gradients.

    A subclass defines ``_begin``, which initialises the state of a parameter before its first step, and ``_update``,
    which does a step. ``_counts`` says whether the state has a step count; ``_ranges`` names the options that are not
    negative, with their upper bounds.
    """

    _counts = True
    _ranges = ranges()

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        check_options(type(self).__name__, defaults, self._ranges)
        super().__init__(params, defaults)

    @property
    def has_first_state(self) -> bool:
        """Whether ``first_state`` tells the state before the first step, which is then like all others."""
        return self._counts

    @_use_grad_for_differentiable
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run one step; see ``Optimizer.step``."""
        loss = evaluate(closure)
        for group in self.param_groups:
            params = []
            for parameter in group["params"]:
                gradient = parameter.grad
                if gradient is None:
                    continue
                if gradient._key & WRAPPER and gradient.is_sparse:
                    self._update_sparse(parameter, group)
                else:
                    params.append(parameter)
            if params:
                self._run(params, group)
        return loss

    def _run(self, params: list[Tensor], group: ParamGroup) -> None:
        if not self._counts:
            return self._update(Batch(params, [], group), group)
        states = []
        for parameter in params:
            state = self.state[parameter]
            if not state:
                # All states are assigned together: if memory runs out, none of them is incomplete.
                state.update(self.first_state(parameter, group))
            states.append(state)
        batch = Batch(params, states, group)
        batch.count()
        return self._update(batch, group)

    def first_state(self, parameter: Tensor, group: ParamGroup) -> dict[str, Any]:
        """Return the state of a parameter before its first step."""
        on_device = group.get("capturable") or group.get("fused")
        state: dict[str, Any] = {"step": scalar(0.0, parameter if on_device else None)}
        self._begin(state, parameter, group)
        return state

    def _begin(self, state: dict[str, Any], parameter: Tensor, group: ParamGroup) -> None:
        """Initialise the ``state`` of ``parameter``."""
        raise NotImplementedError

    @staticmethod
    def _update(batch: Batch, group: ParamGroup) -> None:
        """Change the parameters of ``batch``."""
        raise NotImplementedError

    def _update_sparse(self, parameter: Tensor, group: ParamGroup) -> None:
        """Change a parameter with a sparse gradient.

        Raises:
            ArgumentError: The optimizer does not support sparse gradients.
        """
        raise ArgumentError(f"{type(self).__name__}.step", f"a sparse gradient of shape {tuple(parameter.shape)}",
                            "only SGD, Adagrad, SparseAdam and LBFGS take sparse gradients", "use one of them")

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        for values in self.state.values():
            # Old checkpoints have Python numbers.
            if isinstance(values, dict) and "step" in values and not isinstance(values["step"], Tensor):
                values["step"] = scalar(float(values["step"]))


def entries(parameter: Tensor, group: ParamGroup) -> tuple[tuple[Tensor, ...], Tensor]:
    """Return the contents of a sparse gradient: an index of its distinct rows, and the values to minimise."""
    gradient: Any = parameter.grad
    whole = gradient.coalesce()
    values = whole.values()
    return tuple(whole.indices().unbind(0)), -values if group["maximize"] else values


def refuse_decay(optimizer: str, group: ParamGroup) -> None:
    """Refuse a sparse gradient with an L2 penalty, whose gradient is dense.

    Raises:
        ArgumentError: ``group`` has weight decay.
    """
    if group["weight_decay"]:
        raise ArgumentError(f"{optimizer}.step", f"a sparse gradient and weight_decay={group['weight_decay']}",
                            "weight decay has no sparse gradient", "pass weight_decay=0")


def scalar(value: float, like: Tensor | None = None) -> Tensor:
    """Return a number of the state, on the host or on the device of ``like``."""
    number: Tensor = full((), value, dtype=_get_scalar_dtype(), device="cpu" if like is None else like.device)
    return number


def start_with_zeros(state: dict[str, Any], parameter: Tensor, *names: str) -> None:
    """Set states ``names`` to zeros like ``parameter``."""
    for name in names:
        state[name] = zeros_like(parameter, requires_grad=False)


def rate_of(group: ParamGroup) -> Any:
    """Return the learning rate: a number, or a tensor if gradients may flow into it."""
    rate = number_at(group, "lr")
    if isinstance(rate, Tensor):
        return rate if group.get("differentiable") else number_of(rate)
    return rate


def momentum_of(group: ParamGroup) -> Any:
    """Return the option ``momentum``, which schedules may change."""
    return number_at(group, "momentum")


def betas_of(group: ParamGroup) -> tuple[Any, ...]:
    """Return the option ``betas``, whose first number schedules may change."""
    betas: tuple[Any, ...] = number_at(group, "betas")
    return betas


def decay_of(group: ParamGroup) -> str:
    """Return how the weights of a group decay: ``no``, by a ``penalty``, or directly: ``shrink``."""
    if not group["weight_decay"]:
        return "no"
    return "shrink" if group.get("decoupled_weight_decay") else "penalty"


def apply_weight_decay(p: Any, g: Any, maximize: bool, decay: str, factor: Any) -> tuple[Any, Any]:
    """Return parameter and gradient of the minimised loss with weight decay: the first part of most rules.

    Args:
        p: Parameter.
        g: Its gradient.
        maximize: Whether the gradient is that of a loss to maximise.
        decay: See ``decay_of``.
        factor: See ``decay_factor``.
    """
    if maximize:
        g = -g
    if decay == "shrink":
        return p * factor, g
    return p, g + p * factor if decay == "penalty" else g


def decay_factor(group: ParamGroup, decay: str, rate: Any) -> Any:
    """Return the number for ``apply_weight_decay``: the weight of the penalty, or the remaining share of the
    parameter.
    """
    weight = group["weight_decay"] if group.get("differentiable") else _get_value(group["weight_decay"])
    return 1 - rate * weight if decay == "shrink" else weight


def apply_step(p: Any, direction: Any, rate: Any) -> Any:
    """Return ``p - rate * direction``, also for a rate that requires a gradient."""
    return p - direction * rate


def apply_quotient_step(p: Any, numerator: Any, denominator: Any, rate: Any) -> Any:
    """Return ``p - rate * numerator / denominator``, also for a rate that requires a gradient."""
    if isinstance(rate, Tensor):
        return p - numerator / denominator * rate
    return p.addcdiv(numerator, denominator, value=-rate)


def _any_tensor(numbers: Sequence[Any]) -> bool:
    return any(isinstance(x, Tensor) for x in numbers) or any(
        isinstance(x, list) and any(isinstance(y, Tensor) for y in x) for x in numbers)


def _any_complex(params: list[Tensor]) -> bool:
    return bool(functools.reduce(operator.or_, map(_key_of, params), 0) & _COMPLEX)


def update_lists(kind: type[ListOptimizer], params: list[Tensor], grads: list[Tensor],
                 states: dict[str, Sequence[Any]], options: ParamGroup) -> None:
    """Run one step of an optimizer whose state is in lists, with one entry for each parameter.

    Args:
        kind: The optimizer.
        params: Parameters.
        grads: Their gradients.
        states: The lists by the name of the state in the optimizer. If the options need no such state, a list is empty,
            or its entries are None; the step writes replaced entries back.
        options: The options, and ``grad_scale`` and ``found_inf`` as given.

    Raises:
        ArgumentError: A list has another length, a step count is not a tensor, a gradient is sparse, or gradients are
            scaled.
    """
    name = kind.__name__.lower()
    if options.get("grad_scale") is not None or options.get("found_inf") is not None:
        raise ArgumentError(name, "grad_scale or found_inf", "gradients are not scaled", "unscale them before the step")
    lists = {key: values for key, values in {"grads": grads, **states}.items() if values or key in ("grads", "step")}
    wrong = [key for key, values in lists.items() if len(values) != len(params)]
    if wrong or not all(isinstance(step, Tensor) for step in states.get("step", ())):
        raise ArgumentError(name, f"{wrong[0] if wrong else 'step'} of {len(params)} parameters",
                            "gradients and states are tensors, one for each parameter", "pass lists of one length")
    if any(gradient.is_sparse for gradient in grads):
        raise ArgumentError(name, "a sparse gradient", "functions take dense gradients", f"use {kind.__name__}")
    del lists["grads"]
    entries = [{key: values[index] for key, values in lists.items() if values[index] is not None}
               for index in range(len(params))]
    batch = Batch(params, entries, options, grads)
    if "step" in states:
        batch.count()
    kind._update(batch, options)
    for key, values in lists.items():
        if isinstance(values, list):
            values[:] = [entry.get(key) for entry in entries]
