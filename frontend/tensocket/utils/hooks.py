"""Hooks: handles to remove them, and hooks on the gradients of a whole module."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from tensocket.errors import AutogradError
from tensocket_core.autograd.hooks import RemovableHandle
from tensocket_operators import Tensor, is_grad_enabled
from tensocket_operators.differentiation.function import Function


class _Gate(Function):
    """A function that passes tensors on, so that hooks of its node get all of their gradients together."""

    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.mark_non_differentiable(*(tensor for tensor in tensors if not tensor.requires_grad))
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return gradients


class BackwardHook:
    """The hooks on the gradients of one call of a module, as if it were one node from its inputs to its outputs.

    Args:
        module: The first argument of hooks.
        user_hooks: Called with ``(module, grad_input, grad_output)`` when gradients of the inputs are known; their
            results replace ``grad_input``.
        user_pre_hooks: Called with ``(module, grad_output)`` before that; their results replace ``grad_output``.
    """

    def __init__(
        self, module: Any, user_hooks: Sequence[Callable[..., Any]], user_pre_hooks: Sequence[Callable[..., Any]]
    ) -> None:
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self._outputs: tuple[Any, ...] | None = None
        self._n_inputs = 0
        self._input_places: list[int] | None = None

    def setup_input_hook(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments for the module, in the same positions; hooks run when their gradients are known."""
        self._n_inputs = len(args)
        passed, places, node = _through_gate(args)
        if node is None:
            return args
        self._input_places = places
        node.register_hook(lambda _, gradients: self._after(gradients))
        return passed

    def setup_output_hook(self, result: Any) -> Any:
        """Return the module's result, a tensor or tuple, through a gate that gets the gradients of all of it."""
        single = not isinstance(result, tuple)
        results = (result,) if single else result
        passed, places, node = _through_gate(results)
        if node is not None:
            node.register_prehook(lambda gradients: self._before(gradients, places, len(results)))
        if single:
            return passed[0]
        # A named tuple stays one.
        return type(result)(*passed) if hasattr(result, "_fields") else passed

    def _before(self, gradients: tuple[Any, ...], places: list[int], size: int) -> tuple[Any, ...]:
        spread = _spread(gradients, places, size)
        for hook in self.user_pre_hooks:
            spread = _replaced("full backward pre-hook", "grad_output", spread, hook(self.module, spread))
        self._outputs = spread
        if self._input_places is None and self.user_hooks:
            self._without_inputs()
        return tuple(spread[place] for place in places)

    def _without_inputs(self) -> None:
        """Run the hooks with a warning: without inputs that require a gradient, no node ends the module's part of the
        graph.
        """
        warnings.warn("Full backward hook is firing when gradients are computed with respect to module outputs since "
                      "no inputs require gradients", stacklevel=4)
        for hook in self.user_hooks:
            result = hook(self.module, (None,) * self._n_inputs, self._outputs)
            if result is not None and not (isinstance(result, tuple) and all(part is None for part in result)):
                raise AutogradError("full backward hook", "a gradient from a hook of a module none of whose inputs "
                                    "requires one", "the hook returns None or a tuple of None",
                                    "call requires_grad_() on an input")
        self._outputs = None

    def _after(self, gradients: tuple[Any, ...]) -> tuple[Any, ...] | None:
        places = self._input_places or []
        if self._outputs is None:
            # The gradient did not pass through the outputs: for example, that of the inputs alone.
            return None
        spread = _spread(gradients, places, self._n_inputs)
        for hook in self.user_hooks:
            spread = _replaced("full backward hook", "grad_input", spread, hook(self.module, spread, self._outputs))
        self._outputs = None
        return tuple(spread[place] for place in places)


def _through_gate(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[int], Any]:
    """Return ``values`` with tensors passed through a gate, their positions, and its node (None without gradients)."""
    places = [place for place, value in enumerate(values) if isinstance(value, Tensor)]
    if not (is_grad_enabled() and any(values[place].requires_grad for place in places)):
        return values, places, None
    results = list(values)
    node = None
    for place, tensor in zip(places, _Gate.apply(*(values[place] for place in places)), strict=True):
        results[place] = tensor
        node = node or tensor.grad_fn
    return tuple(results), places, node


def _spread(gradients: tuple[Any, ...], places: list[int], size: int) -> tuple[Any, ...]:
    result: list[Any] = [None] * size
    for place, gradient in zip(places, gradients, strict=True):
        result[place] = gradient
    return tuple(result)


def _replaced(kind: str, name: str, before: tuple[Any, ...], result: Any) -> tuple[Any, ...]:
    if result is None:
        return before
    values: tuple[Any, ...] = result if isinstance(result, tuple) else (result,)
    if len(values) != len(before):
        raise AutogradError(kind, f"{len(values)} gradients from a hook for {len(before)} in {name}",
                            "a hook returns as many gradients as it is given", "return an entry for each, or None")
    return values


def unserializable_hook(f: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a hook that is not saved with its tensor; hooks of tensors never are."""
    f.__torch_unserializable__ = True  # type: ignore[attr-defined]
    return f


__all__ = ["BackwardHook", "RemovableHandle", "unserializable_hook"]
