"""Blocks of a program as events, and the events of calls of modules and optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tensocket_core.dispatch.decorate import decorate

from ..nn.modules.base.hooks import register_module_forward_hook, register_module_forward_pre_hook
from ..optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from ..utils.hooks import RemovableHandle
from .collector import Collector, active
from .events import FunctionEvent


class record_function:
    """``with record_function("forward"):`` — an event around a block; also a decorator.

    Without an active profile, it does nothing.

    Args:
        name: Name of the event.
        args: Details, appended to the name.
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name
        self.args = args
        self._entered: list[tuple[Collector, FunctionEvent] | None] = []

    def __enter__(self) -> record_function:
        collector = active()
        if collector is None:
            self._entered.append(None)
        else:
            event = collector.enter(self.name if self.args is None else f"{self.name} {self.args}")
            event.is_user_annotation = True
            self._entered.append((collector, event))
        return self

    def __exit__(self, *error: object) -> None:
        entered = self._entered.pop()
        if entered is not None:
            entered[0].leave(entered[1])

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Decorate a function."""
        return decorate(lambda: self, function)  # type: ignore[no-any-return]


def watch_optimizers(collector: Collector) -> list[RemovableHandle]:
    """Record steps of optimizers as events until the handles are removed."""
    open_steps: list[FunctionEvent] = []

    def before(optimizer: Any, args: Any, kwargs: Any) -> None:
        if active() is collector:
            open_steps.append(collector.enter(f"Optimizer.step#{type(optimizer).__name__}.step"))

    def after(optimizer: Any, args: Any, kwargs: Any) -> None:
        if open_steps and active() is collector:
            collector.leave(open_steps.pop())

    return [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]


def watch_modules(collector: Collector) -> list[RemovableHandle]:
    """Record calls of modules as events until the handles are removed."""
    calls: list[FunctionEvent] = []
    numbers: dict[str, dict[int, int]] = {}

    def before(module: Any, args: Any) -> None:
        if active() is collector:
            kind = type(module).__name__
            known = numbers.setdefault(kind, {})
            calls.append(collector.enter(f"nn.Module: {kind}_{known.setdefault(id(module), len(known))}"))

    def after(module: Any, args: Any, output: Any) -> None:
        if calls and active() is collector:
            collector.leave(calls.pop())

    return [register_module_forward_pre_hook(before), register_module_forward_hook(after)]


__all__ = ["record_function"]
