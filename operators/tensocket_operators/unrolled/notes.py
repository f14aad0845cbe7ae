"""Notes of the operators that a composite calls, as the text of a function that calls the same ones.

``Notes`` is a tracer. It gives the composite stand-ins for tensors (``stand_ins.py``), and operators the tensors
themselves. Each tensor has a place in the text: an argument, or the result of an earlier line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tensocket_core.dispatch.modes import ACTIVE, STATE, run_with_modes, thread_state
from tensocket_core.dispatch.trace import Tracer
from tensocket_core.formats import layout, memory_format
from tensocket_core.geometry import memory_of
from tensocket_core.launch.arguments import frozen, identical
from tensocket_core.tensor import Size, Tensor
from tensocket_plugins.contract.devices import Device
from tensocket_plugins.contract.dtypes import DType

from .stand_ins import StandIn, UnrollError, is_plain_class, plain, stand_in

if TYPE_CHECKING:
    from ..kinds.composite import Composite

Closure = Callable[..., Any]
#: Returned by a function for arguments that are not those of its recorded call.
OTHER: Final = object()
#: Most operators of a call.
_STEPS: Final = 256
_LISTS: Final = (list, tuple)
#: Most levels of lists among the arguments.
_LEVELS: Final = 3
#: Kinds of operators whose results have layouts that follow from layouts.
_BY_LAYOUT: Final = frozenset({"inplace", "matmul", "pointwise", "reduction", "row", "view"})
#: Types whose equal values are identical.
_EQUAL: Final = frozenset({type(None), bool, int, str})
#: The project's own types of constants: these are immutable and hold no memory.
_CONSTANTS: Final = (DType, Device, Size, layout, memory_format)
#: A name of an operator's result.
_RESULT: Final = re.compile(r"\bt\d+\b")


class OtherLayoutError(Exception):
    """Raised in an unrolled call if the layout of a result depends on values."""


class Notes(Tracer):
    """The operators of one call, as the text of a function.

    Attributes:
        names: Names of the arguments.
        scope: Objects by their names in the text; no tensors.
        values: Conditions on arguments that are not tensors.
        distinct: Conditions that tensors of equal layouts are one or several.
        takes: Lines that take lists apart.
        masked: Whether a thread mode changes keys.
        changes: Whether an operator changes an argument or a random stream.
        result_class: Class of the results; None for a tensor or a plain tuple.
    """

    def __init__(self, composite: Composite, run: Closure, drawn: Sequence[Any]) -> None:
        super().__init__(None, None)
        self._composite, self._drawn = composite, drawn
        self._exclude, self._mask = STATE.exclude, STATE.mask if ACTIVE else None
        self._places: dict[int, tuple[str, StandIn]] = {}
        #: By the identity of an argument's memory, whether the composite may write to it.
        self._memories: dict[int, bool] = {}
        #: Number of the first step that changes arguments or random streams, so that the composite cannot run again.
        self._effect: int | None = None
        self.scope: dict[str, Any] = {"__name__": __name__, "run": run, "other": OTHER, "modes": run_with_modes,
                                      "identical": identical, "OtherLayoutError": OtherLayoutError}
        self.result_class: Any = None
        self.values: list[str] = []
        self.distinct: list[str] = []
        self.takes: list[str] = []
        #: Lines that take the handles of tensors, and conditions on tensors.
        self._handles: list[str] = []
        self._layouts: list[str] = []
        #: Steps, of one or several lines each.
        self._steps: list[list[str]] = []

    @property
    def masked(self) -> bool:
        """See the class."""
        return self._mask is not None

    @property
    def changes(self) -> bool:
        """See the class."""
        return self._effect is not None

    # ------------------------------------------------------------------------------------------------- arguments

    def begin(self, args: Sequence[Any], originals: Sequence[Any]) -> list[Any]:
        """Compare the arguments of later calls with these; return their stand-ins."""
        self.names = [f"a{k}" for k in range(len(args))]
        tensors: list[tuple[str, Any]] = []
        mutated = [p.mutated for p in self._composite.schema.parameters]
        for value, writes in zip(args, mutated, strict=True):
            for x in tensors_in(value):
                self._memories[id(memory_of(x._array))] = writes
        shown = [self._argument(name, x, y, tensors)
                 for name, x, y in zip(self.names, args, originals, strict=True)]
        for k, (name, x) in enumerate(tensors):
            for earlier, y in tensors[:k]:
                if x is y and self._composite.schema.is_mutable:
                    raise UnrollError("a tensor is written and is another argument, too")
                if x._key == y._key and x._array.shape == y._array.shape:
                    self.distinct.append(f"{name} is {'' if x is y else 'not '}{earlier}")
        return shown

    def _argument(self, name: str, value: Any, original: Any, tensors: list[tuple[str, Any]]) -> Any:
        if hasattr(value, "_key"):
            kind: Any = type(original)
            if not is_plain_class(kind):
                raise UnrollError("a tensor of another class")
            array, handle = original._array, f"{name}_array"
            self._handles.append(f"{handle} = {name}._array")
            self._layouts.append(
                f"{name}._key == {original._key} and type({name}) is {self._named(kind)} and {handle}.shape == "
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

    # ------------------------------------------------------------------------------------------- tensors and texts

    def _shown(self, value: Any, place: str, found: list[tuple[str, Tensor]] | None = None) -> Any:
        """Return the stand-ins for the tensors of a result, which is at a place of the text; add the new ones."""
        if isinstance(value, Tensor):
            if id(value) not in self._places:
                kind: Any = type(value)
                if not is_plain_class(kind):
                    raise UnrollError("a result of another class")
                self._places[id(value)] = place, stand_in(value, self)  # keeps the tensor alive, and its id unique
                if found is not None:
                    found.append((place, value))
            return self._places[id(value)][1]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return type(value)(*[self._shown(x, f"{place}[{k}]", found) for k, x in enumerate(value)])
        if type(value) in _LISTS:
            return type(value)([self._shown(x, f"{place}[{k}]", found) for k, x in enumerate(value)])
        if value is None:
            return None
        raise UnrollError("an operator returns a value")

    def _text(self, value: Any) -> str:
        """Return the expression of an argument or result.

        Raises:
            UnrollError: It is a tensor of unknown origin, or an object that may change.
        """
        if type(value) is StandIn:
            if id(plain(value)) not in self._places:
                raise UnrollError("a tensor of another call")
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

    # ------------------------------------------------------------------------------------------------------- calls

    def operator(self, operator: Any, key: int, kernel: Any, args: tuple[Any, ...]) -> Any:
        """Note a call of an operator, and make it; look into composites that only call other operators."""
        self._check()
        if self._mask is None and getattr(operator, "is_open", False):
            return operator.invoke(kernel, args)
        texts, given = [self._text(x) for x in args], tuple(map(_plain, args))
        changes, draws = self._writes(operator, given), len(self._drawn)
        with thread_state(tracer=None):
            try:
                result = operator.invoke(kernel, given) if self._mask is None else run_with_modes(operator, key, given)
            except Exception as error:
                raise UnrollError("an operator raises an error") from error
        by_layout = operator.kind in _BY_LAYOUT or getattr(operator, "settles_layouts", False) or (
            operator.makes_views and operator.body is None)
        return self._note(self._call(operator, key, texts), result, changes=changes or len(self._drawn) > draws,
                          check="" if by_layout else "layout")

    def _call(self, operator: Any, key: int, texts: Sequence[str]) -> str:
        """Return the text of a call."""
        if self._mask is not None:
            return f"modes({self._named(operator)}, {key}, ({''.join(f'{text}, ' for text in texts)}))"
        find, resolve = self._named(operator.table.get), self._named(operator.resolve)
        return f"({find}({key}) or {resolve}({key}))({invoked(operator, texts)})"

    def _writes(self, operator: Any, args: tuple[Any, ...]) -> bool:
        """Whether an operator will write to memory of the composite's arguments.

        Raises:
            UnrollError: The composite's schema does not say so.
        """
        written = [self._memories[memory] for parameter, value in zip(operator.schema.parameters, args, strict=True)
                   if parameter.mutated for x in tensors_in(value) if (memory := id(memory_of(x._array)))
                   in self._memories]
        if not all(written):
            raise UnrollError("an argument is written that is not declared so")
        return bool(written)

    def factory(self, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """Note a call of a factory, and make it.

        A thread's defaults may give its result another key in later calls, unless it follows from the arguments.
        """
        self._check()
        texts = [*map(self._text, args), *[f"{key}={self._text(value)}" for key, value in keywords.items()]]
        draws = len(self._drawn)
        result = function(*map(_plain, args), **{key: _plain(value) for key, value in keywords.items()})
        settled = any(type(x) is StandIn for x in args) or not {keywords.get("dtype"), keywords.get("device")} & {None}
        return self._note(f"{self._named(function)}({', '.join(texts)})", result,
                          changes=len(self._drawn) > draws, check="" if settled else "key")

    def helper(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Note a call of a function that sets the state of tensors, and make it."""
        return self.factory(function, args, {})

    def cut(self, shown: StandIn, name: str) -> None:
        """Note that an attribute of a new tensor becomes None, and do it."""
        tensor = plain(shown)
        place = self._places[id(tensor)][0]
        if not place.startswith("t"):
            raise UnrollError("the function sets the state of an argument")
        self._steps.append([f"{place}.{name} = None"])
        setattr(tensor, name, None)

    def _check(self) -> None:
        state = STATE
        if state.exclude != self._exclude or state.include or state.function_modes or state.dispatch_modes:
            raise UnrollError("the function changes modes")
        if len(self._steps) >= _STEPS:
            raise UnrollError("too many operators")

    def _note(self, text: str, result: Any, *, changes: bool, check: str) -> Any:
        """Add a step; return the stand-ins of its result.

        Args:
            text: The call.
            result: Its result.
            changes: Whether the composite cannot run again behind it.
            check: Facts that later calls compare: the ``"layout"`` of the results, their ``"key"``, or nothing.
        """
        if changes and self._effect is None:
            self._effect = len(self._steps)
        place = f"t{len(self._steps)}"
        found: list[tuple[str, Tensor]] = []
        shown = self._shown(result, place, found)
        self._steps.append([f"{place} = {text}"])
        if check and found:
            if self._effect is not None:
                raise UnrollError("a layout may depend on values behind a change")
            facts = [f"{name}._key == {x._key}" for name, x in found]
            if check == "layout":
                facts += [f"{name}._array.shape == {tuple(x._array.shape)} and {name}._array.strides == "
                          f"{tuple(x._array.strides)}" for name, x in found]
                facts[:0] = [f"len({place}) == {len(result)}"] if type(result) in _LISTS else []
            self._steps[-1].append(f"if not ({' and '.join(facts)}): raise OtherLayoutError")
        return shown

    # ---------------------------------------------------------------------------------------------------- the text

    def function(self, result: Any, depends: Closure) -> Closure:
        """Compile the text.

        Args:
            result: The result of the composite.
            depends: Called if a layout turns out to depend on values.
        """
        returned = self._text(result)
        if isinstance(result, _LISTS) and type(result) is not tuple:
            self.result_class = type(result)
        self.scope["depends"] = depends
        steps = self._released(f"return {returned}")
        pure = len(self._steps) + 1 if self._effect is None else self._effect
        early, late = [line for part in steps[:pure] for line in part], [line for part in steps[pure:] for line in part]
        lines = [f"def repeated({', '.join(self.names)}):", "    try:",
                 *[f"        {line}" for line in (*self.takes, *self._handles)],
                 f"        if not ({' and '.join([*self._layouts, *self.distinct, *self.values]) or True}): "
                 "return other",
                 "    except AttributeError: return other"]
        if early:  # nothing has changed yet: the composite raises its own errors
            lines += ["    try:", *[f"        {line}" for line in early],
                      "    except OtherLayoutError: depends()", "    except Exception: pass",
                      *(["    else:", *[f"        {line}" for line in late]] if late else []),
                      f"    return run({invoked(self._composite, self.names)})"]
        else:
            lines += [f"    {line}" for line in late]
        exec(compile("\n".join([*lines, ""]), __file__, "exec"), self.scope)
        return self.scope.pop("repeated")  # type: ignore[no-any-return]

    def _released(self, last: str) -> list[list[str]]:
        """Return the steps, each followed by the release of the results that no later one uses."""
        parts: list[list[str]] = []
        used = set(_RESULT.findall(last))
        for step in reversed(self._steps):
            found = set(_RESULT.findall(" ".join(step)))
            parts.append([*step, *([f"del {', '.join(sorted(found - used))}"] if found - used else [])])
            used |= found
        return [*reversed(parts), [last]]

    def forget(self) -> None:
        """Let go of all tensors of the call."""
        self._places.clear()


def constant(value: Any) -> Hashable:
    """Return a key that is equal only to keys of identical arguments.

    Raises:
        TypeError: The value may change while it is the same object, or hold memory.
    """
    kept = frozen(value)
    if type(value).__module__.startswith("tensocket") and not isinstance(value, _CONSTANTS):
        raise TypeError(f"{type(value).__name__} may hold memory")
    return kept


def outline(value: Any, levels: int = _LEVELS) -> Hashable:
    """Return a key for arguments of equal shapes and values.

    Raises:
        TypeError: An argument is of a type that may change while it is the same object, or lists are too deep.
    """
    kind = type(value)
    if kind in _EQUAL:
        return kind, value
    if kind in _LISTS:
        if not levels:
            raise TypeError("too many levels of lists")
        return (kind, *[outline(x, levels - 1) for x in value])
    return (value._key, value._array.shape) if hasattr(value, "_key") else constant(value)


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
