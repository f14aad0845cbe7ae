"""Unrolled composites: the operators that an earlier call made, one after the other, without the function between.

A composite is a function over operators. After a few calls, it runs once more on stand-ins for its tensors
(``watched.py``), which refuse to show anything but layouts, and every operator that it calls is noted with its
arguments. The notes become a function: it compares the arguments' keys, layouts and values with those of the recorded
call, and calls the same operators.

That is the same as the composite by construction. Its Python code has seen only facts that the function compares again,
so that it would make the same calls; each of these takes its operator's table, as the composite's own call would, and
thus draws random numbers, writes, makes views and records gradients itself. A composite that reads elements, storage or
history of a tensor, warns, catches errors of an operator, changes modes, or uses tensors of other origin is not
unrolled. If an operator raises an error, the composite runs instead and raises its own.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

from tensocket_core.device import BY_KEY
from tensocket_core.dispatch.modes import ACTIVE, STATE, run_with_modes, thread_state
from tensocket_core.dispatch.trace import Tracer
from tensocket_core.keys import AUTOGRAD, DEVICE_MASK, DTYPE_MASK, DTYPE_OF
from tensocket_core.launch.arguments import frozen, identical
from tensocket_core.launch.entries import ENABLED
from tensocket_core.launch.replay import ELEMENTS as LAUNCHED
from tensocket_core.launch.replay import compiled_launches
from tensocket_core.promotion import DEFAULT_DTYPE
from tensocket_core.recording import OVERRIDDEN_KERNELS, RECORDING_SLOW_PATHS
from tensocket_core.tensor import Tensor
from tensocket_plugins.contract.launch_recorder import RECORDERS
from tensocket_plugins.kit.bounded import BoundedCache

from .watched import Watched, WatchError, plain, watch

if TYPE_CHECKING:
    from .composite import Composite

Closure = Callable[..., Any]
#: Calls after which a composite is unrolled, most attempts that fail, and most layouts of one closure
#: (``benchmarks/overhead.py``: unrolling costs as much as some hundred calls save).
CALLS: Final = 3
_FAILURES: Final = 4
_UNROLLED: Final = 64
#: Most elements of a tensor among the arguments, and most operators of a call.
ELEMENTS: Final = 1 << 20
_STEPS: Final = 256
#: Returned by a function for arguments that are not those of its recorded call.
_OTHER: Final = object()
_LISTS: Final = (list, tuple)
#: Types of arguments of which equal ones are mostly one object.
_SINGLE: Final = (bool, str)


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
        newest: Serves calls such as the last one, outside of modes; a list of one function.
    """

    def __init__(self, composite: Composite, run: Closure) -> None:
        self._composite, self._run = composite, run
        # By shapes and values of the arguments; emptied when it is full.
        self._known: BoundedCache[Any, Closure] = BoundedCache(_UNROLLED)
        self._missed = self._failed = 0
        self._dtype = DEFAULT_DTYPE[0]
        self.newest: list[Closure] = [_decline]

    def closure(self) -> Closure:
        """Return the function with the composite's own parameters."""
        code = self._composite.body.__code__  # type: ignore[union-attr]
        names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
        positional, named = names[:code.co_argcount], names[code.co_argcount:]
        variadic = self._composite.variadic
        at = self._composite.schema.names.index(variadic) if variadic else 0
        order = [*positional[:at], variadic, *positional[at:], *named] if variadic else [*names]
        heads = [*positional, *([f"*{variadic}"] if variadic else ["*"] if named else []), *named]
        scope: dict[str, Any] = {
            "_newest": self.newest, "_other": _OTHER, "_call": self.call, "_ACTIVE": ACTIVE, "_RECORDERS": RECORDERS,
            "_DTYPE": DEFAULT_DTYPE, "_dtype": self._dtype}
        given = ", ".join(order)
        text = (f"def unrolled({', '.join(heads)}):\n    if not (_ACTIVE or _RECORDERS) and _DTYPE[0] is _dtype:\n"
                f"        made = _newest[0]({given})\n        if made is not _other: return made\n"
                f"    return _call({given})\n")
        exec(text, scope)
        made = scope["unrolled"]
        made.__defaults__, made.__kwdefaults__ = self._composite.body.__defaults__, self._composite.body.__kwdefaults__
        return made  # type: ignore[no-any-return]

    def call(self, *args: Any) -> Any:
        """Serve a call with other arguments than the newest unrolled call."""
        if (ACTIVE and STATE.mask is None) or RECORDERS or self._failed > _FAILURES:
            return self._composite.invoke(self._run, args)
        mode = (STATE.mask if ACTIVE else None), DEFAULT_DTYPE[0]
        try:
            key = mode, _outline(args)
            found = self._known.get(key)
        except (TypeError, AttributeError):  # an argument of unknown type
            return self._composite.invoke(self._run, args)
        if found is not None:
            made = found(*args)
            if made is not _OTHER:
                if mode == (None, self._dtype):
                    self.newest[0] = found
                return made
        self._missed += 1
        if self._missed % CALLS == 0 and not OVERRIDDEN_KERNELS and not RECORDING_SLOW_PATHS and not sys.getprofile():
            made = recorded(self._composite, self._run, args)
            if made is None:
                self._failed += 1
            else:
                self._known[key] = made
        return self._composite.invoke(self._run, args)


def _decline(*args: Any) -> Any:
    return _OTHER


def _outline(value: Any) -> Any:
    """Return a key for calls with arguments of equal shapes and values.

    Raises:
        TypeError: An argument is of a type that may change while it is the same object.
    """
    if type(value) in _LISTS:
        return tuple([_outline(x) for x in value])
    return (value._key, value._array.shape) if hasattr(value, "_key") else frozen(value)


# ---------------------------------------------------------------------------------------------------- recording


def recorded(composite: Composite, run: Closure, args: tuple[Any, ...]) -> Closure | None:
    """Run a composite on stand-ins for its arguments; return a function that repeats its calls, or None.

    The run changes no argument and no random stream.
    """
    from ..random.positions import fork_rng_states, rng_states  # a module of records, which kinds define

    notes = _Notes(composite, run)
    try:
        mutated = [p.mutated for p in composite.schema.parameters]
        given = [_copied(x) if writes else x for x, writes in zip(args, mutated, strict=True)]
        watched = notes.begin(given, args)
        with fork_rng_states(rng_states()), thread_state(tracer=notes), _Unwarned():
            result = composite.invoke(run, tuple(watched))
        made = notes.function(result)
        return notes.launches(made, args) or made
    except (Exception, WatchError):  # whatever the run raised, the call itself raises its own errors
        return None


def _copied(value: Any) -> Any:
    if type(value) in _LISTS:
        return type(value)(map(_copied, value))
    if not hasattr(value, "_key"):
        return value
    made = value.clone()
    if made._array.strides != value._array.strides:
        raise WatchError("a copy has another layout")
    return made


class _Unwarned:
    """A block in which this thread's warnings end the recording before they are issued."""

    def __enter__(self) -> None:
        sys.setprofile(self._note)

    def __exit__(self, *error: object) -> None:
        sys.setprofile(None)

    @staticmethod
    def _note(frame: FrameType, event: str, value: Any) -> None:
        if value is warnings.warn or (event == "call" and frame.f_code is getattr(warnings.warn, "__code__", None)):
            raise WatchError("the function warns")


class _Notes(Tracer):
    """The operators of one call, as the text of a function.

    Attributes:
        lines: Lines of the text, one for each operator.
    """

    def __init__(self, composite: Composite, run: Closure) -> None:
        super().__init__(None, None)
        self._composite = composite
        self._exclude, self._mask = STATE.exclude, STATE.mask if ACTIVE else None
        self._places: dict[int, tuple[str, Watched]] = {}
        #: Number of the first line that changes tensors or random streams, so that the composite cannot run again.
        self._effect: int | None = None
        self._scope: dict[str, Any] = {
            "run": run, "other": _OTHER, "modes": run_with_modes, "identical": identical}
        #: Conditions on tensors, and on the other arguments.
        self._layouts: list[str] = []
        self._values: list[str] = []
        #: Lines that take lists apart, and lines that take the handles of tensors.
        self._takes: list[str] = []
        self._handles: list[str] = []
        self.lines: list[str] = []

    def begin(self, args: Sequence[Any], originals: Sequence[Any]) -> list[Any]:
        """Compare the arguments of later calls with these; return their stand-ins."""
        self._names = [f"a{k}" for k in range(len(args))]
        tensors: list[tuple[str, Any]] = []
        watched = [self._argument(name, x, y, tensors)
                   for name, x, y in zip(self._names, args, originals, strict=True)]
        for k, (name, x) in enumerate(tensors):  # whether two arguments are one tensor
            for earlier, y in tensors[:k]:
                if x is y and self._composite.schema.is_mutable:
                    raise WatchError("a tensor is written and is another argument, too")
                self._layouts.append(f"{name} is {'' if x is y else 'not '}{earlier}")
        return watched

    def _argument(self, name: str, value: Any, original: Any, tensors: list[tuple[str, Any]]) -> Any:
        if hasattr(value, "_key"):
            if value._array.size > ELEMENTS:
                raise WatchError("a large tensor")
            array, kind = original._array, self._named(type(original))
            handle = f"{name}_array"
            self._handles.append(f"{handle} = {name}._array")
            self._layouts.append(f"{name}._key == {original._key} and type({name}) is {kind} and {handle}.shape == "
                                f"{tuple(array.shape)} and {handle}.strides == {tuple(array.strides)}")
            tensors.append((name, original))
            return self._watched(value, name)
        if type(value) in _LISTS:
            self._takes.append(f"if type({name}) is not {type(value).__name__} or len({name}) != {len(value)}: "
                               "return other")
            made = []
            for k, (x, y) in enumerate(zip(value, original, strict=True)):
                self._takes.append(f"{name}_{k} = {name}[{k}]")
                made.append(self._argument(f"{name}_{k}", x, y, tensors))
            return type(value)(made)
        frozen(value)
        held = self._named(value)
        if value is None or isinstance(value, bool):
            self._values.append(f"{name} is {value}")
        elif type(value) in (int, str):
            self._values.append(f"({name} is {held} or (type({name}) is {type(value).__name__} and {name} == {held}))")
        else:
            self._values.append(f"({name} is {held} or identical({name}, {held}))")
        return value

    def _named(self, value: Any) -> str:
        """Return a name for an object in the text."""
        name = f"v{len(self._scope)}"
        self._scope[name] = value
        return name

    def _watched(self, value: Any, place: str) -> Any:
        """Return the stand-ins for the tensors of a result, which is at a place of the text."""
        if isinstance(value, Tensor):
            if id(value) not in self._places:
                self._places[id(value)] = place, watch(value, self._cut)  # keeps the tensor alive, and its id unique
            return self._places[id(value)][1]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*[self._watched(x, f"{place}[{k}]") for k, x in enumerate(value)])
        if type(value) in _LISTS:
            return type(value)([self._watched(x, f"{place}[{k}]") for k, x in enumerate(value)])
        if value is None:
            return None
        raise WatchError("an operator returns a value")

    def _text(self, value: Any) -> str:
        """Return the expression of an argument or result.

        Raises:
            WatchError: It is a tensor of unknown origin, or an object that may change.
        """
        if type(value) is Watched:
            return self._places[id(plain(value))][0]
        if isinstance(value, Tensor):
            raise WatchError("a tensor of unknown origin")
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return f"{self._named(type(value))}({', '.join(map(self._text, value))})"
        if type(value) is list:
            return f"[{', '.join(map(self._text, value))}]"
        if type(value) is tuple and any(isinstance(x, (Tensor, slice, type(Ellipsis), *_LISTS)) for x in value):
            return f"({''.join([self._text(x) + ', ' for x in value])})"
        if isinstance(value, slice):
            return f"slice({self._text(value.start)}, {self._text(value.stop)}, {self._text(value.step)})"
        try:
            if value is not Ellipsis:
                frozen(value)
        except TypeError:
            raise WatchError(f"a {type(value).__name__} among arguments") from None
        return repr(value) if value is None or type(value) in (bool, int) else self._named(value)

    def operator(self, operator: Any, key: int, kernel: Any, args: tuple[Any, ...]) -> Any:
        """Note a call of an operator, and make it; look into composites that only call other operators."""
        self._check()
        if self._mask is None and getattr(operator, "is_open", False):
            return operator.invoke(kernel, args)
        texts, name = [self._text(x) for x in args], f"t{len(self.lines)}"
        if self._mask is not None:
            text = f"modes({self._named(operator)}, {key}, ({''.join(f'{text}, ' for text in texts)}))"
        else:
            find, resolve = self._named(operator.table.get), self._named(operator.resolve)
            text = f"({find}({key}) or {resolve}({key}))({_invoked(operator, args, texts)})"
        self._note(name, text,
                   changes=operator.schema.is_mutable or "generator" in operator.schema.names)
        given = tuple(map(_plain, args))
        with thread_state(tracer=None):
            try:
                result = operator.invoke(kernel, given) if self._mask is None else run_with_modes(operator, key, given)
            except Exception as error:
                raise WatchError("an operator raises an error") from error
        return self._watched(result, name)

    def factory(self, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Note a call of a factory, and make it."""
        self._check()
        name, texts = f"t{len(self.lines)}", [self._text(x) for x in args]
        texts += [f"{key}={self._text(value)}" for key, value in keywords.items()]
        self._note(name, f"{self._named(function)}({', '.join(texts)})",
                   changes=function.__name__.startswith("rand"))
        result = function(*map(_plain, args), **{key: _plain(value) for key, value in keywords.items()})
        return self._watched(result, name)

    def helper(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Note a call of a function that sets the state of tensors, and make it."""
        return self.factory(function, args, {})

    def _cut(self, watched: Watched, name: str) -> None:
        tensor = plain(watched)
        place = self._places[id(tensor)][0]
        if not place.startswith("t"):
            raise WatchError("the function sets the state of an argument")
        self._note(f"{place}.{name}", "None", changes=False)
        setattr(tensor, name, None)

    def _check(self) -> None:
        state = STATE
        if state.exclude != self._exclude or state.include or state.function_modes or state.dispatch_modes:
            raise WatchError("the function changes modes")
        if len(self.lines) == _STEPS:
            raise WatchError("too many operators")

    def _note(self, name: str, text: str, *, changes: bool) -> None:
        if changes and self._effect is None:
            self._effect = len(self.lines)
        self.lines.append(f"{name} = {text}")

    def function(self, result: Any) -> Closure:
        """Compile the text."""
        returned = self._text(result)
        call, steps = f"run({_invoked(self._composite, None, self._names)})", [*self.lines, f"return {returned}"]
        pure = len(steps) if self._effect is None else self._effect
        lines = [f"def repeated({', '.join(self._names)}):", "    try:",
                 *[f"        {line}" for line in (*self._takes, *self._handles)],
                 f"        if not ({' and '.join([*self._layouts, *self._values]) or True}): return other",
                 "    except AttributeError: return other",
                 *(["    try:", *[f"        {line}" for line in steps[:pure]], f"    except Exception: return {call}"]
                   if pure else []), *[f"    {line}" for line in steps[pure:]], ""]
        lines += [f"def launching({', '.join(self._names)}):", *[f"    {line}" for line in steps], ""]
        exec("\n".join(lines), self._scope)
        return self._scope["repeated"]  # type: ignore[no-any-return]

    def launches(self, made: Closure, args: Sequence[Any]) -> Closure | None:
        """Return a function that repeats the launches of the operators in one call of machine code, if it is possible.

        Args:
            made: Serves the calls that have other layouts.
            args: The arguments.
        """
        tensors = [k for k, x in enumerate(args) if isinstance(x, Tensor)]
        same = {k: x for k, x in enumerate(args) if k not in tensors}
        keys = [args[k]._key for k in tensors]
        if self._mask is not None or self._effect is not None or not ENABLED or not self._alone(keys) or any(
                args[k]._array.size > LAUNCHED for k in tensors) or len(self._handles) != len(tensors) or len(
                {id(args[k]) for k in tensors}) < len(tensors):
            return None
        state = BY_KEY[keys[0] & DEVICE_MASK]
        if state.runtime.target is None:
            return None
        run = compiled_launches(state, self._scope["launching"], args, tensors, made, same=same,
                                wants_kernels=state.runtime.profile.host_resident)
        if run is None or all(x is None or type(x) in _SINGLE for x in same.values()):
            return run
        held = {k: self._named(x) for k, x in same.items()}  # the objects that machine code compares with
        given = ", ".join([held.get(k, name) for k, name in enumerate(self._names)])
        lines = [f"def lead({', '.join(self._names)}):", *[f"    {line}" for line in self._takes],
                 f"    if not ({' and '.join(self._values) or True}): return other",
                 f"    return {self._named(run)}({given})", ""]
        exec("\n".join(lines), self._scope)
        return self._scope["lead"]  # type: ignore[no-any-return]

    @staticmethod
    def _alone(keys: Sequence[int]) -> bool:
        """Whether all tensors are on one device, unrecorded, and machine code can tell their dtypes apart."""
        shared = {key & (DEVICE_MASK | DTYPE_MASK) for key in keys}
        return len({key & DEVICE_MASK for key in keys}) == 1 and not any(key & AUTOGRAD for key in keys) and (
            len(shared) == 1 or len({DTYPE_OF[key & DTYPE_MASK].numpy for key in shared}) == len(shared))


def _invoked(operator: Any, args: Sequence[Any] | None, texts: Sequence[str]) -> str:
    """Return the arguments of a closure's call; composites take some by name."""
    if operator.body is None:
        return ", ".join(texts)
    count, names = operator.positional, operator.schema.names
    if not operator.variadic:
        return ", ".join([*texts[:count], *[f"{n}={x}" for n, x in zip(names[count:], texts[count:], strict=True)]])
    at = names.index(operator.variadic)
    return ", ".join([*texts[:at], f"*{texts[at]}",
                      *[f"{n}={x}" for n, x in zip(names[at + 1:], texts[at + 1:], strict=True)]])


def _plain(value: Any) -> Any:
    if type(value) is Watched:
        return plain(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_plain, value))
    return type(value)(map(_plain, value)) if type(value) in _LISTS else value
