"""Places whose tensors a program replaces between calls or in them, which graphs take as if they were arguments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tensocket_core.tensor import Tensor

from ..capture.guards import Effect, Guards
from ..capture.options import moved_option
from ..capture.places import ADDRESS, DATA, Place
from ..capture.recorder import CannotRecord
from ..capture.words import MISSING

#: Most times that a function's places become more.
ROUNDS: Final = 16


class Moves(CannotRecord):
    """Raised for a call that replaces tensors which the graph must take from their places at each call.

    Attributes:
        places: The places.
    """

    def __init__(self, places: Sequence[Place]) -> None:
        super().__init__(f"it replaces {places[0].path}")
        self.places = places


class MovingPlaces:
    """The places of one function whose tensors graphs take from there at each call.

    A place is one of them if a call replaces its tensor, or if it has been replaced twice between calls: a tensor that
    is replaced once, by the conversion of a model, say, costs no look at each call.

    Args:
        has_options: Whether graphs read options, such as learning rates, at each call.
    """

    def __init__(self, has_options: bool) -> None:
        self._has_options = has_options
        self._rounds = 0
        self._places: dict[tuple[int, str], Place] = {}
        #: Places that were replaced once, and their new values.
        self._once: dict[tuple[int, str], tuple[Place, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._places)

    def add(self, places: Iterable[Place]) -> bool:
        """Add places; return whether this can go on: each capture may find others."""
        self._rounds += 1
        self._places.update({place.key: place for place in places})
        return self._rounds <= ROUNDS

    def note(self, guards: Guards) -> None:
        """Note the tensors and options that have been replaced since guards were made."""
        for effect in guards.changes():
            place = moved_place(effect) or (moved_option(effect, guards.seen) if self._has_options else None)
            if place is None or place.key in self._places or self._rounds > ROUNDS:
                continue
            known = self._once.get(place.key)
            if known is not None and known[1] is not effect.new:
                self.add([place])
            self._once[place.key] = place, effect.new

    def present(self) -> list[Place]:
        """Return the places that hold a tensor or nothing; objects of other kinds have to be watched."""
        return [place for place in self._places.values() if can_move(place.content())]


def moved_place(effect: Effect) -> Place | None:
    """Return the place of a change from a tensor, or to one, or of a tensor's memory; None for others."""
    owner, old, new = effect.owner, effect.old, effect.new
    of_memory = effect.label == DATA and isinstance(owner, Tensor)
    if not of_memory and not (can_move(old) and can_move(new) and (isinstance(old, Tensor) or isinstance(new, Tensor))):
        return None
    try:
        return place_of(effect)
    except CannotRecord:
        return None


def place_of(effect: Effect) -> Place:
    """Return the place of an effect.

    Raises:
        CannotRecord: No call can assign to it, or the effect adds an item to a container, or removes one.
    """
    item = effect.label[:1] == "[" or isinstance(effect.owner, list)
    if item and (effect.old is MISSING or effect.new is MISSING):
        raise CannotRecord(f"it assigns {effect.path}")
    try:
        return Place(effect.owner, effect.label, effect.path, effect.fact)
    except ValueError as error:
        raise CannotRecord(str(error)) from None


def can_move(value: Any) -> bool:
    """Whether a value, or nothing, can be compared by its form alone."""
    return value is None or value is MISSING or isinstance(value, Tensor)


def is_address(effect: Effect) -> bool:
    """Whether an effect follows from that on the memory of the same tensor."""
    return effect.label == ADDRESS and isinstance(effect.owner, Tensor)
