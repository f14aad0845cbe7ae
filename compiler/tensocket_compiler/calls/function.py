"""Compiled functions: eager calls first, then graphs in place of Python as long as their guards hold."""

from __future__ import annotations

import functools
import math
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_core.device import open_device
from tensocket_core.dispatch.modes import ACTIVE, STATE
from tensocket_operators.random.positions import positions
from tensocket_plugins.contract.errors import CompileError

from ..autograd.joint import graph_states, has_graphs
from ..capture.arguments import ArgumentGuard
from ..capture.closure import find_guards
from ..capture.guards import Guards
from ..capture.recorder import CannotRecord
from ..capture.warned import Warned
from ..capture.watch import Observation, observe, title_of
from ..errors import FailOnRecompileLimitHit, RecompileError, Unsupported
from ..execute.ahead import Compilation, KernelsMissing, without_waiting
from .again import Again
from .budget import Budget, Stopwatch
from .check import check_call, checked_bytes
from .events import note_recompile, note_refusal, note_variant
from .intercept import ALONE, alone, is_alone
from .moving import Moves, MovingPlaces
from .parts import Members, Parts
from .progress import paused_collection
from .raising import run_or_repeat
from .settings import RUNNING, SETTINGS, SWITCHES, check_interval, runs_plain
from .sizes import Form, Waiting
from .table import Table
from .variant import Variant, capture, has_own_builtins

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
        parts: Modules and steps inside of it, which have graphs if it has none as a whole.
        check: The n-th graph call of each variant, over and over, is checked against the function; None for the first.
        background: Whether a thread compiles kernels, while calls stay eager.
        share: The share of the program's time that compiling may take; None for that of the settings.
        limit: Most attempts to capture the function for other reasons than sizes; None for that of the settings.
        warm: Calls before the first observation, in which lazy state appears.
        resizes: Whether calls that differ in sizes only share guards.
        has_options: Whether graphs read options, such as learning rates, at each call.
    """

    warm = WARM
    resizes = has_options = True

    def __init__(self, function: Callable[..., Any], *, fullgraph: bool = False, dynamic: bool | None = None,
                 check: int | None = None, background: bool = False, share: float | None = None,
                 parts: Parts | None = None, members: Members | None = None) -> None:
        self.function = function
        self.fullgraph = fullgraph
        self.dynamic = dynamic
        self.check = check_interval() if check is None else check or None
        self.background = background
        self.share = share
        self.limit: int | None = None
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
        if SWITCHES and runs_plain():
            return self.function(*args, **kwargs)
        if not ((ACTIVE and STATE.mask is None) or (ALONE and is_alone())):
            found = self._table.find(args, kwargs)
            if found is not None:
                variant, tensors = found
                if variant.hits >= variant.next_check:
                    return self._checked(variant, tensors, args, kwargs)
                if variant.warned and not _give(variant.warned):
                    return self._plain(*args, **kwargs)
                if variant.raises:
                    return self._run(variant, tensors, args, kwargs)
                if variant.backward is not None:
                    return variant(tensors, Again(variant, self._plain, args, kwargs, tensors))
                return variant(tensors)
        RUNNING.compiled += 1
        try:
            return self._eager(args, kwargs)
        finally:
            RUNNING.compiled -= 1

    def _plain(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; ``is_compiling`` is true meanwhile."""
        RUNNING.compiled += 1
        try:
            return self.function(*args, **kwargs)
        finally:
            RUNNING.compiled -= 1

    def reset(self) -> None:
        """Drop all graphs, and forget why calls could not be captured."""
        with self._lock:
            self._table = Table()
            self.reasons: list[str] = []
            self.parts = self._outer or self._make_parts()
            self._calls = 0 if self._outer is None else self.warm  # parts have been called before
            self._attempts = self._failures = self._observations = self._refusals = self._pause = 0
            self._waiting: list[Waiting] = []
            self._moving = MovingPlaces(self.has_options)
            self._budget = Budget(self._share())
            self._compilation: Compilation | None = None

    def __reduce__(self) -> Any:
        """Return a function without graphs for copies: graphs belong to the memory of the original."""
        return _make, (self.function, self.fullgraph, self.dynamic, self.check, self.background, self.share)

    def _make_parts(self) -> Parts | None:
        """Return what has graphs although the function has none; None if nothing is to have some."""
        return Parts(self.function, functools.partial(CompiledFunction, dynamic=self.dynamic, check=self.check or 0,
                                                      background=self.background, share=self.share))

    def _share(self) -> float:
        """Return the share of the program's time that compiling may take."""
        return math.inf if self.fullgraph else SETTINGS.budget if self.share is None else self.share

    def is_exhausted(self) -> bool:
        """Whether no further call is captured."""
        return self._attempts >= self._most() and not self._table.variants

    def _most(self) -> int:
        """Return the largest number of attempts that is allowed."""
        return SETTINGS.variants if self.limit is None else self.limit

    def add(self, variant: Any, form: Form) -> None:
        """Add the graph of calls with arguments of a form."""
        self._table.add(variant, form)
        note_variant(self.function, variant)

    # ------------------------------------------------------------------------------------------------ towards graphs

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, and go on towards a variant for such calls."""
        self._calls += 1
        if not self.reasons and self._budget.rests():
            if not is_alone():
                self._check_settings()
            return self.function(*args, **kwargs)
        if not has_own_builtins() or is_alone() or (ACTIVE and STATE.mask is None):
            return self.function(*args, **kwargs)  # a program replaced what the compiler itself calls, or sees calls
        if self._calls > self.warm:
            self._check_settings()
        if self._calls > max(self.warm, self._pause) and self._may_capture() and self._lock.acquire(blocking=False):
            watch, waiting, step, captures = Stopwatch(), len(self._waiting), None, False
            try:
                step = self._next_step(args, kwargs)
                captures = len(self._waiting) < waiting
                if step is not None:
                    with alone():
                        return step(args, kwargs)
            finally:
                if step is not None:
                    self._budget.add_step(watch, captures=captures)
                self._lock.release()
        watch = Stopwatch()
        try:
            if self.parts is None or not self.reasons:
                return self.function(*args, **kwargs)
            return self.parts.run(self.function, args, kwargs)
        finally:
            self._budget.add_call(watch)

    def _may_capture(self) -> bool:
        return (not self.is_exhausted() and SETTINGS.stance != "eager_on_recompile"
                and self._budget.admits(captures=bool(self._waiting)))

    def _check_settings(self) -> None:
        """Check that a call without a graph is allowed.

        Raises:
            FailOnRecompileLimitHit: The settings do not allow to go on without one.
            RecompileError: They allow one variant only.
        """
        if SETTINGS.stance == "fail_on_recompile" or (SETTINGS.fails_on_recompile and self._table.variants):
            raise RecompileError("compile", f"a call of {title_of(self.function)} that its graphs do not fit",
                                 "the settings allow no further graph", "see torch._dynamo.config.error_on_recompile "
                                 "and torch.compiler.set_stance")
        if SETTINGS.fails_at_limit and self._attempts >= self._most():
            raise FailOnRecompileLimitHit("compile", f"a call of {title_of(self.function)} that needs graph "
                                          f"{self._attempts + 1}", f"recompile_limit is {self._most()}",
                                          "raise torch._dynamo.config.recompile_limit")

    def _next_step(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Step | None:
        """Return how to capture a call if one like it was observed, or to observe it; None if neither is worthwhile."""
        if self._compilation is not None and self._compilation.is_running:
            return None
        waiting = next((x for x in self._waiting if x.holds(args, kwargs)), None)
        if waiting is not None:
            self._waiting.remove(waiting)
            return functools.partial(self._captured, waiting)
        form = Form(args, kwargs, self.dynamic)
        shared = self.resizes and not self._moving and self._failures < self._most()
        known = self._table.guards_of_resized(form) if shared else None
        if known is not None:
            return functools.partial(self._observed, form, known) if self._table.admits(form) else None
        if self._attempts >= self._most():
            return None
        for guards in [*[x.guards for x in self._waiting], *[x.guards for x in self.variants]][:1]:
            self._moving.note(guards)
        self._observations += 1
        if self._observations > RENEWALS:
            change = self._waiting[0].guards.changed() if self._waiting else None
            if change is not None:
                self._note(f"{change.path} changes from call to call")
                return None
        for variant in self.variants[:1]:
            note_recompile(self.function, variant.why(args, kwargs))
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
        positions()  # makes the generators of all devices
        moving = () if known else self._moving.present()
        arguments = ArgumentGuard(args, kwargs, moving=moving, begins=True)
        watch = Stopwatch()
        seen = observe(self.function, args, kwargs)
        self._budget.add_observed_run(watch)
        if seen.error is not None:
            self._table.refuse(form)
            self._refuse(str(next(x for x in seen.refusals if x.reason.startswith("it raised"))))
            raise seen.error
        if known is not None and not (known.seen is not None and known.seen.covers(seen)):
            known = None
            self._table.refuse(form)  # it ran other code, whose guards are its own
        guards, graphs = known or self._guards_of(seen, arguments), graph_states(seen.result, args, kwargs)
        if guards.refusals:
            reason = str(guards.refusals[0])
            guards.release()
            self._refuse(reason)
        elif "modified" in graphs:
            self._refuse("it modifies a tensor that the graph of its result needs")
        else:
            self._wait(form, guards, arguments, known is not None, graphs)
        return seen.result

    def _guards_of(self, seen: Observation, arguments: ArgumentGuard) -> Guards:
        """Return the guards of an observed call."""
        return find_guards(seen, frozenset((id(x), ".grad") for x in self._members()), arguments.moving)

    def _wait(self, form: Form, guards: Guards, arguments: ArgumentGuard, resized: bool, graphs: list[str]) -> None:
        """Let an observed call wait for the next one like it."""
        waiting = Waiting(form, arguments.among(guards.captured, guards.exact), guards, resized, graphs)
        self._waiting = [waiting, *self._waiting][:WAITING]

    @paused_collection()
    def _captured(self, waiting: Waiting, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Capture a call like an observed one."""
        known = waiting.guards if waiting.resized else None
        self._attempts += known is None
        self._observations = 0
        gradients = [(x, x._grad) for x in self._members()]
        with without_waiting(self.background):
            result, made = capture(self.function, waiting.guards if known is None else known.everything(), args,
                                   kwargs, known)
        if isinstance(made, KernelsMissing):
            self._compilation = made.compilation
            self._attempts -= known is None
            self._waiting.insert(0, waiting)
            return result
        if isinstance(made, Moves) and self._moving.add(made.places) and waiting.guards.seen is not None:
            self._attempts -= known is None
            arguments = ArgumentGuard(args, kwargs, moving=self._moving.present(), begins=True)
            guards = self._guards_of(waiting.guards.seen, arguments)
            if not guards.refusals:
                self._wait(waiting.form, guards, arguments, False, waiting.graphs)
                return result
            made = CannotRecord(str(guards.refusals[0]))
        if any(x._grad is not gradient for x, gradient in gradients):
            made = CannotRecord("it replaces gradients")
        if not has_graphs(result, args, kwargs, waiting.graphs):
            made = CannotRecord("it frees what the graph of its result needs")
        if isinstance(made, CannotRecord):
            self._failures += known is not None
            self._table.refuse(waiting.form)
            self._refuse(str(made))
        else:
            self.add(made, waiting.form)
        return result

    def _refuse(self, reason: str) -> None:
        """Note why a call could not be captured.

        Raises:
            Unsupported: The function must be one graph.
        """
        if self.fullgraph or SETTINGS.fails_on_break:
            raise Unsupported("compile", f"a call of {title_of(self.function)}: {reason}",
                              "fullgraph=True allows no call that cannot be captured",
                              "change the function, or leave fullgraph out")
        self._note(reason)

    def _note(self, reason: str) -> None:
        """Note why calls run eagerly, and wait until the next attempt."""
        self._attempts += 1
        self._pause = self._calls + (PAUSE << self._refusals)
        self._refusals += 1
        self._observations = 0
        note_refusal(self.function, reason)
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
            return self._run(variant, tensors, args, kwargs)
        watch = Stopwatch()
        checked = check_call(variant, self._plain, args, kwargs, tensors)
        self._budget.add_check(watch)
        if checked.difference is not None:
            self._drop(variant, str(checked.difference), checked.error)
        if checked.error is not None:
            raise checked.error
        return checked.result

    def _run(self, variant: Variant, tensors: Sequence[Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run a graph of which an operator may raise."""
        again = Again(variant, self._plain, args, kwargs, tensors)
        return run_or_repeat(variant, tensors, again, lambda: self._plain(*args, **kwargs))

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


def _give(warned: Sequence[Warned]) -> bool:
    """Give the warnings of a call; return False if one is an error now, which the function then raises."""
    try:
        for each in warned:
            each.again()
    except Warning:
        return False
    return True


def _make(function: Callable[..., Any], fullgraph: bool, dynamic: bool | None, check: int | None,
          background: bool, share: float | None) -> CompiledFunction:
    return CompiledFunction(function, fullgraph=fullgraph, dynamic=dynamic, check=check or 0, background=background,
                            share=share)
