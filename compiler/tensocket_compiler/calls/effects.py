"""Effects of a captured call: what it assigned to objects that were there before, and how each call does it again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_core.tensor import Tensor

from ..autograd.joint import is_live
from ..capture.guards import Effect
from ..capture.places import DATA, Place
from ..capture.recorder import CannotRecord, Recorder, plain_array
from ..memory.regions import Array, Region
from .moving import Moves, can_move, is_address, place_of
from .results import Results

_new = object.__new__


def _references(value: Any) -> int:
    return sys.getrefcount(value)


#: The result of ``_references`` for an object that one attribute and one local variable of the caller refer to.
def _measure() -> int:
    holder = [object()]
    value = holder[0]
    return _references(value)


_HELD: Final = _measure()


class Slot:
    """A place to which each call assigns a tensor that it makes, such as the gradient of a parameter.

    If nobody else holds the tensor of the last call, this call writes into it: nobody can tell it from a new one.

    Attributes:
        place: The place.
        position: Number of the result of the graph that goes there.
        is_new: Whether each call makes a new one: it has a graph, or the graph reads the last one.
    """

    __slots__ = ("_last", "_make", "is_new", "place", "position")

    def __init__(self, position: int, make: Callable[..., Any], place: Place, is_new: bool) -> None:
        self.position, self.place, self.is_new = position, place, is_new
        self._make = make
        self._last: Any = None

    def memory(self) -> Array | None:
        """Return the array of the last call's tensor, if only this place refers to both."""
        tensor = self.place.read()
        if self.is_new or tensor is None or tensor is not self._last or type(tensor) is not Tensor:
            return None
        # This object and the place refer to the tensor, and the tensor alone to the array.
        if _references(tensor) != _HELD + 1 or tensor._version_counter is not None or (
                tensor.__dict__):
            return None
        array = tensor._array
        return array if _references(array) == _HELD else None

    def assign(self, arrays: Sequence[Array], reused: bool, made: list[Any]) -> None:
        """Assign the tensor of this call, and add it to ``made``."""
        if reused:
            made.append(self._last)
        else:
            self._last = self._make((), arrays, made)
            self.place.assign(self._last)


class SameSlot:
    """A place to which each call assigns a tensor that it returns or assigns elsewhere, too.

    Attributes:
        place: The place.
        position: Number of the result of the graph that the tensor is.
    """

    __slots__ = ("_make", "place", "position")

    def __init__(self, position: int, make: Callable[..., Any], place: Place) -> None:
        self.position, self.place, self._make = position, place, make

    def memory(self) -> None:
        """Return None: others hold the tensor of the last call."""

    def assign(self, arrays: Sequence[Array], reused: bool, made: list[Any]) -> None:
        """Assign the tensor of this call."""
        self.place.assign(self._make((), arrays, made))


class MemorySlot:
    """A tensor that gets other memory in each call.

    Attributes:
        place: The place of its memory.
        position: Number of the result of the graph that goes there.
    """

    __slots__ = ("place", "position")

    def __init__(self, position: int, place: Place) -> None:
        self.position, self.place = position, place

    def memory(self) -> None:
        """Return None: the graph reads the memory that this call replaces."""

    def assign(self, arrays: Sequence[Array], reused: bool, made: list[Any]) -> None:
        """Give the tensor its memory, and add it to ``made``."""
        self.place.assign(arrays[self.position])
        made.append(self.place.owner)


AnySlot = Slot | SameSlot | MemorySlot


def find_slots(effects: Sequence[Effect], moving: Sequence[Place], results: Results, recorder: Recorder,
               reads: set[int]) -> list[AnySlot | Place]:
    """Return what assigns the effects of a call again: slots, and places that get None.

    Args:
        effects: The effects.
        moving: Places whose tensors the graph takes from there.
        results: Gets the regions of the tensors that they assign.
        recorder: The recorder of the call.
        reads: Buffers that the graph reads and that were there before the call.

    Raises:
        CannotRecord: The call assigned something else.
        Moves: It replaced tensors that decide what the next call does.
    """
    known = {place.key: place for place in moving}
    found = [(effect, known.get((id(effect.owner), effect.label)) or place_of(effect)) for effect in effects
             if not is_address(effect)]
    others = [place for effect, place in found if place.key not in known and _decides(effect, recorder, reads)]
    if others:
        raise Moves(others)
    # A tensor that several places get is made for the first of them.
    again = {id(effect.new) for effect, _ in found if isinstance(effect.new, Tensor) and (
        results.has(effect.new) or sum(effect.new is other.new for other, _ in found) > 1)}
    return [_slot(effect, place, place.key in known or id(effect.new) in again, results) for effect, place in found]


def _decides(effect: Effect, recorder: Recorder, reads: set[int]) -> bool:
    """Whether a later call may do something else because of what this one assigned; gradients are watched anyway."""
    old, new = effect.old, effect.new
    if effect.label == DATA and isinstance(effect.owner, Tensor):
        return True
    if effect.label != ".grad":
        return can_move(new) and can_move(old)
    return isinstance(old, Tensor) and recorder.recording.memory.find(plain_array(old)) is not None and (
        recorder.region(old).buffer.number in reads)


def _slot(effect: Effect, place: Place, is_new: bool, results: Results) -> AnySlot | Place:
    """Return what assigns an effect again.

    Args:
        effect: The effect.
        place: Where it assigns.
        is_new: Whether each call makes a new tensor.
        results: Gets the region of the tensor.
    """
    old, new = effect.old, effect.new
    if place.is_memory:
        return MemorySlot(results.add_memory(place.owner), place)
    if isinstance(new, Tensor):
        count = len(results.regions)
        make = results.new_tensor(new)
        if len(results.regions) == count:
            return SameSlot(results.number_of(new), make, place)
        return Slot(count, make, place, is_new or is_live(new, results.borders))
    if new is None and can_move(old):
        return place
    raise CannotRecord(f"it changes {effect.path} from {old!r:.40} to {new!r:.40}")


def captured_reads(regions: Sequence[Region]) -> set[int]:
    """Return the buffers among regions that were there before the call."""
    return {region.buffer.number for region in regions if region.buffer.kind == "input"}
