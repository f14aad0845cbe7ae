"""Compiled functions: eager calls first, then graphs in place of Python as long as their guards hold."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any, Final

from tensocket_core.device import open_device
from tensocket_core.dispatch.modes import ACTIVE, STATE
from tensocket_operators.random.positions import rng_states
from tensocket_plugins.contract.errors import CompileError

from ..capture.arguments import ArgumentGuard
from ..capture.closure import find_guards
from ..capture.guards import Guards
from ..capture.object_words import TensorPart
from ..capture.recorder import CannotRecord
from ..capture.watch import observe
from .collection import paused_collection
from .sizes import Form, Waiting
from .table import Table
from .variant import Variant, capture, has_own_builtins

#: Most attempts to capture a function for other reasons than sizes; calls that no graph fits run eagerly after that.
VARIANTS: Final = 8
#: Most observations of calls for other reasons than sizes.
OBSERVATIONS: Final = 4 * VARIANTS
#: Most observed calls that wait for the next one like them.
WAITING: Final = 16
#: Calls before the first observation, in which lazy state appears.
WARM: Final = 1


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
        dynamic: Whether calls with other sizes get graphs without a limit; False counts them like all other reasons.
        reasons: Why calls could not be captured.
    """

    def __init__(self, function: Callable[..., Any], *, fullgraph: bool = False, dynamic: bool | None = None) -> None:
        self.function = function
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self._lock = threading.RLock()
        self.reset()
        _COMPILED.add(self)

    @property
    def variants(self) -> list[Variant]:
        """Its graphs, the most recently used first."""
        return self._table.variants

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or run a graph in its place."""
        if not (ACTIVE and STATE.mask is None):
            found = self._table.find(args, kwargs)
            if found is not None:
                return found[0](found[1])
        return self._eager(args, kwargs)

    def reset(self) -> None:
        """Drop all graphs, and forget why calls could not be captured."""
        with self._lock:
            self._table = Table()
            self.reasons: list[str] = []
            self._calls = self._attempts = self._observations = self._failures = 0
            self._waiting: list[Waiting] = []

    def __reduce__(self) -> Any:
        """Return a function without graphs for copies: graphs belong to the memory of the original."""
        return _make, (self.function, self.fullgraph, self.dynamic)

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, and go on towards a variant for such calls."""
        self._calls += 1
        if not has_own_builtins():
            return self.function(*args, **kwargs)  # a program replaced what the compiler itself calls
        if self._calls <= WARM or not self._lock.acquire(blocking=False):
            return self.function(*args, **kwargs)
        try:
            if (ACTIVE and STATE.mask is None) or (self._attempts >= VARIANTS and not self._table.variants):
                return self.function(*args, **kwargs)
            return self._towards(Form(args, kwargs, self.dynamic), args, kwargs)
        finally:
            self._lock.release()

    def _towards(self, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Capture a call if one like it was observed, else observe it."""
        waiting = next((x for x in self._waiting if x.holds(args, kwargs)), None)
        if waiting is not None:
            self._waiting.remove(waiting)
            return self._captured(waiting, args, kwargs)
        known = self._table.guards_of_resized(form) if self._failures < VARIANTS else None
        if known is not None and self._table.admits(form):
            return self._observed(form, args, kwargs, known)
        if known is not None or self._attempts >= VARIANTS or self._observations >= OBSERVATIONS:
            return self.function(*args, **kwargs)
        self._observations += 1
        if self._observations == OBSERVATIONS and self._waiting:
            change = self._waiting[0].guards.changed()
            if change is not None:
                self.reasons.append(f"calls differ in what they may have read, such as {change.path}")
        return self._observed(form, args, kwargs)

    @paused_collection()
    def _observed(self, form: Form, args: tuple[Any, ...], kwargs: dict[str, Any], known: Guards | None = None) -> Any:
        """Observe a call; it waits for the next one like it.

        Args:
            form: Its arguments.
            args: Its arguments.
            kwargs: Its arguments by name.
            known: Guards, which hold, of calls that differ in sizes only.
        """
        open_device("meta")  # shapes are inferred there
        rng_states()  # makes the generators of all devices
        seen = observe(self.function, args, kwargs)
        if seen.error is not None:
            self._table.refuse(form)
            self._refuse(f"it raised {type(seen.error).__name__}")
            raise seen.error
        if known is not None and not (known.seen is not None and known.seen.covers(seen)):
            known = None
            self._table.refuse(form)  # it ran other code, whose guards are its own
        guards = find_guards(seen) if known is None else known
        if guards.refusals:
            self._refuse(str(guards.refusals[0]))
        else:
            captured = [part.owner for part in guards.parts if isinstance(part, TensorPart)]
            arguments = ArgumentGuard(args, kwargs, captured, guards.exact)
            self._waiting = [Waiting(form, arguments, guards, known is not None), *self._waiting][:WAITING]
        return seen.result

    @paused_collection()
    def _captured(self, waiting: Waiting, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        known = waiting.guards if waiting.resized else None
        self._attempts += known is None
        result, made = capture(self.function, waiting.guards if known is None else known.everything(), args, kwargs,
                               known)
        if isinstance(made, CannotRecord):
            self._failures += known is not None
            self._table.refuse(waiting.form)
            self._refuse(str(made))
        else:
            self._table.add(made, waiting.form)
        return result

    def _refuse(self, reason: str) -> None:
        """Note why a call could not be captured.

        Raises:
            CompileError: The function must be one graph.
        """
        if self.fullgraph:
            raise CompileError("compile", f"a call of {getattr(self.function, '__qualname__', self.function)!s:.60}: "
                               f"{reason}", "fullgraph=True allows no call that cannot be captured",
                               "change the function, or leave fullgraph out")
        self._attempts += 1
        if reason not in self.reasons:
            self.reasons.append(reason)


def _make(function: Callable[..., Any], fullgraph: bool, dynamic: bool | None) -> CompiledFunction:
    return CompiledFunction(function, fullgraph=fullgraph, dynamic=dynamic)
