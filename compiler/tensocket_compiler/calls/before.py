"""The state before a captured call: what it assigns and changes shows afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..capture.guards import Effect, Guards
from ..capture.object_words import TensorPart
from ..capture.options import OptionPlace
from ..capture.places import DATA, Place
from ..capture.recorder import CannotRecord
from ..capture.words import pretty
from .moving import Moves
from .unrecorded import states_of


class Before:
    """The state before a captured call.

    Args:
        guards: Everything that it may read.
        tensors: Its tensor arguments, and the tensors of moving places.
        buffers: The number of buffers that there were before it.

    Attributes:
        arrays: The memory of ``tensors``.
        buffers: See above.
        states: The states of all tensors that it may read.
    """

    def __init__(self, guards: Guards, tensors: Sequence[Any], buffers: int) -> None:
        self._guards, self.buffers = guards, buffers
        self.arrays = [x._array for x in tensors]
        moving = {id(place.owner) for place in guards.moving if place.is_memory}
        self.states = states_of([*tensors, *guards.captured], moving)
        self._facts = guards.snapshot()
        self._moving = [place for place in guards.moving if not isinstance(place, OptionPlace)]
        self._held = [place.read() for place in self._moving]
        self._parts = [part for part in guards.parts if isinstance(part, TensorPart)]
        known = {id(part.owner) for part in self._parts}
        self._watched = [(part.owner, part.owner._grad) for part in self._parts]
        self._memory = [(part, part.owner._array) for part in self._parts if DATA not in part.cut]
        self._others = [(x, x._grad) for x in tensors if id(x) not in known]

    def check_gradients(self) -> None:
        """Check that each gradient that the call assigned is an effect.

        Raises:
            CannotRecord: It assigned others.
        """
        if any(x._grad is not gradient for x, gradient in self._others):
            raise CannotRecord("it assigns the gradient of an argument")
        if any(x._grad is not gradient for x, gradient in self._watched) and not all(x.graded for x in self._parts):
            raise CannotRecord("it assigns gradients that nothing watches")

    def check_memory(self) -> None:
        """Check that tensors have their memory.

        Raises:
            Moves: Some have other memory, which they will get from each call.
        """
        moved = [Place(part.owner, DATA, pretty(part.path) + DATA) for part, array in self._memory
                 if part.owner._array is not array]
        if moved:
            raise Moves(moved)

    def effects(self) -> list[Effect]:
        """Return what the call assigned."""
        found = self._guards.effects(self._facts, self._guards.snapshot())
        return [*found, *[_assignment(place, old, new) for place, old in zip(self._moving, self._held, strict=True)
                          for new in [place.read()] if new is not old]]


def _assignment(place: Place, old: Any, new: Any) -> Effect:
    return Effect(place.path, place.owner, place.label, old, new)
