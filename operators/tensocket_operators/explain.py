"""Which path of the ladder serves a call, and why the faster ones do not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from tensocket_core.device import BY_KEY, DeviceEntry
from tensocket_core.dispatch.layers import highest
from tensocket_core.dispatch.modes import thread_state
from tensocket_core.dispatch.operator import Operator
from tensocket_core.dispatch.trace import Tracer
from tensocket_core.keys import DEVICE_MASK, DTYPE_MASK, describe_key
from tensocket_core.launch.path import LADDER, LadderOperator
from tensocket_plugins.contract.errors import ArgumentError

from .random.positions import fork_rng_states, rng_states


@dataclass(frozen=True, slots=True)
class Rung:
    """One way in which a call could run.

    Attributes:
        path: Its name: ``entry``, ``host kernel``, ``replay``, ``plan``, ``compose``.
        served: Whether it served the call.
        reason: Why it did not; empty for the one that did and for those behind it.
    """

    path: str
    served: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """How one call of an operator ran.

    Attributes:
        operator: Name.
        key: The dispatch key in words.
        device: Where it ran.
        depth: How many operators are around it.
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
    """Of all operators that a function called, in order; prints as text."""

    def __str__(self) -> str:
        return "\n".join(map(str, self))


class _Calls(Tracer):
    """Collects operators with their keys and arguments."""

    def __init__(self) -> None:
        super().__init__(None, None)
        self.found: list[tuple[Operator, int, tuple[Any, ...], int]] = []
        self._depth = 0

    def operator(self, operator: Any, key: int, kernel: Any, args: tuple[Any, ...]) -> Any:
        """Note a call on one device, then make it."""
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
    """Return an argument without its history; what the call writes to is copied."""
    if type(value) in (list, tuple):
        return type(value)([_alone(x, copies) for x in value])
    if not hasattr(value, "_key"):
        return value
    return value.detach().clone() if copies else value.detach()


def explain(function: Callable[..., Any], *args: Any, **keywords: Any) -> Explanations:
    """Call a function, and tell for each operator that it called which path served it and why faster ones did not.

    Each of these operators runs once more, alone; what it writes to is copied before, and random numbers are those of
    the first time.

    Raises:
        ArgumentError: The function called no operator on one device.
    """
    calls = _Calls()
    with thread_state(tracer=calls):
        function(*args, **keywords)
    if not calls.found:
        raise ArgumentError("explain", f"{getattr(function, '__name__', function)!r}", "the function calls operators",
                            "pass a function and its arguments, as in explain(torch.add, a, b)")
    with fork_rng_states(rng_states()):
        return Explanations([_explained(*call) for call in calls.found])


def _explained(operator: Operator, key: int, args: tuple[Any, ...], depth: int) -> Explanation:
    below = key
    while (layer := highest(below)) is not None:
        below &= ~layer.bit
    entry = BY_KEY[below & DEVICE_MASK]
    rungs = operator.rungs(below, entry)
    reached = _reached(operator, below, entry, args, [closure for _, closure in rungs])
    served = max(reached, default=len(rungs) - 1)
    names = {name: k for k, (name, _) in enumerate(rungs)}
    found = []
    if isinstance(operator, LadderOperator):
        call = operator.signature(below, entry)
        for path in LADDER:
            k = names.pop(path.name, -1)
            reason = path.absent(operator, call) if k < 0 else path.refused(operator, call, args) if k < served else ""
            found.append(Rung(path.name, k == served, reason))
    for name, k in names.items():
        found.append(Rung(name, k == served, "handed the call on" if k < served else ""))
    return Explanation(operator.name, describe_key(key), str(entry.device), depth, tuple(found))


def _reached(operator: Operator, key: int, entry: DeviceEntry, args: tuple[Any, ...],
             closures: list[Callable[..., Any]]) -> list[int]:
    """Which closures a call enters. Those in the table have the code of these, or are machine code."""
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
