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
    return [effect.path for effect in effects if not (isinstance(effect.owner, torch.Tensor) and effect.label == ".grad")]


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
    x = torch.arange(1.0, 5.0)
    try:
        try:
            guards, effects = guard(function, (x,))
        except Exception as error:
            return Verdict("refused", f"it raises {type(error).__name__}")
        if guards.refusals:
            return Verdict("refused", str(guards.refusals[0]))
        if writes(effects):
            return Verdict("refused", f"it writes to {writes(effects)[0]}")
        for _ in range(CALLS):
            before = outcome(function, x)
            idle()
            found = guards.changed()
            if found is not None:
                return Verdict("false alarm", found.path)
        change()
        found = guards.changed()
        if found is None:
            return Verdict("missed", "")
        if outcome(function, x) == before:
            return Verdict("vacuous", found.path)
        return Verdict("caught", found.path)
    finally:
        next(steps, None)
