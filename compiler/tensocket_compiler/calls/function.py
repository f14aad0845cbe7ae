"""Compiled functions: eager calls first, then graphs in place of Python as long as their guards hold."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tensocket_core.device import open_device
from tensocket_core.dispatch.modes import ACTIVE, STATE
from tensocket_operators.random.positions import rng_states

from ..capture.arguments import ArgumentGuard
from ..capture.closure import find_guards
from ..capture.guards import Guards
from ..capture.object_words import TensorPart
from ..capture.recorder import CannotRecord
from ..capture.watch import observe
from ..errors import FailOnRecompileLimitHit, RecompileError, Unsupported
from .events import note_recompile, note_refusal, note_variant
from .settings import RUNNING, SETTINGS, SWITCHES, runs_plain
from .variant import capture, has_own_builtins

#: Calls before the first observation, in which lazy state appears.
WARM: Final = 1


#: Calls that are observed at most for each variant that is allowed: each costs some milliseconds.
OBSERVATIONS: Final = 4


@dataclass(eq=False, slots=True)
class Observed:
    """An observed call that has no variant yet; calls of a function may differ by turns.

    Attributes:
        guards: Everything that it may have read. Calls with other arguments may read other things.
        arguments: The form of its arguments.
    """

    guards: Guards
    arguments: ArgumentGuard

    def holds(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether a call now reads what the observed one did."""
        return self.arguments.matches(args, kwargs) is not None and self.guards.changed() is None


#: All compiled functions, for ``reset``.
_COMPILED: Final[weakref.WeakSet[CompiledFunction]] = weakref.WeakSet()


def reset() -> None:
    """Drop the graphs of all compiled functions, and forget why calls could not be captured."""
    for compiled in list(_COMPILED):
        compiled.reset()


class CompiledFunction:
    """A function that runs as graphs where this is sure to do the same.

    Attributes:
        function: The function.
        fullgraph: Whether a call that cannot be captured raises.
        variants: Its graphs, the most recently used first.
        reasons: Why calls could not be captured.
        limit: Most variants; None for that of the settings.
        warm: Calls before the first observation, in which lazy state appears.
    """

    warm = WARM

    def __init__(self, function: Callable[..., Any], *, fullgraph: bool = False) -> None:
        self.function = function
        self.fullgraph = fullgraph
        self.limit: int | None = None
        self.variants: list[Any] = []
        self.reasons: list[str] = []
        self._calls = 0
        self._attempts = 0
        self._observed_calls = 0
        self._observations: list[Observed] = []
        self._lock = threading.RLock()
        _COMPILED.add(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or run a graph in its place."""
        if SWITCHES and runs_plain():
            return self.function(*args, **kwargs)
        if not (ACTIVE and STATE.mask is None):
            for number, variant in enumerate(self.variants):
                tensors = variant.fits(args, kwargs)
                if tensors is not None:
                    if number:
                        self.variants.insert(0, self.variants.pop(number))
                    return variant(tensors)
        RUNNING.compiled += 1
        try:
            return self._eager(args, kwargs)
        finally:
            RUNNING.compiled -= 1

    def reset(self) -> None:
        """Drop all graphs, and forget why calls could not be captured."""
        with self._lock:
            self.variants, self.reasons = [], []
            self._calls = self._attempts = self._observed_calls = 0
            self._observations = []

    def __reduce__(self) -> Any:
        """Return a function without graphs for copies: graphs belong to the memory of the original."""
        return _make, (self.function, self.fullgraph)

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, and go on towards a variant for such calls."""
        self._calls += 1
        if not has_own_builtins():
            return self.function(*args, **kwargs)  # a program replaced what the compiler itself calls
        if self._calls <= self.warm or self._is_full() or not self._lock.acquire(blocking=False):
            return self.function(*args, **kwargs)
        try:
            if ACTIVE and STATE.mask is None:
                return self.function(*args, **kwargs)
            observed = next((x for x in self._observations if x.holds(args, kwargs)), None)
            if observed is not None:
                return self._captured(observed, args, kwargs)
            if self._observed_calls < OBSERVATIONS * self._most():
                if self.variants:
                    note_recompile(self.function, self.variants[0].why(args, kwargs))
                return self._observed(args, kwargs)
            return self.function(*args, **kwargs)
        finally:
            self._lock.release()

    def _most(self) -> int:
        """Return the largest number of variants that is allowed."""
        return SETTINGS.variants if self.limit is None else self.limit

    def _is_full(self) -> bool:
        """Whether no further variant is allowed.

        Raises:
            FailOnRecompileLimitHit: The settings do not allow to go on without one.
            RecompileError: They allow one variant only.
        """
        name = getattr(self.function, "__qualname__", self.function)
        limit = self._most()
        if SETTINGS.stance == "fail_on_recompile" or (self.variants and SETTINGS.fails_on_recompile):
            raise RecompileError("compile", f"a call of {name!s:.60} that its graphs do not fit",
                                 "the settings allow no further graph", "see torch._dynamo.config.error_on_recompile "
                                 "and torch.compiler.set_stance")
        if self._attempts >= limit and SETTINGS.fails_at_limit:
            raise FailOnRecompileLimitHit("compile", f"a call of {name!s:.60} that needs graph {self._attempts + 1}",
                                          f"recompile_limit is {limit}",
                                          "raise torch._dynamo.config.recompile_limit")
        return self._attempts >= limit or SETTINGS.stance == "eager_on_recompile"

    def _observed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._observed_calls += 1
        if self._observed_calls == OBSERVATIONS * self._most() and self._observations:
            change = self._observations[0].guards.changed()
            if change is not None:
                self.reasons.append(f"calls differ in what they may have read, such as {change.path}")
        open_device("meta")  # shapes are inferred there
        rng_states()  # makes the generators of all devices
        seen = observe(self.function, args, kwargs)
        if seen.error is not None:
            self._refuse(f"it raised {type(seen.error).__name__}")
            raise seen.error
        guards = find_guards(seen)
        if guards.refusals:
            self._refuse(str(guards.refusals[0]))
        else:
            captured = [part.owner for part in guards.parts if isinstance(part, TensorPart)]
            observed = Observed(guards, ArgumentGuard(args, kwargs, captured, guards.exact))
            self._observations = [observed, *self._observations][:self._most()]
        return seen.result

    def _captured(self, observed: Observed, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._observations.remove(observed)
        self._attempts += 1
        result, made = capture(self.function, observed.guards, args, kwargs)
        if isinstance(made, CannotRecord):
            self._refuse(str(made))
        else:
            self.add(made)
        return result

    def add(self, variant: Any) -> None:
        """Add a variant in front of the others."""
        self.variants.insert(0, variant)
        note_variant(self.function, variant)

    def _refuse(self, reason: str) -> None:
        """Note why a call could not be captured.

        Raises:
            Unsupported: The function must be one graph.
        """
        if self.fullgraph or SETTINGS.fails_on_break:
            raise Unsupported("compile", f"a call of {getattr(self.function, '__qualname__', self.function)!s:.60}: "
                               f"{reason}", "fullgraph=True allows no call that cannot be captured",
                               "change the function, or leave fullgraph out")
        self._attempts += 1
        note_refusal(self.function, reason)
        if reason not in self.reasons:
            self.reasons.append(reason)


def _make(function: Callable[..., Any], fullgraph: bool) -> CompiledFunction:
    return CompiledFunction(function, fullgraph=fullgraph)
