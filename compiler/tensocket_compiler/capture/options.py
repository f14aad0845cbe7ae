"""Options: numbers in tables, such as learning rates, that graphs read at each call.

Code of the library reads an option through ``number_at`` alone, so that a recorder can put a symbolic number in its
place. That needs a proof that no other code reads it: each path to the table goes through an attribute that no code of
the program names, such as ``param_groups``, and no code but the callers of ``number_at`` names the option.

Schedules set options. They touch no tensor, so that a call of one runs as it is behind the graph; see ``run_apart``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from tensocket_operators import full
from tensocket_plugins.contract.dtypes import float64

from .guards import Effect
from .numbers import SymFloat
from .packages import is_library
from .places import Place
from .watch import Observation

#: The path of a table in a list that an attribute holds.
_IN_ATTRIBUTE: Final = re.compile(r"\.(\w+)\[\d+\]$")
#: Types of arguments with which a call may run apart: they are the same at each call, as guards tell.
_PLAIN: Final = (int, float, type(None))


class OptionPlace(Place):
    """The place of an option.

    Attributes:
        number: A tensor of float64 on the host, without dimensions, or with one for a tuple; the graph reads the
            option there.
        elements: Its elements.
    """

    __slots__ = ("_array", "_form", "elements", "number")

    def __init__(self, owner: Any, label: str, path: str, fact: Any = None) -> None:
        super().__init__(owner, label, path, fact)
        self._form = _form_of(self.read())
        self.number = full(self._form or (), 0.0, dtype=float64, device="cpu")
        self.elements = list(self.number.unbind(0)) if self._form else [self.number]
        self._array = self.number._array

    def content(self) -> Any:
        """Return ``number`` with the value of the option; the option itself if it has become something else."""
        value = self.read()
        if not self.fits(value):
            return value
        self._array[...] = value
        return self.number

    def fits(self, value: Any) -> bool:
        """Whether an option is as it was: a float, or as many of them."""
        return self._form is not None and _form_of(value) == self._form

    def numbers(self, number: Callable[[Any], Any]) -> Any:
        """Return the option with ``number(element)`` in place of each of its numbers."""
        found = tuple(map(number, self.elements))
        return found if self._form else found[0]


def _form_of(value: Any) -> tuple[int, ...] | None:
    """Return the sizes of what holds an option; None if it is neither a float nor a tuple of floats."""
    if type(value) is tuple and value and all(type(x) is float for x in value):
        return (len(value),)
    return () if type(value) is float else None


def moved_option(effect: Effect, seen: Observation | None) -> OptionPlace | None:
    """Return the place of a change of an option that the observed call read; None for others."""
    if seen is None or (id(effect.owner), effect.label) not in seen.options or not (
            None is not _form_of(effect.old) == _form_of(effect.new)):
        return None
    return OptionPlace(effect.owner, effect.label, effect.path, effect.fact)


def other_reader(place: OptionPlace, seen: Observation) -> str | None:
    """Return who may read an option otherwise than through ``number_at``; None if nobody does."""
    _, callers = seen.options[place.key]
    name = place.label[2:-2]
    for code, space in seen.codes.items():
        if name in seen.code_names(code).texts and not (code in callers and is_library(space)):
            return f"{place.path}, which changes, in {code.co_qualname}()"
    return f"{place.path}, which changes, by a name that it computes" if seen.whole else None


def is_own_path(path: str, seen: Observation) -> bool:
    """Whether a path to a table of options is the program's own."""
    found = _IN_ATTRIBUTE.search(path)
    return found is None or found[1] in seen.names or any(
        found[1] in seen.code_names(code).attributes for code, space in seen.codes.items() if not is_library(space))


class OptionReads:
    """The options that a recorded run reads, and the calls that run apart.

    Args:
        places: The options that graphs read at each call.
        number: Returns the element of a tensor as a symbolic number.
        reasons: Gets the reasons why the run is no graph.

    Attributes:
        places: The options that graphs read at each call.
        calls: The calls that run apart, in order.
        is_apart: Whether one is running.
    """

    def __init__(self, places: Iterable[Place], number: Callable[[Any], SymFloat], reasons: list[str]) -> None:
        self.places = {place.key: place for place in places if isinstance(place, OptionPlace)}
        self._values = {key: place.read() for key, place in self.places.items()}
        self._number, self._reasons = number, reasons
        self.calls: list[Callable[[], Any]] = []
        self.is_apart = False

    def number_at(self, table: dict[str, Any], key: str) -> Any:
        """Return an option: a symbolic number if graphs read it at each call."""
        place = self.places.get((id(table), f"[{key!r}]"))
        if place is None or self.is_apart or not place.fits(table[key]):
            return table[key]
        if self.calls or table[key] is not self._values[place.key]:
            self._reasons.append(f"it reads {place.path} after it has been set")
            return table[key]
        return place.numbers(self._number)

    def run(self, function: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Run a call apart."""
        if self.is_apart:
            return function(*args)
        self.check()
        # The first argument is the object of a method, which guards know.
        if any(type(x) not in _PLAIN for x in args[1:]):
            self._reasons.append(f"{function.__qualname__}() depends on more than numbers")
        self.is_apart = True
        try:
            result = function(*args)
        finally:
            self.is_apart = False
        if result is not None:
            self._reasons.append(f"{function.__qualname__}() returns something")
        self._values = {key: place.read() for key, place in self.places.items()}
        self.calls.append(lambda: function(*args))
        return result

    def check(self) -> None:
        """Note a reason if code that does not run apart has set an option."""
        self._reasons += [f"it sets {place.path}" for key, place in self.places.items()
                          if place.read() is not self._values[key]]
