"""Adversarial programs for guards: functions whose results depend on something that ``change`` changes afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import tensocket as torch
from tensocket_compiler.capture.closure import find_guards
from tensocket_compiler.capture.guards import Effect, Guards
from tensocket_compiler.capture.watch import observe

#: Calls without a change, in which guards must hold.
CALLS = 12

Program = Callable[[], Iterator[tuple[Any, ...]]]


class Verdict(NamedTuple):
    """``caught``, ``refused``, ``missed`` or ``false alarm``, and why."""

    word: str
    why: str


def summary(value: Any) -> Any:
    """A comparable summary of a result."""
    if isinstance(value, torch.Tensor):
        return value.tolist(), value.requires_grad, str(value.dtype), tuple(value.shape)
    if isinstance(value, (list, tuple)):
        return [summary(item) for item in value]
    return repr(value)


def outcome(function: Callable[..., Any], x: Any) -> Any:
    """The summary of a call's result, or the class of its exception."""
    try:
        return summary(function(x))
    except Exception as error:
        return type(error).__name__


def writes(effects: list[Effect]) -> list[str]:
    """Paths that a call writes to, besides gradients of tensors."""
    return [effect.path for effect in effects
            if not (isinstance(effect.owner, torch.Tensor) and effect.label == ".grad")]


def guard(function: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Guards, list[Effect]]:
    """Observe a call and one more; return the guards without the places that the second one wrote to."""
    for _ in range(2):
        function(*args)
    guards = find_guards(observe(function, args))
    before = guards.snapshot()
    function(*args)
    effects = guards.effects(before, guards.snapshot())
    return (guards.without(effects) if effects else guards), effects


def judge(program: Program) -> Verdict:
    """Run a program: ``yield function, change`` or ``yield function, change, idle``; ``idle`` runs between calls."""
    steps = program()
    function, change, *rest = next(steps)
    idle = rest[0] if rest else lambda: None
    try:
        return _judge(function, change, idle)
    finally:
        next(steps, None)


def _judge(function: Callable[..., Any], change: Callable[[], Any], idle: Callable[[], Any]) -> Verdict:
    x = torch.arange(1.0, 5.0)
    try:
        guards, effects = guard(function, (x,))
        reasons = [*map(str, guards.refusals), *(f"it writes to {path}" for path in writes(effects))]
    except Exception as error:
        reasons = [f"it raises {type(error).__name__}"]
    if reasons:
        change()
        return Verdict("refused", reasons[0])
    for _ in range(CALLS):
        before = outcome(function, x)
        idle()
        found = guards.changed()
        if found is not None:
            change()
            return Verdict("false alarm", f"{found.path}: {found.old!r:.60} {found.new!r:.60}")
    change()
    found = guards.changed()
    if found is None:
        return Verdict("missed", "")
    return Verdict("vacuous" if outcome(function, x) == before else "caught", found.path)
