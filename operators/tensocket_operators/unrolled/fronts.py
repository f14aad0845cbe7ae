"""Unrolled composites: the operators that an earlier call made, one after the other, without the function between.

A composite is a function over operators. After a few calls, it runs once more on stand-ins for its tensors
(``stand_ins.py``), which refuse to show anything but layouts, and every operator that it calls is noted with its
arguments. The notes become a function: it compares the arguments' keys, layouts and values with those of the recorded
call, and calls the same operators.

That is the same as the composite by construction. Its Python code has seen only facts that the function compares again,
so that it would make the same calls; each of these takes its operator's table, as the composite's own call would, and
thus draws random numbers, writes, makes views and records gradients itself. A composite that reads elements, storage or
history of a tensor, warns, catches errors of an operator, changes modes, or uses tensors of other origin is not
unrolled. If an operator raises an error, the composite runs instead and raises its own; if the layout of a result turns
out to depend on values, the composite runs from then on.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from time import perf_counter
from types import CodeType
from typing import TYPE_CHECKING, Any, Final

from tensocket_core.dispatch.fallback import uncounted
from tensocket_core.dispatch.modes import ACTIVE, STATE, thread_state
from tensocket_core.keys import AUTOGRAD
from tensocket_core.launch.replay import ELEMENTS_PER_CALL
from tensocket_core.promotion import DEFAULT_DTYPE
from tensocket_core.recording import OVERRIDDEN_KERNELS, RECORDING_SLOW_PATHS
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.contract.value_observers import VALUE_OBSERVERS
from tensocket_plugins.kit.bounded import BoundedCache

from ..unwarned import WarnedError, unwarned
from .launches import launched, may_launch
from .notes import OTHER, Notes, invoked, outline, tensors_in
from .stand_ins import UnrollError

if TYPE_CHECKING:
    from ..kinds.composite import Composite

Closure = Callable[..., Any]
#: Equal calls after which a composite is unrolled, and after which its launches are recorded; most attempts that fail,
#: most unrolled calls of one closure, and most calls of which none repeats (``benchmarks/overhead.py``: unrolling costs
#: as much as some hundred calls save, the compilation of kernels as much as some thousand).
CALLS: Final = 3
_ATTEMPTS: Final = (CALLS, 2 * CALLS, 4 * CALLS, 8 * CALLS)  # a call inside another recording is not recorded
LAUNCHED_CALLS = 150
#: The calls on devices with memory of their own, where recordings copy no contents.
_CALLS_ON_DEVICES: Final = 64
#: Seconds for which a call counts as one; a slower call counts as several, since recording its launches saves as much
#: more, but at most as so many, since the first calls compile operators.
_CALL_SECONDS: Final = 10e-6
_MOST_CALLS: Final = 10
_FAILURES: Final = 4
_UNROLLED: Final = 64
#: The closures that are tried before a call's key is made.
_NEWEST: Final = 4
_MISSED: Final = 1000
#: Most elements of the tensors among the arguments, which are copied.
_ELEMENTS: Final = 1 << 20
_LISTS: Final = (list, tuple)


def unrolled(composite: Composite, run: Closure) -> Closure:
    """Return a closure that calls the operators of a composite.

    Args:
        composite: The composite.
        run: The function itself, which serves all calls that are not unrolled.
    """
    return _Front(composite, run).closure()


class _Front:
    """The unrolled calls of one closure.

    Attributes:
        newest: Closures that serve calls such as the last ones outside of modes, the last of all first: models call a
            composite with a few shapes in turn.
    """

    def __init__(self, composite: Composite, run: Closure) -> None:
        self._composite, self._run = composite, run
        self._plain = run
        # By modes, shapes and values of the arguments; emptied when they are full.
        self._known: BoundedCache[Any, Closure] = BoundedCache(_UNROLLED)
        self._seen: BoundedCache[Any, int] = BoundedCache(_MISSED)
        self._missed = self._failed = 0
        self._dtype = DEFAULT_DTYPE[0]
        self.newest: list[Closure] = [_decline] * _NEWEST
        # The same in the last other mode, as without recording.
        self._masked: tuple[Any, list[Closure]] = None, self.newest

    def closure(self) -> Closure:
        """Return a function with the composite's own parameters, which tries the newest unrolled call first."""
        scope: dict[str, Any] = {
            "__name__": __name__, "_newest": self.newest, "_other": OTHER, "_call": self.call, "_ACTIVE": ACTIVE,
            "_RECORDERS": RECORDERS, "_OBSERVERS": VALUE_OBSERVERS,
            "_DTYPE": DEFAULT_DTYPE, "_dtype": self._dtype, "_run": self._run}
        exec(_front_code(self._composite), scope)
        self._plain, made, body = scope.pop("plain"), scope.pop("unrolled"), self._composite.body
        made.__name__ = body.__name__  # which names the entries behind it
        made.__defaults__, made.__kwdefaults__ = body.__defaults__, body.__kwdefaults__
        return made  # type: ignore[no-any-return]

    def call(self, *args: Any) -> Any:
        """Serve a call with other arguments than the newest unrolled call."""
        if (ACTIVE and STATE.mask is None) or RECORDERS or VALUE_OBSERVERS or self._failed > _FAILURES:
            return self._composite.invoke(self._run, args)
        mode = (STATE.mask if ACTIVE else None), DEFAULT_DTYPE[0]
        newest = self._newest_in(mode)
        for k, closure in enumerate(newest):
            if (k or newest is not self.newest) and (made := closure(*args)) is not OTHER:
                newest[0], newest[k] = newest[k], newest[0]  # the call itself may have put others there
                return made
        made = self.find(mode, args)
        return self._composite.invoke(self._run, args) if made is OTHER else made

    def _newest_in(self, mode: tuple[Any, ...]) -> list[Closure]:
        """Return what served the last calls in a mode."""
        if mode == (None, self._dtype):
            return self.newest
        known, newest = self._masked
        if known != mode:
            newest = [_decline] * _NEWEST
            self._masked = mode, newest
        return newest

    def find(self, mode: tuple[Any, ...], args: tuple[Any, ...]) -> Any:
        """Serve a call from the recorded ones, or note it."""
        try:
            key = mode, outline(args)
            found = self._known.get(key)
        except (TypeError, AttributeError):  # an argument of unknown type
            return OTHER
        if found is not None:
            made = found(*args)
            if made is not OTHER:
                if self._known.get(key) is found:
                    newest = self._newest_in(mode)
                    newest[:] = found, *newest[:-1]
                return made
        count = self._seen[key] = self._seen.get(key, 0) + 1
        self._missed += 1
        if count in _ATTEMPTS and not OVERRIDDEN_KERNELS and not RECORDING_SLOW_PATHS and not sys.getprofile():
            self._record(key, args)
        if not self._known and (self._failed > _FAILURES or self._missed > _MISSED):
            self.newest[0] = self._plain  # no call repeats, or none can be unrolled
        return OTHER

    def _record(self, key: Any, args: tuple[Any, ...]) -> None:
        """Unroll a call; if that fails too often, calls go to the composite."""
        found = _noted(self._composite, self._run, args, partial(self._compiled, key, args))
        if found is None:
            self._failed += 1
        else:
            self._known[key] = found

    def _compiled(self, key: Any, args: tuple[Any, ...], notes: Notes, result: Any) -> Closure:
        """Return the function of a call's notes."""
        repeated = notes.function(result, self._forget)
        if not may_launch(notes, args):
            return repeated
        tensors = [x for value in args for x in tensors_in(value)]
        if all(x._device_state.runtime.profile.host_resident for x in tensors):
            calls = max(LAUNCHED_CALLS, max(x._array.size for x in tensors) // ELEMENTS_PER_CALL)
        else:
            calls = _CALLS_ON_DEVICES
        return self._patient(key, notes, repeated, calls)

    def _patient(self, key: Any, notes: Notes, repeated: Closure, calls: int) -> Closure:
        """Return ``repeated``, whose launches are recorded once it has served so many calls or taken their time."""
        left: float = calls

        def patient(*args: Any) -> Any:
            nonlocal left
            begin = perf_counter()
            made = repeated(*args)
            if made is not OTHER and left > 0:  # threads may record at once
                left -= max(1.0, min((perf_counter() - begin) / _CALL_SECONDS, _MOST_CALLS))
                if left <= 0:
                    self._promote(key, notes, patient, repeated, args)
            return made

        return patient

    def _forget(self) -> None:
        """Send all calls to the composite from now on: layouts of its operators depend on values."""
        self._failed = _FAILURES + 1
        self._known.clear()
        self._masked = None, self.newest
        self.newest[:] = self._plain, *[_decline] * (_NEWEST - 1)

    def _promote(self, key: Any, notes: Notes, patient: Closure, repeated: Closure, args: Sequence[Any]) -> None:
        """Let machine code serve further calls with such arguments, if it can; ``repeated`` alone, if it cannot."""
        if self._known.get(key) is not patient:
            return
        made = self._known[key] = launched(notes, self._composite, self._run, repeated, args) or repeated
        for newest in (self.newest, self._masked[1]):
            newest[:] = [made if known is patient else known for known in newest]


@cache
def _front_code(composite: Composite) -> CodeType:
    """Return the code of the front of a composite, and of a call of the composite by position."""
    code = composite.body.__code__
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    positional, named = names[:code.co_argcount], names[code.co_argcount:]
    variadic = composite.variadic
    at = composite.schema.names.index(variadic) if variadic else 0
    order = [*positional[:at], variadic, *positional[at:], *named] if variadic else [*names]
    heads = [*positional, *([f"*{variadic}"] if variadic else ["*"] if named else []), *named]
    given = ", ".join(order)
    text = (f"def unrolled({', '.join(heads)}):\n"
            "    if not (_ACTIVE or _RECORDERS or _OBSERVERS) and _DTYPE[0] is _dtype:\n"
            f"        made = _newest[0]({given})\n        if made is not _other: return made\n"
            f"    return _call({given})\n"
            f"def plain({given}):\n    return _run({invoked(composite, order)})\n")
    return compile(text, __file__, "exec")


def _decline(*args: Any) -> Any:
    return OTHER


# ---------------------------------------------------------------------------------------------------- recording


def _noted(composite: Composite, run: Closure, args: tuple[Any, ...],
           compiled: Callable[[Notes, Any], Closure]) -> Closure | None:
    """Run a composite on stand-ins for its arguments; return the function of its operators, or None.

    The run changes no argument, no random stream and no ledger, and nothing holds a tensor of it afterwards.
    """
    from ..random.generator import draws_aside  # a module of records, which kinds define

    if sum(x._array.size for x in tensors_in(args)) > _ELEMENTS:
        return None
    with draws_aside() as drawn:
        notes = Notes(composite, run, drawn)
        try:
            given = tuple(map(_copied, args))
            kept = _versions(composite, given)
            shown = notes.begin(given, args)
            with thread_state(tracer=notes), uncounted(), unwarned():
                result = composite.invoke(run, tuple(shown))
            return compiled(notes, result) if kept == _versions(composite, given) else None
        except (Exception, UnrollError, WarnedError):  # whatever the run raised, the call itself raises its own errors
            return None
        finally:
            notes.forget()


def _versions(composite: Composite, args: Sequence[Any]) -> list[int]:
    """Return the numbers of changes of the arguments that a composite does not declare to write to."""
    return [x._version for value, parameter in zip(args, composite.schema.parameters, strict=True)
            if not parameter.mutated for x in tensors_in(value)]


def _copied(value: Any) -> Any:
    """Return an argument on memory of its own.

    Raises:
        UnrollError: A copy has another layout.
    """
    if type(value) in _LISTS:
        return type(value)(map(_copied, value))
    if not hasattr(value, "_key"):
        return value
    made = value.clone()
    if value._key & AUTOGRAD and not made._key & AUTOGRAD:
        made.requires_grad_()  # without recording, clones require no gradient
    if made._array.strides != value._array.strides:
        made = value.new_empty_strided(value.shape, value.stride()).copy_(value)
    if made._array.strides != value._array.strides or made._key != value._key:
        raise UnrollError("a copy has another layout")
    return made
