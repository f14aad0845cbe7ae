"""Compiled functions: eager calls first, then graphs in place of Python as long as their guards hold."""

from __future__ import annotations

import functools
import os
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from tensocket_core.device import open_device
from tensocket_core.dispatch.modes import ACTIVE, STATE
from tensocket_operators.random.positions import rng_states
from tensocket_plugins.contract.errors import ArgumentError, CompileError

from ..capture.closure import find_guards
from ..capture.guards import Guards
from ..capture.recorder import CannotRecord
from ..capture.watch import observe, title_of
from .again import Again
from .check import check_call, checked_bytes
from .intercept import ALONE, alone, is_alone
from .parts import Members, Parts
from .variant import Variant, capture, has_own_builtins

#: Most variants of a function; calls that no variant fits run eagerly after that.
VARIANTS: Final = 8
#: Calls before the first observation, in which lazy state appears.
WARM: Final = 1
#: Calls in parts between the first refusal and the next attempt; each further refusal doubles them. A part needs four
#: calls to a graph.
PAUSE: Final = 4


#: Observed calls in a row after which a value that changes from call to call counts as a refusal.
RENEWALS: Final = 8
#: Bytes of arguments and captured tensors up to which the first call of each graph is checked against the function.
CHECKED_BYTES: Final = 256 << 20

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
        parts: What of it has graphs although it has none as a whole.
        check: The n-th graph call of each variant, over and over, is checked against the function; None for the first.
    """

    def __init__(self, function: Callable[..., Any], *, fullgraph: bool = False, check: int | None = None,
                 parts: Parts | None = None, members: Members | None = None) -> None:
        self.function = function
        self.fullgraph = fullgraph
        self.check = check_interval() if check is None else check or None
        self._outer, self._members = parts, members or list
        self._start()
        self._lock = threading.RLock()
        _COMPILED.add(self)

    def _start(self) -> None:
        self.variants: list[Variant] = []
        self.reasons: list[str] = []
        self.parts = self._outer or Parts(self.function, functools.partial(CompiledFunction, check=self.check or 0))
        self._calls = 0 if self._outer is None else WARM  # parts have been called before
        self._attempts = 0
        self._refusals = self._renewals = 0
        self._pause = 0
        self._guards: Guards | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or run a graph in its place."""
        if not ((ACTIVE and STATE.mask is None) or (ALONE and is_alone())):
            for number, variant in enumerate(self.variants):
                tensors = variant.fits(args, kwargs)
                if tensors is not None:
                    if number:
                        self.variants.insert(0, self.variants.pop(number))
                    if variant.hits >= variant.next_check:
                        return self._checked(variant, tensors, args, kwargs)
                    if variant.backward is not None:
                        return variant(tensors, Again(variant, self.function, args, kwargs, tensors))
                    return variant(tensors)
        return self._eager(args, kwargs)

    def reset(self) -> None:
        """Drop all graphs, and forget why calls could not be captured."""
        with self._lock:
            self._start()

    def __reduce__(self) -> Any:
        """Return a function without graphs for copies: graphs belong to the memory of the original."""
        return _make, (self.function, self.fullgraph, self.check)

    def _eager(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function, and go on towards a variant for such calls."""
        self._calls += 1
        if not has_own_builtins() or is_alone() or (ACTIVE and STATE.mask is None):
            return self.function(*args, **kwargs)  # a program replaced what the compiler itself calls, or sees calls
        if self._calls <= max(WARM, self._pause) or self.is_exhausted() or not self._lock.acquire(blocking=False):
            return (self.parts.run if self.reasons else _call)(self.function, args, kwargs)
        try:
            with alone():
                return self._observed(args, kwargs) if self._guards is None else self._captured(args, kwargs)
        finally:
            self._lock.release()

    def is_exhausted(self) -> bool:
        """Whether no further call is captured."""
        return self._attempts >= VARIANTS

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
        with self._lock, suppress(ValueError):  # another thread may have dropped it
            self.variants.remove(variant)
        name = title_of(self.function)
        if self.check is not None:
            raise CompileError("compile", f"a graph of {name}: {difference}", "a checked graph computes what the "
                               "function computes", "call the function without compile") from error
        if not any(reason.startswith("its graph was wrong") for reason in self.reasons):
            warnings.warn(f"a graph of {name} was wrong: {difference}; it is dropped, and such calls run eagerly",
                          RuntimeWarning, stacklevel=4)
        self.reasons.append(f"its graph was wrong: {difference}")

    def _observed(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        open_device("meta")  # shapes are inferred there
        rng_states()  # makes the generators of all devices
        seen = observe(self.function, args, kwargs)
        if seen.error is not None:
            self._refuse(str(next(x for x in seen.refusals if x.reason.startswith("it raised"))))
            raise seen.error
        guards = find_guards(seen, frozenset((id(x), ".grad") for x in self._members()))
        if guards.refusals:
            self._refuse(str(guards.refusals[0]))
        else:
            self._guards = guards
        return seen.result

    def _captured(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        guards, self._guards = self._guards, None
        assert guards is not None
        change = guards.changed()
        if change is not None:  # this call may read other things: observe it first
            self._renewals += 1
            if self._renewals < RENEWALS:
                return self._observed(args, kwargs)
            self._renewals = 0
            self._note(f"{change.path} changes from call to call")
            return self.function(*args, **kwargs)
        self._attempts += 1
        self._renewals = 0
        gradients = [(x, x._grad) for x in self._members()]
        result, made = capture(self.function, guards, args, kwargs)
        if any(x._grad is not gradient for x, gradient in gradients):
            made = CannotRecord("it replaces gradients")
        if isinstance(made, CannotRecord):
            self._refuse(str(made))
        else:
            self.variants.insert(0, made)
        return result

    def _refuse(self, reason: str) -> None:
        """Note why a call could not be captured.

        Raises:
            CompileError: The function must be one graph.
        """
        if self.fullgraph:
            raise CompileError("compile", f"a call of {title_of(self.function)}: "
                               f"{reason}", "fullgraph=True allows no call that cannot be captured",
                               "change the function, or leave fullgraph out")
        self._note(reason)

    def _note(self, reason: str) -> None:
        """Note why calls run eagerly, and wait until the next attempt."""
        self._attempts += 1
        self._pause = self._calls + (PAUSE << self._refusals)
        self._refusals += 1
        if reason not in self.reasons:
            self.reasons.append(reason)


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


def _call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _make(function: Callable[..., Any], fullgraph: bool, check: int | None) -> CompiledFunction:
    return CompiledFunction(function, fullgraph=fullgraph, check=check or 0)
