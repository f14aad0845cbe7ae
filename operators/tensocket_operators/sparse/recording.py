"""Autograd of sparse tensors: every operator on them is one node, with a formula or through the stored values.

A sparse tensor has its own edge in the graph. An operator with a formula (``differentiable``) computes gradients as the
operator on dense tensors does; they are dense or sparse as the incoming gradient is. Any other operator is
differentiated through the stored values (``Stored`` and ``Assembled``): its gradients have the positions of its
operands.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from tensocket_core.dispatch.modes import STATE
from tensocket_core.keys import AUTOGRAD

from ..differentiation.function import Function

F = TypeVar("F", bound=Callable[..., Any])


def records(values: Iterable[Any]) -> bool:
    """Whether a call with these arguments is recorded."""
    return STATE.grad_enabled and STATE.inference is None and any(
        x._key & AUTOGRAD for x in _tensors(values))


def _tensors(values: Iterable[Any]) -> Iterator[Any]:
    for value in values:
        if hasattr(value, "_key"):
            yield value
        elif type(value) in (list, tuple):
            yield from _tensors(value)


def _matched(value: Any, grad: Any) -> Iterator[Any]:
    """Yield the gradients of the tensors in an argument, in order."""
    if hasattr(value, "_key"):
        yield grad
    elif type(value) in (list, tuple):
        for k, x in enumerate(value):
            yield from _matched(x, None if grad is None else grad[k])


class SparseOperator(Function):
    """One call of an operator with a formula."""

    @staticmethod
    def forward(ctx: Any, rule: Callable[..., Any], formula: Callable[..., Any], reads_values: bool,
                args: tuple[Any, ...], kwargs: dict[str, Any], *tensors: Any) -> Any:
        """Run the operator without recording."""
        result = rule(*args, **kwargs)
        ctx.formula, ctx.kwargs = formula, kwargs
        if reads_values:
            ctx.plan = tuple(_outline(x) for x in args)
            ctx.save_for_backward(*tensors)
        else:  # The operands may change afterwards.
            ctx.plan = tuple(_Form(x) if hasattr(x, "_key") else x for x in args)
        return result.alias() if any(result is x for x in tensors) and hasattr(result, "alias") else result

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Return the formula's gradients."""
        saved = iter(ctx.saved_tensors)
        args = tuple(_filled(x, saved) for x in ctx.plan)
        grads = ctx.formula(grad, *args, **ctx.kwargs)
        grads = grads if type(grads) is tuple else (grads,)
        found = [g for x, y in zip(args, (*grads, *(None for _ in args)), strict=False) for g in _matched(x, y)]
        return (None, None, None, None, None, *found)


class _Form:
    """The shape, dtype and device of an operand, for formulas that read no values."""

    __slots__ = ("_key", "device", "dtype", "ndim", "shape")

    def __init__(self, source: Any) -> None:
        self.shape, self.dtype, self.device = source.shape, source.dtype, source.device
        self.ndim, self._key = len(source.shape), None


class _Place:
    """Placeholder of a tensor in the outline of arguments."""


_PLACE = _Place()


def _outline(value: Any) -> Any:
    if hasattr(value, "_key"):
        return _PLACE
    return type(value)(map(_outline, value)) if type(value) in (list, tuple) else value


def _filled(value: Any, tensors: Iterator[Any]) -> Any:
    if value is _PLACE:
        return next(tensors)
    return type(value)(_filled(x, tensors) for x in value) if type(value) in (list, tuple) else value


def differentiable(formula: Callable[..., Any], reads_values: bool = True) -> Callable[[F], F]:
    """Give an operator a formula for its gradients.

    Args:
        formula: Takes the gradient of the result and the operator's arguments. It returns the gradient of the first
            argument, or a tuple with those of the first few; None for an argument without a gradient.
        reads_values: Whether it reads values of the arguments, and not only their shapes, dtypes and devices.
    """

    def decorate(rule: F) -> F:
        signature = inspect.signature(rule)

        @functools.wraps(rule)
        def run(*args: Any, **kwargs: Any) -> Any:
            if kwargs.get("out") is not None or not records((*args, *kwargs.values())):
                return rule(*args, **kwargs)
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            return SparseOperator.apply(rule, formula, reads_values, bound.args, bound.kwargs, *_tensors(bound.args))

        return run  # type: ignore[return-value]

    return decorate


class Stored(Function):
    """The stored values of a sparse tensor, as a dense one."""

    @staticmethod
    def forward(ctx: Any, source: Any) -> Any:
        """Return an alias of the values."""
        ctx.pattern = source.alias()
        return source.raw.detach()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Return a sparse tensor with the gradient at every position."""
        return ctx.pattern.with_gradient(grad)


class Assembled(Function):
    """A sparse tensor made of values."""

    @staticmethod
    def forward(ctx: Any, values: Any, make: Callable[[Any], Any]) -> Any:
        """Return a tensor over the values."""
        made = make(values.detach())
        ctx.pattern = made.alias()
        return made

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        """Return the gradient at the positions of the values."""
        return ctx.pattern.values_in(grad), None


__all__ = ["Assembled", "SparseOperator", "Stored", "differentiable", "records"]
