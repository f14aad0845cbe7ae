"""Compiled functions: eager calls first, then graphs in place of Python as long as their guards hold."""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_core.device import open_device
from tensocket_core.dispatch.modes import ACTIVE, STATE
from tensocket_operators.random.positions import rng_states
from tensocket_plugins.contract.errors import ArgumentError, CompileError

from ..capture.arguments import ArgumentGuard
from ..capture.closure import find_guards
from ..capture.guards import Guards
from ..capture.object_words import TensorPart
from ..capture.recorder import CannotRecord
from ..capture.watch import observe, title_of
from .again import Again
from .check import check_call, checked_bytes
from .collection import paused_collection
from .intercept import ALONE, alone, is_alone
from .parts import Members, Parts
from .sizes import Form, Waiting
from .table import Table
from .variant import Variant, capture, has_own_builtins

#: Most attempts to capture a function for other reasons than sizes; calls that no graph fits run eagerly after that.
VARIANTS: Final = 8
#: Most observed calls that wait for the next one like them.
WAITING: Final = 16
#: Calls before the first observation, in which lazy state appears.
WARM: Final = 1
#: Calls in parts between the first refusal and the next attempt; each further refusal doubles them. A part needs four
#: calls to a graph.
PAUSE: Final = 4
#: Observed calls since the last attempt after which a value that changes from call to call counts as a refusal.
RENEWALS: Final = 8
#: Bytes of arguments and captured tensors up to which the first call of each graph is checked against the function.
CHECKED_BYTES: Final = 256 << 20

#: All compiled functions, for ``reset``.
_COMPILED: Final[weakref.WeakSet[CompiledFunction]] = weakref.WeakSet()

#: Calls a function with arguments; it observes or captures the call.
_Step = Callable[[tuple[Any, ...], dict[str, Any]], Any]


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
        parts: What of it has graphs although it has none as a whole.
        check: The n-th graph call of each variant, over and over, is checked against the function; None for the first.
    """

    def __init__(self, function: Callable[..., Any], *, fullgraph: bool = False, dynamic: bool | None = None,
                 check: int | None = None, parts: Parts | None = None, members: Members | None = None) -> None:
        self.function = function
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.check = check_interval() if check is None else check or None
        self._outer, self._members = parts, members or list
        self._lock = threading.RLock()
        self.reset()
        _COMPILED.add(self)

    @property
    def variants(self) -> list[Variant]:
        """Its graphs, the most recently used first."""
        return self._table.variants

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or run a graph in its place."""
        if not ((ACTIVE and STATE.mask is None) or (ALONE and is_alone())):
            found = self._table.find(args, kwargs)
            if found is not None:
                variant, tensors = found
                if variant.hits >= variant.next_check:
                    return self._checked(variant, tensors, args, kwargs)
                if variant.backward is not None:
                    return variant(tensors, Again(variant, self.function, args, kwargs, tensors))
                return variant(tensors)
        return self._eager(args, kwargs)

    def reset(self) -> None:
        """Drop all graphs, and forget why calls could not be captured."""
        with self._lock:
            self._table = Table()
            self.reasons: list[str] = []
            self.parts = self._outer or Parts(self.function, functools.partial(
                CompiledFunction, dynamic=self.dynamic, check=self.check or 0))
            self._calls = 0 if self._outer is None else WARM  # parts have been called before
            self._attempts = self._failures = self._observations = self._refusals = self._pause = 0
            self._waiting: list[Waiting] = []

    def __reduce__(self) -> Any:
        """Return a function without graphs for copies: graphs belong to the memory of the original."""
        return _make, (self.function, self.fullgraph, self.dynamic, self.check)

    def is_exhausted(self) -> bool:
        """Whether no further call is captured."""
        return self._attempts >= VARIANTS and not self._table.variants

    # ------------------------------------------------------------------------------------------------ towards graphs

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, and go on towards a variant for such calls."""
        self._calls += 1
        if not has_own_builtins() or is_alone() or (ACTIVE and STATE.mask is None):
            return self.function(*args, **kwargs)  # a program replaced what the compiler itself calls, or sees calls
        if self._calls > max(WARM, self._pause) and not self.is_exhausted() and self._lock.acquire(blocking=False):
            try:
                step = self._next_step(args, kwargs)
                if step is not None:
                    with alone():
                        return step(args, kwargs)
            finally:
                self._lock.release()
        return self.parts.run(self.function, args, kwargs) if self.reasons else self.function(*args, **kwargs)

    def _next_step(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Step | None:
        """Return how to capture a call if one like it was observed, or to observe it; None if neither is worthwhile."""
        waiting = next((x for x in self._waiting if x.holds(args, kwargs)), None)
        if waiting is not None:
            self._waiting.remove(waiting)
            return functools.partial(self._captured, waiting)
        form = Form(args, kwargs, self.dynamic)
        known = self._table.guards_of_resized(form) if self._failures < VARIANTS else None
        if known is not None:
            return functools.partial(self._observed, form, known) if self._table.admits(form) else None
        if self._attempts >= VARIANTS:
            return None
        self._observations += 1
        if self._observations > RENEWALS:
            change = self._waiting[0].guards.changed() if self._waiting else None
            if change is not None:
                self._note(f"{change.path} changes from call to call")
                return None
        return functools.partial(self._observed, form, None)

    @paused_collection()
    def _observed(self, form: Form, known: Guards | None, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Observe a call; it waits for the next one like it.

        Args:
            form: Its arguments.
            known: Guards, which hold, of calls that differ in sizes only.
            args: Its arguments.
            kwargs: Its arguments by name.
        """
        open_device("meta")  # shapes are inferred there
        rng_states()  # makes the generators of all devices
        seen = observe(self.function, args, kwargs)
        if seen.error is not None:
            self._table.refuse(form)
            self._refuse(str(next(x for x in seen.refusals if x.reason.startswith("it raised"))))
            raise seen.error
        if known is not None and not (known.seen is not None and known.seen.covers(seen)):
            known = None
            self._table.refuse(form)  # it ran other code, whose guards are its own
        guards = known or find_guards(seen, frozenset((id(x), ".grad") for x in self._members()))
        if guards.refusals:
            self._refuse(str(guards.refusals[0]))
        else:
            captured = [part.owner for part in guards.parts if isinstance(part, TensorPart)]
            arguments = ArgumentGuard(args, kwargs, captured, guards.exact)
            self._waiting = [Waiting(form, arguments, guards, known is not None), *self._waiting][:WAITING]
        return seen.result

    @paused_collection()
    def _captured(self, waiting: Waiting, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Capture a call like an observed one."""
        known = waiting.guards if waiting.resized else None
        self._attempts += known is None
        self._observations = 0
        gradients = [(x, x._grad) for x in self._members()]
        result, made = capture(self.function, waiting.guards if known is None else known.everything(), args, kwargs,
                               known)
        if any(x._grad is not gradient for x, gradient in gradients):
            made = CannotRecord("it replaces gradients")
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
            raise CompileError("compile", f"a call of {title_of(self.function)}: {reason}",
                               "fullgraph=True allows no call that cannot be captured",
                               "change the function, or leave fullgraph out")
        self._note(reason)

    def _note(self, reason: str) -> None:
        """Note why calls run eagerly, and wait until the next attempt."""
        self._attempts += 1
        self._pause = self._calls + (PAUSE << self._refusals)
        self._refusals += 1
        self._observations = 0
        if reason not in self.reasons:
            self.reasons.append(reason)

    # ------------------------------------------------------------------------------------------------ checks

    def _checked(self, variant: Variant, tensors: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a graph and the function, and compare; drop the graph if it is the first time, and it is wrong.

        Raises:
            CompileError: Calls are checked on demand, and this graph is wrong.
        """
        every = self.check
        variant.next_check = sys.maxsize if every is None else variant.hits + every
        if every is None and checked_bytes(variant, tensors) > CHECKED_BYTES:
            return variant(tensors, Again(variant, self.function, args, kwargs, tensors))
        checked = check_call(variant, self.function, args, kwargs, tensors)
        if checked.difference is not None:
            self._drop(variant, str(checked.difference), checked.error)
        if checked.error is not None:
            raise checked.error
        return checked.result

    def _drop(self, variant: Variant, difference: str, error: Exception | None) -> None:
        """Drop a graph that differs from the function.

        Raises:
            CompileError: Calls are checked on demand.
        """
        with self._lock:
            self._table.drop(variant)
        name = title_of(self.function)
        if self.check is not None:
            raise CompileError("compile", f"a graph of {name}: {difference}", "a checked graph computes what the "
                               "function computes", "call the function without compile") from error
        if not any(reason.startswith("its graph was wrong") for reason in self.reasons):
            warnings.warn(f"a graph of {name} was wrong: {difference}; it is dropped, and such calls run eagerly",
                          RuntimeWarning, stacklevel=4)
        self.reasons.append(f"its graph was wrong: {difference}")


def check_interval() -> int | None:
    """Return the number in ``TENSOCKET_COMPILE_CHECK``; None if there is none.

    Raises:
        ArgumentError: It is not a number, or negative.
    """
    text = os.environ.get("TENSOCKET_COMPILE_CHECK", "0")
    if not text.isdecimal():
        raise ArgumentError("compile", f"TENSOCKET_COMPILE_CHECK={text!r}", "it is the number of graph calls after "
                            "which one is checked, or 0", "set a positive integer, or leave it out")
    return int(text) or None


def _make(function: Callable[..., Any], fullgraph: bool, dynamic: bool | None, check: int | None) -> CompiledFunction:
    return CompiledFunction(function, fullgraph=fullgraph, dynamic=dynamic, check=check or 0)
