"""Explanations of the path that serves a call, and why the faster paths do not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from tensocket_core.device import BY_KEY, DeviceState
from tensocket_core.dispatch.layers import highest
from tensocket_core.dispatch.modes import thread_state
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.trace import Tracer
from tensocket_core.keys import DEVICE_MASK, DTYPE_MASK, describe_key
from tensocket_core.launch.path import LadderOperator
from tensocket_plugins.contract.errors import ArgumentError

from .path_reasons import REASONS
from .random.positions import from_positions, positions


@dataclass(frozen=True, slots=True)
class Rung:
    """One path by which a call could run.

    Attributes:
        path: Name of the path: ``entry``, ``host kernel``, ``replay``, ``plan``, ``compose``.
        served: Whether it served the call.
        reason: Why it did not; empty for the path that did and for slower ones.
    """

    path: str
    served: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The path of one call of an operator.

    Attributes:
        operator: Name of the operator.
        key: The dispatch key in words.
        device: Device of the call.
        depth: Number of enclosing operators.
        rungs: The ladder for the key below its layers, fastest first.
    """

    operator: str
    key: str
    device: str
    depth: int
    rungs: tuple[Rung, ...]

    @property
    def path(self) -> str:
        """The path that served the call."""
        return next(rung.path for rung in self.rungs if rung.served)

    def __str__(self) -> str:
        width = max(len(rung.path) for rung in self.rungs)
        lines = [f"{self.operator} on {self.device}: {self.path}  [{self.key}]"]
        for rung in self.rungs:
            mark = "served" if rung.served else rung.reason or "behind it"
            lines.append(f"  {rung.path:{width}}  {mark}")
        return "\n".join("    " * self.depth + line for line in lines)


class Explanations(list[Explanation]):
    """The explanations of all operators that a function called, in order; they print as text."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))


class _Calls(Tracer):
    """Tracer that collects operators with their keys and arguments."""

    def __init__(self) -> None:
        super().__init__(None, None)
        self.found: list[tuple[Operator, int, tuple[Any, ...], int]] = []
        self._depth = 0

    def operator(self, operator: Any, key: int, kernel: Any, args: tuple[Any, ...]) -> Any:
        """Record a call on one device, then run it."""
        below = key
        while (layer := highest(below)) is not None:
            below &= ~layer.bit
        if below & DEVICE_MASK in BY_KEY and below & DTYPE_MASK:
            with thread_state(tracer=None):
                mutated = [p.mutated for p in operator.schema.parameters]
                given = tuple([_alone(x, copies) for x, copies in zip(args, mutated, strict=False)])
            self.found.append((operator, key, given, self._depth))
        self._depth += 1
        try:
            return operator.invoke(kernel, args)
        finally:
            self._depth -= 1


def _alone(value: Any, copies: bool) -> Any:
    """Return an argument without its history, as a copy if the call writes to it."""
    if type(value) in (list, tuple):
        return type(value)([_alone(x, copies) for x in value])
    if not hasattr(value, "_key"):
        return value
    return value.detach().clone() if copies else value.detach()


def explain(function: Callable[..., Any], *args: Any, **keywords: Any) -> Explanations:
    """Call a function, and explain for each operator that it calls which path serves it and why faster ones do not.

    Each of these operators runs once more, by itself, with copies of the arguments that it writes to and without
    advancing the random streams.

    Raises:
        ArgumentError: The function did not call any operator on a single device.
    """
    calls = _Calls()
    with thread_state(tracer=calls):
        function(*args, **keywords)
    if not calls.found:
        raise ArgumentError("explain", f"{getattr(function, '__name__', function)!r}", "the function calls operators",
                            "pass a function and its arguments, as in explain(torch.add, a, b)")
    with from_positions(positions()):
        return Explanations([_explained(*call) for call in calls.found])


def _explained(operator: Operator, key: int, args: tuple[Any, ...], depth: int) -> Explanation:
    below = key
    while (layer := highest(below)) is not None:
        below &= ~layer.bit
    state = BY_KEY[below & DEVICE_MASK]
    rungs = operator.rungs(below, state)
    reached = _reached(operator, below, state, args, [closure for _, closure in rungs])
    served = max(reached, default=len(rungs) - 1)
    names = {name: k for k, (name, _) in enumerate(rungs)}
    found = []
    if isinstance(operator, LadderOperator):
        call = operator.signature(below, state)
        for path in operator.paths:
            k = names.pop(path.name, -1)
            reasons = REASONS[path.name]
            reason = reasons.absent(operator, call) if k < 0 else (
                reasons.refused(operator, call, args) if k < served else "")
            found.append(Rung(path.name, k == served, reason))
    for name, k in names.items():
        found.append(Rung(name, k == served, "handed the call on" if k < served else ""))
    return Explanation(operator.name, describe_key(key), str(state.device), depth, tuple(found))


def _reached(operator: Operator, key: int, state: DeviceState, args: tuple[Any, ...],
             closures: list[Callable[..., Any]]) -> list[int]:
    """Return the indices of the closures that a call enters; a table's closures have their code or are machine code."""
    codes: dict[CodeType, int] = {}
    for k, closure in enumerate(closures):
        code = getattr(closure, "__code__", None)
        if code is not None:
            codes[code] = k
    reached: list[int] = []

    def note(frame: FrameType, event: str, value: Any) -> None:
        if event == "call" and frame.f_code in codes:
            reached.append(codes[frame.f_code])

    kernel = operator.below(key)
    if getattr(kernel, "__code__", None) is None:
        reached.append(0)
    before = sys.getprofile()
    sys.setprofile(note)
    try:
        operator.invoke(kernel, args)
    finally:
        sys.setprofile(before)
    return reached
