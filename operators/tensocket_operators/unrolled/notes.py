"""Notes of the operators that a composite calls, as the text of a function that calls the same ones.

``Notes`` is a tracer. It gives the composite stand-ins for tensors (``stand_ins.py``), and operators the tensors
themselves. Each tensor has a place in the text: an argument, or the result of an earlier line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tensocket_core.dispatch.modes import ACTIVE, STATE, run_with_modes, thread_state
from tensocket_core.dispatch.trace import Tracer
from tensocket_core.geometry import memory_of
from tensocket_core.launch.arguments import frozen, identical
from tensocket_core.tensor import Tensor

from .stand_ins import StandIn, UnrollError, plain, stand_in

if TYPE_CHECKING:
    from ..kinds.composite import Composite

Closure = Callable[..., Any]
#: Returned by a function for arguments that are not those of its recorded call.
OTHER: Final = object()
#: Most elements of a tensor among the arguments, and most operators of a call.
ELEMENTS: Final = 1 << 20
_STEPS: Final = 256
_LISTS: Final = (list, tuple)
#: A name of an operator's result.
_RESULT: Final = re.compile(r"\bt\d+\b")


class Notes(Tracer):
    """The operators of one call, as the text of a function.

    Attributes:
        names: Names of the arguments.
        scope: Objects by their names in the text.
        values: Conditions on arguments that are not tensors.
        takes: Lines that take lists apart.
        masked: Whether a thread mode changes keys.
        changes: Whether an operator changes an argument or a random stream.
        result_class: Class of the results; None for a tensor or a plain tuple.
    """

    def __init__(self, composite: Composite, run: Closure) -> None:
        super().__init__(None, None)
        self._composite = composite
        self._exclude, self._mask = STATE.exclude, STATE.mask if ACTIVE else None
        self._places: dict[int, tuple[str, StandIn]] = {}
        #: Number of the first line that changes tensors or random streams, so that the composite cannot run again.
        self._effect: int | None = None
        self.scope: dict[str, Any] = {
            "__name__": __name__, "run": run, "other": OTHER, "modes": run_with_modes, "identical": identical}
        self.result_class: Any = None
        self.values: list[str] = []
        self.takes: list[str] = []
        #: Lines that take the handles of tensors, and conditions on tensors.
        self._handles: list[str] = []
        self._layouts: list[str] = []
        self._lines: list[str] = []

    @property
    def masked(self) -> bool:
        """See the class."""
        return self._mask is not None

    @property
    def changes(self) -> bool:
        """See the class."""
        return self._effect is not None

    def begin(self, args: Sequence[Any], originals: Sequence[Any]) -> list[Any]:
        """Compare the arguments of later calls with these; return their stand-ins."""
        self.names = [f"a{k}" for k in range(len(args))]
        tensors: list[tuple[str, Any]] = []
        shown = [self._argument(name, x, y, tensors)
                   for name, x, y in zip(self.names, args, originals, strict=True)]
        for k, (name, x) in enumerate(tensors):  # whether two arguments are one tensor
            for earlier, y in tensors[:k]:
                if x is y and self._composite.schema.is_mutable:
                    raise UnrollError("a tensor is written and is another argument, too")
                self._layouts.append(f"{name} is {'' if x is y else 'not '}{earlier}")
        return shown

    def _argument(self, name: str, value: Any, original: Any, tensors: list[tuple[str, Any]]) -> Any:
        if hasattr(value, "_key"):
            if value._array.size > ELEMENTS:
                raise UnrollError("a large tensor")
            array, kind = original._array, self._named(type(original))
            handle = f"{name}_array"
            self._handles.append(f"{handle} = {name}._array")
            self._layouts.append(f"{name}._key == {original._key} and type({name}) is {kind} and {handle}.shape == "
                                f"{tuple(array.shape)} and {handle}.strides == {tuple(array.strides)}")
            tensors.append((name, original))
            return self._shown(value, name)
        if type(value) in _LISTS:
            self.takes.append(f"if type({name}) is not {type(value).__name__} or len({name}) != {len(value)}: "
                               "return other")
            made = []
            for k, (x, y) in enumerate(zip(value, original, strict=True)):
                self.takes.append(f"{name}_{k} = {name}[{k}]")
                made.append(self._argument(f"{name}_{k}", x, y, tensors))
            return type(value)(made)
        frozen(value)
        held = self._named(value)
        if value is None or isinstance(value, bool):
            self.values.append(f"{name} is {value}")
        elif type(value) in (int, str):
            self.values.append(f"({name} is {held} or (type({name}) is {type(value).__name__} and {name} == {held}))")
        else:
            self.values.append(f"({name} is {held} or identical({name}, {held}))")
        return value

    def _named(self, value: Any) -> str:
        """Return a name for an object in the text."""
        name = f"v{len(self.scope)}"
        self.scope[name] = value
        return name

    def _shown(self, value: Any, place: str) -> Any:
        """Return the stand-ins for the tensors of a result, which is at a place of the text."""
        if isinstance(value, Tensor):
            if id(value) not in self._places:
                self._places[id(value)] = place, stand_in(value, self._cut)  # keeps the tensor alive, and its id unique
            return self._places[id(value)][1]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*[self._shown(x, f"{place}[{k}]") for k, x in enumerate(value)])
        if type(value) in _LISTS:
            return type(value)([self._shown(x, f"{place}[{k}]") for k, x in enumerate(value)])
        if value is None:
            return None
        raise UnrollError("an operator returns a value")

    def _text(self, value: Any) -> str:
        """Return the expression of an argument or result.

        Raises:
            UnrollError: It is a tensor of unknown origin, or an object that may change.
        """
        if type(value) is StandIn:
            return self._places[id(plain(value))][0]
        if isinstance(value, Tensor):
            raise UnrollError("a tensor of unknown origin")
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
            raise UnrollError(f"a {type(value).__name__} among arguments") from None
        return repr(value) if value is None or type(value) in (bool, int) else self._named(value)

    def operator(self, operator: Any, key: int, kernel: Any, args: tuple[Any, ...]) -> Any:
        """Note a call of an operator, and make it; look into composites that only call other operators."""
        self._check()
        if self._mask is None and getattr(operator, "is_open", False):
            return operator.invoke(kernel, args)
        texts, given = [self._text(x) for x in args], tuple(map(_plain, args))
        with thread_state(tracer=None):
            try:
                result = operator.invoke(kernel, given) if self._mask is None else run_with_modes(operator, key, given)
            except Exception as error:
                raise UnrollError("an operator raises an error") from error
        return self._shown(result, self._note(
            self._call(operator, key, texts),
            changes="generator" in operator.schema.names or self._writes(operator, given)))

    def _call(self, operator: Any, key: int, texts: Sequence[str]) -> str:
        """Return the text of a call."""
        if self._mask is not None:
            return f"modes({self._named(operator)}, {key}, ({''.join(f'{text}, ' for text in texts)}))"
        find, resolve = self._named(operator.table.get), self._named(operator.resolve)
        return f"({find}({key}) or {resolve}({key}))({invoked(operator, texts)})"

    def _writes(self, operator: Any, args: tuple[Any, ...]) -> bool:
        """Whether an operator writes to memory of the composite's arguments."""
        given = {id(memory_of(x._array)) for place, x in self._given() if place.startswith("a")}
        return any(parameter.mutated and any(id(memory_of(x._array)) in given for x in tensors_in(value))
                   for parameter, value in zip(operator.schema.parameters, args, strict=True))

    def _given(self) -> Iterator[tuple[str, Tensor]]:
        return ((place, plain(x)) for place, x in self._places.values())

    def factory(self, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Note a call of a factory, and make it."""
        self._check()
        texts = [*map(self._text, args), *[f"{key}={self._text(value)}" for key, value in keywords.items()]]
        result = function(*map(_plain, args), **{key: _plain(value) for key, value in keywords.items()})
        return self._shown(result, self._note(f"{self._named(function)}({', '.join(texts)})",
                                                changes=function.__name__.startswith("rand")))

    def helper(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Note a call of a function that sets the state of tensors or checks elements, and make it."""
        try:
            return self.factory(function, args, {})
        except Exception as error:
            raise UnrollError("a check raises an error") from error

    def _cut(self, shown: StandIn, name: str) -> None:
        tensor = plain(shown)
        place = self._places[id(tensor)][0]
        if not place.startswith("t"):
            raise UnrollError("the function sets the state of an argument")
        self._lines.append(f"{place}.{name} = None")
        setattr(tensor, name, None)

    def _check(self) -> None:
        state = STATE
        if state.exclude != self._exclude or state.include or state.function_modes or state.dispatch_modes:
            raise UnrollError("the function changes modes")
        if len(self._lines) == _STEPS:
            raise UnrollError("too many operators")

    def _note(self, text: str, *, changes: bool) -> str:
        """Add a line; return the place of its result."""
        if changes and self._effect is None:
            self._effect = len(self._lines)
        place = f"t{len(self._lines)}"
        self._lines.append(f"{place} = {text}")
        return place

    def function(self, result: Any, count: Sequence[str] = ()) -> Closure:
        """Compile the text; ``count`` is inserted behind the conditions."""
        returned = self._text(result)
        if isinstance(result, _LISTS) and type(result) is not tuple:
            self.result_class = type(result)
        call, steps = f"run({invoked(self._composite, self.names)})", self._released(f"return {returned}")
        pure = len(self._lines) + 1 if self._effect is None else self._effect
        early, late = [line for part in steps[:pure] for line in part], [line for part in steps[pure:] for line in part]
        lines = [f"def repeated({', '.join(self.names)}):", "    try:",
                 *[f"        {line}" for line in (*self.takes, *self._handles)],
                 f"        if not ({' and '.join([*self._layouts, *self.values]) or True}): return other",
                 "    except AttributeError: return other", *[f"    {line}" for line in count],
                 *(["    try:", *[f"        {line}" for line in early], f"    except Exception: return {call}"]
                   if early else []), *[f"    {line}" for line in late], ""]
        exec(compile("\n".join(lines), __file__, "exec"), self.scope)
        self._places.clear()  # the function holds no tensor of the recorded call
        return self.scope["repeated"]  # type: ignore[no-any-return]

    def _released(self, last: str) -> list[list[str]]:
        """Return the lines, each followed by the release of the results that no later line uses."""
        parts: list[list[str]] = []
        used = set(_RESULT.findall(last))
        for line in reversed(self._lines):
            found = set(_RESULT.findall(line))
            parts.append([line, *([f"del {', '.join(sorted(found - used))}"] if found - used else [])])
            used |= found
        return [*reversed(parts), [last]]


def invoked(operator: Any, texts: Sequence[str]) -> str:
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
    if type(value) is StandIn:
        return plain(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_plain, value))
    return type(value)(map(_plain, value)) if type(value) in _LISTS else value


def tensors_in(value: Any) -> Iterator[Any]:
    """Yield the tensors of an argument."""
    if hasattr(value, "_key"):
        yield value
    elif type(value) in _LISTS:
        for x in value:
            yield from tensors_in(x)
