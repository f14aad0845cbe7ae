"""Effects of a captured call: what it assigned to objects that were there before, and how each call does it again."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from typing import Any, Final

from tensocket_core.tensor import Tensor

from ..autograd.joint import is_live
from ..capture.guards import Effect
from ..capture.recorder import CannotRecord, Recorder, plain_array
from ..memory.regions import Array, Region
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


class Place:
    """An attribute or a cell to which each call assigns.

    Args:
        effect: The effect.

    Raises:
        CannotRecord: Its place is of another kind.
    """

    __slots__ = ("_name", "_owner", "path")

    def __init__(self, effect: Effect) -> None:
        owner, label = effect.owner, effect.label
        self.path, self._owner = effect.path, owner
        if isinstance(owner, Tensor) and label == ".grad":
            self._name = "_grad"
        elif isinstance(owner, types.CellType):
            self._name = "cell_contents"
        elif isinstance(owner, dict) and label.startswith("."):
            self._name = label[1:]
        else:
            raise CannotRecord(f"it assigns {effect.path}")

    def read(self) -> Any:
        """Return what is there; None if nothing is."""
        if isinstance(self._owner, dict):
            return self._owner.get(self._name)
        return getattr(self._owner, self._name)

    def assign(self, value: Any) -> None:
        """Put something there."""
        if isinstance(self._owner, dict):
            self._owner[self._name] = value
        else:
            setattr(self._owner, self._name, value)

    def save(self) -> Callable[[], None]:
        """Return a function that puts the present value there again."""
        value = self.read()
        if isinstance(self._owner, dict) and self._name not in self._owner:
            return lambda: self._owner.pop(self._name, None)
        return lambda: self.assign(value)


class Slot:
    """A place to which each call assigns a tensor that it makes, such as the gradient of a parameter.

    If nobody else holds the tensor of the last call, this call writes into it: nobody can tell it from a new one.

    Attributes:
        place: The place.
        position: Number of the result of the graph that goes there.
        is_live: Whether the tensor has a graph; then each call makes a new one.
    """

    __slots__ = ("_last", "_make", "is_live", "place", "position")

    def __init__(self, position: int, make: Callable[..., Any], place: Place, is_live: bool) -> None:
        self.position, self.place, self.is_live = position, place, is_live
        self._make = make
        self._last: Any = None

    def memory(self) -> Array | None:
        """Return the array of the last call's tensor, if only this place refers to both."""
        tensor = self.place.read()
        if self.is_live or tensor is None or tensor is not self._last or type(tensor) is not Tensor:
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


def find_slots(effects: Sequence[Effect], results: Results, recorder: Recorder, reads: set[int]
               ) -> list[Slot | Place]:
    """Return what assigns the effects of a call again: slots, and places that get None.

    Args:
        effects: The effects.
        results: Gets the regions of the tensors that they assign.
        recorder: The recorder of the call.
        reads: Buffers that the graph reads and that were there before the call.

    Raises:
        CannotRecord: The call assigned something else, or read what it replaced.
    """
    found: list[Slot | Place] = []
    for effect in effects:
        place = Place(effect)
        old, new = effect.old, effect.new
        if isinstance(old, Tensor) and recorder.recording.memory.find(plain_array(old)) is not None and (
                recorder.region(old).buffer.number in reads):
            raise CannotRecord(f"it reads {effect.path}, which it replaces")
        if isinstance(new, Tensor):
            make = results.new_tensor(new)
            found.append(Slot(len(results.regions) - 1, make, place, is_live(new, results.borders)))
        elif new is None and isinstance(old, Tensor):
            found.append(place)
        else:
            raise CannotRecord(f"it changes {effect.path} from {old!r:.40} to {new!r:.40}")
    return found


def captured_reads(regions: Sequence[Region]) -> set[int]:
    """Return the buffers among regions that were there before the call."""
    return {region.buffer.number for region in regions if region.buffer.kind == "input"}
